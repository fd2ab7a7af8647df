"""Pooling: the largest value, the mean or a norm of each window, for 1, 2 and 3 spatial axes.

Images have kernels. Sequences are images of height one; volumes are pooled in two stages, each
frame, then along the depth.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minidp.arguments import remembered
from minidp.create import arange, as_tensor
from minidp.errors import ArgumentError, ShapeError
from minidp.functional.ranks import batched, checked, each_rank, floating, like
from minidp.functions.along import scatter
from minidp.functions.comparison import isnan
from minidp.ops import pool, reduce
from minidp.ops.elementwise import abs, relu, sign, where
from minidp.ops.index import take_along_dim
from minidp.ops.layout import reshape
from minidp.ops.windows import resample
from minidp.shapes import sizes
from minidp.tensor import Tensor
from minidp.types import Array

__all__ = ["adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d",
           "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", "avg_pool1d",
           "avg_pool2d", "avg_pool3d", "lp_pool1d", "lp_pool2d", "lp_pool3d", "max_pool1d",
           "max_pool2d", "max_pool3d", "max_unpool1d", "max_unpool2d", "max_unpool3d"]  # fmt: skip


@remembered
def _geometry(
    name: str, shape: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool
) -> dict[str, tuple[int, ...]]:
    """Every size for each axis of ``shape``, for sequences as images of height one; an output has
    o = (h + 2 padding - dilation (kernel - 1) - 1) / stride + 1 places, rounded down or up.
    Rounded up, a last window that would begin behind the image and its left padding is dropped."""
    stride = kernel if stride is None or np.size(stride) == 0 else stride
    given = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}
    found = dict(zip(given, checked(name, len(shape), **given), strict=True))
    if any(2 * edge > size for edge, size in zip(found["padding"], found["kernel"], strict=True)):
        raise ShapeError(f"{name}: padding={padding} should be at most half of the kernel "
                         f"size: kernel_size={kernel}")  # fmt: skip
    size = []
    for length, k, step, edge, spread in zip(shape, *found.values(), strict=True):
        room = length + 2 * edge - spread * (k - 1) - 1
        count = (room + (step - 1 if ceil else 0)) // step + 1
        size.append(count - 1 if ceil and (count - 1) * step >= length + edge else count)
    if min(size) < 1:
        raise ShapeError(f"{name}: {found} leave no output of {tuple(shape)}")
    found["size"] = tuple(size)
    return found if len(shape) > 1 else {k: (int(k != "padding"), *v) for k, v in found.items()}


def _pooled(n: int, x: Tensor, geometry: dict[str, Any], pooled: Callable[..., Tensor]) -> Tensor:
    """What ``pooled``, a function of images, makes of sequences, images or volumes."""
    if n == 2:
        return pooled(x, **geometry)
    if n == 1:
        y = pooled(reshape(x, shape=(*x.shape[:2], 1, x.shape[2])), **geometry)
        return reshape(y, shape=(*x.shape[:2], y.shape[3]))
    frames = pooled(x.flatten(1, 2), **{k: v[1:] for k, v in geometry.items()})
    places = frames.shape[2] * frames.shape[3]
    along = {k: (v[0], places if k == "size" else int(k != "padding")) for k, v in geometry.items()}
    y = pooled(frames.reshape(*x.shape[:3], places), **along)
    return y.reshape(*x.shape[:2], *geometry["size"])


def _places(
    index: Tensor, width: int, kernel: Any, stride: Any, padding: Any, dilation: Any, size: Any
) -> Tensor:
    """Offsets within windows, as max_pool2d gives them, as places in the flat image."""
    offset, (o, p) = index.long(), (arange(n, device=index.device) for n in size)
    row = o.unsqueeze(1) * stride[0] - padding[0] + offset // kernel[1] * dilation[0]
    return row * width + p * stride[1] - padding[1] + offset % kernel[1] * dilation[1]


def _max_pool(
    n: int, input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
    dilation: Any = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest value of each window; with ``return_indices`` also its place in the flat image.

    The first of equals is chosen, of several NaNs the last.
    """
    name = f"max_pool{n}d"
    x = batched(name, input, n)
    geometry = _geometry(name, x.shape[2:], kernel_size, stride, padding, dilation, ceil_mode)
    chosen = []

    def largest(images: Tensor, **window: Any) -> Tensor:
        y, index = pool.max_pool2d(images, **window)
        if return_indices:
            chosen.append(_places(index, images.shape[3], **window))
        return y

    y = _pooled(n, x, geometry, largest)
    if not return_indices:
        return like(y, input, n)
    places = chosen[-1].flatten(2)
    if n == 3:
        first = arange(x.shape[2], device=x.device) * (x.shape[3] * x.shape[4])
        within = chosen[0].reshape(*x.shape[:3], -1 if chosen[0].numel() else 0)
        places = take_along_dim((within + first.unsqueeze(1)).flatten(2), places, dim=2)
    return like(y, input, n), like(places.reshape(y.shape), input, n)


