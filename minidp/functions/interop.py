"""Tensors as Python and others see them: DLPack (dmlc.github.io/dlpack), copies, pickles."""

from __future__ import annotations

from typing import Any

import numpy as np

from minidp.backend import backend_of, get_backend
from minidp.errors import ArgumentError, DTypeError, GraphError
from minidp.placement import place
from minidp.tensor import Tensor, method

__all__ = ["from_dlpack"]

CPU, CUDA = 1, 2
"""DLPack's numbers for devices."""


@method("__dlpack__")
def to_dlpack(self: Tensor, **options: Any) -> Any:
    """The values for another library, in the same memory."""
    _exported(self)
    if self.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    given = {name: value for name, value in options.items() if value is not None}
    return self.array.__dlpack__(**given)


@method("__dlpack_device__")
def dlpack_device(self: Tensor) -> tuple[int, int]:
    """(1, 0) on the CPU, (2, index) on a GPU."""
    _exported(self)
    kind, index = self.array.__dlpack_device__()
    return int(kind), int(index)


def _exported(x: Tensor) -> None:
    if backend_of(x.array).name == "emu":
        raise BufferError(f"a tensor on {x.device} cannot be exported: an emulated device's memory "
                          "is no one else's; use tensor.cpu()")  # fmt: skip


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A Tensor that shares the memory of an array of NumPy, CuPy, PyTorch or another library.

    ``copy=True`` copies, and ``device`` moves (then it is a copy too); ``copy=False`` refuses to.
    """
    if not hasattr(ext_tensor, "__dlpack_device__"):
        raise TypeError(f"from_dlpack: {type(ext_tensor).__name__} has no __dlpack__ method")
    kind = int(ext_tensor.__dlpack_device__()[0])
    if kind not in (CPU, CUDA):
        raise BufferError(f"from_dlpack: device type {kind}; expected 1 (CPU) or 2 (CUDA)")
    xp: Any = np if kind == CPU else get_backend("cuda").xp
    try:
        array = xp.from_dlpack(ext_tensor)
    except RuntimeError as error:  # BufferError, which says why, is none
        raise DTypeError(f"from_dlpack: {error}") from error
    if array.dtype.kind not in "fiub":
        raise DTypeError(f"from_dlpack: {array.dtype} is no dtype of a tensor")
    here = Tensor(array)
    there = here if device is None else here.to(device)
    if copy is False and there.array is not array:
        raise ArgumentError(f"from_dlpack: to bring it to {device} needs a copy, and copy=False")
    return there.clone() if copy and there.array is array else there


@method("__copy__")
def shallow(self: Tensor) -> Tensor:
    """Another tensor of the same values, in the same memory."""
    result = type(self)(self.array, self.requires_grad)
    result.version = self.version
    return result


@method("__deepcopy__")
def deep(self: Tensor, memo: dict[int, Any]) -> Tensor:
    """A leaf with memory of its own; its gradient comes along unless it is a Parameter's."""
    if not self.is_leaf:
        raise GraphError("deepcopy of a computed tensor; use detach().clone()")
    result = memo[id(self)] = type(self)(self.array.copy(), self.requires_grad)
    if self.grad is not None and type(self) is Tensor:
        result.grad = deep(self.grad, memo)
    return result


@method("__reduce__")
def reduced(self: Tensor) -> Any:
    """What a pickle holds: the values, the device, and whether a gradient is wanted."""
    backend = backend_of(self.array)
    device = None if backend.name == "cpu" else str(self.device)
    return restored, (type(self), backend.get(self.array), self.requires_grad, device)


def restored(kind: type[Tensor], array: Any, requires_grad: bool, device: Any) -> Tensor:
    return kind(place(array, device), requires_grad)


@method("__contains__")
def contains(self: Tensor, value: Any) -> bool:
    """Whether some value equals ``value``."""
    return bool((self == value).any())


@method("__format__")
def formatted(self: Tensor, spec: str) -> str:
    """One value as a number, ``f"{loss:.3f}"``; several as they print, in no other way."""
    if self.ndim and spec:
        raise TypeError(f"the format {spec!r} is for one number; this tensor has {self.shape}")
    return repr(self) if self.ndim else format(self.item(), spec)
