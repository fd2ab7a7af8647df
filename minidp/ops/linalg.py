"""Linear algebra: products of matrices."""

from __future__ import annotations

from typing import Any

from minidp.op import op
from minidp.ops.layout import permute
from minidp.ops.reduce import sum
from minidp.types import Array


def flipped(x: Any) -> Any:
    """The last two axes exchanged."""
    count = len(x.shape)
    return permute(x, axes=(*range(count - 2), count - 1, count - 2))


@op("... i k, ... k j -> ... i j",
    a=lambda g, b: matmul(g, flipped(b)), b=lambda g, a: matmul(flipped(a), g))  # fmt: skip
def matmul(xp: Any, a: Array, b: Array) -> Array:
    """Matrix product over the last two axes, the others broadcast: y_ij = sum_k a_ik b_kj."""
    return xp.matmul(a, b)


@op("n c, k c, k -> n k",
    x=lambda g, w: matmul(g, w),
    w=lambda g, x: matmul(flipped(g), x),
    b=lambda g: sum(g, dim=0))  # fmt: skip
def linear(xp: Any, x: Array, w: Array, b: Array = None) -> Array:
    """Affine map of rows: y = x w^T + b."""
    y = xp.matmul(x, w.T)
    if b is not None:
        y += b
    return y
