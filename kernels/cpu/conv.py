"""Two-dimensional convolution and its two gradients.

Five ways to compute them, of which the layer's geometry alone chooses: products of matrices where
kernels are single pixels (`_points`), Winograd's transforms (`_winograd`), sliding tiles for
depthwise layers (`_depthwise`), register tiles on the image itself (here, and `_direct`), and where
the CPU has no vectors for these, columns multiplied by BLAS (`_by_columns`).

Arrays are logical (n, c, h, w) on channels-last memory; other memory is copied once. A layer is
two or three compiled calls, which do not hold the GIL.
"""

import math

from . import _by_columns, _depthwise, _multiplied, _points, _swapped, _tiling, _winograd
from ._direct import clear, convolve, correlate, unpack
from ._layout import channels_first, channels_last, ready, served
from ._machine_code import host
from ._memory import empty
from .elementwise import relu

POINTS = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1}


def conv2d(x, w, b=None, *, stride, padding, dilation, groups):
    """y[n,k,o,p] = b[k] + sum of x[n, c, o sh + i dh - ph, p sw + j dw - pw] w[k,c,i,j].

    Shapes: x (n, c, h, w), w (k, c/groups, i, j), b (k), y (n, k, o, p) on channels-last memory.
    """
    return _convolved(x, w, b, (stride, padding, dilation, groups), False)


def conv2d_relu(x, w, b=None, *, stride, padding, dilation, groups):
    """max(y, 0) of the same, NaN for NaN: cut off before it is written."""
    layer = stride, padding, dilation, groups
    if host() is not None:
        return _convolved(x, w, b, layer, True)
    y = _convolved(x, w, b, layer, False)
    return y if y is NotImplemented else relu(y)


def _convolved(x, w, b, layer, is_cut):
    if not served(x, w, b):
        return NotImplemented
    if host() is None:
        return _by_columns.conv2d(x, w, b, **_named(layer))
    if _is_whole(x.shape, w.shape, *layer):
        return _convolved(_as_points(x), _as_points(w), b, tuple(POINTS.values()), is_cut)
    if _multiplied.are(w.shape, layer[3]):
        return _convolved(_multiplied.repeated(x, len(w)), w, b, (*layer[:3], len(w)), is_cut)
    output = _tiling.output(x.shape[2:], w.shape, *layer)
    if x.size and 0 not in output and _swapped.serves(x.shape, w.shape, x.dtype, layer):
        y = _swapped.forward(x, w, b, output, layer)
        return relu(y) if is_cut else y
    y = empty((len(x), *output, len(w)), x.dtype)
    if y.size and x.size and _points.are(w.shape, layer):
        _points.forward(x, w, b, y, layer[0], layer[3], is_cut)
    elif y.size and _winograd.fits(x, w.shape, output, *layer):
        _winograd.conv2d(channels_last(x), w, b, y, *layer, relu=is_cut)
    elif y.size and _depthwise.fits(w.shape, layer[3]):
        _depthwise.conv2d(x, w, b, y, *layer, relu=is_cut)
    elif y.size:
        images, n, image, _ = _merged(channels_last(x), w.shape, layer, output)
        tiling = _tiling.forward(image, w.shape, *layer, x.dtype, with_bias=b is not None,
                                 relu=is_cut)  # fmt: skip
        _run(tiling, images, w, b, y, n)
    return channels_first(y)


def conv2d_input(g, w, *, shape, stride, padding, dilation, groups):
    """The gradient of `conv2d` in x: g (n, k, o, p) to dx of logical `shape` (n, c, h, w)."""
    if not served(g, w):
        return NotImplemented
    layer = stride, padding, dilation, groups
    is_transformed = _winograd.fits(g, w.shape, g.shape[2:], *layer)
    is_sparse = not is_transformed and host() and _tiling.are_few(w.shape, g.dtype, groups)
    if is_sparse and g.size and stride[1] <= 2 and _by_columns.serves_few(w.shape, g.shape[3]):
        return _by_columns.conv2d_input_few(g, w, shape=shape, stride=stride, padding=padding,
                                            dilation=dilation)  # fmt: skip
    if host() is None or is_sparse:
        return _by_columns.conv2d_input(g, w, shape=shape, **_named(layer))
    n, c, *image = shape
    if _multiplied.are(w.shape, groups):
        dx = conv2d_input(g, w, shape=(n, len(w), *image), stride=stride, padding=padding,
                          dilation=dilation, groups=len(w))  # fmt: skip
        return _multiplied.summed(dx, c)
    if _is_whole(shape, w.shape, *layer):
        points = conv2d_input(g, _as_points(w), shape=(n, math.prod(w.shape[1:]), 1, 1), **POINTS)
        return channels_first(points.reshape(n, *image, c))
    dx = empty((n, *image, c), g.dtype)
    if dx.size and g.size and _points.are(w.shape, layer):
        _points.backward(g, w, dx, stride, groups)
    elif dx.size and g.size and is_transformed:
        _winograd.conv2d_input(channels_last(g), w, dx, *layer)
    elif dx.size and g.size and _depthwise.fits(w.shape, groups):
        _depthwise.conv2d_input(g, w, dx, *layer)
    elif dx.size and g.size:
        images, n, _, image = _merged(channels_last(g), w.shape, layer, image)
        _run(_tiling.backward(image, w.shape, *layer, g.dtype), images, w, None, dx, n)
    else:
        clear(dx.reshape(-1))
    return channels_first(dx)


