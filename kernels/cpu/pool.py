"""Two-dimensional max pooling over the channels of one output pixel.

It goes by vector functions (`_windows`), or tap by tap where there are none, reads x once and
writes y and a byte per value; its adjoint writes dx once where windows tile the image. Both move
some 15 to 30 GB/s, which is what a core's memory gives.

Arrays are logical (n, c, h, w) on channels-last memory; other memory is copied once. Results have
channels-last memory. A window's taps are numbered a * kw + b; those outside the image count for
nothing.
"""

import numpy as np

from ._jit import compiled, part
from ._layout import channels_first, channels_last, served
from ._machine_code import call, host
from ._memory import empty
from ._nests import nest
from ._windows import NONE, window


def empty_images(images, size, dtype):
    return empty((len(images), *size, images.shape[3]), dtype)


@nest
def clear(x):
    x[:] = 0


def zero_images(shape, dtype):
    n, c, h, w = shape
    images = empty((n, h, w, c), dtype)
    clear(images.reshape(-1))
    return images


def max_pool2d(x, *, kernel, stride, padding, dilation, size):
    """Largest value of each window and its tap: x (n, c, h, w) to y, index (n, c, *size).

    The first of equal values is chosen; the last NaN, if any, beats all. A window that lies
    outside the image gives -inf and tap 0. index is uint8 for at most 256 taps, else int32.
    """
    index = np.uint8 if kernel[0] * kernel[1] <= 256 else np.int32
    return _chosen(x, (*kernel, *stride, *padding, *dilation), size, index, "largest")


def max_pool2d_relu(x, *, kernel, stride, padding, dilation, size):
    """The same of what is positive: elsewhere 0, and a tap that no window has (-1 as index's type),
    so that nothing goes back. index is uint8 for at most 255 taps."""
    index = np.uint8 if kernel[0] * kernel[1] <= 255 else np.int32
    return _chosen(x, (*kernel, *stride, *padding, *dilation), size, index, "positive")


def _chosen(x, grid, size, dtype, kind):
    if not served(x):
        return NotImplemented
    images = channels_last(x)
    y, index = empty_images(images, size, x.dtype), empty_images(images, size, dtype)
    lowest, none = (0.0, NONE) if kind == "positive" else (-np.inf, 0)
    if host() and y.size:
        function = window(host(), x.dtype, index.dtype, kind)
        each_window(function, True, images, y, index, lowest, none, *grid, 0, 0)
    else:
        _max(images, y, index, *grid)
        if kind == "positive":
            _rectify(y.reshape(-1), index.reshape(-1), np.array(NONE).astype(dtype)[()])
    return channels_first(y), channels_first(index)


@compiled
def _rectify(y, index, none):
    """0 and no tap where y is not positive."""
    for k in range(y.shape[0]):
        if y[k] <= 0:
            y[k], index[k] = 0, none


@part
def _taps(start, kernel, dilation, size):
    """The first tap of a window that lies in the image along one axis, and the last + 1."""
    first = max(0, (dilation - 1 - start) // dilation)
    return first, max(first, min(kernel, (size - start + dilation - 1) // dilation))


@nest
def each_window(function, is_choice, images, values, index, lowest, none, kh, kw, sh, sw, ph, pw,
                dh, dw, extra, counted):  # fmt: skip
    """Call a function of `_windows` for each row of windows: whole windows at once, edges alone. It
    is given `extra`; or, if these are `counted`, how many places of the image (1), or of the image
    and its padding (2), a window has."""
    (_, h, w, c), (count, o, p, _) = images.shape, values.shape
    item, small = images.itemsize, index.itemsize
    inside, end = min(p, (pw + sw - 1) // sw), max(0, (w - (kw - 1) * dw - 1 + pw) // sw + 1)
    for line in range(count * o):
        n, i = line // o, line % o
        top, pixel = i * sh - ph, 0
        first, last = _taps(top, kh, dh, h)
        while pixel < p:
            left = pixel * sw - pw
            begin, stop = _taps(left, kw, dw, w)
            many = min(p, end) - pixel if inside <= pixel < end else 1
            number = (last - first) * (stop - begin)
            if counted == 2:
                number = (min(top + kh, h + ph) - top) * (min(left + kw, w + pw) - left)
            at, place = line * p + pixel, (n * h + top + first * dh) * w + left + begin * dw
            if first < last and begin < stop:
                call(function, (images.ctypes.data + place * c * item,
                                values.ctypes.data + at * c * item,
                                index.ctypes.data + at * c * small, c, last - first, stop - begin,
                                dh * w * c, dw * c, first * kw + begin, kw, many, sw * c,
                                number if counted else extra))  # fmt: skip
            elif is_choice:
                for alone in range(pixel, pixel + many):
                    _nothing(values[n, i, alone], index[n, i, alone], lowest, none)
            pixel += many


@part
def _nothing(best, chosen, lowest, none):
    """What the largest of no values is."""
    for k in range(best.shape[0]):
        best[k], chosen[k] = lowest, none


@compiled
def _max(x, y, index, kh, kw, sh, sw, ph, pw, dh, dw):
    count, o, p, _ = y.shape
    for pixel in range(count * o * p):
        n, i, j = pixel // (o * p), pixel // p % o, pixel % p
        best, chosen = y[n, i, j], index[n, i, j]
        _max_window(x[n], best, chosen, i * sh - ph, j * sw - pw, kh, kw, dh, dw)


@part
def _max_window(image, best, chosen, top, left, kh, kw, dh, dw):
    _nothing(best, chosen, -np.inf, 0)
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
    if not host() or not g.size:
        dx = zero_images(shape, g.dtype)
        _add_chosen(cotangents, chosen, dx, *grid)
    elif tile(g, image, *grid):
        dx = empty((n, *image, c), g.dtype)
        function = window(host(), g.dtype, index.dtype, "placed")
        each_window(function, False, dx, cotangents, chosen, 0.0, 0, *grid, 0, 0)
    else:
        dx = zero_images(shape, g.dtype)
        function = window(host(), g.dtype, index.dtype, "added")
        each_window(function, False, dx, cotangents, chosen, 0.0, 0, *grid, 0, 0)
    return channels_first(dx)


def tile(g, image, kh, kw, sh, sw, ph, pw, dh=1, dw=1):
    """Whether the windows of g tile the image: then its places are written once."""
    is_usual = kh == sh and kw == sw and ph == pw == 0 and dh == dw == 1
    return is_usual and image == [g.shape[2] * kh, g.shape[3] * kw]


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
    y = empty(chosen.shape, h.dtype)
    clear(y.reshape(-1))
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
