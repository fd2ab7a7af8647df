"""Sums and extremes over any axes of dense memory, each value read once: 4 bytes and 1 flop for a
float32."""

import math
from functools import lru_cache

import numpy as np

from ._jit import compiled, summing
from ._layout import dense_order, flat, served
from ._math import greatest, least
from ._memory import empty

BLOCK = 64  # rows whose sum is one term of a sum in float64
DOUBLE = np.dtype(np.float64)


def sum(x, *, dim, keepdim):
    """y = sum of x over the axes `dim` (None: all); declines arrays with gaps."""
    return _reduced(_summed, x, dim, keepdim)


def amax(x, *, dim, keepdim):
    """The largest value over the axes `dim` (None: all), NaN if one is; declines likewise."""
    return _reduced(_largest, x, dim, keepdim)


def amin(x, *, dim, keepdim):
    """The smallest value, likewise."""
    return _reduced(_smallest, x, dim, keepdim)


def _reduced(reduce, x, dim, keepdim):
    """Stage by stage: the axes that lie side by side in memory at once."""
    if not served(x) or not x.size or not x.ndim:
        return NotImplemented
    dim = tuple(dim) if isinstance(dim, list) else dim
    plan = _plan(x.shape, x.strides, x.itemsize, dim, keepdim)
    if plan is None:
        return NotImplemented
    order, stages, shape, back = plan
    values = flat(x, order)
    for stage in stages[:-1]:
        values = reduce(values.reshape(stage), empty((stage[0] * stage[2],), x.dtype))
    y = reduce(values.reshape(stages[-1]), empty(shape, x.dtype))
    return y.transpose(back) if back else y


@lru_cache(4096)
def _plan(shape, strides, itemsize, dim, keepdim):
    """What to do with arrays of this layout: the order of their axes in memory, the stages, the
    shape of the result in that order, and how to put its axes back; None to decline."""
    count = len(shape)
    one = np.empty(1, f"f{itemsize}")
    order = dense_order(np.lib.stride_tricks.as_strided(one, shape, strides))
    axes = range(count) if dim is None or dim == () else [dim] if isinstance(dim, int) else dim
    known = order is not None and all(-count <= axis < count for axis in axes)
    axes = {axis % count for axis in axes} if known else set()
    if not axes or (isinstance(dim, tuple) and dim and len(axes) != len(dim)):
        return None
    places = order or tuple(range(count))
    left = [axis for axis in places if keepdim or axis not in axes]
    result = [1 if axis in axes else shape[axis] for axis in left]
    back = [left.index(axis) for axis in sorted(left)]
    return order, _stages(shape, places, axes), result, back if back != sorted(back) else None


def _stages(shape, order, axes):
    """(before, summed, behind) for each run of axes to be summed, the last in memory first."""
    runs = []
    for axis in order:
        if not runs or runs[-1][0] != (axis in axes):
            runs.append([axis in axes, 1])
        runs[-1][1] *= shape[axis]
    stages = []
    while any(is_summed for is_summed, _ in runs):
        at = max(i for i, (is_summed, _) in enumerate(runs) if is_summed)
        sizes = [size for _, size in runs]
        stages.append((math.prod(sizes[:at]), sizes[at], math.prod(sizes[at + 1 :])))
        del runs[at]
    return stages


def _summed(x, y):
    """Fill y with x (before, summed, behind) summed over its middle."""
    before, _, behind = x.shape
    if behind == 1:
        _sum_last(x.reshape(x.shape[:2]), y.reshape(before))
    else:
        _sum_middle(x, y.reshape(before, behind), empty((behind,), DOUBLE),
                    empty((behind,), x.dtype))  # fmt: skip
    return y


@compiled
def _sum_last(x, y):
    for i in range(x.shape[0]):
        y[i] = row(x, i)


@summing
def row(x, i):
    """The sum of a row, in float64."""
    total = 0.0
    for k in range(x.shape[1]):
        total += x[i, k]
    return total


@compiled
def _sum_middle(x, y, total, part):
    """The sums of rows of x that lie behind one another; ``part`` holds those of a block."""
    for i in range(x.shape[0]):
        total[:] = 0
        part[:] = 0
        for k in range(x.shape[1]):
            for j in range(x.shape[2]):
                part[j] += x[i, k, j]
            if k % BLOCK == BLOCK - 1 or k == x.shape[1] - 1:
                for j in range(x.shape[2]):
                    total[j] += part[j]
                    part[j] = 0
        for j in range(x.shape[2]):
            y[i, j] = total[j]


def _largest(x, y):
    """Fill y with the largest values of x (before, along, behind) along its middle."""
    return _extremes(_greatest_last, _greatest_middle, x, y)


def _smallest(x, y):
    """The same of the smallest ones."""
    return _extremes(_least_last, _least_middle, x, y)


def _extremes(last, middle, x, y):
    before, _, behind = x.shape
    if behind == 1:
        last(x.reshape(x.shape[:2]), y.reshape(before))
    else:
        middle(x, y.reshape(before, behind))
    return y


@compiled
def _greatest_last(x, y):
    for i in range(x.shape[0]):
        found = x.dtype.type(-np.inf)
        for k in range(x.shape[1]):
            found = greatest(x[i, k], found)
        y[i] = found


@compiled
def _least_last(x, y):
    for i in range(x.shape[0]):
        found = x.dtype.type(np.inf)
        for k in range(x.shape[1]):
            found = least(x[i, k], found)
        y[i] = found


@compiled
def _greatest_middle(x, y):
    y[:] = -np.inf
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            for j in range(x.shape[2]):
                y[i, j] = greatest(x[i, k, j], y[i, j])


@compiled
def _least_middle(x, y):
    y[:] = np.inf
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            for j in range(x.shape[2]):
                y[i, j] = least(x[i, k, j], y[i, j])
