"""Backends: an array module, a table of kernels, and the copies between host and device.

This is the one door to ``minidp.kernels``. Without it (or without Numba) every op still runs, by
its own body on the array module.
"""

from __future__ import annotations

import importlib
from typing import Any

from minidp.backend.base import Backend
from minidp.backend.cpu import CpuBackend
from minidp.errors import DeviceError
from minidp.types import Array

CPU = CpuBackend()
_loaded: dict[str, Backend] = {"cpu": CPU}
_by_array: dict[type, Backend] = dict.fromkeys(CPU.array_types, CPU)
_MODULES = {"cuda": ("minidp.backend.cuda", "CudaBackend"),
            "emu": ("minidp.backend.emulated", "EmulatedBackend")}  # fmt: skip


def get_backend(name: str) -> Backend:
    """The backend called ``cpu``, ``cuda`` or ``emu``, loaded on first use."""
    if name not in _loaded:
        if name not in _MODULES:
            raise DeviceError(f"backend {name!r} is unknown; expected cpu, cuda or emu")
        module, attribute = _MODULES[name]
        backend: Backend = getattr(importlib.import_module(module), attribute)()
        _loaded[name] = backend
        for kind in backend.array_types:
            _by_array[kind] = backend
    return _loaded[name]


def backend_of(array: Array) -> Backend:
    """The backend whose array ``array`` is; Python numbers belong to the CPU."""
    found = _by_array.get(type(array))
    if found is None:
        found = _search(array)
        if hasattr(array, "strides"):
            _by_array[type(array)] = found
    return found


def backend_of_first(values: list[Any]) -> Backend:
    """The backend of the first array among ``values``; the CPU when all are numbers."""
    for value in values:
        found = _by_array.get(type(value))
        if found is not None:
            return found
        if hasattr(value, "strides"):
            return backend_of(value)
    return CPU


def _search(array: Array) -> Backend:
    for kind, backend in _by_array.items():
        if isinstance(array, kind):
            return backend
    if type(array).__module__.split(".")[0] == "cupy":
        return get_backend("cuda")
    return CPU


__all__ = ["CPU", "Backend", "backend_of", "backend_of_first", "get_backend"]
