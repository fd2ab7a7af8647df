"""GPUs by PyTorch's names: which there are, their memory, events, graphs and named ranges.

Without a GPU the functions that count give 0, as PyTorch's do; the others raise a DeviceError that
says what is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import SimpleNamespace
from typing import Any

from minidp.backend import get_backend
from minidp.device import device as as_device
from minidp.errors import DeviceError
from minidp.random import manual_seed


def is_available() -> bool:
    """Whether CUDA can be used here; ``python -m minidp`` says why not."""
    return get_backend("cuda").problem() is None


def device_count() -> int:
    """How many GPUs there are."""
    return get_backend("cuda").count() if is_available() else 0


def current_device() -> int:
    """The index of this thread's current GPU."""
    return int(_cupy().cuda.Device().id)


def get_device_name(device: Any = None) -> str:
    """The name of a GPU, as its maker gives it."""
    return str(_properties(device)["name"].decode())


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """What the GPU's instructions are: (9, 0) on a Hopper."""
    found = _properties(device)
    return int(found["major"]), int(found["minor"])


def manual_seed_all(seed: int) -> None:
    """``minidp.manual_seed``: one generator serves all devices."""
    manual_seed(seed)


def synchronize(device: Any = None) -> None:
    """Wait until a GPU has done all that it was given."""
    if is_available():
        with get_backend("cuda").activate(_index(device)):
            get_backend("cuda").synchronize()


def empty_cache() -> None:
    """Give memory that no array uses back to the GPU."""
    if is_available():
        _cupy().get_default_memory_pool().free_all_blocks()
        _cupy().get_default_pinned_memory_pool().free_all_blocks()


def memory_allocated(device: Any = None) -> int:
    """Bytes that arrays on a GPU take now."""
    return _statistics().allocated(_index(device)) if is_available() else 0


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that they took since the start or ``reset_peak_memory_stats``."""
    return _statistics().most_allocated(_index(device)) if is_available() else 0


def memory_reserved(device: Any = None) -> int:
    """Bytes that the pool holds of a GPU's memory, in use or free."""
    return _statistics().reserved(_index(device)) if is_available() else 0


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that the pool was seen to hold."""
    return _statistics().most_held(_index(device)) if is_available() else 0


def reset_peak_memory_stats(device: Any = None) -> None:
    """Let the largest amounts begin again at the present ones."""
    if is_available():
        _statistics().reset(_index(device))


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Bytes of a GPU's memory that are free, and all of them; of all processes."""
    with _cupy().cuda.Device(_index(device)) as found:
        free, total = found.mem_info
    return int(free), int(total)


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Let arrays take at most this part of a GPU's memory; more raises an error."""
    if not 0 <= fraction <= 1:
        raise ValueError(f"fraction={fraction}: expected a number from 0 to 1")
    with _cupy().cuda.Device(_index(device)):
        # CuPy takes 0 for no limit at all
        pool = _cupy().get_default_memory_pool()
        pool.set_limit(fraction=fraction) if fraction else pool.set_limit(size=1)


class Event:
    """A moment in a GPU's work; with ``enable_timing`` the time between two can be asked."""

    def __init__(self, enable_timing: bool = False) -> None:
        self.event = _cupy().cuda.Event(disable_timing=not enable_timing)

    def record(self) -> None:
        """The moment at which all work given so far is done."""
        self.event.record()

    def query(self) -> bool:
        """Whether it has come."""
        return bool(self.event.done)

    def synchronize(self) -> None:
        """Wait for it."""
        self.event.synchronize()

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this moment to that one."""
        return float(_cupy().cuda.get_elapsed_time(self.event, end.event))


class CUDAGraph:
    """Work that is captured once and launched again as a whole; see ``graph``."""

    def __init__(self) -> None:
        from minidp.backend.cuda_graph import CudaGraph

        self.graph = CudaGraph(_cupy())

    def replay(self) -> None:
        """Do the work once more, on what its arrays hold now."""
        self.graph.replay()

    def reset(self) -> None:
        """Forget the work, and give its memory back."""
        self.graph.reset()


@contextmanager
def graph(cuda_graph: CUDAGraph) -> Iterator[None]:
    """Capture the work of a ``with`` block instead of doing it.

    ``replay`` reads and writes the same arrays: fill those it reads with ``copy_``. Run the work a
    few times before. What would wait for the GPU (``item``, printing) raises. Python is not
    replayed: learning rates, step counts and random keys stay as they were.
    """
    captured = cuda_graph.graph
    captured.begin()
    try:
        yield
    except BaseException:
        captured.abandon()
        raise
    captured.end()


def _range_push(message: str) -> None:
    _cupy().cuda.nvtx.RangePush(message)


def _range_pop() -> None:
    _cupy().cuda.nvtx.RangePop()


def _range(message: str) -> AbstractContextManager[Any]:
    return get_backend("cuda").range(message)


nvtx = SimpleNamespace(range_push=_range_push, range_pop=_range_pop, range=_range)
"""Named spans for Nsight Systems: ``with dp.cuda.nvtx.range("forward"): ...``."""


def _cupy() -> Any:
    """CuPy, or a DeviceError that says what is missing."""
    problem = get_backend("cuda").problem()
    if problem is not None:
        raise DeviceError(problem)
    return get_backend("cuda").xp


def _statistics() -> Any:
    backend: Any = get_backend("cuda")
    return backend.statistics


def _index(device: Any) -> int:
    """The index of a device given as PyTorch takes it: None, an int, a name or a device."""
    if device is None:
        return current_device()
    if isinstance(device, int):
        return device
    found = as_device(device)
    if found.type != "cuda":
        raise DeviceError(f"{found} is no GPU: expected cuda:0 or an index")
    return found.index


def _properties(device: Any) -> Any:
    return _cupy().cuda.runtime.getDeviceProperties(_index(device))


accelerator = SimpleNamespace(
    is_available=is_available, device_count=device_count,
    current_accelerator=lambda: as_device("cuda") if is_available() else None,
)  # fmt: skip
"""``dp.accelerator``: GPUs, by PyTorch's name for what is faster than the CPU."""
