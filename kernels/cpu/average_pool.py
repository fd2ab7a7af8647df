"""Average pooling over the channels of one output pixel: see `pool`, which arrays are.

It goes by vector functions (`_windows`), or tap by tap where there are none, and moves some 15 to
30 GB/s, which is what a core's memory gives: forward it reads x once, backward it writes dx once
where windows tile the image. A flop for each tap.
"""

from ._jit import compiled, part
from ._layout import channels_first, channels_last, served
from ._machine_code import host
from ._memory import empty
from ._nests import nest
from ._windows import window
from .pool import each_window, empty_images, tile, zero_images


def avg_pool2d(x, *, kernel, stride, padding, size, count_include_pad):
    """Mean of each window: x (n, c, h, w) to y (n, c, *size).

    The divisor is the number of taps in the padded image if `count_include_pad`, else in the
    image.
    """
    if not served(x):
        return NotImplemented
    images = channels_last(x)
    y, grid = empty_images(images, size, x.dtype), (*kernel, *stride, *padding)
    if host() and y.size:
        function = window(host(), x.dtype, x.dtype, "mean")
        _each_average(function, True, images, y, *grid, 1 + count_include_pad)
    else:
        _average(images, y, *grid, bool(count_include_pad))
    return channels_first(y)


@nest
def _each_average(function, is_mean, images, values, kh, kw, sh, sw, ph, pw, counted):
    """`each_window` without an index: of a mean, 0 where there are no values."""
    each_window(function, is_mean, images, values, values, 0.0, 0, kh, kw, sh, sw, ph, pw, 1, 1, 0,
                counted)  # fmt: skip


@part
def _span(start, length, size, pad):
    """A window along one axis: first place, last + 1, and its length in the padded image."""
    return max(start, 0), min(start + length, size), min(start + length, size + pad) - start


@compiled
def _average(x, y, kh, kw, sh, sw, ph, pw, with_padding):
    h, w, (count, o, p, c) = x.shape[1], x.shape[2], y.shape
    for pixel in range(count * o * p):
        n, i, j = pixel // (o * p), pixel // p % o, pixel % p
        top, bottom, height = _span(i * sh - ph, kh, h, ph)
        left, right, width = _span(j * sw - pw, kw, w, pw)
        target = y[n, i, j]
        for k in range(c):
            target[k] = 0
        for row in range(top, bottom):
            for column in range(left, right):
                values = x[n, row, column]
                for k in range(c):
                    target[k] += values[k]
        area = height * width if with_padding else (bottom - top) * (right - left)
        divisor = y.dtype.type(max(area, 1))
        for k in range(c):
            target[k] /= divisor


def avg_pool2d_input(g, *, shape, kernel, stride, padding, count_include_pad):
    """Adjoint of `avg_pool2d`: spreads g (n, c, o, p) over windows of zeros of logical `shape`."""
    if not served(g):
        return NotImplemented
    (n, c, *image), cotangents = shape, channels_last(g)
    grid, counted = (*kernel, *stride, *padding), 1 + count_include_pad
    if not host() or not g.size:
        dx = zero_images(shape, g.dtype)
        _spread(cotangents, dx, *grid, bool(count_include_pad))
    elif tile(g, image, *grid):
        dx = empty((n, *image, c), g.dtype)
        function = window(host(), g.dtype, g.dtype, "spread")
        _each_average(function, False, dx, cotangents, *grid, counted)
    else:
        dx = zero_images(shape, g.dtype)
        function = window(host(), g.dtype, g.dtype, "shared")
        _each_average(function, False, dx, cotangents, *grid, counted)
    return channels_first(dx)


@compiled
def _spread(g, dx, kh, kw, sh, sw, ph, pw, with_padding):
    h, w, (count, o, p, c) = dx.shape[1], dx.shape[2], g.shape
    for pixel in range(count * o * p):
        n, i, j = pixel // (o * p), pixel // p % o, pixel % p
        top, bottom, height = _span(i * sh - ph, kh, h, ph)
        left, right, width = _span(j * sw - pw, kw, w, pw)
        area = height * width if with_padding else (bottom - top) * (right - left)
        divisor, values = g.dtype.type(max(area, 1)), g[n, i, j]
        for row in range(top, bottom):
            for column in range(left, right):
                target = dx[n, row, column]
                for k in range(c):
                    target[k] += values[k] / divisor
