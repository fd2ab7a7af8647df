"""The passes over memory of batch normalisation: what is done with each value, channel by channel.

"_last": channels lie side by side, x (rows, c); "_first": x (n, c, places). Each pass reads or
writes a value once, at 25 to 30 GB/s from memory, and costs 4 to 8 flops for each. Sums are in
float64, of some rows at a time in x's dtype where that is exact enough.

Large arrays are asked for beforehand (see `soon`): some 15 % less time, on a CPU with a slow third
cache. Others foresee what lies in order, or that of it which is read.
"""

import numba
import numpy as np

from ._few import FEW, squares_of, sum_of
from ._jit import compiled, part, summing
from ._machine_code import anyhow, fetch
from ._memory import LINE

COMPILED = not numba.config.DISABLE_JIT
FORESEEN, READS_FORESEEN = COMPILED and anyhow().foresees, COMPILED and anyhow().foresees_reads
NEAR = 1 << 20  # bytes of an array that may well be in the second cache
AHEAD = 2048  # bytes from what is read to what is asked for: half a page
PORTION = 4096  # bytes asked for at a time: the buffers of the caches hold no more
TOGETHER = 16  # rows whose cotangents are added in x's dtype, before their sum is in float64


@part
def _neutral(vector, given, value):
    if not given:
        vector[:] = value


@part
def is_large(x):
    """Whether an array is too large to be in the second cache, and can be asked for."""
    return COMPILED and x.size * x.itemsize > NEAR


@part
def is_far(x):
    """The same where rows are gone over one by one, which some CPUs foresee."""
    return is_large(x) and not FORESEEN


