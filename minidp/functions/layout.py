"""Shapes, orders and places under PyTorch's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minidp.errors import ShapeError
from minidp.ops import layout as ops
from minidp.placement import place
from minidp.shapes import axis_of, resolve
from minidp.tensor import Tensor, method
from minidp.types import BY_NAME

__all__ = ["cat", "chunk", "flatten", "permute", "reshape", "split", "squeeze", "stack", "t",
           "transpose", "unsqueeze"]  # fmt: skip


def _sizes(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sizes given one by one or as one sequence."""
    return tuple(given[0]) if len(given) == 1 and isinstance(given[0], (tuple, list)) else given


@method("reshape", "view")
def reshape(self: Tensor, *shape: Any) -> Tensor:
    """The values under another shape; one size may be -1."""
    result: Tensor = ops.reshape(self, shape=resolve(_sizes(shape), self.numel()))
    return result


@method()
def view_as(self: Tensor, other: Tensor) -> Tensor:
    """The values under the shape of ``other``."""
    return reshape(self, *other.shape)


@method()
def permute(self: Tensor, *dims: Any) -> Tensor:
    """The axes in the order ``dims``."""
    axes = tuple(axis_of("permute", dim, self.ndim) for dim in _sizes(dims))
    if sorted(axes) != list(range(self.ndim)):
        raise ShapeError(f"permute({self.shape}, {_sizes(dims)}): name every axis once")
    result: Tensor = ops.permute(self, axes=axes)
    return result


@method()
def transpose(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two axes exchanged."""
    axes = list(range(self.ndim))
    i, j = (axis_of("transpose", dim, self.ndim) for dim in (dim0, dim1))
    axes[i], axes[j] = axes[j], axes[i]
    result: Tensor = ops.permute(self, axes=tuple(axes))
    return result


@method()
def t(self: Tensor) -> Tensor:
    """The transpose of a matrix."""
    if self.ndim > 2:
        raise ShapeError(f"t() is for at most two axes, got {self.shape}; use transpose()")
    return self if self.ndim < 2 else transpose(self, 0, 1)


@method()
def flatten(self: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """The axes from ``start_dim`` to ``end_dim`` as one, in C order."""
    if self.ndim == 0:
        return self.reshape(1)
    i, j = (axis_of("flatten", dim, self.ndim) for dim in (start_dim, end_dim))
    if i > j:
        raise ShapeError(f"flatten({start_dim}, {end_dim}): starts behind its end")
    size = int(np.prod(self.shape[i : j + 1], dtype=int))
    return self.reshape(*self.shape[:i], size, *self.shape[j + 1 :])


@method()
def squeeze(self: Tensor, dim: Any = None) -> Tensor:
    """Without its axes of length one (or only without those of ``dim``)."""
    dims = range(self.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    drop = {axis_of("squeeze", each, self.ndim) for each in dims}
    kept = [n for axis, n in enumerate(self.shape) if n != 1 or axis not in drop]
    result: Tensor = ops.reshape(self, shape=tuple(kept))
    return result


@method()
def unsqueeze(self: Tensor, dim: int) -> Tensor:
    """With a new axis of length one at ``dim``."""
    axis = axis_of("unsqueeze", dim, self.ndim + 1)
    result: Tensor = ops.reshape(self, shape=(*self.shape[:axis], 1, *self.shape[axis:]))
    return result


@method("expand", "broadcast_to")
def expand(self: Tensor, *sizes: Any) -> Tensor:
    """Axes of length one repeated to ``sizes``; -1 keeps an axis."""
    wanted = _sizes(sizes)
    own = (1,) * (len(wanted) - self.ndim) + self.shape
    shape = tuple(n if size == -1 else size for n, size in zip(own, wanted, strict=False))
    fits = len(own) == len(wanted)
    if not fits or any(n not in (1, size) for n, size in zip(own, shape, strict=True)):
        raise ShapeError(f"expand({self.shape}, {wanted}): only axes of length 1 can grow")
    result: Tensor = ops.expand(self, shape=shape)
    return result


def cat(tensors: Sequence[Any], dim: int = 0) -> Tensor:
    """Tensors end to end along ``dim``."""
    if len(tensors) == 0:
        raise ShapeError("cat: expected at least one tensor")
    axis = axis_of("cat", dim, tensors[0].ndim)
    for each in tensors:
        if [*each.shape[:axis], *each.shape[axis + 1 :]] != [
            *tensors[0].shape[:axis], *tensors[0].shape[axis + 1 :]
        ]:  # fmt: skip
            given = ", ".join(str(t.shape) for t in tensors)
            raise ShapeError(f"cat({given}): all axes but {axis} must be equal")
    result: Tensor = ops.concat(*tensors, dim=axis)
    return result


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of one shape along a new axis ``dim``."""
    return cat([each.unsqueeze(dim) for each in tensors], dim)


@method()
def split(self: Tensor, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces of ``split_size`` along ``dim`` (the last may be smaller), or of the given sizes."""
    axis = axis_of("split", dim, self.ndim)
    total = self.shape[axis]
    if isinstance(split_size, int):
        sizes = [min(split_size, total - at) for at in range(0, total, split_size)] or [0]
    else:
        sizes = list(split_size)
        if np.sum(sizes, dtype=int) != total:
            raise ShapeError(f"split({sizes}): the sizes must add up to {total}")
    starts = [int(np.sum(sizes[:i], dtype=int)) for i in range(len(sizes))]
    pieces = zip(starts, sizes, strict=True)
    return tuple(ops.narrow(self, dim=axis, start=at, length=n) for at, n in pieces)


@method()
def chunk(self: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most ``chunks`` pieces of equal size along ``dim`` (the last may be smaller)."""
    return split(self, max(1, -(-self.shape[axis_of("chunk", dim, self.ndim)] // chunks)), dim)


@method()
def clone(self: Tensor) -> Tensor:
    """A copy that the gradient passes through."""
    result: Tensor = ops.copy(self)
    return result


@method()
def contiguous(self: Tensor) -> Tensor:
    """In C order; the tensor itself when it already is."""
    return self if self.is_contiguous() else clone(self)


@method()
def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """``to(dtype)``, ``to(device)``, ``to(device, dtype)``, ``to(other)``; itself if no change."""
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    for each in args:
        if isinstance(each, Tensor):
            device, dtype = each.device, each.dtype
        elif isinstance(each, (np.dtype, type)) or each in BY_NAME:
            dtype = each
        else:
            device = each
    result = self if dtype is None else self.type(dtype)
    if device is None or place(result.data, device) is result.data:
        return result
    moved: Tensor = ops.to_device(result, device=device, source=self.device)
    return moved


@method()
def cpu(self: Tensor) -> Tensor:
    """The values in host memory."""
    return to(self, "cpu:0")


@method()
def cuda(self: Tensor, device: int = 0) -> Tensor:
    """The values on GPU ``device``."""
    return to(self, f"cuda:{device}")


for _name in ("half", "float", "double", "int", "long", "bool"):

    @method(_name)
    def _cast(self: Tensor, _dtype: str = _name) -> Tensor:
        """The same values in the dtype of the method's name."""
        return to(self, BY_NAME[_dtype])


Tensor.T = property(lambda self: ops.permute(self, axes=tuple(range(self.ndim))[::-1]))  # type: ignore
