"""Copies, dtypes and devices under PyTorch's names."""

from __future__ import annotations

from typing import Any

import numpy as np

from minidp import promotion
from minidp.arguments import refuse
from minidp.ops import layout as ops
from minidp.placement import place
from minidp.tensor import Tensor, method
from minidp.types import BY_NAME, DType, as_dtype, category, promote

__all__ = ["can_cast", "clone", "is_nonzero", "is_tensor", "numel", "promote_types", "result_type"]


@method()
def clone(input: Tensor) -> Tensor:
    """A copy that the gradient passes through."""
    return ops.copy(input)


@method()
def contiguous(self: Tensor) -> Tensor:
    """In C order; the tensor itself when it already is."""
    return self if self.is_contiguous() else clone(self)


@method()
def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """``to(dtype)``, ``to(device)``, ``to(device, dtype)``, ``to(other)``; itself if no change."""
    refuse(kwargs.keys() - {"device", "dtype", "non_blocking", "copy"}, f"to: {kwargs}", TypeError)
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    for each in args:
        if isinstance(each, Tensor):
            device, dtype = each.device, each.dtype
        elif isinstance(each, (np.dtype, type)) or each in BY_NAME:
            dtype = each
        elif not isinstance(each, bool):  # non_blocking
            device = each
    result = self if dtype is None else self.type(dtype)
    if device is not None and place(result.array, device) is not result.array:
        return ops.to_device(result, device=device, source=self.device)
    return clone(self) if kwargs.get("copy") and result is self else result


def result_type(tensor1: Any, tensor2: Any) -> DType:
    """The dtype of an operation on two tensors or numbers."""
    return promotion.result_type([getattr(x, "array", x) for x in (tensor1, tensor2)])


def promote_types(type1: Any, type2: Any) -> DType:
    """The smaller dtype of those that hold what both do."""
    return promote([as_dtype(type1), as_dtype(type2)])


def can_cast(from_: Any, to: Any) -> bool:
    """Whether ``to`` is of the same kind of dtype or a wider one: bool, integer, floating point."""
    return category(as_dtype(from_)) <= category(as_dtype(to))


@method()
def is_nonzero(input: Tensor) -> bool:
    """Whether the one value is not 0."""
    return bool(input)


@method()
def data_ptr(self: Tensor) -> int:
    """Where the first value is in memory."""
    array: Any = self.array
    return int(array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr)


@method()
def storage_offset(self: Tensor) -> int:
    """How many values lie before the first in the memory that this is a view of."""
    whole: Any = self.array
    while isinstance(whole.base, type(whole)):
        whole = whole.base
    return (data_ptr(self) - data_ptr(Tensor(whole))) // self.array.itemsize


@method("pin_memory", "share_memory_")
def pin_memory(self: Tensor) -> Tensor:
    """The tensor itself: there is nothing to be done for copies to a GPU."""
    return self


@method()
def get_device(self: Tensor) -> int:
    """The number of the GPU; -1 on the CPU."""
    return self.device.index if self.device.type == "cuda" else -1


def is_tensor(obj: Any) -> bool:
    """Whether ``obj`` is a Tensor."""
    return isinstance(obj, Tensor)


@method("nelement")
def numel(input: Tensor) -> int:
    """How many elements there are."""
    return input.numel()


@method()
def stride(self: Tensor, dim: int | None = None) -> Any:
    """How many elements apart neighbours along an axis (or each axis) are in memory."""
    steps = tuple(step // self.array.itemsize for step in self.array.strides)
    return steps if dim is None else steps[dim]


@method()
def element_size(self: Tensor) -> int:
    """Bytes of one element."""
    return int(self.dtype.itemsize)


@method()
def is_contiguous(self: Tensor) -> bool:
    """Whether the values lie in memory row by row, without gaps."""
    return bool(self.array.flags["C_CONTIGUOUS"])


Tensor.itemsize = property(lambda self: self.array.itemsize, doc="Bytes of one element.")  # type: ignore[attr-defined]
Tensor.nbytes = property(lambda self: self.array.nbytes, doc="Bytes of all.")  # type: ignore[attr-defined]
method("ndimension")(Tensor.dim)


@method()
def cpu(self: Tensor) -> Tensor:
    """The values in host memory."""
    return to(self, "cpu:0")


@method()
def cuda(self: Tensor, device: Any = None, non_blocking: bool = False) -> Tensor:
    """The values on GPU ``device``, a number or a device."""
    return to(self, f"cuda:{device or 0}" if device is None or isinstance(device, int) else device)


@method()
def type_as(self: Tensor, other: Tensor) -> Tensor:
    """The same values in the dtype of ``other``."""
    return to(self, other.dtype)


for _name in ("half", "float", "double", "short", "int", "long", "bool", "byte", "char"):

    @method(_name)
    def _cast(self: Tensor, _dtype: str = {"byte": "uint8", "char": "int8"}.get(_name, _name)
              ) -> Tensor:  # fmt: skip
        """The same values in the dtype of the method's name."""
        return to(self, as_dtype(_dtype))


Tensor.is_cuda = property(  # type: ignore[attr-defined]
    lambda self: self.device.type == "cuda", doc="Whether the values are on a GPU.")  # fmt: skip
