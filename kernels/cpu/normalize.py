"""Batch normalisation with given statistics, on channels-last memory; rows by their own."""

import math

import numpy as np

from ._jit import compiled, part
from ._layout import channels_first, ready, served
from ._memory import empty


def batch_norm(x, mean, var, weight=None, bias=None, eps=1e-5):
    """y = (x - mean) / sqrt(var + eps) * weight + bias per channel (axis 1) of x (n, c, ...).

    mean, var, weight and bias are (c); weight and bias may be None. Declines memory that is not
    channels-last: there NumPy's broadcasting has long rows already.
    """
    vectors = [v for v in (mean, var, weight, bias) if v is not None]
    if not served(x, *vectors) or x.ndim < 2 or any(v.shape != x.shape[1:2] for v in vectors):
        return NotImplemented
    last = x.transpose(0, *range(2, x.ndim), 1)
    if not last.flags.c_contiguous:
        return NotImplemented
    scale = 1 / np.sqrt(var + x.dtype.type(eps))
    scale = scale if weight is None else scale * weight
    shift = np.zeros_like(scale) if bias is None else bias
    y = empty(last.shape, x.dtype)
    shape = x.size // max(1, x.shape[1]), x.shape[1]
    _normalize(
        ready(last).reshape(shape), ready(mean), ready(scale), ready(shift), y.reshape(shape)
    )
    return channels_first(y)


@compiled
def _normalize(x, mean, scale, shift, y):
    for i in range(x.shape[0]):
        source, target = x[i], y[i]
        for k in range(x.shape[1]):
            target[k] = (source[k] - mean[k]) * scale[k] + shift[k]


def standardize(x, *, dim, eps, center=True):
    """(x - mean) / sqrt(var + eps) over the last axes, `dim`; declines other axes."""
    if not served(x) or not _are_last(dim, x.ndim):
        return NotImplemented
    rows = _rows(x, dim)
    y = np.empty_like(rows)
    _standardize(rows, y, eps, center)
    return y.reshape(x.shape)


def standardize_input(dy, x, *, dim, eps, center=True):
    """r (dy - mean(dy) - y mean(dy y)) with r = 1 / sqrt(var + eps), along the last axes."""
    if not served(dy, x) or dy.shape != x.shape or not _are_last(dim, x.ndim):
        return NotImplemented
    rows = _rows(x, dim)
    dx = np.empty_like(rows)
    _standardize_input(_rows(dy, dim), rows, dx, eps, center)
    return dx.reshape(x.shape)


def _are_last(dim, ndim):
    return tuple(dim) == tuple(range(ndim - len(dim), ndim))


def _rows(x, dim):
    """x as a contiguous matrix whose rows are normalised."""
    size = math.prod(x.shape[x.ndim - len(dim) :])
    return ready(x).reshape(x.size // max(1, size), size)


@compiled
def _standardize(x, y, eps, center):
    for i in range(x.shape[0]):
        r = _row(x[i], y[i], eps, center)
        for k in range(x.shape[1]):
            y[i, k] *= r


@part
def _row(x, y, eps, center):
    """Writes x less its mean to y, and gives 1 / sqrt(var + eps)."""
    count = x.shape[0]
    mean = x.dtype.type(_sum(x) / count if center else 0.0)
    for k in range(count):
        y[k] = x[k] - mean
    return x.dtype.type(1 / np.sqrt(_dot(y, y) / count + eps))


@compiled
def _standardize_input(g, x, dx, eps, center):
    count = x.shape[1]
    for i in range(x.shape[0]):
        cotangent, out = g[i], dx[i]
        r = _row(x[i], out, eps, center)
        mean = g.dtype.type(_sum(cotangent) / count if center else 0.0)
        along = g.dtype.type(_dot(cotangent, out) / count) * r * r
        for k in range(count):
            out[k] = (cotangent[k] - mean - out[k] * along) * r


@part
def _sum(x):
    """The sum in float64, of four lanes: one waits for each addition."""
    a = b = c = d = 0.0
    whole = x.shape[0] // 4 * 4
    for k in range(0, whole, 4):
        a, b, c, d = a + x[k], b + x[k + 1], c + x[k + 2], d + x[k + 3]
    for k in range(whole, x.shape[0]):
        a += x[k]
    return (a + b) + (c + d)


@part
def _dot(x, y):
    """The sum of products in float64, of four lanes."""
    a = b = c = d = 0.0
    whole = x.shape[0] // 4 * 4
    for k in range(0, whole, 4):
        a, b = a + x[k] * y[k], b + x[k + 1] * y[k + 1]
        c, d = c + x[k + 2] * y[k + 2], d + x[k + 3] * y[k + 3]
    for k in range(whole, x.shape[0]):
        a += x[k] * y[k]
    return (a + b) + (c + d)
