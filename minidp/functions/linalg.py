"""Linear algebra under PyTorch's names."""

from __future__ import annotations

from typing import Any

from minidp.errors import ShapeError
from minidp.ops import linalg as ops
from minidp.tensor import Tensor, method

__all__ = ["matmul"]


@method("matmul", "__matmul__")
def matmul(self: Tensor, other: Any) -> Tensor:
    """Matrix product; a vector on either side is a row or a column whose axis is dropped."""
    b = other if isinstance(other, Tensor) else Tensor(other)
    if self.ndim == 0 or b.ndim == 0:
        raise ShapeError(f"matmul({self.shape}, {b.shape}): expected at least one axis each")
    left = self.unsqueeze(0) if self.ndim == 1 else self
    right = b.unsqueeze(1) if b.ndim == 1 else b
    y: Tensor = ops.matmul(left, right)
    y = y.squeeze(-1) if b.ndim == 1 else y
    if self.ndim == 1:
        y = y.squeeze(-1 if b.ndim == 1 else -2)
    return y


@method("__rmatmul__")
def rmatmul(self: Tensor, other: Any) -> Tensor:
    """other @ self."""
    return matmul(Tensor(other), self)
