"""Activations. ``inplace`` is accepted for PyTorch's sake; nothing is done in place."""

from __future__ import annotations

import warnings
from typing import Any

from minidp.ops import elementwise
from minidp.ops import softmax as ops
from minidp.shapes import axis_of
from minidp.tensor import Tensor


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """y = max(x, 0)."""
    result: Tensor = elementwise.relu(input)
    return result


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """y = x where x > 0, else negative_slope x."""
    result: Tensor = elementwise.where(input > 0, input, input * negative_slope)
    return result


def tanh(input: Tensor) -> Tensor:
    """y = tanh x."""
    result: Tensor = elementwise.tanh(input)
    return result


def sigmoid(input: Tensor) -> Tensor:
    """y = 1 / (1 + e^-x)."""
    result: Tensor = elementwise.sigmoid(input)
    return result


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """y = log(1 + e^(beta x)) / beta; x itself where beta x > threshold."""
    scaled = input * beta
    soft = elementwise.log1pexp(scaled) / beta
    result: Tensor = elementwise.where(scaled > threshold, input, soft)
    return result


def softmax(input: Tensor, dim: int | None = None, *, dtype: Any = None) -> Tensor:
    """y = e^x / sum e^x along ``dim``, computed in ``dtype`` if given."""
    x = input if dtype is None else input.to(dtype)
    result: Tensor = ops.softmax(x, dim=_axis("softmax", x, dim))
    return result


def log_softmax(input: Tensor, dim: int | None = None, *, dtype: Any = None) -> Tensor:
    """y = x - log sum e^x along ``dim``, computed in ``dtype`` if given."""
    x = input if dtype is None else input.to(dtype)
    result: Tensor = ops.log_softmax(x, dim=_axis("log_softmax", x, dim))
    return result


def _axis(name: str, input: Tensor, dim: int | None) -> int:
    if dim is None:
        warnings.warn(f"{name} without dim chooses one by the number of axes; give dim=",
                      stacklevel=3)  # fmt: skip
        dim = 0 if input.ndim in (0, 1, 3) else 1
    return axis_of(name, dim, input.ndim)