@part
def portion(x, is_far):
    """How many rows of x (rows, c) are done one by one: those asked for at a time, or all."""
    return max(1, PORTION // (x.shape[1] * x.itemsize) if is_far else x.shape[0])


@part
def soon(x, first, last):
    """Ask for as much of x (rows, c) as its rows first..last are, `AHEAD` bytes further on."""
    size = x.shape[1] * x.itemsize
    place = x.ctypes.data + first * size + AHEAD
    for at in range(0, (last - first) * size, LINE):
        fetch(place + at)


@compiled
def scale_last(var, eps, weight, has_weight, bias, has_bias, scale):
    """scale = weight / sqrt(var + eps); 1 and 0 for a weight and a bias that were not given."""
    _neutral(weight, has_weight, 1)
    _neutral(bias, has_bias, 0)
    for k in range(scale.shape[0]):
        scale[k] = weight[k] / np.sqrt(var[k] + eps)


@compiled
def affine_last(x, mean, scale, bias, y, floor):
    affine_part(x, mean, scale, bias, y, floor, is_far(x))


@part
def affine_part(x, mean, scale, bias, y, floor, is_far):
    """Some rows of an array that may be far."""
    step = portion(x, is_far)
    for first in range(0, x.shape[0], step):
        last = min(x.shape[0], first + step)
        if is_far:
            soon(x, first, last)
            soon(y, first, last)
        _affine_rows(x[first:last], mean, scale, bias, y[first:last], floor)


@part
def _affine_rows(x, mean, scale, bias, y, floor):
    zero = x.dtype.type(0)
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            value = (x[i, k] - mean[k]) * scale[k] + bias[k]
            y[i, k] = zero if value <= floor else value


@part
def moments_last(x, mean, var, sums):
    """Mean and variance of the columns of x, in one pass; both are also memory to work in.

    Sums are of what differs from the first row: so they lose a factor of x's rows at most. Those of
    a few rows are of what differs from the first of these, and in x's dtype."""
    count, first, far = x.shape[0], x[0], is_large(x) and not READS_FORESEEN
    sums[:] = 0
    for begin in range(0, count, TOGETHER):
        end = min(count, begin + TOGETHER)
        if far:
            soon(x, begin, end)
        _add_moments(x[begin:end], first, mean, var, sums)
    for k in range(x.shape[1]):
        d = sums[0, k] / count
        spread = sums[1, k] / count - d * d
        mean[k], var[k] = first[k] + d, 0.0 if spread < 0 else spread


@part
def _add_moments(x, level, total, squares, sums):
    """Add the sums over a few rows of x - level and of its square, four rows at a time."""
    total[:], squares[:] = 0, 0
    count, first, whole = x.shape[0], x[0], x.shape[0] // 4 * 4
    for i in range(0, whole, 4):
        for k in range(x.shape[1]):
            a, b = x[i, k] - first[k], x[i + 1, k] - first[k]
            c, d = x[i + 2, k] - first[k], x[i + 3, k] - first[k]
            total[k] += (a + b) + (c + d)
            squares[k] += (a * a + b * b) + (c * c + d * d)
    for i in range(whole, count):
        for k in range(x.shape[1]):
            a = x[i, k] - first[k]
            total[k] += a
            squares[k] += a * a
    for k in range(x.shape[1]):
        apart, along = np.float64(first[k]) - np.float64(level[k]), np.float64(total[k])
        sums[0, k] += along + count * apart
        sums[1, k] += squares[k] + apart * (2 * along + count * apart)


@part
def add_last(g, x, mean, shift, scale, total, along, sums, floor):
    """Add the sums of g and of g (x - mean) over rows that are not cut off, some rows at a time,
    for which `total` and `along` are memory to work in."""
    large = is_large(x)
    for first in range(0, x.shape[0], TOGETHER):
        last = min(x.shape[0], first + TOGETHER)
        _add_rows(g[first:last], x[first:last], mean, shift, scale, total, along, sums, floor,
                  large)  # fmt: skip


@part
def slopes_last(g, x, mean, shift, scale, taken, dx, floor):
    """The cotangents of x, from what is taken off them."""
    slopes_part(g, x, mean, shift, scale, taken, dx, floor, is_far(x))


@part
def slopes_part(g, x, mean, shift, scale, taken, dx, floor, is_far):
    """Some rows of an array that may be far."""
    step = portion(x, is_far)
    for first in range(0, x.shape[0], step):
        last = min(x.shape[0], first + step)
        if is_far:
            soon(x, first, last)
            soon(dx, first, last)
        _slope_rows(g[first:last], x[first:last], mean, shift, scale, taken, dx[first:last], floor)


@part
def _slope_rows(g, x, mean, shift, scale, taken, dx, floor):
    of_bias, of_weight, zero = taken[0], taken[1], x.dtype.type(0)
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            d = x[i, k] - mean[k]
            slope = zero if d * scale[k] + shift[k] <= floor else g[i, k]
            dx[i, k] = (slope - of_bias[k] - d * of_weight[k]) * scale[k]


@part
def _add_rows(g, x, mean, shift, scale, total, along, sums, floor, large):
    """Add the sums of g and of g (x - mean) over a few rows that are not cut off, four at a time:
    so sums are read and written a quarter as often. No CPU foresees eight rows."""
    total[:], along[:] = 0, 0
    whole = x.shape[0] // 4 * 4
    for i in range(0, whole, 4):
        if large:
            soon(g, i, i + 4)
            soon(x, i, i + 4)
        for k in range(x.shape[1]):
            a, b = x[i, k] - mean[k], x[i + 1, k] - mean[k]
            c, d = x[i + 2, k] - mean[k], x[i + 3, k] - mean[k]
            ga = _kept(g[i, k], a, scale[k], shift[k], floor)
            gb = _kept(g[i + 1, k], b, scale[k], shift[k], floor)
            gc = _kept(g[i + 2, k], c, scale[k], shift[k], floor)
            gd = _kept(g[i + 3, k], d, scale[k], shift[k], floor)
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
    for k in range(x.shape[1]):
        mean[k], var[k] = moments_of(x, k)


@part
def moments_of(x, k):
    """Mean and variance of a channel, in two passes, of which the second often is in cache."""
    count, total, squares = x.shape[0] * x.shape[2], 0.0, 0.0
    for i in range(x.shape[0]):
        for first in range(0, x.shape[2], FEW):
            total += sum_of(x[i, k, first : first + FEW])
    mean = x.dtype.type(total / count)
    for i in range(x.shape[0]):
        for first in range(0, x.shape[2], FEW):
            squares += squares_of(x[i, k, first : first + FEW], mean)
    return mean, squares / count


@part
def affine_first(x, mean, scale, bias, y, floor):
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            affine_of(x[i, k], mean[k], scale[k], bias[k], y[i, k], floor)


@part
def affine_of(x, mean, scale, bias, y, floor):
    """A channel's places in one image."""
    zero = x.dtype.type(0)
    for j in range(x.shape[0]):
        value = (x[j] - mean) * scale + bias
        y[j] = zero if value <= floor else value


@part
def add_first(g, x, mean, shift, scale, sums, floor):
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            add_of(g[i, k], x[i, k], mean[k], shift[k], scale[k], sums[:, k], floor)


@part
def add_of(g, x, mean, shift, scale, sums, floor):
    """Add a channel's sums over its places in one image, some at a time in x's dtype."""
    for first in range(0, x.shape[0], FEW):
        total, along = _both(g[first : first + FEW], x[first : first + FEW], mean, scale, shift,
                             floor)  # fmt: skip
        sums[0] += total
        sums[1] += along


@part
def slopes_first(g, x, mean, shift, scale, taken, dx, floor):
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            slopes_of(g[i, k], x[i, k], mean[k], shift[k], scale[k], taken[:, k], dx[i, k], floor)


@part
def slopes_of(g, x, mean, shift, scale, taken, dx, floor):
    """A channel's places in one image."""
    zero, level, along = x.dtype.type(0), taken[0], taken[1]
    for j in range(x.shape[0]):
        d = x[j] - mean
        slope = zero if d * scale + shift <= floor else g[j]
        dx[j] = (slope - level - d * along) * scale


@summing
def _both(g, x, mean, scale, shift, floor):
    """The sums of g and of g (x - mean) over places that are not cut off."""
    total = along = zero = x.dtype.type(0)
    for j in range(x.shape[0]):
        d = x[j] - mean
        slope = zero if d * scale + shift <= floor else g[j]
        total += slope
        along += slope * d
    return total, along
