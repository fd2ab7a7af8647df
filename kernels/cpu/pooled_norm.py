"""Batch normalisation, relu and max pooling of what is in cache, and the ways back.

A piece, which is a few rows of windows where these tile the image and else an image, is normalised
into memory that stays in the first or second cache, and pooled from there; backwards a cotangent of
the pool is spread there, and is used at once. So x is read, and dx written, once a pass, and
nothing of x's size is made besides. Costs 5 flops and two comparisons for each value of x; runs at
15 to 25 GB/s, where memory gives 25 to 30.

Channels-last memory only, on CPUs with vectors: others run the parts one after the other.
"""

import numpy as np

from ._batch_passes import affine_part, finish, is_far, scale_last, slopes_part
from ._jit import compiled
from ._layout import channels_first, channels_last, ready, served
from ._machine_code import host
from ._memory import empty
from ._windows import NONE, window
from .batch_norm import floor, given, sums_of, taken_from
from .pool import clear, each_window
from .shared_norm import hand_over, share

VALUES = 1 << 12  # of a piece: half the first cache


def batch_norm_pool(x, mean, var, weight=None, bias=None, *, eps, kernel, stride, padding, dilation,
                    size):  # fmt: skip
    """The largest positive value of each window of batch_norm(x), 0 if there is none, and its tap
    (see `pool.max_pool2d_relu`); and r = 1 / sqrt(var + eps)."""
    if not _fits(x, mean, var, weight, bias):
        return NotImplemented
    index = np.uint8 if kernel[0] * kernel[1] <= 255 else np.int32
    y, places = (empty((len(x), *size, x.shape[1]), dtype) for dtype in (x.dtype, index))
    r, scale = (empty(x.shape[1:2], x.dtype) for _ in range(2))
    function = window(host(), x.dtype, places.dtype, "positive")
    grid = named(kernel, stride, padding, dilation)
    pieces, scratch, many = _pieces(x, size, *grid)
    _pooled(function, pieces, ready(mean), ready(var), *given(weight, x), *given(bias, x),
            _cut(y, many), _cut(places, many), r, scale, scratch, eps, floor(x, False),
            np.array(NONE).astype(index)[()], sum(grid, ()))  # fmt: skip
    return channels_first(y), channels_first(places), r


def batch_norm_own_pool_back(g, index, x, mean, var, weight=None, *, eps, shape, **grid):
    """The cotangents of x, weight and bias from that of the pool."""
    if not _fits(x, g, mean, var, weight) or not g.size:
        return NotImplemented
    dx, dweight, dbias = (empty(s, x.dtype) for s in (_images(x), x.shape[1:2], x.shape[1:2]))
    g, index, grid, sums = channels_last(g), channels_last(index), named(**grid), sums_of(x)
    add_windows(*rows_of_windows(g, index, x, grid), ready(mean), sums)
    spread, rows = _spread(g, index, x, grid)
    _own_back(*spread, rows, ready(mean), ready(var), *given(weight, x), dx.reshape(rows.shape),
              dweight, dbias, eps, sums, taken_from(x), empty(x.shape[1:2], x.dtype),
              floor(x, False))  # fmt: skip
    return channels_first(dx), dweight, dbias


def batch_norm_pool_sums(g, index, x, mean, var, *, eps, shape, **grid):
    """The sums over each channel of the cotangent of what was pooled, and of it times x - mean."""
    if not _fits(x, g, mean, var) or not g.size:
        return NotImplemented
    total, along, sums = *(empty(x.shape[1:2], x.dtype) for _ in range(2)), sums_of(x)
    g, index = channels_last(g), channels_last(index)
    add_windows(*rows_of_windows(g, index, x, named(**grid)), ready(mean), sums)
    hand_over(sums, total, along)
    return total, along


def batch_norm_pool_back(g, index, x, mean, var, sums, count, weight=None, *, eps, shape, **grid):
    """The cotangent of x from the sums of all replicas, end to end, over `count` values."""
    if not _fits(x, g, mean, var, sums, count, weight) or not g.size:
        return NotImplemented
    dx, zero = empty(_images(x), x.dtype), empty(x.shape[1:2], x.dtype)
    spread, rows = _spread(channels_last(g), channels_last(index), x, named(**grid))
    _back(*spread, rows, ready(mean), ready(var), ready(sums), ready(count), *given(weight, x),
          zero, dx.reshape(rows.shape), eps, taken_from(x), empty(x.shape[1:2], x.dtype),
          floor(x, False))  # fmt: skip
    return channels_first(dx)


def _fits(x, *others):
    is_last = x.ndim == 4 and x.transpose(0, 2, 3, 1).flags.c_contiguous
    return bool(host()) and served(x, *others) and is_last and x.size > 0


def _images(x):
    """The shape of x (n, c, h, w) with channels last."""
    return len(x), *x.shape[2:], x.shape[1]


def is_tiled(x, size, kernel, stride, padding, dilation):
    """Whether windows meet each place of an image once."""
    plain = not any(padding) and tuple(dilation) == (1, 1) and tuple(kernel) == tuple(stride)
    return plain and all(n == m * k for n, m, k in zip(x.shape[2:], size, kernel, strict=True))


