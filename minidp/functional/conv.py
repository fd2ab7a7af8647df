"""Convolution of sequences, images and volumes, and its adjoint.

A sequence (n, c, l) is an image of height one. A volume (n, c, d, h, w) is cut into windows along
its depth: their frames are channels of images, so one two-dimensional convolution does all.
"""

from __future__ import annotations

from typing import Any

from minidp.arguments import expect_tensors
from minidp.errors import ArgumentError, ShapeError
from minidp.functional.ranks import alike, batched, checked, each_rank, like
from minidp.ops import conv
from minidp.ops.layout import embed, narrow
from minidp.ops.windows import overlap, windows
from minidp.tensor import Tensor

__all__ = ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
           "conv_transpose3d", "fold", "same_padding", "unfold"]  # fmt: skip


def _conv(
    n: int, input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
    padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Cross-correlation of (n, c, ...) or (c, ...) with weight (k, c / groups, ...).

    Sizes are integers or one for each spatial axis; ``padding`` may be "valid" or "same".
    """
    name = f"conv{n}d"
    x = _ranked(name, input, weight, n)
    _matched(name, input, x, weight, groups)
    stride, dilation = checked(name, n, stride=stride, dilation=dilation)
    if isinstance(padding, str):
        padding, rest = same_padding(padding, weight.shape[2:], stride, dilation)
        for dim, more in enumerate(rest, 2):
            x = _resized(x, dim, 0, x.shape[dim] + more)
    (edge,) = checked(name, n, padding=padding)
    size = conv.output_size(name, x.shape, weight.shape, stride, edge, dilation, groups)
    count = len(x)
    if n == 3:
        x = _resized(x, 2, -edge[0], x.shape[2] + 2 * edge[0])
        x = windows(x, dim=2, size=weight.shape[2], stride=stride[0], dilation=dilation[0])
        x = x.permute(0, 3, 1, 2, 4, 5).flatten(2, 3).flatten(0, 1)
    two = _pairs(stride, edge, dilation, groups)
    y = conv.conv2d(_image(x, n), _kernel(weight, n), bias, **two)
    y = y.reshape(count, size[0], *y.shape[1:]).transpose(1, 2) if n == 3 else y
    return like(y.squeeze(2) if n == 1 else y, input, n)


def _conv_transpose(
    n: int, input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
    padding: Any = 0, output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> Tensor:  # fmt: skip
    """The adjoint of convolution: (n, k, ...) with weight (k, c / groups, ...) to (n, c, ...).

    h = (o - 1) stride - 2 padding + dilation (i - 1) + output_padding + 1 along each axis.
    """
    name = f"conv_transpose{n}d"
    x = _ranked(name, input, weight, n)
    alike(name, weight, bias)
    stride, edge, extra, dilation = checked(
        name, n, stride=stride, padding=padding, output_padding=output_padding, dilation=dilation
    )
    axes = zip(x.shape[2:], weight.shape[2:], stride, dilation, strict=True)
    whole = [(o - 1) * s + d * (k - 1) + 1 for o, k, s, d in axes]
    crop = [(p, h - 2 * p + more) for h, p, more in zip(whole, edge, extra, strict=True)]
    if any(length < 1 or more >= max(s, d) for (_, length), more, s, d in
           zip(crop, extra, stride, dilation, strict=True)):  # fmt: skip
        raise ShapeError(f"{name}(input {input.shape}, weight {weight.shape}, padding={edge}): "
                         f"expected an output, and output_padding={extra} below stride={stride} "
                         f"or dilation={dilation}")  # fmt: skip
    if groups < 1 or x.shape[1] != weight.shape[0] or x.shape[1] % groups:
        raise ShapeError(f"{name}(input {input.shape}, weight {weight.shape}, groups={groups}): "
                         f"the input has {x.shape[1]} channel(s), the weight takes "
                         f"{weight.shape[0]}, and groups have to divide them")  # fmt: skip
    y = _adjoint(n, x, weight, groups, whole, stride, dilation)
    for dim, (start, length) in enumerate(crop, 2):
        y = _resized(y, dim, start, length)
    return like(y if bias is None else y + bias.reshape(-1, *(1,) * n), input, n)


def missing(
    name: str, input: Tensor, output_size: Any, kernel: Any, stride: Any, padding: Any,
    dilation: Any,
) -> tuple[int, ...]:  # fmt: skip
    """The ``output_padding`` that gives ``output_size``: what its smallest output lacks."""
    n = len(kernel)
    axes = zip(input.shape[-n:], kernel, stride, padding, dilation, strict=True)
    least = [(o - 1) * s - 2 * p + d * (k - 1) + 1 for o, k, s, p, d in axes]
    wanted = tuple(output_size)[-n:]
    extra = tuple(size - low for size, low in zip(wanted, least, strict=True))
    if any(not 0 <= more < step for more, step in zip(extra, stride, strict=True)):
        most = [low + step - 1 for low, step in zip(least, stride, strict=True)]
        raise ArgumentError(f"{name}: requested an output size of {wanted}, but valid sizes range "
                            f"from {least} to {most}")  # fmt: skip
    return extra


conv1d, conv2d, conv3d = each_rank(_conv)
conv_transpose1d, conv_transpose2d, conv_transpose3d = each_rank(_conv_transpose)


def _adjoint(
    n: int, y: Tensor, weight: Tensor, groups: int, whole: Any, stride: Any, dilation: Any
) -> Tensor:
    """The cotangent of the ``whole`` padded x of a convolution."""
    geometry = _pairs(stride, (0,) * n, dilation, groups)
    count, channels, frames = len(y), weight.shape[1] * groups, 1
    if n == 3:
        frames, depth = weight.shape[2], y.shape[2]
        y = y.transpose(1, 2).flatten(0, 1)
    shape = (len(y), channels * frames, *(1, *whole)[-2:])
    x = conv.conv2d_input(_image(y, n), _kernel(weight, n), shape=shape, **geometry)
    if n < 3:
        return x.squeeze(2) if n == 1 else x
    x = x.reshape(count, depth, channels, frames, *whole[1:]).permute(0, 2, 3, 1, 4, 5)
    return overlap(x, shape=(count, channels, *whole), dim=2, stride=stride[0],
                   dilation=dilation[0])  # fmt: skip


def unfold(
    input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """The windows of (n, c, h, w) or (c, h, w) as columns: (n, c i j, o p)."""
    x = batched("unfold", input, 2)
    kernel, step, edge, spread = checked("unfold", 2, kernel_size=kernel_size, stride=stride,
                                         padding=padding, dilation=dilation)  # fmt: skip
    conv.output_size("unfold", x.shape, (1, x.shape[1], *kernel), step, edge, spread, 1)
    for axis in (1, 0):
        x = _resized(x, axis + 2, -edge[axis], x.shape[axis + 2] + 2 * edge[axis])
        x = windows(x, dim=axis + 2, size=kernel[axis], stride=step[axis], dilation=spread[axis])
    x = x.permute(0, 1, 2, 4, 3, 5)
    return like(x.flatten(4, 5).flatten(1, 3), input, 2)


def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0,
    stride: Any = 1,
) -> Tensor:  # fmt: skip
    """The adjoint of ``unfold``: columns (n, c i j, o p) added up where they lie in images."""
    x = batched("fold", input, 1)
    image, kernel, step, edge, spread = checked(
        "fold", 2, output_size=output_size, kernel_size=kernel_size, stride=stride,
        padding=padding, dilation=dilation,
    )  # fmt: skip
    channels, rest = divmod(x.shape[1], kernel[0] * kernel[1])
    shape = (len(x), channels, *image)
    o, p = conv.output_size("fold", shape, (1, channels, *kernel), step, edge, spread, 1)
    if rest or x.shape[2] != o * p:
        raise ShapeError(f"fold({input.shape}): expected a multiple of {kernel[0] * kernel[1]} "
                         f"rows and {o} x {p} columns")  # fmt: skip
    x = x.reshape(len(x), channels, *kernel, o, p).permute(0, 1, 2, 4, 3, 5)
    for axis, before in ((1, (*shape[:2], kernel[0], o)), (0, shape[:2])):
        wide = (*before, image[axis] + 2 * edge[axis], *x.shape[len(before) + 2 :])
        x = overlap(x, shape=wide, dim=len(before), stride=step[axis], dilation=spread[axis])
        x = _resized(x, len(before), edge[axis], image[axis])
    return like(x, input, 1)


def same_padding(
    padding: Any, kernel: Any, stride: Any, dilation: Any
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What "valid", "same" or sizes mean: the padding on every side, the rest behind each axis."""
    none = (0,) * len(kernel)
    if padding == "valid" or not isinstance(padding, str):
        return none if padding == "valid" else padding, none
    if padding != "same":
        raise ArgumentError(f"padding={padding!r}: expected 'valid', 'same' or a size")
    if any(step != 1 for step in stride):
        raise ArgumentError(f"padding='same' is not supported for strided convolutions: {stride}")
    total = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    return tuple(each // 2 for each in total), tuple(each % 2 for each in total)


def _matched(name: str, input: Tensor, x: Tensor, weight: Tensor, groups: int) -> None:
    """A ShapeError where the input's channels are not those that the kernels take."""
    takes = weight.shape[1] * groups
    if groups > 0 and x.shape[1] != takes:
        hint = f"; of {input.shape[0]} images without channels, make x.unsqueeze(1)"
        raise ShapeError(
            f"{name}(input {input.shape}, weight {weight.shape}, groups={groups}): the input has "
            f"{x.shape[1]} channel(s), the weight takes {takes}"
            f"{hint if takes == 1 and input.ndim < x.ndim else ''}"
        )


def _ranked(name: str, input: Tensor, weight: Tensor, n: int) -> Tensor:
    expect_tensors(name, input, weight)
    if weight.ndim != n + 2:
        raise ShapeError(f"{name}: expected weight (k, c / groups, ...) of {n + 2} axes, "
                         f"got {weight.shape}")  # fmt: skip
    return batched(name, input, n)


def _image(x: Tensor, n: int) -> Tensor:
    return x.unsqueeze(2) if n == 1 else x


def _kernel(weight: Tensor, n: int) -> Tensor:
    """Weights for images: of height one, or with the frames of a volume's window as channels."""
    return weight.unsqueeze(2) if n == 1 else weight.flatten(1, 2) if n == 3 else weight


def _pairs(stride: Any, padding: Any, dilation: Any, groups: int) -> dict[str, Any]:
    """The geometry of the two last axes."""
    return {"stride": (1, *stride)[-2:], "padding": (0, *padding)[-2:],
            "dilation": (1, *dilation)[-2:], "groups": groups}  # fmt: skip


def _resized(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    """The places from ``start`` of an axis, ``length`` of them; zeros where x has none."""
    low, high = max(start, 0), min(start + length, x.shape[dim])
    if high - low != x.shape[dim]:
        x = narrow(x, dim=dim, start=low, length=max(0, high - low))
    if x.shape[dim] != length:
        shape = (*x.shape[:dim], length, *x.shape[dim + 1 :])
        x = embed(x, shape=shape, dim=dim, start=low - start)
    return x