def conv2d_weight(g, x, *, shape, stride, padding, dilation, groups):
    """The gradient of `conv2d` in w: g (n, k, o, p), x (n, c, h, w) to (k, c/groups, i, j)."""
    if not served(g, x):
        return NotImplemented
    layer = stride, padding, dilation, groups
    if host() is None:
        return _by_columns.conv2d_weight(g, x, shape=shape, **_named(layer))
    if _is_whole(x.shape, shape, *layer):
        k, c, *kernel = shape
        points = conv2d_weight(g, _as_points(x), shape=(k, math.prod(shape[1:]), 1, 1), **POINTS)
        return channels_last(points.reshape(k, math.prod(kernel), c, 1)).reshape(shape)
    if _multiplied.are(shape, groups):
        return conv2d_weight(g, _multiplied.repeated(x, shape[0]), shape=shape, stride=stride,
                             padding=padding, dilation=dilation, groups=shape[0])  # fmt: skip
    dw = empty(shape, g.dtype)
    if not g.size or not x.size:
        clear(dw.reshape(-1))
        return dw
    if _points.are(shape, layer):
        _points.weight(g, x, dw, stride, groups)
        return dw
    if _swapped.are(shape, x.dtype, layer):
        return _swapped.weight(conv2d_weight, g, x, shape, layer)
    if _winograd.fits(x, shape, g.shape[2:], *layer):
        _winograd.conv2d_weight(channels_last(g), channels_last(x), dw, *layer)
        return dw
    if _depthwise.fits(shape, groups):
        _depthwise.conv2d_weight(g, x, dw, *layer)
        return dw
    images, n, image, _ = _merged(channels_last(x), shape, layer, g.shape[2:])
    tiling = _tiling.correlation(image, (*shape,), *layer, x.dtype)
    total, frame = empty(tiling.total, x.dtype), empty(tiling.frame, x.dtype)
    lines, cotangents = images.reshape(n, image[0], -1), channels_last(g).reshape(n, -1)
    correlate(tiling.tiles, tiling.loops, tiling.runs, lines, cotangents, total, frame,
              tiling.sizes)  # fmt: skip
    unpack(tiling.layer.transpose, total, dw.reshape(-1), tiling.unpacking)
    return dw


def _is_whole(x, w, stride, padding, dilation, groups):
    """Whether there is one window, the image: then y is a product of matrices."""
    is_plain = not any(padding) and tuple(dilation) == (1, 1) and groups == 1
    return is_plain and tuple(x[1:]) == tuple(w[1:]) and w[2] * w[3] > 1


def _as_points(x):
    """x (n, c, h, w) as n single pixels of h * w * c channels."""
    return channels_last(x).reshape(len(x), math.prod(x.shape[1:]), 1, 1)


def _run(tiling, images, w, b, y, n):
    """Pack the weights, and compute y as `tiling` says."""
    packed, frame = _tiling.packed(tiling, w), empty(tiling.frame, w.dtype)
    bias, lines = empty(0, w.dtype) if b is None else ready(b), images.reshape(n, tiling.lines, -1)
    convolve(tiling.tiles, tiling.loops, tiling.phases, lines, packed, bias, frame,
             y.reshape(n, -1), tiling.sizes)  # fmt: skip


def _named(layer):
    return dict(zip(("stride", "padding", "dilation", "groups"), layer, strict=True))


def _merged(source, weights, layer, target):
    """(source, images, its size, target's size): where pixels are independent, in one line.

    A 1 x 1 convolution of small images is one product for all of them.
    """
    n, size = len(source), source.shape[1:3]
    stride, padding, *_ = layer
    if tuple(weights[2:]) != (1, 1) or tuple(stride) != (1, 1) or any(padding):
        return source, n, size, tuple(target)
    pixels = size[0] * size[1]
    if pixels < host().rows:
        n, pixels = 1, n * pixels
    return source, n, (1, pixels), (1, pixels)
