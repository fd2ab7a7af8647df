"""Groups of channels of rows normalised by their own statistics: layer, group and RMS norm."""

import math

import numpy as np

from . import _last_norm
from ._few import FEW, squares_of, sum_of
from ._jit import compiled, part, summing
from ._layout import channels_first, channels_last, lies_last, ready, served
from ._memory import empty

LANES, WIDE = 8, np.dtype(np.float64)
BLOCK = 64  # rows whose sum is one term of a weight's cotangent


def group_norm(x, weight=None, bias=None, *, groups, eps, center):
    """y = (x - mean) r weight + bias by groups of channels of each row, the mean and r.

    Three passes over a row, the later two in cache: about 5 flops and 8 bytes for each float32, at
    22 to 24 GB/s from memory (28 are what a core of Xeons copies).
    """
    if not served(x, weight, bias):
        return NotImplemented
    if _is_last(x):
        return _last(x, weight, bias, groups, eps, center)
    rows, shape = _groups(x, groups), (x.shape[0], groups)
    run = _row_norm if rows.ndim == 2 else _group_norm
    y, mean, r = empty(rows.shape, x.dtype), empty(shape, x.dtype), empty(shape, x.dtype)
    run(rows, *_vector(weight, x), *_vector(bias, x), y, mean, r, eps, center)
    return y if y.shape == x.shape else y.reshape(x.shape), mean, r


def group_norm_back(dy, x, mean, r, weight=None, *, center):
    """The cotangents of x, weight and bias, from what group_norm found.

    Two passes over a row, the second in cache: 12 bytes for each float32, at 22 to 26 GB/s.
    """
    if not served(dy, x, mean, r, weight):
        return NotImplemented
    if _is_last(x):
        return _last_back(dy, x, mean, r, weight, center)
    rows, shape = _groups(x, mean.shape[1]), (2, x.shape[1])
    run = _row_norm_back if rows.ndim == 2 else _group_norm_back
    dx, part = empty(rows.shape, x.dtype), empty(shape, x.dtype)
    dweight, dbias = empty(shape[1:], x.dtype), empty(shape[1:], x.dtype)
    run(_groups(dy, mean.shape[1]), rows, ready(mean), ready(r), *_vector(weight, x), dx, dweight,
        dbias, part, center)  # fmt: skip
    return dx if dx.shape == x.shape else dx.reshape(x.shape), dweight, dbias


def _is_last(x):
    """Whether the channels of x (n, c, ...) lie side by side, and fill some of a vector."""
    is_other = x.ndim > 2 and x.shape[1] >= LANES and not x.flags.c_contiguous
    return is_other and lies_last(x)


def _last(x, weight, bias, groups, eps, center):
    """`group_norm` there, on such memory again."""
    last, (n, c) = channels_last(x), x.shape[:2]
    lines, two = last.reshape(n, -1, c), empty((2, c), x.dtype)
    y, mean, r = (empty(shape, x.dtype) for shape in (last.shape, *[(n, groups)] * 2))
    _last_norm.forward(lines, _given(weight, x, 1), _given(bias, x, 0), y.reshape(lines.shape),
                       mean, r, two, empty((2, c), WIDE), empty((2, c), x.dtype), eps,
                       center)  # fmt: skip
    return channels_first(y), mean, r


def _last_back(dy, x, mean, r, weight, center):
    """`group_norm_back` there."""
    last, (n, c) = channels_last(x), x.shape[:2]
    lines, (some, whole) = last.reshape(n, -1, c), (empty((2, c), kind) for kind in (x.dtype, WIDE))
    dx, dweight, dbias = (empty(shape, x.dtype) for shape in (last.shape, c, c))
    _last_norm.backward(channels_last(dy).reshape(lines.shape), lines, ready(mean), ready(r),
                        _given(weight, x, 1), dx.reshape(lines.shape), dweight, dbias, some, whole,
                        empty((2, c), WIDE), empty((5, c), x.dtype), center)  # fmt: skip
    return channels_first(dx), dweight, dbias


def _given(vector, x, value):
    """A vector over channels, or one of a `value`."""
    if vector is not None:
        return ready(vector)
    made = empty(x.shape[1:2], x.dtype)
    made.fill(value)
    return made


def layer_norm(x, weight=None, bias=None, *, axes, eps, center):
    """The same of the last `axes` of x together, which weight and bias have."""
    if not served(x, weight, bias):
        return NotImplemented
    size = math.prod(x.shape[x.ndim - axes :])
    if axes > 1:
        weight, bias = (v if v is None else ready(v).reshape(size) for v in (weight, bias))
    rows = ready(x).reshape(math.prod(x.shape[: x.ndim - axes]), size)
    y, mean, r = group_norm(rows, weight, bias, groups=1, eps=eps, center=center)
    return y if y.shape == x.shape else y.reshape(x.shape), mean, r


def _groups(x, groups):
    """x (n, c, ...) as (rows and groups, channels of a group, places); x (n, c) in one group, the
    norm of layers, is left as it is."""
    if x.ndim == 2 and groups == 1:
        return ready(x)
    shape = len(x) * groups, x.shape[1] // groups, math.prod(x.shape[2:])
    return ready(x).reshape(shape)


def _vector(given, x):
    """(a vector over channels, or room for one, whether it was given)."""
    return (empty(x.shape[1:2], x.dtype), False) if given is None else (ready(given), True)


