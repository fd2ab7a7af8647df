"""Affine and bilinear maps, and class numbers as unit vectors."""

from __future__ import annotations

import math

from minidp.arguments import expect_tensors
from minidp.create import arange
from minidp.errors import ArgumentError, DTypeError, ShapeError
from minidp.functional.ranks import alike
from minidp.functions.index import in_range
from minidp.ops import linalg
from minidp.ops.layout import reshape
from minidp.tensor import Tensor
from minidp.types import category

__all__ = ["bilinear", "linear", "one_hot"]


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """y = x W^T + b: x (..., c), weight (k, c), bias (k) -> (..., k); of a weight (c) (...)."""
    if type(input) is not Tensor or not isinstance(weight, Tensor):
        expect_tensors("linear", input, weight)
    if weight.ndim == 1:
        return linear(input, weight.unsqueeze(0), None if bias is None else bias.reshape(1))[..., 0]
    shape = input.shape
    if len(shape) == 2:
        return linalg.linear(input, weight, bias)
    if shape[-1:] != weight.shape[1:]:
        raise ShapeError(
            f"linear(input {shape}, weight {weight.shape}): the last axis of the input "
            f"should be {weight.shape[-1]}; is nn.Flatten missing before it?"
        )
    rows = reshape(input, shape=(math.prod(shape[:-1]), shape[-1]))
    y = linalg.linear(rows, weight, bias)
    return reshape(y, shape=(*shape[:-1], y.shape[-1]))


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """y_k = sum_ij x1_i W_kij x2_j + b_k: x1 (..., i), x2 (..., j), weight (k, i, j), bias (k)."""
    ends = (*input1.shape[-1:], *input2.shape[-1:])
    if input1.shape[:-1] != input2.shape[:-1] or weight.shape[1:] != ends:
        raise ShapeError(f"bilinear({input1.shape}, {input2.shape}, weight {weight.shape}): "
                         "expected (..., i), (..., j), weight (k, i, j)")  # fmt: skip
    alike("bilinear", input1, input2, weight, bias)
    pairs = input1.unsqueeze(-1) * input2.unsqueeze(-2)
    return linear(pairs.flatten(-2), weight.flatten(1), bias)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """int64 zeros of shape (..., classes) with a 1 at each class number; -1: as many as needed.

    >>> F.one_hot(dp.tensor([0, 2]), 3)
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    if category(tensor.dtype) != 1:
        raise DTypeError(f"one_hot is only applicable to integer tensors, got {tensor.dtype}")
    count = num_classes
    if num_classes == -1:
        count = int(tensor.amax()) + 1 if tensor.numel() else 0
    if count <= 0:
        raise ArgumentError(f"one_hot({tensor.shape}, {num_classes}): expected at least one class")
    places = in_range("one_hot", tensor, count)
    return (places.unsqueeze(-1) == arange(count, device=tensor.device)).long()