def _avg_pool(
    n: int, input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """The mean of each window; ``count_include_pad`` says whether padding counts as zeros.

    With ``divisor_override`` the sum of each window, divided by that.
    """
    name = f"avg_pool{n}d"
    x = batched(name, input, n)
    geometry = _geometry(name, x.shape[2:], kernel_size, stride, padding, 1, ceil_mode)
    if n == 3 and any(k > size for k, size in zip(geometry["kernel"], x.shape[2:], strict=True)):
        raise ShapeError(f"{name}: input of {x.shape[2:]} places is smaller than "
                         f"kernel_size={kernel_size}")  # fmt: skip
    if divisor_override == 0:
        raise ArgumentError(f"{name}: divisor must be not zero")

    def mean(images: Tensor, dilation: Any, **window: Any) -> Tensor:
        if divisor_override is None:
            return pool.avg_pool2d(images, **window, count_include_pad=count_include_pad)
        count = pool.window_counts(np, images.shape, **window, count_include_pad=True,
                                   dtype=images.dtype)  # fmt: skip
        y = pool.avg_pool2d(images, **window, count_include_pad=True)
        return y * as_tensor(count, device=images.device)

    y = like(_pooled(n, x, geometry, mean), input, n)
    return y if divisor_override is None else y / divisor_override


def _lp_pool(n: int, input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None,
             ceil_mode: bool = False) -> Any:  # fmt: skip
    """(sum x^p)^(1/p) of each window, for p = ``norm_type``; the largest |x| for infinity."""
    if math.isinf(norm_type):
        side = math.copysign(1, norm_type)
        return side * _max_pool(n, side * abs(input), kernel_size, stride, ceil_mode=ceil_mode)
    mean = _avg_pool(n, input**norm_type, kernel_size, stride, 0, ceil_mode)
    count = math.prod(sizes(kernel_size, n, f"lp_pool{n}d: kernel_size"))
    return (sign(mean) * relu(abs(mean)) * count) ** (1 / norm_type)


def _max_unpool(n: int, input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None,
                padding: Any = 0, output_size: Any = None) -> Tensor:  # fmt: skip
    """Zeros with the values of ``max_pool`` at the ``indices`` that it gave."""
    name = f"max_unpool{n}d"
    x, places = (batched(name, each, n) for each in (input, indices))
    stride = kernel_size if stride is None or np.size(stride) == 0 else stride
    k, s, p = checked(name, n, kernel_size=kernel_size, stride=stride, padding=padding)
    usual = [(h - 1) * s[a] - 2 * p[a] + k[a] for a, h in enumerate(x.shape[2:])]
    wanted = list(usual if output_size is None else output_size)[-n:]
    off = [abs(size - length) for size, length in zip(wanted, usual, strict=True)]
    if x.shape != places.shape or any(d >= step for d, step in zip(off, s, strict=True) if d):
        raise ShapeError(f"{name}: input {input.shape}, indices {indices.shape}, output_size="
                         f"{output_size}: expected equal shapes and about {usual}")  # fmt: skip
    y = x.new_zeros(*x.shape[:2], math.prod(wanted))
    y = scatter(y, 2, places.flatten(2), x.flatten(2))
    return like(y.reshape(*x.shape[:2], *wanted), input, n)


@remembered
def _adaptive(name: str, shape: Any, output_size: Any) -> tuple[list[Any], Any]:
    """(windows, length) along each axis of ``shape``; the kernel, if windows are all alike."""
    n = len(shape)
    given = (output_size,) * n if not isinstance(output_size, (tuple, list)) else output_size
    given = [n if n is None else sizes(n, 1, f"{name}: output_size")[0] for n in given]
    if len(given) != n or any(size is not None and size < 0 for size in given):
        raise ShapeError(f"{name}: output_size={output_size!r}: expected {n} sizes of at least 0")
    if 0 in shape:
        raise ShapeError(f"{name}: expected at least one place along each axis, got {shape}")
    axes = [(n if size is None else size, n) for size, n in zip(given, shape, strict=True)]
    alike = all(o and length % o == 0 for o, length in axes)
    return axes, tuple(length // o for o, length in axes) if alike else None


def _adaptive_avg_pool(n: int, input: Tensor, output_size: Any) -> Tensor:
    """The mean of windows that tile the image: o from floor(i h / o) to ceil((i + 1) h / o).

    Where the windows are all alike this is average pooling, else one axis after the other.
    """
    name = f"adaptive_avg_pool{n}d"
    x = batched(name, floating(name, input), n)
    axes, kernel = _adaptive(name, x.shape[2:], output_size)
    if kernel is not None:
        return _avg_pool(n, input, kernel)
    for dim, (o, length) in enumerate(axes, 2):
        index, weight = _tiles(o, length)
        x = resample(x, dim=dim, index=index, weight=weight)
    return like(x, input, n)


def _adaptive_max_pool(
    n: int, input: Tensor, output_size: Any, return_indices: bool = False
) -> Any:
    """The largest value of windows that tile the image, as ``adaptive_avg_pool`` has them."""
    name = f"adaptive_max_pool{n}d"
    x = batched(name, input, n)
    axes, kernel = _adaptive(name, x.shape[2:], output_size)
    if kernel is not None:
        return _max_pool(n, input, kernel, return_indices=return_indices)
    table = np.zeros((1, 1), int)  # windows, places in the flat image
    for o, length in axes:
        index, _ = _tiles(o, length)
        both = table[:, None, :, None] * length + index[None, :, None, :]
        table = both.reshape(len(table) * o, table.shape[1] * index.shape[1])
    flat = as_tensor(table, device=x.device)
    values = x.detach().flatten(2)[:, :, flat]
    nan = isnan(values)
    last = reduce.argmax(nan * arange(1, values.shape[3] + 1, device=x.device), dim=3)
    chosen = where(reduce.any(nan, dim=3), last, reduce.argmax(values, dim=3))
    places = flat[arange(len(flat), device=x.device), chosen]
    y = take_along_dim(x.flatten(2), places, dim=2)
    size = (*x.shape[:2], *(o for o, _ in axes))
    y, places = (like(each.reshape(size), input, n) for each in (y, places))
    return (y, places) if return_indices else y


@remembered
def _tiles(windows: int, length: int) -> tuple[Array, Array]:
    """The places of each window (short ones repeat their last), and what each adds to its mean."""
    first = np.arange(windows) * length // windows if windows else np.arange(0)
    last = -(-np.arange(1, windows + 1) * length // max(windows, 1)) - 1
    widest, counts = int((last - first).max(initial=0)) + 1, (last - first + 1)[:, None]
    index = np.minimum(first[:, None] + np.arange(widest), last[:, None])
    return index, 1 / counts / np.where(index == last[:, None], widest - counts + 1, 1)


avg_pool1d, avg_pool2d, avg_pool3d = each_rank(_avg_pool)
max_pool1d, max_pool2d, max_pool3d = each_rank(_max_pool)
max_unpool1d, max_unpool2d, max_unpool3d = each_rank(_max_unpool)
lp_pool1d, lp_pool2d, lp_pool3d = each_rank(_lp_pool)
adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = each_rank(_adaptive_avg_pool)
adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = each_rank(_adaptive_max_pool)
