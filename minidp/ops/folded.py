"""A layer and the rectifier behind it in one pass; ``minidp.graph.folding`` puts them into steps.

None has rules: a captured step holds its backward already.
"""

from typing import Any

from minidp.ops.adjoint import composite
from minidp.ops.conv import conv2d
from minidp.ops.elementwise import cast, full_like, relu, relu_input, where
from minidp.ops.layout import copy
from minidp.ops.linalg import linear, matmul
from minidp.ops.normalize import batch_norm, batch_norm_own, batch_norm_own_back
from minidp.ops.pool import max_pool2d
from minidp.types import Array

Pair = tuple[int, int]


@composite("n c h w, k d i j, k -> n k o p", check=conv2d.check)
def conv2d_relu(xp: Any, x: Array, w: Array, b: Array = None, *, stride: Pair, padding: Pair,
                dilation: Pair, groups: int) -> Array:  # fmt: skip
    """``relu`` of ``conv2d``."""
    return relu(conv2d(x, w, b, stride, padding, dilation, groups))


@composite("n c, k c, k -> n k")
def linear_relu(xp: Any, x: Array, w: Array, b: Array = None) -> Array:
    """``relu`` of ``linear``."""
    return relu(linear(x, w, b))


@composite("i k, k j, i j -> i j")
def matmul_relu_input(xp: Any, a: Array, b: Array, y: Array) -> Array:
    """``relu_input`` of a cotangent that is the product of matrices a and b."""
    return relu_input(matmul(a, b), y)


@composite("f:n c h w -> n c o p, i:n c o p", outputs="y index")
def max_pool2d_relu(xp: Any, x: Array, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair,
                    size: Pair) -> tuple[Array, Array]:  # fmt: skip
    """``relu`` of ``max_pool2d``. Where none is positive the offset is -1: in uint8, 255."""
    y, index = max_pool2d(x, kernel, stride, padding, dilation, size)
    index = where(y <= 0, -1, cast(index, dtype="int32"))
    small = kernel[0] * kernel[1] <= 255
    return relu(y), cast(index, dtype="uint8" if small else "int32")


@composite("f:n c ..., f:c, f:c -> n c ..., c, c, c", outputs="y mean var shift")
def batch_norm_own_relu(xp: Any, x: Array, weight: Array = None, bias: Array = None,
                        eps: float = 1e-5) -> Any:  # fmt: skip
    """``relu`` of ``batch_norm_own``, and the bias as it was, for the way back."""
    y, mean, var = batch_norm_own(x, weight, bias, eps)
    return relu(y), mean, var, full_like(mean, value=0.0) if bias is None else copy(bias)


@composite("f:n c ..., f:n c ..., f:c, f:c, f:c, f:c -> n c ..., c, c", outputs="dx dweight dbias")
def batch_norm_own_relu_back(xp: Any, dy: Array, x: Array, mean: Array, var: Array, shift: Array,
                             weight: Array = None, eps: float = 1e-5) -> Any:  # fmt: skip
    """The cotangents of batch_norm_own_relu's x, weight and bias; the sign of its result is
    computed again, so that nobody need keep it."""
    y = batch_norm(x, mean, var, weight, shift, eps)
    return batch_norm_own_back(relu_input(dy, y), x, mean, var, weight, eps=eps)
