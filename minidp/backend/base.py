"""What every backend offers: the interface that ops, tensors and replicas rely on."""

from __future__ import annotations

import importlib
import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from minidp.types import Array, DType

Kernel = Callable[..., Any]


Results = tuple[Array, ...]


class Backend(ABC):
    """Arrays of one kind, the kernels for them, and copies to and from the host."""

    name: str
    table: str
    """The folder of ``minidp.kernels`` that holds this backend's kernels."""
    array_types: tuple[type, ...]

    def __init__(self) -> None:
        self._kernels: dict[str, Kernel | None] = {}

    @property
    @abstractmethod
    def xp(self) -> Any:
        """The array module that the bodies of ops run on."""

    @abstractmethod
    def put(self, array: Array, index: int) -> Array:
        """A copy of a NumPy array on device ``index`` (the CPU gives the array itself)."""

    @abstractmethod
    def get(self, array: Array) -> Array:
        """The array as a NumPy array in host memory."""

    def move(self, array: Array, index: int) -> Array:
        """A copy of an array of this backend on its device ``index``."""
        return self.put(self.get(array), index)

    def zeros(self, size: int, dtype: DType, index: int) -> Array:
        """A flat array of zeros on device ``index`` that begins at a multiple of 64 bytes."""
        raw = np.zeros(size * dtype.itemsize + 64, np.uint8)
        start = -raw.ctypes.data % 64
        return self.put(raw[start : start + size * dtype.itemsize].view(dtype), index)

    def index(self, array: Array) -> int:
        """The index of the device that holds ``array``."""
        return 0

    def index_of(self, arrays: list[Array]) -> int:
        """The index of the device that holds the first of ``arrays`` that is an array."""
        return next((self.index(a) for a in arrays if isinstance(a, self.array_types)), 0)

    @abstractmethod
    def count(self) -> int:
        """How many devices there are; 0 means that the backend cannot be used here."""

    def problem(self, index: int = 0) -> str | None:
        """Why device ``index`` cannot be used and what to do, in one line; None when it can."""
        return None

    def activate(self, index: int) -> AbstractContextManager[Any]:
        """Make device ``index`` this thread's current one for a ``with`` block."""
        return nullcontext()

    def synchronize(self) -> None:  # noqa: B027 - most backends have nothing to wait for
        """Wait until the work given to this thread's current device is done."""

    def peak_memory(self, index: int) -> int | None:
        """The most bytes that arrays on device ``index`` have taken; None where they lie in the
        memory of the process, which is all that is known then."""
        return None

    def range(self, name: str) -> AbstractContextManager[Any]:
        """A span of time with a name, for the tools that draw what a device did."""
        return nullcontext()

    captures = False
    """Whether ``captured`` gives more than what it is given."""

    def captured(self, run: Callable[..., Results]) -> Callable[..., Results]:
        """``run``, which computes arrays of a device from others without waiting for them.

        CUDA makes a graph of it, after one run to warm up; others give ``run`` itself.
        """
        return run

    def kernel(self, op: str) -> Kernel | None:
        """The kernel named like the op, or None; looked up once."""
        try:
            return self._kernels[op]
        except KeyError:
            found = self._kernels[op] = self._find(op)
            return found

    def kernel_names(self) -> list[str]:
        """The names of all kernels of this backend, without loading any."""
        package = self._package()
        return sorted(n for names in package.KERNELS.values() for n in names) if package else []

    def bind(self, kernel: Kernel) -> Kernel:
        """The kernel as ops call it; CUDA backends add the launcher's context."""
        return kernel

    def _find(self, op: str) -> Kernel | None:
        package = self._package()
        for module, names in package.KERNELS.items() if package else ():
            if op in names:
                loaded = importlib.import_module(f"{package.__name__}.{module}")
                return self.bind(getattr(loaded, op))
        return None

    def _package(self) -> Any:
        """The folder of kernels, or None where it is not installed or cannot be used."""
        name = f"minidp.kernels.{self.table}"
        if importlib.util.find_spec("minidp.kernels") is None or not self.usable():
            return None
        return importlib.import_module(name)

    def usable(self) -> bool:
        """Whether what the kernels are written in is installed."""
        return True
