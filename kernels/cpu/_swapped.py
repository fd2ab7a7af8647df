"""Convolutions of few filters, as their adjoints: lanes of tiles, which are filters, are not empty.

With stride 1 source and target may change places. Then y of few filters is the input gradient, by
columns, of a layer of few channels that has the kernels turned round; and the gradient of w is that
of a layer whose image is g, and whose cotangent is x, for all channels of x side by side.

Costs what the adjoint costs, see `_by_columns` and `_direct`: 2 n o p k c i j flops each, and for y
columns in cache. From 64 channels to one, 3 x 3, that is a tenth of the time of tiles in which one
lane of 16 is used.
"""

from . import _by_columns
from ._layout import ready
from ._machine_code import host


def are(weights, dtype, layer):
    """Whether a layer has few filters, but channels that fill a vector."""
    (k, c, *kernel), lanes = weights, host().lanes(dtype)
    stride, _, _, groups = layer
    is_few = 2 * k <= lanes <= c and kernel[0] * kernel[1] > 1
    return is_few and groups == 1 and tuple(stride) == (1, 1) and min(_edges(kernel, layer)) >= 0


def serves(image, weights, dtype, layer):
    """Whether its y is found so: not where rows are too long, as those of sequences may be."""
    k, c, *kernel = weights
    return are(weights, dtype, layer) and _by_columns.serves_few((c, k, *kernel), image[3])


def forward(x, w, b, size, layer):
    """y (n, k, o, p), of which `size` is (o, p)."""
    return _by_columns.conv2d_input_few(x, _turned(w), b, shape=(len(x), len(w), *size),
                                        **_adjoint(w.shape[2:], layer))  # fmt: skip


def weight(function, g, x, shape, layer):
    """dw of `shape`, by the `function` that finds such gradients of other layers."""
    k, c, *kernel = shape
    return _turned(function(x, g, shape=(c, k, *kernel), groups=1, **_adjoint(kernel, layer)))


def _turned(w):
    """Kernels turned round, from filters to channels instead of from channels to filters."""
    return ready(w[:, :, ::-1, ::-1].transpose(1, 0, 2, 3))


def _adjoint(kernel, layer):
    return {"stride": (1, 1), "padding": _edges(kernel, layer), "dilation": layer[2]}


def _edges(kernel, layer):
    """The padding with which source and target change places."""
    _, padding, dilation, _ = layer
    return tuple(d * (i - 1) - p for i, p, d in zip(kernel, padding, dilation, strict=True))
