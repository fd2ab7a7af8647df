"""The way back through batch norm, and a pool behind it, to both gradients of a convolution.

The cotangents of the convolution's output are made some images at a time, and used while they are
in cache (see `_both_ways`): so some 40 % less is moved from and to memory than by the parts, one
after the other, at equal arithmetic. 64 images of 32 x 32 take 6.5 ms instead of 8.0 (3 to 64
channels, a first layer) and 33.1 instead of 34.4 (64 to 64, and a pool) on a core of Zen 4.

On channels-last memory, for first layers, whose input has no gradient, and for layers that
Winograd's transforms serve and whose weights are few. Those of more channels take the caches for
their weights: 128 to 128 took 7 % longer. They, and others, are left to the parts.
"""

import numpy as np

from . import _depthwise, _points, _tiling, _winograd
from ._batch_passes import add_last, finish, scale_last
from ._both_ways import Back, direct
from ._direct import unpack
from ._jit import compiled
from ._layout import FLOATS, channels_first, channels_last, ready, served
from ._machine_code import host
from ._memory import empty
from ._slopes import TABLE, slopes
from ._windows import window
from .batch_norm import floor, given, sums_of
from .pooled_norm import add_windows, is_tiled, named, rows_of_windows
from .shared_norm import share

GRID = ("kernel", "stride", "padding", "dilation")
NO_INDEX = np.zeros((1, 1, 1, 1), np.uint8)
NO_POOL = 0, True, (0,) * 8


def conv2d_norm_back(images, w, g, *others, norm, options, layer, shape):
    """What the op `norm` gives behind its first result, dx; conv2d_input of dx, if w is not None;
    conv2d_weight of dx and images, for weights of `shape`.

    `norm` is one of the ways back of batch norm, which is given (g, ...); `options` are its
    constants, `layer` those of the convolution: stride, padding, dilation, groups.
    """
    is_pooled = "_pool_" in norm
    index, x, mean, var, *rest = others if is_pooled else (None, *others)
    is_last = x.ndim == 4 and x.transpose(0, 2, 3, 1).flags.c_contiguous
    known = served(images, w, g, x, mean, var) and is_last and x.size and images.size
    if not known or not serves_norm_back(images, x.shape[2:], shape, layer, w is None):
        return NotImplemented
    g, table = channels_last(g), empty((len(TABLE), x.shape[1]), x.dtype)
    rectify = "_relu_" in norm or options.get("rectify", False)
    spread, index = NO_POOL, NO_INDEX if index is None else channels_last(index)
    if is_pooled:
        grid = named(*(options[name] for name in GRID))
        whole = is_tiled(x, g.shape[1:3], *grid)
        function = window(host(), x.dtype, index.dtype, "placed" if whole else "added")
        spread = function, whole, sum(grid, ())
    made = (_own if "_own_" in norm else _shared)(g, index, x, mean, var, rest, options["eps"],
                                                  rectify, spread, table)  # fmt: skip
    back = Back(slopes(host(), x.dtype, rectify), *spread, x.shape[2] * x.shape[3],
                x.shape[1])  # fmt: skip
    known, dw = (channels_last(x), g, index, table), empty(shape, x.dtype)
    if w is None:
        _first(back, known, channels_last(images), dw, layer)
        return *made, dw
    dx = empty((len(images), *images.shape[2:], images.shape[1]), x.dtype)
    _winograd.conv2d_both(back, known, w, channels_last(images), dx, dw, *layer)
    return *made, channels_first(dx), dw


def serves_norm_back(images, output, shape, layer, is_first):
    """Whether `conv2d_norm_back` is for a layer, given its images, or what has their shape and
    dtype; the size of its output; the shape of its weights; whether its input has no gradient."""
    if not host() or images.dtype not in FLOATS:
        return False
    is_transformed = _winograd.fits(images, shape, output, *layer)
    if not is_first or is_transformed:
        return not is_first and is_transformed and _winograd.is_near(shape)
    is_product = tuple(shape[2:]) == (1, 1) or tuple(shape[1:]) == tuple(images.shape[1:])
    return not (is_product or _points.are(shape, layer) or _depthwise.fits(shape, layer[3]))


def _own(g, index, x, mean, var, rest, eps, rectify, spread, table):
    """The table for own statistics, and the cotangents of weight and bias."""
    shift, weight = rest if rectify else (None, *rest)
    _begin(ready(mean), ready(var), *given(weight, x), *given(shift, x), eps, table)
    dweight, dbias = (empty(x.shape[1:2], x.dtype) for _ in range(2))
    sums, rows = sums_of(x), channels_last(x).reshape(-1, x.shape[1])
    if spread[0]:
        grid = tuple(spread[2][k : k + 2] for k in range(0, 8, 2))
        add_windows(*rows_of_windows(g, index, x, grid), ready(mean), sums)
    else:
        _add(g.reshape(rows.shape), rows, table, dbias, dweight, sums, floor(x, rectify))
    _end(sums, rows.shape[0], ready(var), eps, dweight, dbias, table)
    return dweight, dbias


def _shared(g, index, x, mean, var, rest, eps, rectify, spread, table):
    """The table for statistics that replicas share; nothing besides."""
    sums, count, weight, *bias = rest
    bias = bias[0] if bias else None
    _begin(ready(mean), ready(var), *given(weight, x), *given(bias, x), eps, table)
    _share(ready(sums), ready(count), ready(var), eps, table)
    return ()


def _first(back, known, images, dw, layer):
    """The weight gradient alone, by register tiles on images."""
    tiling = _tiling.correlation(images.shape[1:3], dw.shape, *layer, dw.dtype)
    total, frame = empty(tiling.total, dw.dtype), empty(tiling.frame, dw.dtype)
    n, x = len(images), known[0]
    some = empty((min(n, tiling.sizes.images), *x.shape[1:]), x.dtype)
    direct(back, *known, some, some.reshape(-1), tiling.tiles, tiling.loops, tiling.runs,
           images.reshape(n, images.shape[1], -1), some.reshape(len(some), -1), total, frame,
           tiling.sizes)  # fmt: skip
    unpack(tiling.layer.transpose, total, dw.reshape(-1), tiling.unpacking)


@compiled
def _begin(mean, var, weight, has_weight, bias, has_bias, eps, table):
    scale_last(var, eps, weight, has_weight, bias, has_bias, table[1])
    for k in range(mean.shape[0]):
        table[0, k], table[2, k] = mean[k], bias[k]


@compiled
def _add(g, x, table, total, along, sums, floor):
    sums[:] = 0
    add_last(g, x, table[0], table[2], table[1], total, along, sums, floor)


@compiled
def _end(sums, count, var, eps, dweight, dbias, table):
    finish(sums, count, var, eps, dweight, dbias, table[3:5])


@compiled
def _share(both, count, var, eps, table):
    share(both, count, var, eps, table[3:5])
