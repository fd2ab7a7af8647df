"""Tensors put together and taken apart, under PyTorch's names."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from operator import index as integer
from typing import Any

from minidp.arguments import expect_tensors
from minidp.errors import PlaceError, ShapeError
from minidp.functions.layout import real_axis, reshape, shapes_text, unsqueeze
from minidp.naming import numpy_names
from minidp.ops import layout as ops
from minidp.ops.index import get
from minidp.promotion import result_type
from minidp.shapes import axis_of, whole
from minidp.tensor import Tensor, method

__all__ = ["atleast_1d", "atleast_2d", "atleast_3d", "cat", "chunk", "column_stack", "concat",
           "concatenate", "dsplit", "dstack", "hsplit", "hstack", "narrow", "row_stack", "select",
           "split", "split_with_sizes", "stack", "tensor_split", "unbind", "vsplit",
           "vstack"]  # fmt: skip


@numpy_names
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors end to end along ``dim``; those of shape (0,) fit everywhere.

    >>> dp.cat([dp.ones(2, 1), dp.zeros(2, 2)], dim=1)
    tensor([[1., 0., 0.],
            [1., 0., 0.]])
    """
    _expect_list("cat", tensors, dim)
    kept = [x for x in tensors if x.shape != (0,)] or list(tensors)[:1]
    if not kept or 0 in [x.ndim for x in tensors]:
        raise ShapeError("cat: expected at least one tensor, each with at least one axis")
    axis = axis_of("cat", dim, kept[0].ndim)
    if len({(*x.shape[:axis], -1, *x.shape[axis + 1 :]) for x in kept}) > 1:
        raise ShapeError(f"cat({shapes_text(tensors)}): all axes but {axis} must be equal")
    if len(kept) < len(tensors):  # what is left out has a say in the dtype
        kept[0] = kept[0].type(result_type([x.array for x in tensors]))
    return ops.concat(*kept, dim=axis)


concat = concatenate = cat


