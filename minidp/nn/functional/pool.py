"""Pooling; sizes are integers or (height, width) pairs, images (n, c, h, w) or (c, h, w)."""

from __future__ import annotations

from typing import Any

import numpy as np

from minidp.create import as_tensor
from minidp.errors import ShapeError
from minidp.ops import pool
from minidp.ops.layout import embed
from minidp.ops.linalg import matmul
from minidp.shapes import pair
from minidp.tensor import Tensor
from minidp.types import Array

Pair = tuple[int, int]


def _window(name: str, kernel: Any, stride: Any, padding: Any) -> tuple[Pair, Pair, Pair]:
    """Kernel, stride and padding as pairs; the stride defaults to the kernel."""
    size = pair(kernel, f"{name}: kernel_size")
    step = size if stride is None or stride == () else pair(stride, f"{name}: stride")
    edge = pair(padding, f"{name}: padding")
    if min(size) < 1 or min(step) < 1 or min(edge) < 0:
        raise ShapeError(f"{name}: kernel_size={size}, stride={step}, padding={edge}: expected "
                         "at least 1, 1 and 0")  # fmt: skip
    return size, step, edge


def pooled_size(
    name: str, shape: Any, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair, ceil: bool
) -> Pair:
    """(o, p): o = (h + 2 padding - dilation (kernel - 1) - 1) / stride + 1, rounded down or up.

    Rounded up, a last window that would begin behind the image and its left padding is dropped.
    """
    sizes = []
    for axis in (0, 1):
        span = dilation[axis] * (kernel[axis] - 1) + 1
        length, step, edge = shape[axis - 2], stride[axis], padding[axis]
        if edge > span // 2:
            raise ShapeError(f"{name}: padding={padding} should be at most half of the kernel "
                             f"size: kernel_size={kernel}, dilation={dilation}")  # fmt: skip
        size = (length + 2 * edge - span + (step - 1 if ceil else 0)) // step + 1
        if ceil and (size - 1) * step >= length + edge:
            size -= 1
        if size < 1:
            raise ShapeError(f"{name}({tuple(shape)}): kernel_size={kernel}, stride={stride}, "
                             f"padding={padding}, dilation={dilation} leave no output")  # fmt: skip
        sizes.append(size)
    return sizes[0], sizes[1]


def _images(name: str, input: Tensor) -> Tensor:
    if input.ndim not in (3, 4):
        raise ShapeError(f"{name}: expected (n, c, h, w) or (c, h, w), got {input.shape}")
    images: Tensor = input if input.ndim == 4 else input.unsqueeze(0)
    return images


def _like(y: Tensor, input: Tensor) -> Tensor:
    result: Tensor = y if input.ndim == 4 else y.squeeze(0)
    return result


def max_pool2d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest value of each window; with ``return_indices`` also its place in the flat h w."""
    images = _images("max_pool2d", input)
    kernel, step, edge = _window("max_pool2d", kernel_size, stride, padding)
    spread = pair(dilation, "max_pool2d: dilation")
    size = pooled_size("max_pool2d", input.shape, kernel, step, edge, spread, ceil_mode)
    y, index = pool.max_pool2d(
        images, kernel=kernel, stride=step, padding=edge, dilation=spread, size=size
    )
    if not return_indices:
        return _like(y, input)
    places = pool.max_pool2d_places(index, width=input.shape[-1], kernel=kernel, stride=step,
                                    padding=edge, dilation=spread)  # fmt: skip
    return _like(y, input), _like(places, input)


def avg_pool2d(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """The mean of each window; ``count_include_pad`` says whether padding counts as zeros.

    With ``divisor_override`` the sum of each window, divided by that.
    """
    images = _images("avg_pool2d", input)
    kernel, step, edge = _window("avg_pool2d", kernel_size, stride, padding)
    size = pooled_size("avg_pool2d", input.shape, kernel, step, edge, (1, 1), ceil_mode)
    if divisor_override is not None:
        wide = _widened(images, kernel, step, edge, size)
        y = pool.avg_pool2d(wide, kernel=kernel, stride=step, padding=(0, 0), size=size,
                            count_include_pad=True)  # fmt: skip
        return _like(y * (kernel[0] * kernel[1] / divisor_override), input)
    y = pool.avg_pool2d(images, kernel=kernel, stride=step, padding=edge, size=size,
                        count_include_pad=count_include_pad)  # fmt: skip
    return _like(y, input)


def _widened(images: Tensor, kernel: Pair, stride: Pair, padding: Pair, size: Pair) -> Tensor:
    """The images with their padding, and zeros behind as far as the last window reaches."""
    for axis in (0, 1):
        own = list(images.shape)
        end = (size[axis] - 1) * stride[axis] + kernel[axis]
        own[2 + axis] = max(padding[axis] + own[2 + axis], end)
        images = embed(images, shape=tuple(own), dim=2 + axis, start=padding[axis])
    return images


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """The mean of windows that tile the image: o from floor(i h / o) to ceil((i + 1) h / o).

    Where the windows are all alike this is ``avg_pool2d``, else two products with matrices of
    means: Y = R X C^T.
    """
    images = _images("adaptive_avg_pool2d", input)
    given = (output_size,) * 2 if not isinstance(output_size, (tuple, list)) else output_size
    h, w = input.shape[-2:]
    o, p = (n if size is None else size for n, size in zip((h, w), given, strict=True))
    if o and p and h and h % o == 0 and w and w % p == 0:
        return avg_pool2d(input, (h // o, w // p))
    rows, columns = (as_tensor(_means(*sizes), dtype=input.dtype, device=input.device)
                     for sizes in ((o, h), (p, w)))  # fmt: skip
    y: Tensor = matmul(rows, matmul(images, columns.T))
    return _like(y, input)


def _means(windows: int, length: int) -> Array:
    """The matrix (windows, length) whose rows take the mean of one window each."""
    matrix = np.zeros((windows, length))
    for i in range(windows):
        start, stop = i * length // windows, -(-(i + 1) * length // windows)
        matrix[i, start:stop] = 1 / (stop - start)
    return matrix
