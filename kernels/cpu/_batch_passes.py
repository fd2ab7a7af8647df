"""The passes over memory of batch normalisation: what is done with each value, channel by channel.

"_last": channels lie side by side, x (rows, c); "_first": x (n, c, places). Each pass reads or
writes a value once, at 25 to 30 GB/s from memory, and costs 4 to 8 flops for each. Sums are in
float64, of some rows at a time in x's dtype where that is exact enough.
"""

import numpy as np

from ._jit import compiled, part, summing

TOGETHER = 16  # rows whose cotangents are added in x's dtype, before their sum is in float64


@part
def _neutral(vector, given, value):
    if not given:
        vector[:] = value


@compiled
def scale_last(var, eps, weight, has_weight, bias, has_bias, scale):
    """scale = weight / sqrt(var + eps); 1 and 0 for a weight and a bias that were not given."""
    _neutral(weight, has_weight, 1)
    _neutral(bias, has_bias, 0)
    for k in range(scale.shape[0]):
        scale[k] = weight[k] / np.sqrt(var[k] + eps)


@compiled
def affine_last(x, mean, scale, bias, y, floor):
    zero = x.dtype.type(0)
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            value = (x[i, k] - mean[k]) * scale[k] + bias[k]
            y[i, k] = zero if value <= floor else value


@part
def moments_last(x, mean, var, sums):
    """Mean and variance of the columns of x, in one pass, four rows at a time.

    Sums are of what differs from the first row: so they lose a factor of x's rows at most.
    """
    count, first, total, squares = x.shape[0], x[0], sums[0], sums[1]
    sums[:] = 0
    whole = count // 4 * 4
    for i in range(0, whole, 4):
        for k in range(x.shape[1]):
            level = np.float64(first[k])
            a, b = np.float64(x[i, k]) - level, np.float64(x[i + 1, k]) - level
            c, d = np.float64(x[i + 2, k]) - level, np.float64(x[i + 3, k]) - level
            total[k] += (a + b) + (c + d)
            squares[k] += (a * a + b * b) + (c * c + d * d)
    for i in range(whole, count):
        for k in range(x.shape[1]):
            a = np.float64(x[i, k]) - np.float64(first[k])
            total[k] += a
            squares[k] += a * a
    for k in range(x.shape[1]):
        d = total[k] / count
        spread = squares[k] / count - d * d
        mean[k], var[k] = first[k] + d, 0.0 if spread < 0 else spread


@part
def add_last(g, x, mean, shift, scale, total, along, sums, floor):
    """Add the sums of g and of g (x - mean) over rows that are not cut off, some rows at a time,
    for which `total` and `along` are memory to work in."""
    for first in range(0, x.shape[0], TOGETHER):
        last = min(x.shape[0], first + TOGETHER)
        _add_rows(g[first:last], x[first:last], mean, shift, scale, total, along, sums, floor)


@part
def slopes_last(g, x, mean, shift, scale, taken, dx, floor):
    """The cotangents of x, from what is taken off them."""
    of_bias, of_weight, zero = taken[0], taken[1], x.dtype.type(0)
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            d = x[i, k] - mean[k]
            slope = zero if d * scale[k] + shift[k] <= floor else g[i, k]
            dx[i, k] = (slope - of_bias[k] - d * of_weight[k]) * scale[k]


@part
def _add_rows(g, x, mean, shift, scale, total, along, sums, floor):
    """Add the sums of g and of g (x - mean) over a few rows that are not cut off, four at a time:
    so sums are read and written a quarter as often."""
    total[:], along[:] = 0, 0
    whole = x.shape[0] // 4 * 4
    for i in range(0, whole, 4):
        for k in range(x.shape[1]):
            a, b = x[i, k] - mean[k], x[i + 1, k] - mean[k]
            c, d = x[i + 2, k] - mean[k], x[i + 3, k] - mean[k]
            ga, gb = _kept(g[i, k], a, scale[k], shift[k], floor), _kept(
                g[i + 1, k], b, scale[k], shift[k], floor)  # fmt: skip
            gc, gd = _kept(g[i + 2, k], c, scale[k], shift[k], floor), _kept(
                g[i + 3, k], d, scale[k], shift[k], floor)  # fmt: skip
            total[k] += (ga + gb) + (gc + gd)
            along[k] += (ga * a + gb * b) + (gc * c + gd * d)
    for i in range(whole, x.shape[0]):
        for k in range(x.shape[1]):
            a = x[i, k] - mean[k]
            ga = _kept(g[i, k], a, scale[k], shift[k], floor)
            total[k] += ga
            along[k] += ga * a
    for k in range(x.shape[1]):
        sums[0, k] += total[k]
        sums[1, k] += along[k]


@part
def _kept(g, d, scale, shift, floor):
    """A cotangent, or 0 where the value was cut off."""
    return type(g)(0) if d * scale + shift <= floor else g


@part
def finish(sums, count, var, eps, dweight, dbias, taken):
    """The cotangents of weight and bias, and what is taken from that of x."""
    for k in range(var.shape[0]):
        r = 1 / np.sqrt(var[k] + eps)
        dbias[k], dweight[k] = sums[0, k], sums[1, k] * r
        taken[0, k], taken[1, k] = sums[0, k] / count, sums[1, k] * r * r / count


@part
def moments_first(x, mean, var):
    """Mean and variance of each channel, in two passes."""
    count = x.shape[0] * x.shape[2]
    for k in range(x.shape[1]):
        total = squares = 0.0
        for i in range(x.shape[0]):
            total += _sum(x, i, k)
        mean[k] = total / count
        for i in range(x.shape[0]):
            squares += _squares(x, i, k, mean[k])
        var[k] = squares / count


@part
def affine_first(x, mean, scale, bias, y, floor):
    zero = x.dtype.type(0)
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            level, factor, lift = mean[k], scale[k], bias[k]
            for j in range(x.shape[2]):
                value = (x[i, k, j] - level) * factor + lift
                y[i, k, j] = zero if value <= floor else value


@part
def add_first(g, x, mean, shift, scale, sums, floor):
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            total, along = _both(g, x, i, k, mean[k], scale[k], shift[k], floor)
            sums[0, k] += total
            sums[1, k] += along


@part
def slopes_first(g, x, mean, shift, scale, taken, dx, floor):
    zero = x.dtype.type(0)
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            level, along = taken[0, k], taken[1, k]
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
