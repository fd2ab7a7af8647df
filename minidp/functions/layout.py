"""Shapes and orders of axes under PyTorch's names."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import index as integer
from typing import Any

import numpy as np

from minidp.arguments import expect_tensors
from minidp.errors import AxisError, ShapeError
from minidp.ops import layout as ops
from minidp.shapes import axis_of, resolve
from minidp.tensor import Tensor, method
from minidp.types import as_dtype

__all__ = ["broadcast_shapes", "broadcast_tensors", "broadcast_to", "flatten", "moveaxis",
           "movedim", "permute", "ravel", "reshape", "squeeze", "swapaxes", "swapdims", "t",
           "transpose", "unflatten", "unsqueeze"]  # fmt: skip


def sizes_of(given: tuple[Any, ...], named: Any = None) -> tuple[int, ...]:
    """Sizes given one by one, as one sequence, or by keyword."""
    given = given if named is None else (named,)
    listed = len(given) == 1 and isinstance(given[0], (tuple, list))
    return tuple(map(integer, given[0] if listed else given))


def axes_in_order(name: str, dims: Any, ndim: int) -> list[int]:
    """One axis or several, each counted from the front."""
    return [axis_of(name, d, ndim) for d in (dims if isinstance(dims, (tuple, list)) else (dims,))]


def real_axis(x: Tensor, name: str, dim: int) -> int:
    """An axis that there is: a number has none."""
    if x.ndim == 0:
        raise AxisError(f"{name}: a tensor without axes has no dim {dim}")
    return axis_of(name, dim, x.ndim)


@method()
def view(self: Tensor, *sizes: Any, size: Any = None, dtype: Any = None) -> Tensor:
    """``reshape``; of a dtype, the same bytes taken for numbers of it, without a gradient."""
    sizes = sizes if dtype is None else (as_dtype(dtype),)
    if len(sizes) != 1 or not isinstance(sizes[0], (np.dtype, type)):
        return reshape(self, *sizes, shape=size)
    try:
        return Tensor(self.detach().array.view(as_dtype(sizes[0])))
    except ValueError as error:
        raise ShapeError(f"view({sizes[0]}) of {self.dtype}{self.shape}: {error}") from None


@method("reshape")
def reshape(input: Tensor, *sizes: Any, shape: Any = None) -> Tensor:
    """The values under another shape; one size may be -1. A view where the strides allow it.

    >>> dp.reshape(dp.arange(6), (2, -1))
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    return ops.reshape(input, shape=resolve(sizes_of(sizes, shape), input.numel()))


@method("view_as", "reshape_as")
def view_as(self: Tensor, other: Tensor) -> Tensor:
    """The values under the shape of ``other``."""
    return reshape(self, other.shape)


@method()
def permute(input: Tensor, *axes: Any, dims: Any = None) -> Tensor:
    """The axes in the order ``dims``.

    >>> dp.permute(dp.ones(2, 3, 4), (2, 0, 1)).shape
    (4, 2, 3)
    """
    wanted = axes_in_order("permute", sizes_of(axes, dims), input.ndim)
    if sorted(wanted) != list(range(input.ndim)):
        raise ShapeError(f"permute({input.shape}, {sizes_of(axes, dims)}): name every axis once")
    return ops.permute(input, axes=tuple(wanted))


