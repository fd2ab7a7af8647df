"""The CUDA backend: CuPy arrays, and the kernels of ``kernels/cuda`` compiled by NVRTC.

CuPy is imported when a first array is made, not before: the driver itself is asked for GPUs.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import sys
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property, wraps
from typing import Any

import numpy as np

from minidp.backend.base import Backend, Kernel, Results
from minidp.backend.cuda_graph import Replayed
from minidp.backend.staging import LEAST, Staging
from minidp.backend.statistics import Statistics
from minidp.errors import DeviceError
from minidp.types import Array

OPTIONS = ("-std=c++17",)
NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE of cuInit


class GpuBackend(Backend):
    """A backend whose kernels are CUDA text, run by launchers that take a ``gpu`` first."""

    table = "cuda"

    @abstractmethod
    def compile(self, text: str, name: str) -> Any:
        """A module of kernels from CUDA text: ``.get_function(name)(grid, block, args, ...)``."""

    @cached_property
    def gpu(self) -> Any:
        """What launchers take as their first argument."""
        runtime = importlib.import_module("minidp.kernels.cuda.runtime")
        return runtime.Gpu(self.xp, self.compile)

    def bind(self, kernel: Kernel) -> Kernel:
        """The launcher as ops call it: it runs with its arrays' device as the current one."""

        @wraps(kernel)
        def launch(*arrays: Array, **constants: Any) -> Any:
            with self.activate(self.device_of(kernel.__name__, arrays)):
                return kernel(self.gpu, *arrays, **constants)

        return launch

    def device_of(self, name: str, arrays: tuple[Array, ...]) -> int:
        """The one device that holds all arrays; a GPU itself would read a wrong address.

        Raises DeviceError for arrays of two devices, or of a device and the host.
        """
        ours = [array for array in arrays if isinstance(array, self.array_types)]
        indices = [self.index(array) for array in ours]
        for array in arrays:
            if (
                isinstance(array, np.ndarray)
                and array.ndim
                and not isinstance(array, self.array_types)
            ):
                raise DeviceError(
                    f"{name}: an array of the CPU among arrays of {self.name}: move it"
                )
        if len(set(indices)) > 1:
            held = " and ".join(f"{self.name}:{index}" for index in sorted(set(indices)))
            raise DeviceError(f"{name}: its arrays are on {held}: move them to one device")
        return indices[0] if indices else 0


