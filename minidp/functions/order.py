"""Extremes, orders and counts under PyTorch's names."""

from __future__ import annotations

import builtins
from typing import Any, NamedTuple

import numpy as np

from minidp.errors import ArgumentError, PlaceError
from minidp.functions.comparison import isnan
from minidp.functions.join import cat
from minidp.ops import elementwise
from minidp.ops import reduce as ops
from minidp.ops.elementwise import where
from minidp.ops.index import put, take_along_dim
from minidp.ops.layout import narrow
from minidp.shapes import axis_of
from minidp.tensor import Tensor, method

__all__ = ["aminmax", "argsort", "bincount", "cummax", "cummin", "diff", "histc", "kthvalue",
           "max", "median", "min", "msort", "nanmedian", "sort", "topk", "unique"]  # fmt: skip


class ValuesIndices(NamedTuple):
    """Values that were chosen along an axis, and where they were."""

    values: Tensor
    indices: Tensor


class MinMax(NamedTuple):
    """The smallest and the largest values."""

    min: Tensor
    max: Tensor


@method()
def max(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The largest value; with ``dim`` also where it is; with a Tensor, element by element."""
    dim = other if dim is None else dim
    return _extreme(input, dim, keepdim, elementwise.maximum, ops.amax, ops.argmax)


@method()
def min(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The smallest value; with ``dim`` also where it is; with a Tensor, element by element."""
    dim = other if dim is None else dim
    return _extreme(input, dim, keepdim, elementwise.minimum, ops.amin, ops.argmin)


def _extreme(x: Tensor, dim: Any, keepdim: bool, of_two: Any, of_all: Any, place: Any) -> Any:
    if isinstance(dim, Tensor):
        return of_two(x, dim)
    if dim is None:
        return ops.chosen(x, of_all(x).detach())
    return _reduced(x, place(_lined(x), dim=dim, keepdim=True), dim, keepdim)


@method()
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> MinMax:
    """The smallest and the largest value over ``dim`` (None: all axes)."""
    extremes = (choose(input, dim=dim, keepdim=keepdim) for choose in (ops.amin, ops.amax))
    return MinMax(*extremes)


def _lined(x: Tensor) -> Tensor:
    return x.reshape(1) if x.ndim == 0 else x


def _along(x: Tensor, indices: Tensor, dim: int) -> ValuesIndices:
    """The values at ``indices`` along ``dim``; 0-d for a 0-d x."""
    values = take_along_dim(_lined(x), indices, dim=axis_of("take", dim, x.ndim))
    return ValuesIndices(values, indices) if x.ndim else ValuesIndices(values[0], indices[0])


def _reduced(x: Tensor, indices: Tensor, dim: int, keepdim: bool) -> ValuesIndices:
    """The values at ``indices``, one along ``dim``."""
    found = _along(x, indices, dim)
    if keepdim or x.ndim == 0:
        return found
    return ValuesIndices(found.values.squeeze(dim), found.indices.squeeze(dim))


@method()
def argsort(
    input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False
) -> Tensor:
    """The order of the values along ``dim``; equal ones stay in order."""
    return sort(input, dim, descending, stable=stable).indices


@method()
def sort(
    input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False
) -> ValuesIndices:
    """The values in order along ``dim``, and where they were; equal ones stay in order, NaN is
    the largest.

    >>> dp.sort(dp.tensor([3, 1, 2])).indices
    tensor([1, 2, 0])
    """
    x, axis = _lined(input), axis_of("sort", dim, input.ndim)
    order = ops.argsort(x, dim=axis, descending=descending, start=0, stop=None)
    return _along(input, order, axis)


def msort(input: Tensor) -> Tensor:
    """The values in order along the first axis."""
    return sort(input, 0).values


@method()
def topk(
    input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> ValuesIndices:
    """The ``k`` largest (or smallest) values along ``dim``, in order, and where they are.

    >>> dp.topk(dp.tensor([1.0, 3.0, 2.0]), 2).values
    tensor([3., 2.])
    """
    x, axis = _lined(input), axis_of("topk", dim, input.ndim)
    if not 0 <= k <= x.shape[axis]:
        raise ArgumentError(f"topk: k = {k} of {x.shape[axis]} values; expected 0 to all of them")
    places = ops.argsort(x, dim=axis, descending=largest, start=0, stop=k if input.ndim else 1)
    return _along(input, places, axis)


@method()
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """The ``k``-th smallest value along ``dim``, counted from 1, and where it is."""
    x, axis = _lined(input), axis_of("kthvalue", dim, input.ndim)
    if not 1 <= k <= x.shape[axis]:
        raise PlaceError(f"kthvalue: k = {k} of {x.shape[axis]} values; it is counted from 1")
    places = ops.argsort(x, dim=axis, start=k - 1, stop=k)
    return _reduced(input, places, axis, keepdim)


@method()
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The middle value, the lower of two; NaN if there is one; with ``dim`` also where it is."""
    return _middle(input, dim, keepdim, True)


@method()
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The middle value of those that are not NaN; with ``dim`` also where it is."""
    return _middle(input, dim, keepdim, False)


def _middle(x: Tensor, dim: int | None, keepdim: bool, spoiled: bool) -> Any:
    if dim is None:
        if x.numel() == 0:
            least = np.nan if x.dtype.kind == "f" else int(np.iinfo(x.dtype).min)
            return (ops.sum(x) * 0 + least).type(x.dtype)
        return ops.chosen(x, _middle(x.reshape(-1), 0, False, spoiled).values.detach())
    lined, axis = _lined(x), axis_of("median", dim, x.ndim)
    missing = isnan(lined)
    if spoiled and lined.shape[axis]:
        middle = (lined.shape[axis] - 1) // 2
        places = ops.argsort(lined, dim=axis, start=middle, stop=middle + 1)
        first = ops.argmax(missing, dim=axis, keepdim=True)
        places = where(ops.any(missing, dim=axis, keepdim=True), first, places)
        return _reduced(x, places, axis, keepdim)
    count = ops.sum(~missing, dim=axis, keepdim=True)
    place = where(count > 0, (count - 1) // 2, 0)
    return _reduced(x, take_along_dim(ops.argsort(lined, dim=axis), place, dim=axis), axis, keepdim)


@method()
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """The most frequent value along ``dim``, the smallest of several, and its last place."""
    x, axis = _lined(input), axis_of("mode", dim, input.ndim)
    order = ops.argsort(x, dim=axis)
    values, places = take_along_dim(x, order, dim=axis), _places(x, axis)
    before = take_along_dim(values, elementwise.clamp(places - 1, 0, None), dim=axis)
    start = cummax(where(values != before, places, 0), axis).values
    longest = ops.argmax(places - start, dim=axis, keepdim=True)
    return _reduced(input, take_along_dim(order, longest, dim=axis), axis, keepdim)


def _places(x: Tensor, axis: int) -> Tensor:
    """0, 1, 2 ... along ``axis``, in the shape of x."""
    return ops.cumsum(elementwise.cast(x == x, dtype=np.int64) * 0 + 1, dim=axis) - 1


@method()
def cummax(input: Tensor, dim: int) -> ValuesIndices:
    """The largest value so far along ``dim``, and where it is: the last of equals."""
    return _running(input, dim, True)


@method()
def cummin(input: Tensor, dim: int) -> ValuesIndices:
    """The smallest value so far along ``dim``, and where it is: the last of equals."""
    return _running(input, dim, False)


def _running(x: Tensor, dim: int, largest: bool) -> ValuesIndices:
    lined, axis = _lined(x), axis_of("cummax", dim, x.ndim)
    return _along(x, ops.running_place(lined, dim=axis, largest=largest), axis)


@method()
def unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """The different values (or slices along ``dim``), in order; if asked for, where each element
    is among them and how often each occurs.

    >>> dp.unique(dp.tensor([2, 1, 2]))
    tensor([1, 2])
    """
    axis = None if dim is None else axis_of("unique", dim, input.ndim)
    if axis is not None and 0 in (*input.shape[:axis], *input.shape[axis + 1 :]):
        raise ArgumentError(f"unique: slices of {input.shape} along axis {axis} have no values")
    input._read()
    values, inverse, counts = ops.unique(input, dim=axis)
    found = [values, *[inverse] * return_inverse, *[counts] * return_counts]
    return tuple(found) if len(found) > 1 else values


@method()
def diff(input: Tensor, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None
         ) -> Tensor:  # fmt: skip
    """Each value along ``dim`` less the one before it; ``n`` times.

    >>> dp.diff(dp.tensor([1, 3, 2]))
    tensor([ 2, -1])
    """
    if input.ndim == 0 or n < 0:
        raise ArgumentError(f"diff: n = {n} of {input.shape}; expected n from 0 and an axis")
    axis = axis_of("diff", dim, input.ndim)
    parts = [x for x in (prepend, input, append) if x is not None]
    x = cat(parts, axis) if n and len(parts) > 1 else input.clone()
    for _ in range(builtins.min(n, x.shape[axis])):
        count = x.shape[axis] - 1
        later, before = (narrow(x, dim=axis, start=i, length=count) for i in (1, 0))
        x = later != before if x.dtype.kind == "b" else later - before
    return x


@method()
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each of 0, 1, 2 ... occurs, or the sums of the weights of those places."""
    input._read()  # the largest decides on the shape
    places = input.array
    if places.size and int(places.min()) < 0:
        raise ArgumentError(f"bincount: {int(places.min())} is negative; expected integers from 0")
    count = builtins.max(int(places.max()) + 1 if places.size else 0, minlength)
    if weights is None or places.size == 0:
        weights = (input == input).type(np.int64)
    elif weights.dtype.char != "f":
        weights = weights.type(np.float64)
    return put(weights.detach(), shape=(count,), key=places)


@method()
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many values lie in each of ``bins`` equal parts of [min, max], by default all values'."""
    x = input.reshape(-1)
    if min == max and x.numel():
        min, max = ops.amin(x).item(), ops.amax(x).item()
    if min == max:
        min, max = min - 1, max + 1
    x = x[(x >= min) & (x <= max)]
    place = elementwise.floor((x - min) / (max - min) * bins).type(np.int64)
    return bincount(elementwise.clamp(place, None, bins - 1), minlength=bins).type(input.dtype)
