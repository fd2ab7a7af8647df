"""The emulated backend: ``emu:0``, ``emu:1`` ... are GPUs played by the CPU.

Arrays are NumPy arrays that know their device and refuse to meet others, as on GPUs; kernels are
the CUDA text itself, compiled by g++ (see ``kernels/cuda/emulate.py``).
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from minidp.backend.base import Kernel
from minidp.backend.cuda import GpuBackend
from minidp.errors import DeviceError, KernelError
from minidp.nested import leaves
from minidp.types import Array

_thread = threading.local()  # .device: the index of this thread's current device
CREATION = (
    *("array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray", "copy", "arange"),
    *("linspace", "empty", "zeros", "ones", "full", "eye", "identity", "tri", "fromiter"),
    *("frombuffer", "empty_like", "zeros_like", "ones_like", "full_like"),
)


def current() -> int:
    """The index of this thread's current device, 0 at first."""
    return getattr(_thread, "device", 0)


class EmulatedArray(np.ndarray):
    """A NumPy array on an emulated device. What is made from it stays there.

    Meeting an array of another device, or a plain NumPy array that is more than a number, raises
    DeviceError. Results of no dimensions are arrays, as in CuPy.
    """

    device_index: int

    def __array_finalize__(self, made_from: Any) -> None:
        self.device_index = getattr(made_from, "device_index", current())

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        same_device(ufunc.__name__, self, (inputs, options))
        result = getattr(ufunc, method)(*host(inputs), **host(options))
        out = options.get("out")
        if out is None:
            return wrap(result, self)
        return out[0] if len(out) == 1 else out

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        same_device(function.__name__, self, (args, kwargs))
        result = function(*host(args), **host(kwargs))
        out = kwargs.get("out")
        return wrap(result, self) if out is None else out

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, EmulatedArray | tuple):
            same_device("indexing", self, [k for k in leaves(key) if isinstance(k, EmulatedArray)])
        return wrap(host(self)[host(key)], self)

    def __setitem__(self, key: Any, value: Any) -> None:
        same_device("assignment", self, value)
        host(self)[host(key)] = host(value)


def same_device(name: str, array: EmulatedArray, others: Any) -> None:
    """Raise DeviceError unless all arrays among ``others`` are on the device of ``array``."""
    for other in leaves(others):
        if not isinstance(other, np.ndarray):
            continue
        if not isinstance(other, EmulatedArray):
            if other.ndim == 0:
                continue
            where = "the CPU"
        elif other.device_index == array.device_index:
            continue
        else:
            where = f"emu:{other.device_index}"
        raise DeviceError(
            f"{name}: an array {array.shape} on emu:{array.device_index} meets one {other.shape} "
            f"on {where}: move one to the other's device"
        )


def host(value: Any) -> Any:
    """The same value with plain NumPy arrays (views) for emulated ones."""
    if isinstance(value, EmulatedArray):
        return value.view(np.ndarray)
    if isinstance(value, dict):
        return {key: host(part) for key, part in value.items()}
    if isinstance(value, tuple | list) and type(value) in (tuple, list):
        return type(value)(host(part) for part in value)
    return value


def wrap(value: Any, like: EmulatedArray) -> Any:
    """The same value with arrays (and NumPy scalars) as arrays on the device of ``like``."""
    if isinstance(value, np.ndarray | np.generic):
        return place(value, type(like), like.device_index)
    if isinstance(value, tuple | list):
        return tuple(wrap(part, like) for part in value)
    return value


def place(value: Any, kind: type[EmulatedArray], index: int) -> EmulatedArray:
    """A view of a NumPy array as one of that kind on device ``index``."""
    array = np.asarray(value).view(kind)
    array.device_index = index
    return array


def creation(function: Callable[..., Any], kind: type[EmulatedArray]) -> Callable[..., Any]:
    """NumPy's function, making arrays on its first argument's device, else on the current one."""

    @wraps(function)
    def make(*args: Any, **kwargs: Any) -> EmulatedArray:
        made, first = function(*host(args), **host(kwargs)), args[0] if args else None
        if isinstance(first, EmulatedArray):
            return place(made, kind, first.device_index)
        return place(made.copy() if isinstance(first, np.ndarray) else made, kind, current())

    return make


def unwritten(function: Callable[..., Any]) -> Callable[..., Any]:
    """``empty`` or ``empty_like`` full of NaN, so that what nobody wrote shows."""

    @wraps(function)
    def make(*args: Any, **kwargs: Any) -> Any:
        made = function(*args, **kwargs)
        if made.dtype.kind in "fc":
            made.fill(np.nan)
        return made

    return make


def namespace(kind: type[EmulatedArray]) -> SimpleNamespace:
    """NumPy's names, without modules but linalg, its creation functions making ``kind``.

    What ``empty`` makes holds NaN.
    """
    public = {name: vars(np)[name] for name in np.__all__ if name in vars(np)}
    names = {name: value for name, value in public.items() if not isinstance(value, ModuleType)}
    names |= {name: unwritten(names[name]) for name in ("empty", "empty_like")}
    made = {name: creation(names[name], kind) for name in CREATION}
    return SimpleNamespace(**(names | made | {"linalg": np.linalg, "ndarray": kind}))


@contextmanager
def activated(index: int) -> Iterator[None]:
    """Device ``index`` as this thread's current one."""
    before = current()
    _thread.device = index
    try:
        yield
    finally:
        _thread.device = before


class EmulatedBackend(GpuBackend):
    """GPUs played by the CPU, as many as one likes.

    ``seed`` other than 0 runs the threads of a block in a shuffled order, which shows missing
    barriers; ``fibers`` runs each thread as a fiber even where no thread waits; ``checks`` is who
    looks at each access to memory: ``"own"``, ``"none"``, or ``"address"`` in a process that runs
    under AddressSanitizer.
    """

    name = "emu"
    array_types = (EmulatedArray,)

    def __init__(self, *, seed: int = 0, fibers: bool = False, checks: str = "own") -> None:
        super().__init__()
        self.how = {"seed": seed, "fibers": fibers, "checks": checks}
        self._xp = namespace(EmulatedArray)

    @property
    def xp(self) -> Any:
        return self._xp

    def put(self, array: Array, index: int) -> Array:
        if index < 0:
            raise DeviceError(f"emu:{index}: devices are counted from 0")
        return place(np.array(host(array)), EmulatedArray, index)

    def get(self, array: Array) -> Array:
        return np.array(host(array))

    def index(self, array: Array) -> int:
        return int(array.device_index)

    def count(self) -> int:
        """Two: enough to see that devices do not share; any index may be used."""
        return 2

    def activate(self, index: int) -> Any:
        return activated(index)

    def compile(self, text: str, name: str) -> Any:
        emulate = importlib.import_module("minidp.kernels.cuda.emulate")
        return emulate.Module(text, name, **self.how)

    def bind(self, kernel: Kernel) -> Kernel:
        """The launcher; what the emulator finds wrong with a kernel is a KernelError."""
        launch, emulate = (
            super().bind(kernel),
            importlib.import_module("minidp.kernels.cuda.emulate"),
        )

        @wraps(kernel)
        def checked(*arrays: Array, **constants: Any) -> Any:
            try:
                return launch(*arrays, **constants)
            except emulate.EmulatorError as problem:
                raise KernelError(f"{kernel.__name__}: {problem}") from problem

        return checked
