"""Where values are, and whether, and those at such places: searches under PyTorch's names."""

from __future__ import annotations

import math
from typing import Any

from minidp.create import ones, tensor
from minidp.errors import ArgumentError, DTypeError, ShapeError
from minidp.functions.index import getitem, in_range
from minidp.functions.join import cat, unbind
from minidp.functions.layout import broadcast_tensors, ravel, reshape
from minidp.ops import index as ops
from minidp.ops.comparison import ne
from minidp.ops.index import get
from minidp.ops.layout import copy
from minidp.shapes import axis_of
from minidp.tensor import Tensor, method

__all__ = ["argwhere", "bucketize", "isin", "masked_select", "nonzero", "searchsorted", "take",
           "unique_consecutive", "unravel_index"]  # fmt: skip


@method()
def argwhere(input: Tensor) -> Tensor:
    """The indices of the elements that are not zero, one row each."""
    input._read()
    return ops.argwhere(input)


@method()
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """The indices of the elements that are not zero, one row each, or one vector per axis."""
    input._read()
    if as_tuple:
        return unbind(ops.argwhere(reshape(input, input.shape or (1,))), 1)
    return ops.argwhere(input)


@method()
def take(input: Tensor, index: Tensor) -> Tensor:
    """The elements at ``index`` of the flat tensor."""
    return copy(getitem(ravel(input), index))


@method()
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The values where the mask is true, in C order."""
    if mask.dtype.char != "?":
        raise DTypeError(f"masked_select: a mask of {mask.dtype}; expected bool")
    mask._read()
    x, chosen = broadcast_tensors(input, mask)
    return get(x, key=chosen.array.copy())


def searchsorted(sorted_sequence: Tensor, input: Any, *, out_int32: bool = False,
                 right: bool = False, side: str | None = None, sorter: Tensor | None = None
                 ) -> Tensor:  # fmt: skip
    """Where each value goes so that the sequence stays sorted; with ``right`` behind equals.
    ``sorter``, such as argsort gives, is the order of a sequence that is not sorted."""
    if side not in (None, "left", "right") or (side == "left" and right):
        raise ArgumentError(f"searchsorted: side={side!r}, right={right}; expected left or right")
    if sorter is not None:
        axis = sorted_sequence.ndim - 1
        sorted_sequence = ops.take_along_dim(sorted_sequence, sorter, dim=axis)
    found = ops.searchsorted(sorted_sequence, input, right=right or side == "right")
    return found.type("int32") if out_int32 else found


def bucketize(input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
              ) -> Tensor:  # fmt: skip
    """Which of the intervals between ``boundaries``, a vector, each value is in."""
    if boundaries.ndim != 1:
        raise ShapeError(f"bucketize: boundaries of shape {boundaries.shape}; expected a vector")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """The places in ``shape`` of the elements with these numbers, in C order, axis by axis."""
    found, sizes = [], (shape,) if isinstance(shape, int) else tuple(shape)
    indices = in_range("unravel_index", indices, math.prod(sizes))
    for size in reversed(sizes):
        found.append(indices % max(size, 1))
        indices = indices // max(size, 1)
    return tuple(found[::-1])


def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
         ) -> Tensor:  # fmt: skip
    """Whether each element is (or, inverted, is not) among ``test_elements``."""
    found = ops.isin(elements, test_elements)
    return ne(found, True) if invert else found


@method()
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """The first of each run of equal values (or of slices along ``dim``); if asked for, which run
    each element is in, and how long the runs are.

    >>> dp.unique_consecutive(dp.tensor([1, 1, 2, 1]), return_counts=True)
    (tensor([1, 2, 1]), tensor([2, 1, 1]))
    """
    axis = 0 if dim is None else axis_of("unique_consecutive", dim, input.ndim)
    if dim is not None and 0 in (*input.shape[:axis], *input.shape[axis + 1 :]):
        raise ShapeError(f"unique_consecutive: slices of {input.shape} along axis {axis} are empty")
    x = reshape(input, -1) if dim is None else input.movedim(axis, 0)
    rows, count = x.flatten(1) if x.ndim > 1 else x.unsqueeze(1), len(x)
    begins = ones(min(count, 1), dtype="bool", device=x.device)
    begins = cat([begins, ne(rows[1:], rows[:-1]).any(1)]) if count else begins
    starts, run = argwhere(begins)[:, 0], begins.long().cumsum(0) - 1
    ends = cat([starts[1:], tensor([count] * min(count, 1), dtype="int64", device=x.device)])
    run = reshape(run, input.shape) if dim is None else run
    found = [x[starts].movedim(0, axis), *[run] * return_inverse, *[ends - starts] * return_counts]
    return tuple(found) if len(found) > 1 else found[0]
