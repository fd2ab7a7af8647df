"""Convolution by columns, where tiles do not exist or would be half empty: by BLAS.

Arrays are logical (n, c, h, w) on channels-last memory; other memory is copied once. A layer is
one compiled call, which does not hold the GIL. What each function computes is said in `conv`. Costs
2 n o p k c i j / groups flops at some 80 % of BLAS's speed, and columns of a few images in cache.
"""

import math

from ._blas import blas
from ._columns import clear, convolve, correlate, scatter, scatter_planes
from ._geometry import geometry
from ._layout import channels_first, channels_last, ready
from ._memory import empty
from ._small import numbers, panels, plan_of

ROW_VALUES = 1 << 17  # of g or of columns, for a row of an output: half a megabyte in float32


def conv2d(x, w, b=None, *, stride, padding, dilation, groups):
    """See `conv.conv2d`."""
    plan = geometry(x.shape[2:], w.shape, stride, padding, dilation, groups)
    y = empty((len(x), *plan.output, len(w)), x.dtype)
    if y.size:
        images, out = channels_last(x).reshape(len(x), *plan.lines), y.reshape(len(x), -1, len(w))
        bias = empty(0, x.dtype) if b is None else ready(b)
        memory = [empty(shape, x.dtype) for shape in plan.shapes(plan.by_tap)]
        convolve(blas(), images, ready(w), bias, out, *memory, plan.sizes)
    return channels_first(y)


def conv2d_input(g, w, *, shape, stride, padding, dilation, groups):
    """The columns g @ w of each image are added to the windows they would be gathered from."""
    n, c, *image = shape
    plan = geometry((*image,), w.shape, stride, padding, dilation, groups)
    dx = empty((n, *image, c), g.dtype)
    if plan.is_empty:
        clear(dx.reshape(1, -1))
    elif dx.size:
        cotangents, out = channels_last(g).reshape(n, -1, len(w)), dx.reshape(n, *plan.lines)
        memory = [empty(shape, g.dtype) for shape in plan.shapes(0)]
        scatter(blas(), cotangents, ready(w), out, *memory, plan.by_pixel)
    return channels_first(dx)


def serves_few(weights, width):
    """Whether a row of an output so wide may be laid out at once: its columns, and g, in cache."""
    k, *others = weights
    return width * max(k, math.prod(others)) <= ROW_VALUES


def conv2d_input_few(g, w, b=None, *, shape, stride, padding, dilation):
    """The same of a few channels, with a bias for each: they are planes meanwhile."""
    n, c, *image = shape
    plan = geometry((*image,), w.shape, stride, padding, dilation, 1)
    dx = empty((n, *image, c), g.dtype)
    if dx.size:
        cotangents, out = channels_last(g).reshape(n, -1, len(w)), dx.reshape(n, *plan.lines)
        planes, matrix, col = (empty(shape, g.dtype) for shape in plan.planes)
        bias = empty(0, g.dtype) if b is None else ready(b)
        laid = empty(panels(len(w), col.shape[1], g.dtype), g.dtype)
        scatter_planes(plan_of(g.dtype, frozenset({len(col)})), numbers(), cotangents, ready(w),
                       bias, out, planes, matrix, laid, col, plan.by_plane)  # fmt: skip
    return channels_first(dx)


def conv2d_weight(g, x, *, shape, stride, padding, dilation, groups):
    """The products columns^T @ g of the tiles are added in the order of the images."""
    plan = geometry(x.shape[2:], (*shape,), stride, padding, dilation, groups)
    dw = empty(shape, g.dtype)
    if plan.is_empty or not x.size:
        clear(dw.reshape(1, -1))
        return dw
    images = channels_last(x).reshape(len(x), *plan.lines)
    cotangents = channels_last(g).reshape(-1, shape[0])
    groups, filters, taps = plan.matrix
    total = empty((groups, taps, filters), g.dtype)
    frame, _, col = (empty(shape, g.dtype) for shape in plan.shapes(plan.by_tap))
    correlate(blas(), cotangents, images, dw, frame, total, col, plan.sizes)
    return dw
