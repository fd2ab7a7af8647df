"""Groups of channels of images normalised on channels-last memory, where all are side by side.

Sums are those of each channel first: in x's dtype over some pixels, then in float64, then of the
channels of a group. So every pass goes through memory in order, and its vectors are channels. Three
passes over an image forward, some 5 flops and 8 bytes a float32, and two back, 12 bytes: the later
ones find images of up to a megabyte in cache.
"""

from ._jit import compiled, part

PIXELS = 64  # whose sum in x's dtype is one term of a sum in float64


@compiled
def forward(x, weight, bias, y, mean, r, some, whole, vectors, eps, center):
    """y (n, pixels, c), mean and r (n, groups) of x like y; in memory for sums of channels, `some`
    (2, c) in x's dtype and `whole` (2, c) in float64, and for `vectors` (2, c)."""
    groups, size = mean.shape[1], x.shape[2] // mean.shape[1]
    count, level, scale = max(1, x.shape[1] * size), vectors[0], vectors[1]
    for i in range(x.shape[0]):
        level[:] = 0
        if center:
            add_up(x[i], x[i], level, some, whole, False)
        for m in range(groups):
            mean[i, m] = whole[1, m * size : (m + 1) * size].sum() / count if center else 0
            level[m * size : (m + 1) * size] = mean[i, m]
        add_up(x[i], x[i], level, some, whole, True)
        for m in range(groups):
            square = whole[0, m * size : (m + 1) * size].sum() / count
            r[i, m] = 1 / (square + eps) ** 0.5
            for k in range(m * size, (m + 1) * size):
                scale[k] = r[i, m] * weight[k]
        for p in range(x.shape[1]):
            for k in range(x.shape[2]):
                y[i, p, k] = (x[i, p, k] - level[k]) * scale[k] + bias[k]


@compiled
def backward(g, x, mean, r, weight, dx, dweight, dbias, some, whole, totals, vectors, center):
    """The cotangents of x, weight and bias; `totals` (2, c) in float64, `vectors` (5, c)."""
    groups, size = mean.shape[1], x.shape[2] // mean.shape[1]
    count = max(1, x.shape[1] * size)
    level, scale, along, shift, gain = vectors[0], vectors[1], vectors[2], vectors[3], vectors[4]
    totals[:] = 0
    for i in range(x.shape[0]):
        for k in range(x.shape[2]):
            level[k], scale[k] = mean[i, k // size], r[i, k // size]
        add_up(g[i], x[i], level, some, whole, False)
        for m in range(groups):
            of_values = of_ones = 0.0
            for k in range(m * size, (m + 1) * size):
                whole[0, k] *= r[i, m]
                of_values += whole[0, k] * weight[k]
                of_ones += whole[1, k] * weight[k]
            for k in range(m * size, (m + 1) * size):
                along[k] = of_values / count * r[i, m] * r[i, m]
                shift[k] = of_ones / count * r[i, m] if center else 0
                gain[k] = weight[k] * r[i, m]
        for k in range(x.shape[2]):
            totals[0, k] += whole[0, k]
            totals[1, k] += whole[1, k]
        for p in range(x.shape[1]):
            for k in range(x.shape[2]):
                d = x[i, p, k] - level[k]
                dx[i, p, k] = g[i, p, k] * gain[k] - shift[k] - d * along[k]
    for k in range(x.shape[2]):
        dweight[k], dbias[k] = totals[0, k], totals[1, k]


@part
def add_up(g, x, level, some, whole, squares):
    """whole[0]: for each channel the sum over pixels of g (x - level), or of (x - level)^2, and in
    whole[1], but not with `squares`, that of g."""
    whole[:] = 0
    products, ones = some[0], some[1]
    for first in range(0, x.shape[0], PIXELS):
        some[:] = 0
        lines, others = x[first : first + PIXELS], g[first : first + PIXELS]
        for p in range(lines.shape[0]):
            if squares:
                for k in range(level.shape[0]):
                    d = lines[p, k] - level[k]
                    products[k] += d * d
            else:
                for k in range(level.shape[0]):
                    products[k] += others[p, k] * (lines[p, k] - level[k])
                    ones[k] += others[p, k]
        for k in range(level.shape[0]):
            whole[0, k] += products[k]
            whole[1, k] += ones[k]
