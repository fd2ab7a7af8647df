"""Batch norm, relu and max pooling in one pass; ``minidp.graph.folding`` puts them into steps.

What lies between them, as large as the layer's input, is made an image at a time and never kept.
None has rules: a captured step holds its backward already.
"""

from typing import Any

from minidp.ops.adjoint import composite
from minidp.ops.elementwise import rsqrt
from minidp.ops.folded import Pair, max_pool2d_relu
from minidp.ops.normalize import batch_norm, batch_norm_own_back
from minidp.ops.pool import max_pool2d_input
from minidp.ops.shared_norm import batch_norm_back, batch_norm_sums
from minidp.types import Array, Shape


@composite("f:n c h w, f:c, f:c, f:c, f:c -> n c o p, i:n c o p, c", outputs="y index r")
def batch_norm_pool(xp: Any, x: Array, mean: Array, var: Array, weight: Array = None,
                    bias: Array = None, eps: float = 1e-5, kernel: Pair = (2, 2),
                    stride: Pair = (2, 2), padding: Pair = (0, 0), dilation: Pair = (1, 1),
                    size: Pair = (1, 1)) -> Any:  # fmt: skip
    """``max_pool2d_relu`` of ``batch_norm``; and r = 1 / sqrt(var + eps)."""
    y = batch_norm(x, mean, var, weight, bias, eps)
    return *max_pool2d_relu(y, kernel, stride, padding, dilation, size), rsqrt(var + eps)


@composite("f:n c o p, i:n c o p, f:n c h w, f:c, f:c, f:c -> n c h w, c, c",
           outputs="dx dweight dbias")  # fmt: skip
def batch_norm_own_pool_back(xp: Any, g: Array, index: Array, x: Array, mean: Array, var: Array,
                             weight: Array = None, eps: float = 1e-5, shape: Shape = (),
                             kernel: Pair = (2, 2), stride: Pair = (2, 2), padding: Pair = (0, 0),
                             dilation: Pair = (1, 1)) -> Any:  # fmt: skip
    """``batch_norm_own_back`` of ``max_pool2d_input``."""
    dy = max_pool2d_input(g, index, shape, kernel, stride, padding, dilation)
    return batch_norm_own_back(dy, x, mean, var, weight, eps=eps)


@composite("f:n c o p, i:n c o p, f:n c h w, f:c, f:c -> c, c", outputs="total along")
def batch_norm_pool_sums(xp: Any, g: Array, index: Array, x: Array, mean: Array, var: Array,
                         eps: float = 1e-5, shape: Shape = (), kernel: Pair = (2, 2),
                         stride: Pair = (2, 2), padding: Pair = (0, 0), dilation: Pair = (1, 1)
                         ) -> Any:  # fmt: skip
    """``batch_norm_sums`` of ``max_pool2d_input``."""
    dy = max_pool2d_input(g, index, shape, kernel, stride, padding, dilation)
    return batch_norm_sums(dy, x, mean, var, eps=eps)


@composite("f:n c o p, i:n c o p, f:n c h w, f:c, f:c, f:two, f:one, f:c -> n c h w")
def batch_norm_pool_back(xp: Any, g: Array, index: Array, x: Array, mean: Array, var: Array,
                         sums: Array, count: Array, weight: Array = None, eps: float = 1e-5,
                         shape: Shape = (), kernel: Pair = (2, 2), stride: Pair = (2, 2),
                         padding: Pair = (0, 0), dilation: Pair = (1, 1)) -> Any:  # fmt: skip
    """``batch_norm_back`` of ``max_pool2d_input``."""
    dy = max_pool2d_input(g, index, shape, kernel, stride, padding, dilation)
    return batch_norm_back(dy, x, mean, var, sums, count, weight, eps=eps)
