"""Affine maps, and class numbers as unit vectors."""

from __future__ import annotations

import math

from minidp.create import arange
from minidp.errors import DTypeError
from minidp.ops import linalg
from minidp.tensor import Tensor
from minidp.types import category


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """y = x W^T + b: x (..., c), weight (k, c), bias (k) -> (..., k)."""
    if input.ndim == 2:
        result: Tensor = linalg.linear(input, weight, bias)
        return result
    rows = input.reshape(math.prod(input.shape[:-1]), *input.shape[-1:])
    y: Tensor = linalg.linear(rows, weight, bias)
    return y.reshape(*input.shape[:-1], y.shape[-1])


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """int64 zeros of shape (..., classes) with a 1 at each class number; -1: as many as needed."""
    if category(tensor.dtype) != 1:
        raise DTypeError(f"one_hot is only applicable to integer tensors, got {tensor.dtype}")
    low, high = (int(tensor.amin()), int(tensor.amax())) if tensor.numel() else (0, num_classes - 1)
    count = high + 1 if num_classes == -1 else num_classes
    if low < 0 or high >= count or count <= 0:
        raise ValueError(f"one_hot: class values {low} to {high}; expected 0 to {count - 1}")
    classes = arange(count, device=tensor.device)
    return (tensor.unsqueeze(-1) == classes).long()
