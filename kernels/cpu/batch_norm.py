"""Batch normalisation, by given statistics or by the batch's own, on either layout of images.

Channels lie side by side (rows, c), or each has its places together (n, c, places). Two passes over
memory by own statistics, one by given ones, two backwards; of channels whose places lie together
only the first pass of each reads memory, where a few of them fit the second cache. Sums are in
float64. The rectifier behind it costs nothing: see `floor`.
"""

import math

import numpy as np

from ._batch_passes import (
    add_last,
    add_of,
    affine_first,
    affine_last,
    affine_of,
    finish,
    moments_last,
    moments_of,
    scale_last,
    slopes_last,
    slopes_of,
)
from ._jit import compiled
from ._layout import channels_first, ready, served
from ._memory import empty

DOUBLE = np.dtype(np.float64)
NEAR = 1024  # values of an image, at least, that are read or written one behind the other


def batch_norm(x, mean, var, weight=None, bias=None, eps=1e-5):
    """y = (x - mean) / sqrt(var + eps) * weight + bias per channel (axis 1) of x (n, c, ...).

    mean, var, weight and bias are (c); weight and bias may be None.
    """
    if not served(x, mean, var, weight, bias):
        return NotImplemented
    rows, is_last = rows_of(x)
    y, scale = empty(rows.shape, x.dtype), empty(x.shape[1:2], x.dtype)
    run = _given_last if is_last else _given_first
    run(rows, ready(mean), ready(var), *given(weight, x), *given(bias, x), y, eps, scale,
        floor(x, False))  # fmt: skip
    return like(y, x, is_last)


def batch_norm_own(x, weight=None, bias=None, *, eps):
    """(x - mean) / sqrt(var + eps) * weight + bias, and the mean and variance of each channel."""
    found = _own(x, weight, bias, eps, False)
    return found if found is NotImplemented else found[:3]


def batch_norm_own_relu(x, weight=None, bias=None, *, eps):
    """The same and the rectifier in one; and the bias, for the way back."""
    return _own(x, weight, bias, eps, True)


def _own(x, weight, bias, eps, relu):
    if not served(x, weight, bias) or not x.size:
        return NotImplemented
    rows, is_last = rows_of(x)
    run = _own_last if is_last else _own_first
    y, sums, scale = empty(rows.shape, x.dtype), sums_of(x), empty(x.shape[1:2], x.dtype)
    mean, var, shift = (empty(x.shape[1:2], x.dtype) for _ in range(3))
    run(rows, *given(weight, x), *given(bias, x), y, mean, var, shift, eps, sums, scale,
        floor(x, relu))  # fmt: skip
    return like(y, x, is_last), mean, var, shift


def batch_norm_own_back(dy, x, mean, var, weight=None, *, eps):
    """The cotangents of x, weight and bias, from what batch_norm_own found."""
    return _own_back(dy, x, mean, var, mean, weight, eps, False)


def batch_norm_own_relu_back(dy, x, mean, var, shift, weight=None, *, eps):
    """The same from what batch_norm_own_relu found: where it was cut off is computed again."""
    return _own_back(dy, x, mean, var, shift, weight, eps, True)


def _own_back(dy, x, mean, var, shift, weight, eps, relu):
    if not served(dy, x, mean, var, shift, weight) or not x.size:
        return NotImplemented
    rows, is_last = rows_of(x)
    run = _back_last if is_last else _back_first
    g = ready(dy.transpose(0, *range(2, x.ndim), 1) if is_last else dy).reshape(rows.shape)
    dx, scale = empty(rows.shape, x.dtype), empty(x.shape[1:2], x.dtype)
    dweight, dbias = (empty(x.shape[1:2], x.dtype) for _ in range(2))
    run(g, rows, ready(mean), ready(var), ready(shift), *given(weight, x), dx, dweight, dbias, eps,
        sums_of(x), taken_from(x), scale, floor(x, relu))  # fmt: skip
    return like(dx, x, is_last), dweight, dbias


def floor(x, relu):
    """What values are cut off at: 0, or without `relu` NaN, which none is at or below."""
    return x.dtype.type(0 if relu else np.nan)