@method("transpose", "swapdims")
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two axes exchanged."""
    axes = list(range(input.ndim))
    i, j = axes_in_order("transpose", (dim0, dim1), input.ndim)
    if axes:
        axes[i], axes[j] = axes[j], axes[i]
    return ops.permute(input, axes=tuple(axes))


swapdims = transpose


@method()
def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """Two axes exchanged."""
    return transpose(input, axis0, axis1)


@method("movedim", "moveaxis")
def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """The axes ``source`` at the places ``destination``, the others in their order."""
    moved, places = (axes_in_order("movedim", d, input.ndim) for d in (source, destination))
    if len(set(moved)) != len(set(places)) or not len(set(moved)) == len(moved) == len(places):
        raise ShapeError(f"movedim({source}, {destination}): as many places as axes, each once")
    rest = iter([axis for axis in range(input.ndim) if axis not in moved])
    named = dict(zip(places, moved, strict=True))
    order = tuple(named[i] if i in named else next(rest) for i in range(input.ndim))
    return ops.permute(input, axes=order)


moveaxis = movedim


@method()
def t(input: Tensor) -> Tensor:
    """The transpose of a matrix."""
    if input.ndim > 2:
        raise ShapeError(f"t() is for at most two axes, got {input.shape}; use transpose()")
    return input if input.ndim < 2 else transpose(input, 0, 1)


@method()
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """The axes from ``start_dim`` to ``end_dim`` as one, in C order."""
    i, j = axes_in_order("flatten", (start_dim, end_dim), max(1, input.ndim))
    if i == j:
        return input if input.ndim else reshape(input, 1)
    if i > j:
        raise ShapeError(f"flatten({start_dim}, {end_dim}): starts behind its end")
    return reshape(input, (*input.shape[:i], prod(input.shape[i : j + 1]), *input.shape[j + 1 :]))


@method()
def ravel(input: Tensor) -> Tensor:
    """The values as one axis, in C order."""
    whole = input if input.is_contiguous() else ops.copy(input)
    return reshape(whole, -1) if input.numel() else reshape(whole, 0)


@method()
def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """Axis ``dim`` as several axes of ``sizes``, one of which may be -1."""
    axis = real_axis(input, "unflatten", dim)
    parts = resolve(sizes_of((sizes,)), input.shape[axis], "unflatten")
    return reshape(input, (*input.shape[:axis], *parts, *input.shape[axis + 1 :]))


@method()
def squeeze(input: Tensor, dim: Any = None) -> Tensor:
    """Without its axes of length one (or only without those of ``dim``)."""
    drop = axes_in_order("squeeze", list(range(input.ndim)) if dim is None else dim, input.ndim)
    kept = [n for axis, n in enumerate(input.shape) if n != 1 or axis not in drop]
    return ops.reshape(input, shape=tuple(kept))


@method()
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """With a new axis of length one at ``dim``.

    >>> dp.unsqueeze(dp.ones(3), 0).shape
    (1, 3)
    """
    axis = axis_of("unsqueeze", dim, input.ndim + 1)
    return ops.reshape(input, shape=(*input.shape[:axis], 1, *input.shape[axis:]))


@method("expand", "broadcast_to")
def broadcast_to(input: Tensor, *sizes: Any, size: Any = None) -> Tensor:
    """Axes of length one repeated to ``sizes``, without a copy; -1 keeps an axis."""
    wanted = sizes_of(sizes, size)
    own = (1,) * (len(wanted) - input.ndim) + input.shape
    shape = tuple(n if size == -1 else size for n, size in zip(own, wanted, strict=False))
    fits = len(own) == len(wanted) and -1 not in wanted[: len(wanted) - input.ndim]
    if not fits or any(n not in (1, size) for n, size in zip(own, shape, strict=True)):
        raise ShapeError(f"expand({input.shape}, {wanted}): only axes of length 1 can grow")
    return ops.expand(input, shape=shape)


@method()
def expand_as(self: Tensor, other: Tensor) -> Tensor:
    """Axes of length one repeated to the shape of ``other``."""
    return broadcast_to(self, other.shape)


def shapes_text(tensors: Sequence[Tensor]) -> str:
    return ", ".join(str(x.shape) for x in tensors)


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape that all of ``shapes`` broadcast to."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError as error:
        given = ", ".join(map(str, shapes))
        raise ShapeError(f"broadcast_shapes({given}): {error}") from error


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Tensors expanded to the shape that all of them broadcast to."""
    expect_tensors("broadcast_tensors", *tensors)
    try:
        shape = np.broadcast_shapes(*(x.shape for x in tensors))
    except ValueError as error:
        raise ShapeError(f"broadcast_tensors({shapes_text(tensors)}): {error}") from error
    return tuple(broadcast_to(x, shape) for x in tensors)


Tensor.T = property(  # type: ignore[assignment]
    lambda self: ops.permute(self, axes=tuple(range(self.ndim))[::-1]), doc="The axes reversed."
)
Tensor.mT = property(  # type: ignore[attr-defined]
    lambda self: transpose(self, -2, -1) if self.ndim else self,
    doc="The last two axes exchanged.")  # fmt: skip
Tensor.mH = Tensor.mT  # type: ignore[attr-defined]  # of real numbers
