"""Batch normalisation, by given statistics or by the batch's own, on either layout of images.

Channels lie side by side (rows, c), or each has its places together (n, c, places). Two passes
over memory by own statistics of channels side by side (three of the others), one by given ones, two
backwards; sums are in float64. The rectifier behind it costs nothing: see `floor`.
"""

import math

import numpy as np

from ._jit import compiled, part, summing
from ._layout import channels_first, ready, served
from ._memory import empty

DOUBLE = np.dtype(np.float64)
TOGETHER = 16  # rows whose cotangents are added in x's dtype, before their sum is in float64


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
    _affine_last(rows, ready(mean), scale, given[2], y, floor(x, False))
    return _like(y, x, is_last)


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
    rows, is_last = _rows(x)
    run = _own_last if is_last else _own_first
    y, sums, scale = empty(rows.shape, x.dtype), _sums(x), empty(x.shape[1:2], x.dtype)
    mean, var, shift = (empty(x.shape[1:2], x.dtype) for _ in range(3))
    run(rows, *_given(weight, x), *_given(bias, x), y, mean, var, shift, eps, sums, scale,
        floor(x, relu))  # fmt: skip
    return _like(y, x, is_last), mean, var, shift


def batch_norm_own_back(dy, x, mean, var, weight=None, *, eps):
    """The cotangents of x, weight and bias, from what batch_norm_own found."""
    return _own_back(dy, x, mean, var, mean, weight, eps, False)


def batch_norm_own_relu_back(dy, x, mean, var, shift, weight=None, *, eps):
    """The same from what batch_norm_own_relu found: where it was cut off is computed again."""
    return _own_back(dy, x, mean, var, shift, weight, eps, True)


def _own_back(dy, x, mean, var, shift, weight, eps, relu):
    if not served(dy, x, mean, var, shift, weight) or not x.size:
        return NotImplemented
    rows, is_last = _rows(x)
    run = _back_last if is_last else _back_first
    g = ready(dy.transpose(0, *range(2, x.ndim), 1) if is_last else dy).reshape(rows.shape)
    dx, scale = empty(rows.shape, x.dtype), empty(x.shape[1:2], x.dtype)
    dweight, dbias = (empty(x.shape[1:2], x.dtype) for _ in range(2))
    run(g, rows, ready(mean), ready(var), ready(shift), *_given(weight, x), dx, dweight, dbias, eps,
        _sums(x), scale, floor(x, relu))  # fmt: skip
    return _like(dx, x, is_last), dweight, dbias


def floor(x, relu):
    """What values are cut off at: 0, or without `relu` NaN, which none is at or below."""
    return x.dtype.type(0 if relu else np.nan)


def _rows(x):
    """(x as (rows, c) or (n, c, places), whether as the first)."""
    if x.ndim == 2:
        return ready(x), True
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
def _affine_last(x, mean, scale, bias, y, floor):
    zero = x.dtype.type(0)
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            value = (x[i, k] - mean[k]) * scale[k] + bias[k]
            y[i, k] = zero if value <= floor else value


@compiled
def _own_last(x, weight, has_weight, bias, has_bias, y, mean, var, shift, eps, sums, scale, floor):
    _statistics(x, mean, var, sums)
    _scale_last(var, eps, weight, has_weight, bias, has_bias, scale)
    _affine_last(x, mean, scale, bias, y, floor)
    for k in range(shift.shape[0]):
        shift[k] = bias[k]


@part
def _statistics(x, mean, var, sums):
    """Mean and variance of the columns of x, in one pass.

    Sums are of what differs from the first row: so they lose a factor of x's rows at most.
    """
    count, first, total, squares = x.shape[0], x[0], sums[0], sums[1]
    sums[:] = 0
    for i in range(count):
        for k in range(x.shape[1]):
            d = np.float64(x[i, k]) - np.float64(first[k])
            total[k] += d
            squares[k] += d * d
    for k in range(x.shape[1]):
        d = total[k] / count
        spread = squares[k] / count - d * d
        mean[k], var[k] = first[k] + d, 0.0 if spread < 0 else spread