class CudaBackend(GpuBackend):
    """NVIDIA GPUs through CuPy. ``cupy``: a stand-in for the module, for tests without a GPU.

    Computing goes to the thread's current stream, as all of CuPy's does, host arrays come over a
    stream for copies, collectives have one of their own; events put them in order.
    """

    name, captures = "cuda", True

    def __init__(self, cupy: Any = None) -> None:
        super().__init__()
        self._cupy = cupy
        self.tf32 = False
        self._thread = threading.local()
        self.array_types = (self.xp.ndarray,) if self.count() else ()

    @property
    def xp(self) -> Any:
        if self._cupy is None:
            problem = missing()
            if problem:
                raise DeviceError(problem)
            self._cupy = importlib.import_module("cupy")
        return self._cupy

    @cached_property
    def statistics(self) -> Statistics:
        """The bytes that arrays take."""
        return Statistics(self.xp)

    def put(self, array: Array, index: int) -> Array:
        with self.activate(index):
            if self.capturing():
                raise DeviceError(
                    "a host array cannot be brought into a CUDA graph that is being captured: put "
                    "it on the GPU before, and fill it with copy_ before each replay"
                )
            if array.nbytes < LEAST:
                return self.xp.array(array)
            return self._staging(index).put(array)

    def _staging(self, index: int) -> Staging:
        """This thread's way to device ``index``."""
        if not hasattr(self._thread, "stagings"):
            self._thread.stagings = {}
        found: dict[int, Staging] = self._thread.stagings
        if index not in found:
            found[index] = Staging(self.xp)
        return found[index]

    def move(self, array: Array, index: int) -> Array:
        """A copy on another GPU, without the host; both streams wait for what they must."""
        source = self.index(array)
        with self.activate(source):
            array = self.xp.ascontiguousarray(array)
            from_stream = self.xp.cuda.get_current_stream()
            computed = from_stream.record()
        with self.activate(index):
            to_stream = self.xp.cuda.get_current_stream()
            to_stream.wait_event(computed)
            result = self.xp.empty(array.shape, array.dtype)
            result.data.copy_from_device_async(array.data, array.nbytes, to_stream)
            copied = to_stream.record()
        with self.activate(source):
            from_stream.wait_event(copied)  # its memory may be given to others only then
        return result

    def get(self, array: Array) -> Array:
        with self.activate(self.index(array)):
            return self.xp.asnumpy(array)

    def index(self, array: Array) -> int:
        return int(array.device.id)

    @cached_property
    def _count(self) -> int:
        if self._cupy is not None:
            return int(self._cupy.cuda.runtime.getDeviceCount())
        return 0 if missing() else driver_count()[0]

    def count(self) -> int:
        return self._count

    def problem(self, index: int = 0) -> str | None:
        absent = None if self._cupy is not None else missing()
        if absent is None and not 0 <= index < self.count():
            absent = f"cuda:{index}: this machine has {self.count()} GPU(s), counted from 0"
        return absent

    def activate(self, index: int) -> AbstractContextManager[Any]:
        devices: AbstractContextManager[Any] = self.xp.cuda.Device(index)
        if not 0 <= index < self.count():
            raise DeviceError(f"cuda:{index}: this machine has {self.count()} GPUs, counted from 0")
        self.statistics.watch_thread()
        return devices

    def synchronize(self) -> None:
        self.xp.cuda.Device().synchronize()

    def peak_memory(self, index: int) -> int | None:
        return self.statistics.most_allocated(index)

    def capturing(self) -> bool:
        """Whether this thread's work is being captured in a graph."""
        return bool(self.xp.cuda.get_current_stream().is_capturing())

    def range(self, name: str) -> AbstractContextManager[Any]:
        """A range that Nsight Systems shows (NVTX)."""
        return _nvtx_range(self.xp.cuda.nvtx, name)

    def captured(self, run: Callable[..., Results]) -> Callable[..., Results]:
        return Replayed(self, run)

    def allow_tf32(self, allowed: bool) -> None:
        """Whether products of float32 matrices may round their inputs to 10 bits (TF32)."""
        self.tf32 = allowed
        if self.problem():
            return
        linalg = self.xp._core._routines_linalg
        kind = linalg.COMPUTE_TYPE_TF32 if allowed else linalg.COMPUTE_TYPE_DEFAULT
        self.xp._core.set_compute_type(np.dtype(np.float32), kind)

    def compile(self, text: str, name: str) -> Any:
        return self.xp.RawModule(code=text, options=OPTIONS)


@contextmanager
def _nvtx_range(nvtx: Any, name: str) -> Iterator[None]:
    nvtx.RangePush(name)
    try:
        yield
    finally:
        nvtx.RangePop()


def missing() -> str | None:
    """One line that says why CUDA cannot be used here and what to do, or None."""
    count, problem = driver_count()
    if problem:
        return problem
    if count == 0:
        return "cuda: the driver finds no GPU: check nvidia-smi and CUDA_VISIBLE_DEVICES"
    if importlib.util.find_spec("cupy") is None:
        return "cuda: CuPy is not installed: pip install 'cupy-cuda13x[ctk]'"
    return None


def driver_count() -> tuple[int, str | None]:
    """How many GPUs the driver has, or 0 and what is wrong; asked without CuPy, in milliseconds."""
    library = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        driver = ctypes.CDLL(library)
    except OSError:
        return 0, (
            f"cuda: there is no NVIDIA driver ({library} is not found): install it, or use "
            "devices='emu' to run the CUDA kernels on the CPU"
        )
    count, code = ctypes.c_int(0), int(driver.cuInit(0))
    if code == 0:
        code = int(driver.cuDeviceGetCount(ctypes.byref(count)))
    if code not in (0, NO_DEVICE):
        return 0, f"cuda: the NVIDIA driver does not start (error {code}): check nvidia-smi"
    return count.value, None
