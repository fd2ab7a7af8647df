"""Batch normalisation by statistics that replicas share, on either layout of images.

One pass over memory for the moments, one for the result; backwards one for the sums of cotangents
and one for their values: 4 to 8 flops for each value a pass, and as many bytes as its arrays have.
Each runs at the speed of memory: see `_batch_passes`.
"""

import numpy as np

from ._batch_passes import (
    add_first,
    add_last,
    affine_first,
    affine_last,
    moments_first,
    moments_last,
    scale_last,
    slopes_first,
    slopes_last,
)
from ._jit import compiled, part
from ._layout import ready, served
from ._memory import empty
from .batch_norm import floor, given, like, rows_of, sums_of, taken_from


def batch_moments(x):
    """The mean and the variance of each channel of x (n, c, ...)."""
    if not served(x) or not x.size:
        return NotImplemented
    rows, is_last = rows_of(x)
    mean, var = (empty(x.shape[1:2], x.dtype) for _ in range(2))
    if is_last:
        _moments_last(rows, mean, var, sums_of(x))
    else:
        _moments_first(rows, mean, var)
    return mean, var


def batch_norm_shared(x, mean, var, count, weight=None, bias=None, *, eps, rectify):
    """y = (x - mean) r weight + bias, with `rectify` cut off at 0, and r = 1 / sqrt(var + eps)."""
    if not served(x, mean, var, count, weight, bias) or not x.size:
        return NotImplemented
    rows, is_last = rows_of(x)
    y, r, scale = empty(rows.shape, x.dtype), *(empty(x.shape[1:2], x.dtype) for _ in range(2))
    run = _shared_last if is_last else _shared_first
    run(rows, ready(mean), ready(var), *given(weight, x), *given(bias, x), y, r, scale, eps,
        floor(x, rectify))  # fmt: skip
    return like(y, x, is_last), r


def batch_norm_sums(dy, x, mean, var, weight=None, bias=None, *, eps, rectify):
    """The sums over each channel of dy and of dy (x - mean), where it was not cut off."""
    if not served(dy, x, mean, var, weight, bias) or not x.size:
        return NotImplemented
    rows, is_last = rows_of(x)
    total, along, scale = (empty(x.shape[1:2], x.dtype) for _ in range(3))
    run = _sums_last if is_last else _sums_first
    run(_beside(dy, rows, is_last), rows, ready(mean), ready(var), *given(weight, x),
        *given(bias, x), total, along, eps, sums_of(x), scale, floor(x, rectify))  # fmt: skip
    return total, along


def batch_norm_back(dy, x, mean, var, sums, count, weight=None, bias=None, *, eps, rectify):
    """dx from the sums of all replicas, end to end, over `count` values."""
    if not served(dy, x, mean, var, sums, count, weight, bias) or not x.size:
        return NotImplemented
    rows, is_last = rows_of(x)
    dx, scale = empty(rows.shape, x.dtype), empty(x.shape[1:2], x.dtype)
    run = _back_last if is_last else _back_first
    run(_beside(dy, rows, is_last), rows, ready(mean), ready(var), ready(sums), ready(count),
        *given(weight, x), *given(bias, x), dx, eps, taken_from(x), scale,
        floor(x, rectify))  # fmt: skip
    return like(dx, x, is_last)


def _beside(dy, rows, is_last):
    """dy in the layout of `rows`."""
    if is_last:
        dy = dy.transpose(0, *range(2, dy.ndim), 1)
    return ready(dy).reshape(rows.shape)


@compiled
def _moments_last(x, mean, var, sums):
    moments_last(x, mean, var, sums)


@compiled
def _moments_first(x, mean, var):
    moments_first(x, mean, var)


@compiled
def _shared_last(x, mean, var, weight, has_weight, bias, has_bias, y, r, scale, eps, floor):
    scale_last(var, eps, weight, has_weight, bias, has_bias, scale)
    for k in range(r.shape[0]):
        r[k] = 1 / np.sqrt(var[k] + eps)
    affine_last(x, mean, scale, bias, y, floor)


@compiled
def _shared_first(x, mean, var, weight, has_weight, bias, has_bias, y, r, scale, eps, floor):
    scale_last(var, eps, weight, has_weight, bias, has_bias, scale)
    for k in range(r.shape[0]):
        r[k] = 1 / np.sqrt(var[k] + eps)
    affine_first(x, mean, scale, bias, y, floor)


@compiled
def _sums_last(g, x, mean, var, weight, has_weight, bias, has_bias, total, along, eps, sums, scale,
               floor):  # fmt: skip
    scale_last(var, eps, weight, has_weight, bias, has_bias, scale)
    sums[:] = 0
    add_last(g, x, mean, bias, scale, total, along, sums, floor)
    hand_over(sums, total, along)


@compiled
def _sums_first(g, x, mean, var, weight, has_weight, bias, has_bias, total, along, eps, sums, scale,
                floor):  # fmt: skip
    scale_last(var, eps, weight, has_weight, bias, has_bias, scale)
    sums[:] = 0
    add_first(g, x, mean, bias, scale, sums, floor)
    hand_over(sums, total, along)


@compiled
def _back_last(g, x, mean, var, both, count, weight, has_weight, bias, has_bias, dx, eps, taken,
               scale, floor):  # fmt: skip
    scale_last(var, eps, weight, has_weight, bias, has_bias, scale)
    share(both, count, var, eps, taken)
    slopes_last(g, x, mean, bias, scale, taken, dx, floor)


@compiled
def _back_first(g, x, mean, var, both, count, weight, has_weight, bias, has_bias, dx, eps, taken,
                scale, floor):  # fmt: skip
    scale_last(var, eps, weight, has_weight, bias, has_bias, scale)
    share(both, count, var, eps, taken)
    slopes_first(g, x, mean, bias, scale, taken, dx, floor)


@compiled
def hand_over(sums, total, along):
    for k in range(total.shape[0]):
        total[k], along[k] = sums[0, k], sums[1, k]


@part
def share(both, count, var, eps, taken):
    """What is taken off a cotangent: its mean, and for each unit of x - mean."""
    c = var.shape[0]
    for k in range(c):
        r = 1 / np.sqrt(np.float64(var[k]) + eps)
        taken[0, k] = both[k] / count[0]
        taken[1, k] = both[c + k] * r * r / count[0]