@compiled
def _row_norm(x, weight, has_weight, bias, has_bias, y, mean, r, eps, center):
    _neutral(weight, has_weight, 1)
    _neutral(bias, has_bias, 0)
    count = max(1, x.shape[1])
    for i in range(x.shape[0]):
        mean[i, 0] = _sum(x, i) / count if center else 0
        level = mean[i, 0]
        scale = x.dtype.type(1 / np.sqrt(_squares(x, i, level) / count + eps))
        r[i, 0] = scale
        for k in range(x.shape[1]):
            y[i, k] = (x[i, k] - level) * scale * weight[k] + bias[k]


@compiled
def _row_norm_back(g, x, mean, r, weight, has_weight, dx, dweight, dbias, part, center):
    _neutral(weight, has_weight, 1)
    _start(part, dweight, dbias)
    real, of_weight, of_bias = x.dtype.type, part[0], part[1]
    share = real(1 / max(1, x.shape[1]))
    for i in range(x.shape[0]):
        level, scale = mean[i, 0], r[i, 0]
        along, whole = _products(g, weight, x, i, level)
        along, whole = along * scale * share, whole * share if center else real(0)
        for k in range(x.shape[1]):
            v = (x[i, k] - level) * scale
            of_weight[k] += g[i, k] * v
            of_bias[k] += g[i, k]
            dx[i, k] = (g[i, k] * weight[k] - whole - v * along) * scale
        if i % BLOCK == BLOCK - 1:
            _flush(part, dweight, dbias)
    _flush(part, dweight, dbias)


@part
def _neutral(vector, given, value):
    if not given:
        vector[:] = value


@part
def _start(part, dweight, dbias):
    part[:] = 0
    dweight[:] = 0
    dbias[:] = 0


@part
def _flush(part, dweight, dbias):
    """Add what a block of rows gave to the cotangents of weight and bias."""
    for k in range(part.shape[1]):
        dweight[k] += part[0, k]
        dbias[k] += part[1, k]
    part[:] = 0


@part
def _sum(x, i):
    """The sum of a row: in float64, of some values at a time in x's dtype."""
    total = 0.0
    for first in range(0, x.shape[1], FEW):
        total += sum_of(x[i, first : first + FEW])
    return total


@part
def _squares(x, i, level):
    """The sum of the squares of a row less ``level``, likewise."""
    total = 0.0
    for first in range(0, x.shape[1], FEW):
        total += squares_of(x[i, first : first + FEW], level)
    return total


@summing
def _products(g, weight, x, i, level):
    """The sums of h (x - level) and of h = g weight in a row."""
    along = whole = x.dtype.type(0)
    for k in range(g.shape[1]):
        h = g[i, k] * weight[k]
        whole += h
        along += h * (x[i, k] - level)
    return along, whole


@compiled
def _group_norm(x, scales, has_weight, shifts, has_bias, y, mean, r, eps, center):
    groups, count = mean.shape[1], max(1, x.shape[1] * x.shape[2])
    _neutral(scales, has_weight, 1)
    _neutral(shifts, has_bias, 0)
    shape = groups, len(scales) // groups
    weight, bias = scales.reshape(shape), shifts.reshape(shape)
    for i in range(x.shape[0]):
        at, m = i // groups, i % groups
        row = x[i : i + 1].reshape(1, x.shape[1] * x.shape[2])
        mean[at, m] = _sum(row, 0) / count if center else 0
        level = mean[at, m]
        r[at, m] = 1 / np.sqrt(_squares(row, 0, level) / count + eps)
        for k in range(x.shape[1]):
            scale, shift = r[at, m] * weight[m, k], bias[m, k]
            for j in range(x.shape[2]):
                y[i, k, j] = (x[i, k, j] - level) * scale + shift


@compiled
def _group_norm_back(g, x, mean, r, scales, has_weight, dx, dweight, dbias, part, center):
    _start(part, dweight, dbias)
    groups, count, real = mean.shape[1], max(1, x.shape[1] * x.shape[2]), x.dtype.type
    _neutral(scales, has_weight, 1)
    weight = scales.reshape(groups, len(scales) // groups)
    sums = part.reshape(2, *weight.shape)
    for i in range(x.shape[0]):
        at, m = i // groups, i % groups
        level, scale, along, whole = mean[at, m], r[at, m], 0.0, 0.0
        for k in range(x.shape[1]):
            for j in range(x.shape[2]):
                dx[i, k, j] = (x[i, k, j] - level) * scale
            of_weight, of_bias = _channel(g, dx, i, k)
            sums[0, m, k] += of_weight
            sums[1, m, k] += of_bias
            along += weight[m, k] * of_weight
            whole += weight[m, k] * of_bias
        along, level = real(along / count), real(whole / count if center else 0)
        for k in range(x.shape[1]):
            for j in range(x.shape[2]):
                h = g[i, k, j] * weight[m, k]
                dx[i, k, j] = (h - level - dx[i, k, j] * along) * scale
        if i % (BLOCK * groups) == BLOCK * groups - 1:
            _flush(part, dweight, dbias)
    _flush(part, dweight, dbias)


@summing
def _channel(g, v, i, k):
    """The sums of g v and of g over the places of a channel, in float64."""
    along = total = 0.0
    for j in range(g.shape[2]):
        total += g[i, k, j]
        along += g[i, k, j] * v[i, k, j]
    return along, total
