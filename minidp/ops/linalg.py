"""Linear algebra: products of matrices."""

from __future__ import annotations

from typing import Any

from minidp.errors import ShapeError
from minidp.op import op
from minidp.ops.layout import permute
from minidp.ops.reduce import sum
from minidp.tensor import Tensor, method
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


@method("matmul", "__matmul__")
def product(self: Tensor, other: Any) -> Tensor:
    """Matrix product; a vector on either side is a row or a column whose axis is dropped."""
    b = other if isinstance(other, Tensor) else Tensor(other)
    if self.ndim == 0 or b.ndim == 0:
        raise ShapeError(f"matmul({self.shape}, {b.shape}): expected at least one axis each")
    left = self.unsqueeze(0) if self.ndim == 1 else self
    right = b.unsqueeze(1) if b.ndim == 1 else b
    y: Tensor = matmul(left, right)
    y = y.squeeze(-1) if b.ndim == 1 else y
    if self.ndim == 1:
        y = y.squeeze(-1 if b.ndim == 1 else -2)
    return y


@method("__rmatmul__")
def rproduct(self: Tensor, other: Any) -> Tensor:
    """other @ self."""
    return product(Tensor(other), self)


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