def rows_of(x):
    """(x as (rows, c) or (n, c, places), whether as the first); one channel is one place after the
    other."""
    if x.shape[1] == 1 and x.size:
        return ready(x).reshape(1, 1, x.size), False
    if x.ndim == 2:
        return ready(x), True
    last = x.transpose(0, *range(2, x.ndim), 1)
    if last.flags.c_contiguous:
        return ready(last).reshape(x.size // max(1, x.shape[1]), x.shape[1]), True
    return ready(x).reshape(*x.shape[:2], math.prod(x.shape[2:])), False


def like(y, x, is_last):
    """y with the shape of x."""
    return channels_first(y.reshape(len(x), *x.shape[2:], x.shape[1])) if is_last else y.reshape(
        x.shape)  # fmt: skip


def given(vector, x):
    """(a vector over channels, whether it was given)."""
    return (empty(x.shape[1:2], x.dtype), False) if vector is None else (ready(vector), True)


def sums_of(x):
    return empty((2, x.shape[1]), DOUBLE)


def taken_from(x):
    """Memory for what is taken from each cotangent, and for each unit of x - mean."""
    return empty((2, x.shape[1]), x.dtype)


@compiled
def _given_last(x, mean, var, weight, has_weight, bias, has_bias, y, eps, scale, floor):
    scale_last(var, eps, weight, has_weight, bias, has_bias, scale)
    affine_last(x, mean, scale, bias, y, floor)


@compiled
def _given_first(x, mean, var, weight, has_weight, bias, has_bias, y, eps, scale, floor):
    scale_last(var, eps, weight, has_weight, bias, has_bias, scale)
    affine_first(x, mean, scale, bias, y, floor)


@compiled
def _own_last(x, weight, has_weight, bias, has_bias, y, mean, var, shift, eps, sums, scale, floor):
    moments_last(x, mean, var, sums)
    scale_last(var, eps, weight, has_weight, bias, has_bias, scale)
    affine_last(x, mean, scale, bias, y, floor)
    for k in range(shift.shape[0]):
        shift[k] = bias[k]


@compiled
def _back_last(g, x, mean, var, shift, weight, has_weight, dx, dweight, dbias, eps, sums, taken,
               scale, floor):  # fmt: skip
    scale_last(var, eps, weight, has_weight, dbias, False, scale)
    sums[:] = 0
    add_last(g, x, mean, shift, scale, dbias, dweight, sums, floor)
    finish(sums, x.shape[0], var, eps, dweight, dbias, taken)
    slopes_last(g, x, mean, shift, scale, taken, dx, floor)


@compiled
def _own_first(x, weight, has_weight, bias, has_bias, y, mean, var, shift, eps, sums, scale, floor):
    """Some channels at a time, whose values often stay in cache from pass to pass."""
    step = max(1, NEAR // max(1, x.shape[2]))
    for first in range(0, x.shape[1], step):
        last = min(x.shape[1], first + step)
        some = slice(first, last)
        for k in range(first, last):
            mean[k], var[k] = moments_of(x, k)
        scale_last(var[some], eps, weight[some], has_weight, bias[some], has_bias, scale[some])
        for i in range(x.shape[0]):
            for k in range(first, last):
                affine_of(x[i, k], mean[k], scale[k], bias[k], y[i, k], floor)
    for k in range(shift.shape[0]):
        shift[k] = bias[k]


@compiled
def _back_first(g, x, mean, var, shift, weight, has_weight, dx, dweight, dbias, eps, sums, taken,
                scale, floor):  # fmt: skip
    scale_last(var, eps, weight, has_weight, dbias, False, scale)
    sums[:] = 0
    step = max(1, NEAR // max(1, x.shape[2]))
    for first in range(0, x.shape[1], step):
        last = min(x.shape[1], first + step)
        some = slice(first, last)
        for i in range(x.shape[0]):
            for k in range(first, last):
                add_of(g[i, k], x[i, k], mean[k], shift[k], scale[k], sums[:, k], floor)
        finish(sums[:, some], x.shape[0] * x.shape[2], var[some], eps, dweight[some], dbias[some],
               taken[:, some])  # fmt: skip
        for i in range(x.shape[0]):
            for k in range(first, last):
                slopes_of(g[i, k], x[i, k], mean[k], shift[k], scale[k], taken[:, k], dx[i, k],
                          floor)  # fmt: skip
