"""The CPU backend: NumPy arrays, kernels in Numba, one BLAS thread per replica."""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from minidp.backend.base import Backend
from minidp.device import cores
from minidp.types import Array


class CpuBackend(Backend):
    """NumPy in this process. Its devices are virtual: as many as one likes."""

    name = "cpu"
    table = "cpu"
    array_types = (np.ndarray, np.generic)

    @property
    def xp(self) -> Any:
        return np

    def put(self, array: Array, index: int) -> Array:
        return array

    def get(self, array: Array) -> Array:
        return array

    def count(self) -> int:
        return cores()

    def usable(self) -> bool:
        return importlib.util.find_spec("numba") is not None


def switches() -> Any:
    """What the CPU kernels let users choose; without kernels, choices change nothing."""
    if importlib.util.find_spec("minidp.kernels") is None:
        return SimpleNamespace(winograd=False)
    return importlib.import_module("minidp.kernels.cpu").switches


@contextmanager
def blas_threads(count: int) -> Iterator[None]:
    """Let BLAS use ``count`` threads for a ``with`` block; the number belongs to the process. The
    block may end in another thread than it began in."""
    before = [(each, each.num_threads) for each in _blas_controllers()]
    set_num_threads(count)
    try:
        yield
    finally:
        for library, number in before:
            _set_threads(library, number)


def _blas_controllers() -> list[Any]:
    return [each for each in _controller().lib_controllers if each.user_api == "blas"]


def _set_threads(library: Any, count: int) -> None:
    """Set it in whichever thread that is: threadpoolctl 3.8 listens to the first thread that has
    set a number, and to no other one unless it is told that the first is done."""
    if hasattr(library, "clear_controlling_thread"):
        library.clear_controlling_thread(force=True)
    library.set_num_threads(count)


def blas_libraries() -> list[dict[str, Any]]:
    """Name, version, architecture and number of threads of each BLAS library of this process."""
    found: list[dict[str, Any]] = _controller().info()
    return [each for each in found if each["user_api"] == "blas"]


def set_num_threads(count: int) -> None:
    """Let matrix products on the CPU use ``count`` threads, from now on. (A replica uses one.)"""
    if not isinstance(count, int) or count < 1:
        raise ValueError(f"set_num_threads({count!r}): expected an integer of at least 1")
    for library in _blas_controllers():
        _set_threads(library, count)


def get_num_threads() -> int:
    """How many threads a matrix product on the CPU may use."""
    return max([each["num_threads"] for each in blas_libraries()], default=1)


@cache
def keep_freed_memory() -> None:
    """Let the C library keep large blocks that are freed, for the rest of the process.

    Else it hands them back to the system at its own discretion, and every step pays for new
    pages: up to a fifth of its time. Only the GNU C library is asked (mallopt 3).
    """
    trim_threshold, mmap_threshold, never = -1, -3, 2**31 - 1
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "mallopt"):
        library.mallopt(mmap_threshold, 2**30)
        library.mallopt(trim_threshold, never)


@cache
def _controller() -> Any:
    """Knows the BLAS libraries of this process; looking for them takes milliseconds."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