@numpy_names
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of one shape along a new axis ``dim``.

    >>> dp.stack([dp.arange(2), dp.arange(2)], dim=1)
    tensor([[0, 0],
            [1, 1]])
    """
    _expect_list("stack", tensors, dim)
    if len({x.shape for x in tensors}) != 1:
        raise ShapeError(f"stack({shapes_text(tensors)}): expected tensors of one shape")
    return ops.stack(*tensors, dim=axis_of("stack", dim, tensors[0].ndim + 1))


def _expect_list(name: str, tensors: Any, dim: Any) -> None:
    if isinstance(tensors, Tensor) and isinstance(dim, Tensor):
        raise TypeError(f"{name}: expected the tensors in one list: {name}([a, b], dim=0)")
    expect_tensors(name, *tensors)


def atleast_1d(*tensors: Any) -> Any:
    """Numbers as vectors."""
    return _each(lambda x: reshape(x, 1) if x.ndim == 0 else x, tensors)


def atleast_2d(*tensors: Any) -> Any:
    """Numbers and vectors as matrices with one row."""
    return _each(lambda x: reshape(x, (1, x.numel())) if x.ndim < 2 else x, tensors)


def atleast_3d(*tensors: Any) -> Any:
    """With at least three axes: a vector becomes (1, n, 1), a matrix (m, n, 1)."""
    return _each(lambda x: unsqueeze(atleast_2d(x), 2) if x.ndim < 3 else x, tensors)


def _each(function: Any, tensors: tuple[Any, ...]) -> Any:
    listed = len(tensors) == 1 and isinstance(tensors[0], (tuple, list))
    found = tuple(function(x) for x in (tensors[0] if listed else tensors))
    return found if listed or len(tensors) > 1 else found[0]


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Side by side: along axis 1, vectors along axis 0."""
    parts = atleast_1d(tuple(tensors))
    return cat(parts, 0 if parts and parts[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """One below the other: along axis 0; vectors are rows."""
    return cat(atleast_2d(tuple(tensors)), 0)


row_stack = vstack


def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Side by side along axis 1; vectors are columns."""
    return cat([reshape(x, (-1, 1)) if x.ndim < 2 else x for x in tensors], 1)


def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """One behind the other: along axis 2."""
    return cat(atleast_3d(tuple(tensors)), 2)


def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces of one size along ``dim`` (the last may be smaller), or of the given sizes.

    >>> [part.tolist() for part in dp.split(dp.arange(5), 2)]
    [[0, 1], [2, 3], [4]]
    """
    axis = real_axis(tensor, "split", dim)
    total, given = tensor.shape[axis], whole(split_size_or_sections)
    if given is not None:
        if given < 0 or given == 0 != total:
            raise ShapeError(f"split: pieces of {given} do not fill an axis of {total}")
        sizes = [min(given, total - at) for at in range(0, total, given or 1)] or [0]
    else:
        sizes = list(split_size_or_sections)
        if sum(sizes) != total or min(sizes, default=0) < 0:
            raise ShapeError(f"split({sizes}): the sizes must add up to {total}")
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    pieces = zip(starts, sizes, strict=True)
    return tuple(ops.narrow(tensor, dim=axis, start=at, length=n) for at, n in pieces)


@method()
def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0
                     ) -> tuple[Tensor, ...]:  # fmt: skip
    """Pieces of the given sizes along ``dim``."""
    return split(input, list(split_sizes), dim)


@method("split")
def _split(self: Tensor, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces of one size along ``dim`` (the last may be smaller), or of the given sizes."""
    return split(self, split_size, dim)


@method()
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most ``chunks`` pieces of equal size along ``dim`` (the last may be smaller)."""
    if integer(chunks) < 1:
        raise ShapeError(f"chunk: expected at least one piece, got {chunks}")
    total = input.shape[real_axis(input, "chunk", dim)]
    return split(input, -(-total // chunks) if total else [0] * chunks, dim)


@method()
def tensor_split(
    input: Tensor, indices_or_sections: Any = None, dim: int = 0, *, indices: Any = None,
    sections: int | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """So many pieces along ``dim``, the first ones longer by one; or cut before the indices."""
    axis = real_axis(input, "tensor_split", dim)
    given: Any = [x for x in (indices_or_sections, indices, sections) if x is not None]
    total, (cuts,) = input.shape[axis], given
    cuts = cuts.tolist() if isinstance(cuts, Tensor) else cuts
    if (count := whole(cuts)) is not None:
        if count < 1:
            raise ShapeError(f"tensor_split: expected at least one piece, got {cuts}")
        cuts = [total // count * i + min(i, total % count) for i in range(1, count)]
    ends = [0, *(slice(each).indices(total)[1] for each in cuts), total]
    lengths = [max(0, b - a) for a, b in pairwise(ends)]
    pieces = zip(ends, lengths, strict=False)
    return tuple(ops.narrow(input, dim=axis, start=at, length=n) for at, n in pieces)


@method()
def hsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """``tensor_split`` along axis 1, of vectors along axis 0."""
    return _split_along("hsplit", input, 0 if input.ndim == 1 else 1, indices_or_sections)


@method()
def vsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """``tensor_split`` along axis 0 of what has two axes or more."""
    return _split_along("vsplit", input, 0, indices_or_sections, 2)


@method()
def dsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """``tensor_split`` along axis 2."""
    return _split_along("dsplit", input, 2, indices_or_sections, 3)


def _split_along(name: str, x: Tensor, dim: int, cuts: Any, least: int = 1) -> tuple[Tensor, ...]:
    if x.ndim < least or ((n := whole(cuts)) is not None and (n < 1 or x.shape[dim] % n)):
        raise ShapeError(f"{name}({x.shape}, {cuts}): expected {least} axes or more, equal parts")
    return tensor_split(x, cuts, dim)


@method()
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The slices along ``dim``, without that axis."""
    return tuple(select(input, dim, i) for i in range(input.shape[real_axis(input, "unbind", dim)]))


@method()
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """The slice ``index`` along ``dim``, without that axis."""
    axis = real_axis(input, "select", dim)
    size = input.shape[axis]
    if not -size <= integer(index) < size:
        raise PlaceError(f"select: index {index} is out of range for axis {axis} of size {size}")
    return get(input, key=(slice(None),) * axis + (integer(index), ...))


@method()
def narrow(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """``length`` places along ``dim``, from ``start`` (from the end if negative); a view."""
    axis = real_axis(input, "narrow", dim)
    size, begin = input.shape[axis], integer(start)
    begin += size if begin < 0 else 0
    if not 0 <= begin <= begin + length <= size:
        raise PlaceError(f"narrow: {length} places from {start} on an axis of size {size}")
    return ops.narrow(input, dim=axis, start=begin, length=length)
