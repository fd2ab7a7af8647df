"""Batch normalisation, by given statistics or by the batch's own, on either layout of images.

Channels lie side by side (rows, c), or each has its places together (n, c, places). Three passes
over memory by own statistics, one by given ones, two backwards; sums are in float64.
"""

import math

import numpy as np

from ._jit import compiled, part, summing
from ._layout import channels_first, ready, served
from ._memory import empty

DOUBLE = np.dtype(np.float64)


def batch_norm(x, mean, var, weight=None, bias=None, eps=1e-5):
    """y = (x - mean) / sqrt(var + eps) * weight + bias per channel (axis 1) of x (n, c, ...).

    mean, var, weight and bias are (c); weight and bias may be None. Declines memory that is not
    channels-last: there NumPy's broadcasting has long rows already.
    """
    vectors = [v for v in (mean, var, weight, bias) if v is not None]
    if not served(x, *vectors) or x.ndim < 2 or any(v.shape != x.shape[1:2] for v in vectors):
        return NotImplemented
    rows, is_last = _rows(x)
    if not is_last:
        return NotImplemented
    y, scale = empty(rows.shape, x.dtype), empty(x.shape[1:2], x.dtype)
    given = *_given(weight, x), *_given(bias, x)
    _scale_last(ready(var), eps, *given, scale)
    _affine_last(rows, ready(mean), scale, given[2], y)
    return _like(y, x, is_last)


def batch_norm_own(x, weight=None, bias=None, *, eps):
    """(x - mean) / sqrt(var + eps) * weight + bias, and the mean and variance of each channel."""
    if not served(x, weight, bias) or not x.size:
        return NotImplemented
    rows, is_last = _rows(x)
    run = _own_last if is_last else _own_first
    y, total, scale = empty(rows.shape, x.dtype), _sums(x), empty(x.shape[1:2], x.dtype)
    mean, var = (empty(x.shape[1:2], x.dtype) for _ in range(2))
    run(rows, *_given(weight, x), *_given(bias, x), y, mean, var, eps, total[0], scale)
    return _like(y, x, is_last), mean, var


def batch_norm_own_back(dy, x, mean, var, weight=None, *, eps):
    """The cotangents of x, weight and bias, from what batch_norm_own found."""
    if not served(dy, x, mean, var, weight) or not x.size:
        return NotImplemented
    rows, is_last = _rows(x)
    run = _back_last if is_last else _back_first
    g = ready(dy.transpose(0, *range(2, x.ndim), 1) if is_last else dy).reshape(rows.shape)
    dx, scale = empty(rows.shape, x.dtype), empty(x.shape[1:2], x.dtype)
    dweight, dbias = (empty(x.shape[1:2], x.dtype) for _ in range(2))
    run(g, rows, ready(mean), ready(var), *_given(weight, x), dx, dweight, dbias, eps, _sums(x),
        scale)  # fmt: skip
    return _like(dx, x, is_last), dweight, dbias