@compiled
def _back_last(g, x, mean, var, shift, weight, has_weight, dx, dweight, dbias, eps, sums, scale,
               floor):  # fmt: skip
    _scale_last(var, eps, weight, has_weight, dbias, False, scale)
    sums[:] = 0
    for first in range(0, x.shape[0], TOGETHER):
        last = min(x.shape[0], first + TOGETHER)
        _add_rows(g[first:last], x[first:last], mean, shift, scale, dbias, dweight, sums, floor)
    of_bias, of_weight, zero = sums[0], sums[1], x.dtype.type(0)
    _finish(sums, x.shape[0], var, eps, dweight, dbias)
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            d = x[i, k] - mean[k]
            slope = zero if d * scale[k] + shift[k] <= floor else g[i, k]
            dx[i, k] = (slope - of_bias[k] - d * of_weight[k]) * scale[k]


@part
def _add_rows(g, x, mean, shift, scale, total, along, sums, floor):
    """Add the sums of g and of g (x - mean) over a few rows that are not cut off."""
    zero = x.dtype.type(0)
    total[:], along[:] = zero, zero
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            d = x[i, k] - mean[k]
            slope = zero if d * scale[k] + shift[k] <= floor else g[i, k]
            total[k] += slope
            along[k] += slope * d
    for k in range(x.shape[1]):
        sums[0, k] += total[k]
        sums[1, k] += along[k]


@part
def _finish(sums, count, var, eps, dweight, dbias):
    """The cotangents of weight and bias; then the sums as what is taken from that of x."""
    for k in range(var.shape[0]):
        r = 1 / np.sqrt(var[k] + eps)
        dbias[k], dweight[k] = sums[0, k], sums[1, k] * r
        sums[0, k], sums[1, k] = sums[0, k] / count, sums[1, k] * r * r / count


@compiled
def _own_first(x, weight, has_weight, bias, has_bias, y, mean, var, shift, eps, sums, scale, floor):
    count, zero = x.shape[0] * x.shape[2], x.dtype.type(0)
    for k in range(x.shape[1]):
        total = squares = 0.0
        for i in range(x.shape[0]):
            total += _sum(x, i, k)
        mean[k] = total / count
        for i in range(x.shape[0]):
            squares += _squares(x, i, k, mean[k])
        var[k] = squares / count
    _scale_last(var, eps, weight, has_weight, bias, has_bias, scale)
    for k in range(shift.shape[0]):
        shift[k] = bias[k]
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            level, factor, lift = mean[k], scale[k], bias[k]
            for j in range(x.shape[2]):
                value = (x[i, k, j] - level) * factor + lift
                y[i, k, j] = zero if value <= floor else value


@compiled
def _back_first(g, x, mean, var, shift, weight, has_weight, dx, dweight, dbias, eps, sums, scale,
                floor):  # fmt: skip
    _scale_last(var, eps, weight, has_weight, dbias, False, scale)
    sums[:] = 0
    zero = x.dtype.type(0)
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            total, along = _both(g, x, i, k, mean[k], scale[k], shift[k], floor)
            sums[0, k] += total
            sums[1, k] += along
    _finish(sums, x.shape[0] * x.shape[2], var, eps, dweight, dbias)
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            level, along = x.dtype.type(sums[0, k]), x.dtype.type(sums[1, k])
            middle, factor, lift = mean[k], scale[k], shift[k]
            for j in range(x.shape[2]):
                d = x[i, k, j] - middle
                slope = zero if d * factor + lift <= floor else g[i, k, j]
                dx[i, k, j] = (slope - level - d * along) * factor


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
def _both(g, x, i, k, level, factor, lift, floor):
    """The sums of g and of g (x - level) over the places of a channel that are not cut off."""
    total, along, zero = 0.0, 0.0, x.dtype.type(0)
    for j in range(x.shape[2]):
        d = x[i, k, j] - level
        slope = zero if d * factor + lift <= floor else g[i, k, j]
        total += slope
        along += slope * d
    return total, along