def _pieces(x, size, *grid):
    """(x as (pieces, pixels, c), memory for a piece, how many pieces an image has).

    Where windows tile the image a few rows of windows are a piece, in the first cache; else it is
    an image.
    """
    (n, c, h, w), many = x.shape, 1
    if is_tiled(x, size, *grid):
        rows = [k for k in range(1, size[0] + 1) if size[0] % k == 0]
        fitting = [k for k in rows if k * (h // size[0]) * w * c <= VALUES]
        many = size[0] // max(fitting, default=1)
    images = channels_last(x).reshape(n * many, h // many * w, c)
    return images, empty((1, h // many, w, c), x.dtype), many


def _cut(y, many):
    """y (n, o, p, c) as so many pieces for each image."""
    n, o, *rest = y.shape
    return y.reshape(n * many, o // many, *rest)


def named(kernel, stride, padding, dilation):
    return tuple(map(tuple, (kernel, stride, padding, dilation)))


def rows_of_windows(g, index, x, grid):
    """What `add_windows` needs of g and index (n, o, p, c): rows of windows, one by one."""
    function, (n, o, *rest) = window(host(), x.dtype, index.dtype, "summed"), g.shape
    lines = [y.reshape(n * o, 1, *rest) for y in (g, index)]
    return function, *lines, channels_last(x), sum(grid, ()), empty((3, x.shape[1]), x.dtype)


def _spread(g, index, x, grid):
    """What `_place` needs, and x in pieces."""
    size = g.shape[1:3]
    whole = is_tiled(x, size, *grid)
    pieces, scratch, many = _pieces(x, size, *grid)
    function = window(host(), x.dtype, index.dtype, "placed" if whole else "added")
    parts = (function, whole, _cut(g, many), _cut(index, many), scratch, index.dtype.type(0),
             sum(grid, ()))  # fmt: skip
    return parts, pieces


@compiled
def _pooled(function, x, mean, var, weight, has_weight, bias, has_bias, y, index, r, scale, scratch,
            eps, floor, none, grid):  # fmt: skip
    kh, kw, sh, sw, ph, pw, dh, dw = grid
    scale_last(var, eps, weight, has_weight, bias, has_bias, scale)
    for k in range(r.shape[0]):
        r[k] = 1 / np.sqrt(var[k] + eps)
    far = is_far(x)
    for n in range(x.shape[0]):
        affine_part(x[n], mean, scale, bias, scratch.reshape(x.shape[1:]), floor, far)
        each_window(function, True, scratch, y[n : n + 1], index[n : n + 1], 0.0, none, kh, kw, sh,
                    sw, ph, pw, dh, dw, 0, 0)  # fmt: skip


@compiled
def _place(n, function, whole, g, index, scratch, none, grid):
    """The cotangents of piece n where they belong; zeros elsewhere."""
    kh, kw, sh, sw, ph, pw, dh, dw = grid
    if not whole:
        clear(scratch.reshape(-1))
    each_window(function, False, scratch, g[n : n + 1], index[n : n + 1], 0.0, none, kh, kw, sh, sw,
                ph, pw, dh, dw, 0, 0)  # fmt: skip


@compiled
def add_windows(function, g, index, images, grid, memory, mean, sums):
    """The sums of g and of g (x - mean) over what was chosen, a row of windows at a time."""
    kh, kw, sh, sw, ph, pw, dh, dw = grid
    rows, none = g.shape[0] // images.shape[0], index.dtype.type(0)
    sums[:], memory[:] = 0, 0
    for k in range(mean.shape[0]):
        memory[0, k] = mean[k]
    for line in range(g.shape[0]):
        n, i = line // rows, line % rows
        each_window(function, False, images[n : n + 1], g[line : line + 1], index[line : line + 1],
                    0.0, none, kh, kw, sh, sw, ph - i * sh, pw, dh, dw,
                    memory.ctypes.data, 0)  # fmt: skip
        for k in range(mean.shape[0]):
            sums[0, k] += memory[1, k]
            sums[1, k] += memory[2, k]
            memory[1, k] = memory[2, k] = 0


@compiled
def _slopes(function, whole, g, index, scratch, none, grid, x, mean, scale, shift, taken, dx,
            floor):  # fmt: skip
    far = is_far(x)
    for n in range(x.shape[0]):
        _place(n, function, whole, g, index, scratch, none, grid)
        slopes_part(scratch.reshape(x.shape[1:]), x[n], mean, shift, scale, taken, dx[n], floor,
                    far)  # fmt: skip


@compiled
def _own_back(function, whole, g, index, scratch, none, grid, x, mean, var, weight, has_weight, dx,
              dweight, dbias, eps, sums, taken, scale, floor):  # fmt: skip
    scale_last(var, eps, weight, has_weight, dbias, False, scale)
    finish(sums, x.shape[0] * x.shape[1], var, eps, dweight, dbias, taken)
    _slopes(function, whole, g, index, scratch, none, grid, x, mean, scale, mean, taken, dx,
            floor)  # fmt: skip


@compiled
def _back(function, whole, g, index, scratch, none, grid, x, mean, var, both, count, weight,
          has_weight, zero, dx, eps, taken, scale, floor):  # fmt: skip
    scale_last(var, eps, weight, has_weight, zero, False, scale)
    share(both, count, var, eps, taken)
    _slopes(function, whole, g, index, scratch, none, grid, x, mean, scale, mean, taken, dx,
            floor)  # fmt: skip
