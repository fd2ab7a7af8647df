"""Two-dimensional pooling, over the channels of one output pixel: tap by tap, or four at a time.

Arrays are logical (n, c, h, w) on channels-last memory; other memory is copied once. Results have
channels-last memory. A window's taps are numbered a * kw + b; those outside the image count for
nothing.
"""

import numpy as np

from ._jit import compiled, part
from ._layout import channels_first, channels_last, served
from ._memory import empty, zeros


def _empty_images(images, size, dtype):
    return empty((len(images), *size, images.shape[3]), dtype)


def _zero_images(shape, dtype):
    n, c, h, w = shape
    return zeros((n, h, w, c), dtype)


def max_pool2d(x, *, kernel, stride, padding, dilation, size):
    """Largest value of each window and its tap: x (n, c, h, w) to y, index (n, c, *size).

    The first of equal values is chosen; the last NaN, if any, beats all. A window that lies
    outside the image gives -inf and tap 0. index is uint8 for at most 256 taps, else int32.
    """
    if not served(x):
        return NotImplemented
    images = channels_last(x)
    y = _empty_images(images, size, x.dtype)
    index = _empty_images(images, size, np.uint8 if kernel[0] * kernel[1] <= 256 else np.int32)
    _max(images, y, index, *kernel, *stride, *padding, *dilation)
    return channels_first(y), channels_first(index)


@compiled
def _max(x, y, index, kh, kw, sh, sw, ph, pw, dh, dw):
    count, o, p, _ = y.shape
    for pixel in range(count * o * p):
        n, i, j = pixel // (o * p), pixel // p % o, pixel % p
        top, left, best, chosen = i * sh - ph, j * sw - pw, y[n, i, j], index[n, i, j]
        if kh == kw == 2 and _holds(x[n], top, left, dh, dw):
            above, below = x[n, top], x[n, top + dh]
            _max_of_four(above[left], above[left + dw], below[left], below[left + dw], best, chosen)
        else:
            _max_window(x[n], best, chosen, top, left, kh, kw, dh, dw)


@part
def _holds(image, top, left, down, right):
    """Whether both corners of a window lie in the image."""
    is_high = top >= 0 and top + down < image.shape[0]
    return is_high and left >= 0 and left + right < image.shape[1]


@part
def _max_of_four(a, b, c, d, best, chosen):
    """A later value wins if it is larger, or NaN."""
    for k in range(best.shape[0]):
        value, tap, others = a[k], np.uint8(0), (b[k], c[k], d[k])
        wins = (others[0] > value) | (others[0] != others[0])
        value, tap = others[0] if wins else value, np.uint8(1) if wins else tap
        wins = (others[1] > value) | (others[1] != others[1])
        value, tap = others[1] if wins else value, np.uint8(2) if wins else tap
        wins = (others[2] > value) | (others[2] != others[2])
        best[k], chosen[k] = others[2] if wins else value, np.uint8(3) if wins else tap


@part
def _max_window(image, best, chosen, top, left, kh, kw, dh, dw):
    best[:] = -np.inf
    chosen[:] = 0
    found = False
    for a in range(kh):
        for b in range(kw):
            row, column = top + a * dh, left + b * dw
            if 0 <= row < image.shape[0] and 0 <= column < image.shape[1]:
                tap = chosen.dtype.type(a * kw + b)
                _keep_larger(image[row, column], best, chosen, tap, not found)
                found = True


@part
def _keep_larger(values, best, chosen, tap, is_first):
    for k in range(values.shape[0]):
        value, old, place = values[k], best[k], chosen[k]
        wins = is_first | (value > old) | (value != value)
        best[k] = value if wins else old
        chosen[k] = tap if wins else place


