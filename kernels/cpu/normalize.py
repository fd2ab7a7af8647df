"""Groups of channels of rows normalised by their own statistics: layer, group and RMS norm."""

import math

import numpy as np

from ._jit import compiled, part, summing
from ._layout import ready, served
from ._memory import empty

BLOCK = 64  # rows whose sum is one term of a weight's cotangent


def group_norm(x, weight=None, bias=None, *, groups, eps, center):
    """y = (x - mean) r weight + bias by groups of channels of each row, the mean and r.

    Three passes over a row, the later two in cache: about 5 flops and 8 bytes for each float32.
    """
    if not served(x, weight, bias):
        return NotImplemented
    run = _group_norm if _places(x) > 1 else _row_norm
    scale, shift = (_per_channel(v, x, groups) for v in (weight, bias))
    rows = _groups(x, groups)
    y, mean, r = empty(x.shape, x.dtype), *(empty((len(x), groups), x.dtype) for _ in range(2))
    run(rows, *scale, *shift, y.reshape(rows.shape), mean, r, eps, center)
    return y, mean, r


def group_norm_back(dy, x, mean, r, weight=None, *, center):
    """The cotangents of x, weight and bias, from what group_norm found."""
    if not served(dy, x, mean, r, weight):
        return NotImplemented
    groups, run = mean.shape[1], _group_norm_back if _places(x) > 1 else _row_norm_back
    rows, scale = _groups(x, groups), _per_channel(weight, x, groups)
    dx = empty(x.shape, x.dtype)
    total, part = (empty((2, *scale[0].shape), x.dtype) for _ in range(2))
    run(_groups(dy, groups), rows, ready(mean), ready(r), *scale, dx.reshape(rows.shape), total,
        part, center)  # fmt: skip
    dweight, dbias = total.reshape(2, x.shape[1])
    return dx, dweight, dbias


def _places(x):
    return math.prod(x.shape[2:]) if x.ndim > 2 else 1


def _groups(x, groups):
    """x (n, c, ...) as (rows and groups, channels of a group, places), without places if one."""
    if x.ndim == 2 and groups == 1:
        return ready(x)
    shape = len(x) * groups, x.shape[1] // groups, _places(x)
    return ready(x).reshape(shape if shape[2] > 1 else (shape[0], shape[1] * shape[2]))


def _per_channel(vector, x, groups):
    """(a vector over channels as (groups, channels of a group), whether it was given)."""
    shape, given = (groups, x.shape[1] // groups), vector is not None
    return ready(vector).reshape(shape) if given else empty(shape, x.dtype), given


@compiled
def _row_norm(x, weight, has_weight, bias, has_bias, y, mean, r, eps, center):
    _neutral(weight, has_weight, 1)
    _neutral(bias, has_bias, 0)
    count, groups = max(1, x.shape[1]), mean.shape[1]
    for i in range(x.shape[0]):
        at, m = i // groups, i % groups
        mean[at, m] = _sum(x, i) / count if center else 0
        level = mean[at, m]
        scale = x.dtype.type(1 / np.sqrt(_squares(x, i, level) / count + eps))
        r[at, m] = scale
        for k in range(x.shape[1]):
            y[i, k] = (x[i, k] - level) * scale * weight[m, k] + bias[m, k]


@compiled
def _row_norm_back(g, x, mean, r, weight, has_weight, dx, total, part, center):
    _neutral(weight, has_weight, 1)
    total[:] = 0
    part[:] = 0
    count, groups, real = x.dtype.type(max(1, x.shape[1])), mean.shape[1], x.dtype.type
    of_weight, of_bias = part[0], part[1]
    for i in range(x.shape[0]):
        at, m = i // groups, i % groups
        level, scale = mean[at, m], r[at, m]
        for k in range(x.shape[1]):
            of_weight[m, k] += g[i, k] * ((x[i, k] - level) * scale)
            of_bias[m, k] += g[i, k]
        along, whole = _products(g, weight, x, i, m, level)
        along, whole = along * scale * scale / count, whole / count if center else real(0)
        for k in range(x.shape[1]):
            h = g[i, k] * weight[m, k]
            dx[i, k] = (h - whole - (x[i, k] - level) * along) * scale
        if i % (BLOCK * groups) == BLOCK * groups - 1:
            _flush(part, total)
    _flush(part, total)


@part
def _neutral(vectors, given, value):
    if not given:
        vectors[:] = value


@part
def _flush(part, total):
    for m in range(part.shape[1]):
        for k in range(part.shape[2]):
            for of in range(2):
                total[of, m, k] += part[of, m, k]
                part[of, m, k] = 0


@summing
def _sum(x, i):
    """The sum of a row, in float64."""
    total = 0.0
    for k in range(x.shape[1]):
        total += x[i, k]
    return total


@summing
def _squares(x, i, level):
    """The sum of the squares of a row less ``level``, in float64."""
    total = 0.0
    for k in range(x.shape[1]):
        d = x[i, k] - level
        total += d * d
    return total


@summing
def _products(g, weight, x, i, m, level):
    """The sums of h (x - level) and of h = g weight in a row."""
    along = whole = x.dtype.type(0)
    for k in range(g.shape[1]):
        h = g[i, k] * weight[m, k]
        whole += h
        along += h * (x[i, k] - level)
    return along, whole


@compiled
def _group_norm(x, weight, has_weight, bias, has_bias, y, mean, r, eps, center):
    _neutral(weight, has_weight, 1)
    _neutral(bias, has_bias, 0)
    groups, count = mean.shape[1], x.shape[1] * x.shape[2]
    for i in range(x.shape[0]):
        at, m = i // groups, i % groups
        row = x[i : i + 1].reshape(1, count)
        mean[at, m] = _sum(row, 0) / count if center else 0
        level = mean[at, m]
        r[at, m] = 1 / np.sqrt(_squares(row, 0, level) / count + eps)
        for k in range(x.shape[1]):
            scale, shift = r[at, m] * weight[m, k], bias[m, k]
            for j in range(x.shape[2]):
                y[i, k, j] = (x[i, k, j] - level) * scale + shift


@compiled
def _group_norm_back(g, x, mean, r, weight, has_weight, dx, total, part, center):
    _neutral(weight, has_weight, 1)
    total[:] = 0
    part[:] = 0
    groups, count, real = mean.shape[1], x.shape[1] * x.shape[2], x.dtype.type
    for i in range(x.shape[0]):
        at, m = i // groups, i % groups
        level, scale, along, whole = mean[at, m], r[at, m], 0.0, 0.0
        for k in range(x.shape[1]):
            for j in range(x.shape[2]):
                dx[i, k, j] = (x[i, k, j] - level) * scale
            of_weight, of_bias = _channel(g, dx, i, k)
            part[0, m, k] += of_weight
            part[1, m, k] += of_bias
            along += weight[m, k] * of_weight
            whole += weight[m, k] * of_bias
        along, level = real(along / count), real(whole / count if center else 0)
        for k in range(x.shape[1]):
            for j in range(x.shape[2]):
                h = g[i, k, j] * weight[m, k]
                dx[i, k, j] = (h - level - dx[i, k, j] * along) * scale
        if i % (BLOCK * groups) == BLOCK * groups - 1:
            _flush(part, total)
    _flush(part, total)


@summing
def _channel(g, v, i, k):
    """The sums of g v and of g over the places of a channel, in float64."""
    along = total = 0.0
    for j in range(g.shape[2]):
        total += g[i, k, j]
        along += g[i, k, j] * v[i, k, j]
    return along, total
