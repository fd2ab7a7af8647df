"""Weighted places along one axis, and their adjoint: 2 flops for each place that is weighted."""

import math

import numpy as np

from ._jit import compiled
from ._layout import channels_first, channels_last, lies_last, ready, served
from ._memory import empty


def resample(x, *, dim, index, weight):
    """y[..., o, ...] = sum_k weight[o, k] x[..., index[o, k], ...] along `dim`."""
    if not served(x):
        return NotImplemented
    x, axis, is_last = _memory(x, dim)
    rows = x.reshape(_sides(x.shape, axis))
    y = empty((rows.shape[0], len(index), rows.shape[2]), x.dtype)
    taps = _taps(index, weight, x.dtype)
    if rows.shape[2] == 1:
        _resample_last(rows.reshape(rows.shape[:2]), *taps, y.reshape(y.shape[:2]))
    else:
        _resample(rows, *taps, y)
    y = y.reshape(*x.shape[:axis], len(index), *x.shape[axis + 1 :])
    return channels_first(y) if is_last else y


def resample_input(dy, *, length, dim, index, weight):
    """Each y given back by weight to the places that it was made from."""
    if not served(dy):
        return NotImplemented
    dy, axis, is_last = _memory(dy, dim)
    rows = dy.reshape(_sides(dy.shape, axis))
    dx = empty((rows.shape[0], length, rows.shape[2]), dy.dtype)
    taps = _taps(index, weight, dy.dtype)
    if rows.shape[2] == 1:
        _resample_input_last(rows.reshape(rows.shape[:2]), *taps, dx.reshape(dx.shape[:2]))
    else:
        _resample_input(rows, *taps, dx)
    dx = dx.reshape(*dy.shape[:axis], length, *dy.shape[axis + 1 :])
    return channels_first(dx) if is_last else dx


def _memory(x, dim):
    """x as it lies in memory, which axis that is there, and whether channels are side by side."""
    if dim < 2 or x.flags.c_contiguous or not lies_last(x):
        return ready(x), dim, False
    return channels_last(x), dim - 1, True


def _sides(shape, dim):
    """(places before, along and behind `dim`)."""
    return math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])


def _taps(index, weight, dtype):
    """The places and their weights, which are 1 if not given."""
    weight = np.ones(index.shape) if weight is None else weight
    return ready(index.astype(np.int64, copy=False)), ready(weight.astype(dtype))


@compiled
def _resample(x, index, weight, y):
    y[:] = 0
    for i in range(y.shape[0]):
        for o in range(y.shape[1]):
            for k in range(index.shape[1]):
                at, w = index[o, k], weight[o, k]
                for j in range(y.shape[2]):
                    y[i, o, j] += w * x[i, at, j]


@compiled
def _resample_input(dy, index, weight, dx):
    dx[:] = 0
    for i in range(dy.shape[0]):
        for o in range(dy.shape[1]):
            for k in range(index.shape[1]):
                at, w = index[o, k], weight[o, k]
                for j in range(dy.shape[2]):
                    dx[i, at, j] += w * dy[i, o, j]


@compiled
def _resample_last(x, index, weight, y):
    for k in range(index.shape[1]):
        for i in range(y.shape[0]):
            for o in range(y.shape[1]):
                part = weight[o, k] * x[i, index[o, k]]
                y[i, o] = y[i, o] + part if k else part


@compiled
def _resample_input_last(dy, index, weight, dx):
    dx[:] = 0
    for i in range(dy.shape[0]):
        for k in range(index.shape[1]):
            for o in range(dy.shape[1]):
                dx[i, index[o, k]] += weight[o, k] * dy[i, o]