def max_pool2d_input(g, index, *, shape, kernel, stride, padding, dilation):
    """Adjoint of choosing: adds g (n, c, o, p) at the chosen taps of zeros of `shape`."""
    if not served(g):
        return NotImplemented
    n, c, *image = shape
    cotangents, chosen = channels_last(g), channels_last(index)
    grid = *kernel, *stride, *padding, *dilation
    tiling = *kernel, *kernel, 0, 0, 1, 1
    if grid == tiling and image == [g.shape[2] * kernel[0], g.shape[3] * kernel[1]]:
        dx = empty((n, *image, c), g.dtype)
        bits = np.int32 if g.itemsize == 4 else np.int64
        _place_chosen(cotangents.view(bits), chosen, dx.view(bits), *kernel)
    else:
        dx = zeros((n, *image, c), g.dtype)
        _add_chosen(cotangents, chosen, dx, *grid)
    return channels_first(dx)


@compiled
def _place_chosen(g, index, dx, kh, kw):
    """The same on the bits of floats, for windows that tile the image: places written once."""
    count, o, p, _ = g.shape
    for pixel in range(count * o * p):
        n, i, j = pixel // (o * p), pixel // p % o, pixel % p
        for tap in range(kh * kw):
            target = dx[n, i * kh + tap // kw, j * kw + tap % kw]
            _place(g[n, i, j], index[n, i, j], target, index.dtype.type(tap))


@part
def _place(values, chosen, target, tap):
    for k in range(values.shape[0]):
        target[k] = values[k] & -values.dtype.type(chosen[k] == tap)  # a mask: no guessed branch


@compiled
def _add_chosen(g, index, dx, kh, kw, sh, sw, ph, pw, dh, dw):
    h, w, (count, o, p, c) = dx.shape[1], dx.shape[2], g.shape
    zero = g.dtype.type(0)
    for pixel in range(count * o * p):
        n, i, j = pixel // (o * p), pixel // p % o, pixel % p
        values, chosen = g[n, i, j], index[n, i, j]
        for a in range(kh):
            for b in range(kw):
                row, column = i * sh - ph + a * dh, j * sw - pw + b * dw
                if 0 <= row < h and 0 <= column < w:
                    target, tap = dx[n, row, column], index.dtype.type(a * kw + b)
                    for k in range(c):
                        target[k] += values[k] if chosen[k] == tap else zero


def max_pool2d_gather(h, index, *, kernel, stride, padding, dilation):
    """The values of h (n, c, h, w) at the chosen taps: the adjoint of `max_pool2d_input`."""
    if not served(h):
        return NotImplemented
    images, chosen = channels_last(h), channels_last(index)
    y = zeros(chosen.shape, h.dtype)
    _gather_chosen(images, chosen, y, *kernel, *stride, *padding, *dilation)
    return channels_first(y)


@compiled
def _gather_chosen(x, index, y, kh, kw, sh, sw, ph, pw, dh, dw):
    h, w, (count, o, p, c) = x.shape[1], x.shape[2], y.shape
    for pixel in range(count * o * p):
        n, i, j = pixel // (o * p), pixel // p % o, pixel % p
        target, chosen = y[n, i, j], index[n, i, j]
        for a in range(kh):
            for b in range(kw):
                row, column = i * sh - ph + a * dh, j * sw - pw + b * dw
                if 0 <= row < h and 0 <= column < w:
                    values, tap = x[n, row, column], index.dtype.type(a * kw + b)
                    for k in range(c):
                        value, old = values[k], target[k]
                        target[k] = value if chosen[k] == tap else old


def avg_pool2d(x, *, kernel, stride, padding, size, count_include_pad):
    """Mean of each window: x (n, c, h, w) to y (n, c, *size).

    The divisor is the number of taps in the padded image if `count_include_pad`, else in the
    image.
    """
    if not served(x):
        return NotImplemented
    images = channels_last(x)
    y = _empty_images(images, size, x.dtype)
    _average(images, y, *kernel, *stride, *padding, bool(count_include_pad))
    return channels_first(y)


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
    dx = _zero_images(shape, g.dtype)
    _spread(channels_last(g), dx, *kernel, *stride, *padding, bool(count_include_pad))
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