def _rows(x):
    """(x as (rows, c) or (n, c, places), whether as the first)."""
    last = x.transpose(0, *range(2, x.ndim), 1)
    if last.flags.c_contiguous:
        return ready(last).reshape(x.size // max(1, x.shape[1]), x.shape[1]), True
    return ready(x).reshape(*x.shape[:2], math.prod(x.shape[2:])), False


def _like(y, x, is_last):
    """y with the shape of x."""
    return channels_first(y.reshape(len(x), *x.shape[2:], x.shape[1])) if is_last else y.reshape(
        x.shape)  # fmt: skip


def _given(vector, x):
    """(a vector over channels, whether it was given)."""
    return (empty(x.shape[1:2], x.dtype), False) if vector is None else (ready(vector), True)


def _sums(x):
    return empty((2, x.shape[1]), DOUBLE)


@part
def _neutral(vector, given, value):
    if not given:
        vector[:] = value


@compiled
def _scale_last(var, eps, weight, has_weight, bias, has_bias, scale):
    """scale = weight / sqrt(var + eps); 1 and 0 for a weight and a bias that were not given."""
    _neutral(weight, has_weight, 1)
    _neutral(bias, has_bias, 0)
    for k in range(scale.shape[0]):
        scale[k] = weight[k] / np.sqrt(var[k] + eps)


@compiled
def _affine_last(x, mean, scale, bias, y):
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            y[i, k] = (x[i, k] - mean[k]) * scale[k] + bias[k]


@compiled
def _own_last(x, weight, has_weight, bias, has_bias, y, mean, var, eps, total, scale):
    count = x.shape[0]
    total[:] = 0
    for i in range(count):
        for k in range(x.shape[1]):
            total[k] += x[i, k]
    for k in range(x.shape[1]):
        mean[k], total[k] = total[k] / count, 0
    for i in range(count):
        for k in range(x.shape[1]):
            d = x[i, k] - mean[k]
            total[k] += d * d
    for k in range(x.shape[1]):
        var[k] = total[k] / count
    _scale_last(var, eps, weight, has_weight, bias, has_bias, scale)
    _affine_last(x, mean, scale, bias, y)


@compiled
def _back_last(g, x, mean, var, weight, has_weight, dx, dweight, dbias, eps, sums, scale):
    _neutral(weight, has_weight, 1)
    sums[:] = 0
    of_bias, of_weight = sums[0], sums[1]
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            of_bias[k] += g[i, k]
            of_weight[k] += g[i, k] * (x[i, k] - mean[k])
    _finish(sums, x.shape[0], var, weight, eps, dweight, dbias, scale)
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            slope = g[i, k] - of_bias[k] - (x[i, k] - mean[k]) * of_weight[k]
            dx[i, k] = slope * scale[k]


@part
def _finish(sums, count, var, weight, eps, dweight, dbias, scale):
    """The cotangents of weight and bias; then the sums as what is taken from that of x."""
    for k in range(scale.shape[0]):
        r = 1 / np.sqrt(var[k] + eps)
        dbias[k], dweight[k], scale[k] = sums[0, k], sums[1, k] * r, weight[k] * r
        sums[0, k], sums[1, k] = sums[0, k] / count, sums[1, k] * r * r / count


@compiled
def _own_first(x, weight, has_weight, bias, has_bias, y, mean, var, eps, total, scale):
    count = x.shape[0] * x.shape[2]
    for k in range(x.shape[1]):
        total[k] = 0
        for i in range(x.shape[0]):
            total[k] += _sum(x, i, k)
        mean[k] = total[k] / count
        total[k] = 0
        for i in range(x.shape[0]):
            total[k] += _squares(x, i, k, mean[k])
        var[k] = total[k] / count
    _scale_last(var, eps, weight, has_weight, bias, has_bias, scale)
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            level, factor, shift = mean[k], scale[k], bias[k]
            for j in range(x.shape[2]):
                y[i, k, j] = (x[i, k, j] - level) * factor + shift


@compiled
def _back_first(g, x, mean, var, weight, has_weight, dx, dweight, dbias, eps, sums, scale):
    _neutral(weight, has_weight, 1)
    sums[:] = 0
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            total, along = _both(g, x, i, k, mean[k])
            sums[0, k] += total
            sums[1, k] += along
    _finish(sums, x.shape[0] * x.shape[2], var, weight, eps, dweight, dbias, scale)
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            level, along = x.dtype.type(sums[0, k]), x.dtype.type(sums[1, k])
            middle, factor = mean[k], scale[k]
            for j in range(x.shape[2]):
                dx[i, k, j] = (g[i, k, j] - level - (x[i, k, j] - middle) * along) * factor


@summing
def _sum(x, i, k):
    total = 0.0
    for j in range(x.shape[2]):
        total += x[i, k, j]
    return total


@summing
def _squares(x, i, k, level):
    total = 0.0
    for j in range(x.shape[2]):
        d = x[i, k, j] - level
        total += d * d
    return total


@summing
def _both(g, x, i, k, level):
    """The sums of g and of g (x - level) over the places of a channel."""
    total = along = 0.0
    for j in range(x.shape[2]):
        total += g[i, k, j]
        along += g[i, k, j] * (x[i, k, j] - level)
    return total, along
