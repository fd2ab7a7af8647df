"""Pooling: the maximum or the mean of each window.

``kernel``, ``stride``, ``padding`` and ``dilation`` are (height, width) pairs, ``size`` is the
output's (o, p), so that rounding modes are settled by the caller.
"""

from typing import Any

from minidp.op import op
from minidp.ops.windows import Pair, offsets
from minidp.types import Array, Shape


def _padded_to(xp: Any, x: Array, kernel: Pair, stride: Pair, padding: Pair, size: Pair,
               fill: float, dilation: Pair = (1, 1)) -> Array:  # fmt: skip
    """x with ``fill`` around it, far enough for the last window."""
    ends = [max(0, stride[a] * (size[a] - 1) + dilation[a] * (kernel[a] - 1) + 1 - padding[a]
                - x.shape[2 + a]) for a in (0, 1)]  # fmt: skip
    widths = ((0, 0), (0, 0), (padding[0], ends[0]), (padding[1], ends[1]))
    return xp.pad(x, widths, constant_values=fill)


@op("n c h w -> n c o p, i:n c o p", outputs="y index",
    x=lambda g, index, x_shape, kernel, stride, padding, dilation: max_pool2d_input(
        g, index, shape=x_shape, kernel=kernel, stride=stride, padding=padding, dilation=dilation))
def max_pool2d(xp: Any, x: Array, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair,
               size: Pair) -> tuple[Array, Array]:  # fmt: skip
    """The largest value of each window and its offset in the window, row by row.

    The first of equals wins, the last NaN wins over all; padding is never chosen."""
    lowest = -xp.inf if x.dtype.kind == "f" else xp.iinfo(x.dtype).min
    padded = _padded_to(xp, x, kernel, stride, padding, size, lowest, dilation)
    y = xp.full((*x.shape[:2], *size), lowest, x.dtype)
    index = xp.full(y.shape, -1, "int32")
    inside = _padded_to(xp, xp.ones_like(x), kernel, stride, padding, size, 0, dilation) > 0
    for offset, (_, window) in enumerate(offsets(kernel, size, stride, dilation)):
        value = padded[window]
        better = (value > y) | (value != value) | (index < 0)
        better = better & inside[window]
        y, index = xp.where(better, value, y), xp.where(better, offset, index)
    return y, index.astype("uint8" if kernel[0] * kernel[1] <= 256 else "int32")


@op("n c o p, i:n c o p -> n c h w",
    dy=lambda g, index, kernel, stride, padding, dilation: max_pool2d_gather(
        g, index, kernel, stride, padding, dilation))  # fmt: skip
def max_pool2d_input(xp: Any, dy: Array, index: Array, shape: Shape, kernel: Pair, stride: Pair,
                     padding: Pair, dilation: Pair) -> Array:  # fmt: skip
    """The cotangent of max_pool2d's x: each y added at the place it came from."""
    (h, w), size = shape[2:], dy.shape[2:]
    dx = _padded_to(xp, xp.zeros(shape, dy.dtype), kernel, stride, padding, size, 0, dilation)
    for offset, (_, window) in enumerate(offsets(kernel, size, stride, dilation)):
        dx[window] += xp.where(index == offset, dy, xp.zeros((), dy.dtype))
    return dx[:, :, padding[0] : padding[0] + h, padding[1] : padding[1] + w]


@op("n c h w, i:n c o p -> n c o p",
    x=lambda g, index, x_shape, constants: max_pool2d_input(
        g, index, shape=x_shape, **constants))  # fmt: skip
def max_pool2d_gather(xp: Any, x: Array, index: Array, kernel: Pair, stride: Pair,
                      padding: Pair, dilation: Pair) -> Array:  # fmt: skip
    """The values of x at the places that max_pool2d chose."""
    size = index.shape[2:]
    padded = _padded_to(xp, x, kernel, stride, padding, size, 0, dilation)
    y = xp.zeros((*x.shape[:2], *size), x.dtype)
    for offset, (_, window) in enumerate(offsets(kernel, size, stride, dilation)):
        y = xp.where(index == offset, padded[window], y)
    return y


@op("f:n c h w -> n c o p",
    x=lambda g, x_shape, kernel, stride, padding, count_include_pad: avg_pool2d_input(
        g, shape=x_shape, kernel=kernel, stride=stride, padding=padding,
        count_include_pad=count_include_pad))  # fmt: skip
def avg_pool2d(xp: Any, x: Array, kernel: Pair, stride: Pair, padding: Pair, size: Pair,
               count_include_pad: bool) -> Array:  # fmt: skip
    """The mean of each window, over the places inside the image (and its padding, if counted)."""
    padded = _padded_to(xp, x, kernel, stride, padding, size, 0)
    y = xp.zeros((*x.shape[:2], *size), "float32" if x.dtype.char == "e" else x.dtype)
    for _, window in offsets(kernel, size, stride):
        y += padded[window]
    y /= window_counts(xp, x.shape, kernel, stride, padding, size, count_include_pad, y.dtype)
    return y.astype(x.dtype, copy=False)


@op("n c o p -> n c h w",
    dy=lambda g, dy_shape, kernel, stride, padding, count_include_pad: avg_pool2d(
        g, kernel, stride, padding, dy_shape[2:], count_include_pad))  # fmt: skip
def avg_pool2d_input(xp: Any, dy: Array, shape: Shape, kernel: Pair, stride: Pair, padding: Pair,
                     count_include_pad: bool) -> Array:  # fmt: skip
    """The cotangent of avg_pool2d's x: each y shared evenly among its window."""
    (h, w), size = shape[2:], dy.shape[2:]
    counts = window_counts(xp, shape, kernel, stride, padding, size, count_include_pad, dy.dtype)
    share = dy / counts
    dx = _padded_to(xp, xp.zeros(shape, dy.dtype), kernel, stride, padding, size, 0)
    for _, window in offsets(kernel, size, stride):
        dx[window] += share
    return dx[:, :, padding[0] : padding[0] + h, padding[1] : padding[1] + w]


def window_counts(xp: Any, shape: Shape, kernel: Pair, stride: Pair, padding: Pair, size: Pair,
                  count_include_pad: bool, dtype: Any) -> Array:  # fmt: skip
    """How many places each window counts, per output row and column."""
    counts = []
    for axis in (0, 1):
        edge = padding[axis] if count_include_pad else 0
        start = xp.arange(size[axis]) * stride[axis] - padding[axis]
        stop = xp.minimum(start + kernel[axis], shape[2 + axis] + edge)
        counts.append(stop - xp.maximum(start, -edge))
    return (counts[0][:, None] * counts[1][None, :]).astype(dtype)
