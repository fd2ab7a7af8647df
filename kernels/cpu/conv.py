"""Two-dimensional convolution: columns of a few images, in cache, multiplied by BLAS.

Arrays are logical (n, c, h, w) on channels-last memory; other memory is copied once. A layer is
one compiled call, which does not hold the GIL.
"""

from ._blas import blas
from ._columns import convolve, correlate, scatter
from ._geometry import geometry, scratch
from ._layout import channels_first, channels_last, ready, served
from ._memory import empty, zeros


def conv2d(x, w, b=None, *, stride, padding, dilation, groups):
    """y[n,k,o,p] = b[k] + sum of x[n, c, o sh + i dh - ph, p sw + j dw - pw] w[k,c,i,j].

    Shapes: x (n, c, h, w), w (k, c/groups, i, j), b (k), y (n, k, o, p) on channels-last memory.
    """
    if not served(x, w, b):
        return NotImplemented
    plan = geometry(x.shape[2:], w.shape, stride, padding, dilation, groups)
    y = empty((len(x), *plan.output, len(w)), x.dtype)
    if y.size:
        images, out = channels_last(x).reshape(len(x), *plan.lines), y.reshape(len(x), -1, len(w))
        lines = y.reshape(*y.shape[:2], -1)
        bias = empty(y.shape[2:], x.dtype)
        bias[...] = 0 if b is None else b
        memory = scratch(plan, plan.sizes, x.dtype)
        convolve(blas(), images, ready(w), bias.reshape(-1), lines, out, *memory, plan.sizes)
    return channels_first(y)


def conv2d_input(g, w, *, shape, stride, padding, dilation, groups):
    """The gradient of `conv2d` in x: g (n, k, o, p) to dx of logical `shape` (n, c, h, w).

    The columns g @ w of each image are added to the windows that they would be gathered from.
    """
    if not served(g, w):
        return NotImplemented
    n, c, *image = shape
    plan = geometry((*image,), w.shape, stride, padding, dilation, groups)
    dx = empty((n, *image, c), g.dtype)
    if plan.is_empty:
        dx.fill(0)
    elif dx.size:
        cotangents, out = channels_last(g).reshape(n, -1, len(w)), dx.reshape(n, *plan.lines)
        memory = scratch(plan, plan.by_pixel, g.dtype)
        scatter(blas(), cotangents, ready(w), out, *memory, plan.by_pixel)
    return channels_first(dx)


def conv2d_weight(g, x, *, shape, stride, padding, dilation, groups):
    """The gradient of `conv2d` in w: g (n, k, o, p), x (n, c, h, w) to (k, c/groups, i, j).

    The products columns^T @ g of the tiles are added in the order of the images.
    """
    if not served(g, x):
        return NotImplemented
    plan = geometry(x.shape[2:], (*shape,), stride, padding, dilation, groups)
    if plan.is_empty or not x.size:
        return zeros(shape, g.dtype)
    images = channels_last(x).reshape(len(x), *plan.lines)
    cotangents = channels_last(g).reshape(-1, shape[0])
    groups, filters, taps = plan.matrix
    dw, total = empty(shape, g.dtype), zeros((groups, taps, filters), g.dtype)
    frame, _, col = scratch(plan, plan.sizes, g.dtype)
    correlate(blas(), cotangents, images, dw, frame, total, col, plan.sizes)
    return dw
