"""Layout: the same values in another shape, order, place or number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minidp.errors import ShapeError
from minidp.op import OPS, op
from minidp.placement import place
from minidp.shapes import axis_of, resolve
from minidp.tensor import Tensor, method
from minidp.types import BY_NAME, Array, Shape


@op("... -> ...", view=True, x=lambda g, x_shape: reshape(g, shape=x_shape))
def reshape(xp: Any, x: Array, shape: Shape) -> Array:
    """The values in C order under another shape; a view where the strides allow it."""
    return xp.reshape(x, shape)


@op("... -> ...", view=True, x=lambda g, axes: permute(g, axes=inverse(axes)))
def permute(xp: Any, x: Array, axes: tuple[int, ...]) -> Array:
    """The axes in another order; a view."""
    return xp.transpose(x, axes)


def inverse(axes: tuple[int, ...]) -> tuple[int, ...]:
    """The order that undoes ``axes``."""
    return tuple(axes.index(axis) for axis in range(len(axes)))


@op("... -> ...", view=True, x=lambda g: g)
def expand(xp: Any, x: Array, shape: Shape) -> Array:
    """Axes of length one repeated to ``shape``, without a copy."""
    return xp.broadcast_to(x, shape)


@op("*... -> ...", xs=lambda g, i, xs_shape, dim: part(g, i, xs_shape, dim))
def concat(xp: Any, *xs: Array, dim: int) -> Array:
    """Arrays end to end along ``dim``."""
    return xp.concatenate(xs, axis=dim)


def part(g: Any, i: int, sizes: Sequence[Shape], dim: int) -> Any:
    """The i-th of the pieces that were concatenated."""
    start = int(np.sum([s[dim] for s in sizes[:i]], dtype=int))
    return OPS["narrow"](g, dim=dim, start=start, length=sizes[i][dim])


@op("... -> ...", view=True, x=lambda g, x_shape, dim, start: embed(
    g, shape=x_shape, dim=dim, start=start))  # fmt: skip
def narrow(xp: Any, x: Array, dim: int, start: int, length: int) -> Array:
    """``length`` places of axis ``dim``, from ``start``; a view."""
    return x[(slice(None),) * dim + (slice(start, start + length),)]


@op("... -> ...", x=lambda g, x_shape, dim, start: narrow(
    g, dim=dim, start=start, length=x_shape[dim]))  # fmt: skip
def embed(xp: Any, x: Array, shape: Shape, dim: int, start: int) -> Array:
    """Zeros of ``shape`` with x at ``start`` along ``dim``: the adjoint of ``narrow``."""
    y = xp.zeros(shape, x.dtype)
    y[(slice(None),) * dim + (slice(start, start + x.shape[dim]),)] = x
    return y


@op("... -> ...", x=lambda g: copy(g))
def copy(xp: Any, x: Array) -> Array:
    """The same values in fresh, C-ordered memory."""
    return xp.array(x, order="C", copy=True)


@op("... -> ...", x=lambda g, source: to_device(g, device=source, source=None))
def to_device(xp: Any, x: Array, device: Any, source: Any) -> Array:
    """The same values on another device; the cotangent travels back to ``source``."""
    return place(x, device)


def unsqueeze_all(x: Any, axes: tuple[int, ...], ndim: int) -> Any:
    """Axes of length one put back at ``axes`` of a shape with ``ndim`` axes."""
    sizes = iter(x.shape)
    return reshape(x, shape=tuple(1 if axis in axes else next(sizes) for axis in range(ndim)))


def _sizes(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sizes given one by one or as one sequence."""
    return tuple(given[0]) if len(given) == 1 and isinstance(given[0], (tuple, list)) else given


@method("reshape", "view")
def reshaped(self: Tensor, *shape: Any) -> Tensor:
    """The values under another shape; one size may be -1."""
    result: Tensor = reshape(self, shape=resolve(_sizes(shape), self.numel()))
    return result


@method()
def view_as(self: Tensor, other: Tensor) -> Tensor:
    """The values under the shape of ``other``."""
    return reshaped(self, *other.shape)


@method("permute")
def permuted(self: Tensor, *dims: Any) -> Tensor:
    """The axes in the order ``dims``."""
    axes = tuple(axis_of("permute", dim, self.ndim) for dim in _sizes(dims))
    if sorted(axes) != list(range(self.ndim)):
        raise ShapeError(f"permute({self.shape}, {_sizes(dims)}): name every axis once")
    result: Tensor = permute(self, axes=axes)
    return result


@method()
def transpose(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two axes exchanged."""
    axes = list(range(self.ndim))
    i, j = (axis_of("transpose", dim, self.ndim) for dim in (dim0, dim1))
    axes[i], axes[j] = axes[j], axes[i]
    result: Tensor = permute(self, axes=tuple(axes))
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
    result: Tensor = reshape(self, shape=tuple(kept))
    return result


@method()
def unsqueeze(self: Tensor, dim: int) -> Tensor:
    """With a new axis of length one at ``dim``."""
    axis = axis_of("unsqueeze", dim, self.ndim + 1)
    result: Tensor = reshape(self, shape=(*self.shape[:axis], 1, *self.shape[axis:]))
    return result


@method("expand", "broadcast_to")
def expanded(self: Tensor, *sizes: Any) -> Tensor:
    """Axes of length one repeated to ``sizes``; -1 keeps an axis."""
    wanted = _sizes(sizes)
    own = (1,) * (len(wanted) - self.ndim) + self.shape
    shape = tuple(n if size == -1 else size for n, size in zip(own, wanted, strict=False))
    fits = len(own) == len(wanted)
    if not fits or any(n not in (1, size) for n, size in zip(own, shape, strict=True)):
        raise ShapeError(f"expand({self.shape}, {wanted}): only axes of length 1 can grow")
    result: Tensor = expand(self, shape=shape)
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
    result: Tensor = concat(*tensors, dim=axis)
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
    return tuple(narrow(self, dim=axis, start=at, length=n) for at, n in pieces)


@method()
def chunk(self: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most ``chunks`` pieces of equal size along ``dim`` (the last may be smaller)."""
    return split(self, max(1, -(-self.shape[axis_of("chunk", dim, self.ndim)] // chunks)), dim)


@method()
def clone(self: Tensor) -> Tensor:
    """A copy that the gradient passes through."""
    result: Tensor = copy(self)
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
    moved: Tensor = to_device(result, device=device, source=self.device)
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


Tensor.T = property(lambda self: permute(self, axes=tuple(range(self.ndim))[::-1]))  # type: ignore
