"""A layer and the rectifier behind it in one pass; ``minidp.folding`` puts them into steps.

None has rules: a captured step holds its backward already.
"""

from __future__ import annotations

from typing import Any

from minidp.op import op
from minidp.ops.arithmetic import relu, relu_input
from minidp.ops.conv import conv2d
from minidp.ops.normalize import batch_norm, batch_norm_own, batch_norm_own_back
from minidp.ops.pool import max_pool2d
from minidp.types import Array

Pair = tuple[int, int]


@op("n c h w, k d i j, k -> n k o p", check=conv2d.check)
def conv2d_relu(
    xp: Any, x: Array, w: Array, b: Array = None, stride: Pair = (1, 1), padding: Pair = (0, 0),
    dilation: Pair = (1, 1), groups: int = 1,
) -> Array:  # fmt: skip
    """``relu`` of ``conv2d``."""
    return relu.body(xp, conv2d.body(xp, x, w, b, stride, padding, dilation, groups))


@op("f:n c h w -> n c o p, i:n c o p", outputs="y index")
def max_pool2d_relu(xp: Any, x: Array, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair,
                    size: Pair) -> tuple[Array, Array]:  # fmt: skip
    """``relu`` of ``max_pool2d``. Where the largest is not positive, the offset is -1, in uint8
    255, which no place has: nothing goes back there."""
    y, index = max_pool2d.body(xp, x, kernel, stride, padding, dilation, size)
    index = xp.where(y <= 0, xp.asarray(-1, "int32"), index.astype("int32"))
    small = kernel[0] * kernel[1] <= 255
    return relu.body(xp, y), index.astype("uint8" if small else "int32")


@op("f:n c ..., f:c, f:c -> n c ..., c, c, c", outputs="y mean var shift")
def batch_norm_own_relu(
    xp: Any, x: Array, weight: Array = None, bias: Array = None, eps: float = 1e-5
) -> Any:
    """``relu`` of ``batch_norm_own``, and the bias as it was, for the way back."""
    y, mean, var = batch_norm_own.body(xp, x, weight, bias, eps)
    shift = xp.zeros_like(mean) if bias is None else bias.copy()
    return relu.body(xp, y), mean, var, shift


@op("f:n c ..., f:n c ..., f:c, f:c, f:c, f:c -> n c ..., c, c", outputs="dx dweight dbias")
def batch_norm_own_relu_back(
    xp: Any, dy: Array, x: Array, mean: Array, var: Array, shift: Array, weight: Array = None,
    eps: float = 1e-5,
) -> Any:  # fmt: skip
    """The cotangents of batch_norm_own_relu's x, weight and bias; the sign of its result is
    computed again, so that nobody need keep it."""
    y = batch_norm.body(xp, x, mean, var, weight, shift, eps)
    return batch_norm_own_back.body(xp, relu_input.body(xp, dy, y), x, mean, var, weight, eps)
