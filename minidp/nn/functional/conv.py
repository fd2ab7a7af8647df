"""Convolution."""

from __future__ import annotations

from typing import Any

from minidp.errors import ShapeError
from minidp.ops import conv
from minidp.ops.layout import embed
from minidp.shapes import pair
from minidp.tensor import Tensor

Pair = tuple[int, int]


def conv2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Cross-correlation of (n, c, h, w) or (c, h, w) with weight (k, c / groups, i, j).

    ``padding`` is a size, a (height, width) pair, "valid" or "same".
    """
    if input.ndim == 3:
        image = conv2d(input.unsqueeze(0), weight, bias, stride, padding, dilation, groups)
        return image.squeeze(0)
    stride, dilation = pair(stride, "conv2d: stride"), pair(dilation, "conv2d: dilation")
    if min(*stride, *dilation) < 1:
        raise ShapeError(f"conv2d: stride={stride}, dilation={dilation}: expected at least 1")
    if isinstance(padding, str):
        padding, rest = same_padding(padding, weight.shape[2:], stride, dilation)
        input = _grown(input, rest)
    edge = pair(padding, "conv2d: padding")
    result: Tensor = conv.conv2d(
        input, weight, bias, stride=stride, padding=edge, dilation=dilation, groups=groups
    )
    return result


def same_padding(padding: str, kernel: Any, stride: Pair, dilation: Pair) -> tuple[Pair, Pair]:
    """What "valid" or "same" means: the padding on every side, and the rest behind each axis."""
    if padding == "valid":
        return (0, 0), (0, 0)
    if padding != "same":
        raise ValueError(f"padding={padding!r}: expected 'valid', 'same' or a size")
    if stride != (1, 1):
        raise ValueError(f"padding='same' is not supported for strided convolutions: {stride}")
    total = [dilation[axis] * (kernel[axis] - 1) for axis in (0, 1)]
    return (total[0] // 2, total[1] // 2), (total[0] % 2, total[1] % 2)


def _grown(image: Tensor, rest: Pair) -> Tensor:
    """The image with ``rest`` rows of zeros below and columns of zeros at the right."""
    for dim, count in zip((2, 3), rest, strict=True):
        if count:
            shape = (*image.shape[:dim], image.shape[dim] + count, *image.shape[dim + 1 :])
            image = embed(image, shape=shape, dim=dim, start=0)
    return image
