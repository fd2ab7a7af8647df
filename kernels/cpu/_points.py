"""Convolutions of single pixels, with kernels of 1 x 1, as products of matrices.

On channels-last memory an image is a matrix already, a row for each pixel and a column for each
channel: y = x w^T + b, dx = g w and dw = g^T x, for all images at once, and for each group on its
own columns. Nothing is laid out anew but pixels that a stride picks, x[:, ::s, ::t].

Costs 2 pixels k c / groups flops each, and moves x, y and w once; see `_product`.
"""

from ._dots import are_few, few
from ._layout import channels_last, ready
from ._memory import empty
from ._product import chain, products


def are(weights, layer):
    """Whether a layer is such a product; one of a channel in each group is none."""
    _, padding, _, groups = layer
    is_single = tuple(weights[2:]) == (1, 1) and not any(padding)
    return is_single and (groups == 1 or weights[1] > 1)


def forward(x, w, b, y, stride, groups, relu):
    """y (n, o, p, k) of logical x (n, c, h, w)."""
    x, (k, size) = _picked(x, stride), w.shape[:2]
    rows, each = x.shape[0] * x.shape[1] * x.shape[2], k // groups
    pixels, matrix = x.reshape(rows, size * groups), ready(w).reshape(k, size)
    b = None if b is None else ready(b)
    if groups == 1 and are_few(pixels, matrix):
        few(pixels, matrix, b, y.reshape(rows, k), chain(size), relu)
    else:
        products(pixels, matrix, b, y, (rows, size, each), (size * groups, 1), (1, size), k,
                 (groups, size, each * size, each), relu=relu)  # fmt: skip


def backward(g, w, dx, stride, groups):
    """dx (n, h, w, c) of logical g (n, k, o, p)."""
    g, (k, size) = channels_last(g), w.shape[:2]
    pixels, each = g.shape[:3], k // groups
    is_dense = tuple(stride) == (1, 1)
    points = dx if is_dense else empty((*pixels, size * groups), dx.dtype)
    apart = groups, each, each * size, size
    products(g, ready(w), None, points, (pixels[0] * pixels[1] * pixels[2], each, size),
             (k, 1), (size, 1), size * groups, apart)  # fmt: skip
    if not is_dense:
        dx.fill(0)
        dx[:, :: stride[0], :: stride[1]] = points


def weight(g, x, dw, stride, groups):
    """dw (k, c / groups, 1, 1) of logical g (n, k, o, p) and x (n, c, h, w)."""
    g, x, (k, size) = channels_last(g), _picked(x, stride), dw.shape[:2]
    rows, each = g.shape[0] * g.shape[1] * g.shape[2], k // groups
    apart = groups, each, size, each * size
    products(g, x, None, dw, (each, rows, size), (1, k), (size * groups, 1), size,
             apart)  # fmt: skip


def _picked(x, stride):
    """The pixels (n, o, p, c) that are read."""
    x = channels_last(x)
    return x if tuple(stride) == (1, 1) else ready(x[:, :: stride[0], :: stride[1]])
