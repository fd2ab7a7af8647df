"""Values chosen along one axis, their adjoint, and places that are checked: moves of memory."""

import math

import numpy as np

from ._jit import compiled
from ._layout import ready, served
from ._memory import empty
from ._notes import noting


def in_range(index, *, low, high, name):
    """A copy of `index` as int64; IndexError for a number outside of low .. high - 1."""
    if index.dtype.kind not in "iu":
        return NotImplemented
    places = whole(index)
    y = empty(index.shape, np.int64)
    wrong = _copy(places, low, high, y.reshape(index.size))
    if wrong < 0:
        return y
    raise IndexError(out_of_range(name, places[wrong], low, high))


def out_of_range(name, value, low, high):
    """What is said of a number outside of low .. high - 1."""
    return (f"{name}: index {value} is out of range for an axis of size {high}; "
            f"expected {low} to {high - 1}")  # fmt: skip


def whole(index):
    """Numbers in a row, as int64."""
    wide = index if index.dtype == np.int64 else index.astype(np.int64)
    return ready(wide).reshape(index.size)


@compiled
def _copy(index, low, high, y):
    """Copy numbers; the place of the first wrong one, else -1."""
    for i in range(index.shape[0]):
        if not low <= index[i] < high:
            return i
        y[i] = index[i]
    return -1


def take_along_dim(x, index, *, dim):
    """y[..., i, ...] = x[..., index[..., i, ...], ...] along `dim`; declines what broadcasts."""
    if not served(x) or not _fits(x.shape, index, dim):
        return NotImplemented
    y = empty(index.shape, x.dtype)
    shape = _sides(index.shape, dim)
    whole = _take(ready(x).reshape(_sides(x.shape, dim)), ready(index).reshape(shape),
                  y.reshape(shape))  # fmt: skip
    return y if whole else NotImplemented


def scatter_along(x, index, *, shape, dim):
    """Zeros of `shape` with x added, in order, at the places `index` along `dim`."""
    if not served(x) or x.shape != index.shape or not _fits(shape, index, dim):
        return NotImplemented
    y, sides = empty(shape, x.dtype), _sides(x.shape, dim)
    whole = _add(ready(x).reshape(sides), ready(index).reshape(sides),
                 y.reshape(_sides(shape, dim)))  # fmt: skip
    return y if whole else NotImplemented


def put(x, *, shape, key):
    """Zeros of `shape` with x added, in order, at the places along one axis that an array of whole
    numbers names; declines other keys. Moves x twice, and writes y once."""
    parts = key if isinstance(key, tuple) else (key,)
    axis, index = len(parts) - 1, parts[-1] if parts else None
    plain = all(isinstance(part, slice) and part == slice(None) for part in parts[:-1])
    if not plain or noting.notes is not None or not served(x) or not _numbers(index):
        return NotImplemented
    if x.shape != (*shape[:axis], *index.shape, *shape[axis + 1 :]):
        return NotImplemented
    y, (before, length, behind) = empty(shape, x.dtype), _sides(shape, axis)
    fits = _put(ready(x).reshape(before, index.size, behind), whole(index),
                y.reshape(before, length, behind))  # fmt: skip
    return y if fits else NotImplemented


def _numbers(index):
    return isinstance(index, np.ndarray) and index.ndim > 0 and index.dtype.kind in "iu"


@compiled
def _put(x, index, y):
    """Whether all numbers were places, counted from either end."""
    y[:] = 0
    for i in range(x.shape[0]):
        for k in range(index.shape[0]):
            at = index[k]
            at += y.shape[1] if at < 0 else 0
            if not 0 <= at < y.shape[1]:
                return False
            for j in range(x.shape[2]):
                y[i, at, j] += x[i, k, j]
    return True


def _fits(shape, index, dim):
    """Whether the index has the array's shape, but along `dim`."""
    others = (a == b for axis, (a, b) in enumerate(zip(shape, index.shape, strict=False))
              if axis != dim % len(shape))  # fmt: skip
    same = shape and len(shape) == index.ndim and all(others)
    return bool(same) and index.dtype == np.int64


def _sides(shape, dim):
    """(places before, along and behind `dim`)."""
    dim %= len(shape)
    return math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])


@compiled
def _take(x, index, y):
    """Whether all numbers were places; those before the first wrong one are taken."""
    for i in range(y.shape[0]):
        for k in range(y.shape[1]):
            for j in range(y.shape[2]):
                at = index[i, k, j]
                if not 0 <= at < x.shape[1]:
                    return False
                y[i, k, j] = x[i, at, j]
    return True


@compiled
def _add(x, index, y):
    """Whether all numbers were places; those before the first wrong one are added."""
    y[:] = 0
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            for j in range(x.shape[2]):
                at = index[i, k, j]
                if not 0 <= at < y.shape[1]:
                    return False
                y[i, at, j] += x[i, k, j]
    return True
