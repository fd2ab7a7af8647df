"""Comparing, choosing and bounding, element by element, under PyTorch's names."""

from __future__ import annotations

from typing import Any

import numpy as np

from minidp.arguments import refuse
from minidp.errors import ArgumentError, DTypeError
from minidp.ops import elementwise as ops
from minidp.ops.index import argwhere, get
from minidp.tensor import Tensor, method

__all__ = ["clamp", "clamp_max", "clamp_min", "clip", "fmax", "fmin", "greater",
           "greater_equal", "heaviside", "isclose", "isfinite", "isinf", "isnan", "isneginf",
           "isposinf", "less", "less_equal", "logical_and", "logical_not", "logical_or",
           "logical_xor", "nan_to_num", "not_equal", "signbit", "where"]  # fmt: skip


@method("clamp", "clip")
def clamp(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """Values kept inside [min, max], numbers or tensors; the cotangent passes where they were.

    >>> dp.clamp(dp.tensor([-2.0, 0.5, 3.0]), 0, 1)
    tensor([0.0000, 0.5000, 1.0000])
    """
    if min is None and max is None:
        raise ArgumentError("clamp: give min, max or both")
    return ops.clamp(input, min, max)


@method()
def clamp_min(input: Tensor, min: Any) -> Tensor:
    """Values not below ``min``."""
    return ops.clamp(input, min, None)


@method()
def clamp_max(input: Tensor, max: Any) -> Tensor:
    """Values not above ``max``."""
    return ops.clamp(input, None, max)


def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """``input`` where the condition holds, else ``other``; alone, the indices where it holds.

    >>> dp.where(dp.tensor([True, False]), dp.ones(2), 0.0)
    tensor([1., 0.])
    """
    if input is not None:
        return where_method(input, condition, other)
    condition._read()
    places = argwhere(condition if condition.ndim else condition.reshape(1))
    return tuple(get(places, key=(slice(None), axis)) for axis in range(places.shape[1]))


@method("where")
def where_method(self: Tensor, condition: Any, other: Any) -> Tensor:
    """The values where the condition holds, else ``other``."""
    if getattr(condition, "dtype", np.dtype(bool)).char not in "?B":
        raise DTypeError(f"where: a condition of {condition.dtype}; expected bool")
    return ops.where(condition, self, other)


@method()
def fmax(input: Tensor, other: Tensor) -> Tensor:
    """The larger of the two; of a NaN and a number, the number."""
    return ops.where((input >= other) | (other != other), input, other)


@method()
def fmin(input: Tensor, other: Tensor) -> Tensor:
    """The smaller of the two; of a NaN and a number, the number."""
    return ops.where((input <= other) | (other != other), input, other)


@method()
def logical_and(input: Tensor, other: Tensor) -> Tensor:
    """Whether both are not 0."""
    return (input != 0) & (other != 0)


@method()
def logical_or(input: Tensor, other: Tensor) -> Tensor:
    """Whether one or both are not 0."""
    return (input != 0) | (other != 0)


@method()
def logical_xor(input: Tensor, other: Tensor) -> Tensor:
    """Whether one but not both are not 0."""
    return (input != 0) ^ (other != 0)


@method()
def logical_not(input: Tensor) -> Tensor:
    """Whether an element is 0."""
    return input == 0


@method()
def isnan(input: Tensor) -> Tensor:
    """Whether an element is NaN."""
    return input != input


@method()
def isfinite(input: Tensor) -> Tensor:
    """Whether an element is neither NaN nor infinite."""
    return input * 0.0 == 0.0


@method()
def signbit(input: Tensor) -> Tensor:
    """Whether the sign is minus, that of -0.0 and of a NaN too."""
    return (ops.copysign(1.0, input) if input.dtype.kind == "f" else input) < 0


@method()
def isinf(input: Tensor) -> Tensor:
    """Whether an element is infinite, of either sign."""
    return (input == np.inf) | (input == -np.inf)


@method()
def isposinf(input: Tensor) -> Tensor:
    """Whether an element is +inf."""
    return input == np.inf


@method()
def isneginf(input: Tensor) -> Tensor:
    """Whether an element is -inf."""
    return input == -np.inf


@method()
def isclose(
    input: Tensor, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:  # fmt: skip
    """Whether |x - y| <= atol + rtol |y|, or x = y; NaN only to NaN, with ``equal_nan``."""
    other = other if isinstance(other, Tensor) else Tensor(other)
    refuse(not (rtol >= 0 and atol >= 0), f"isclose: rtol={rtol}, atol={atol}: expected 0 or more")
    x, y = (each if each.dtype.kind == "f" else each.type(np.float64) for each in (input, other))
    error = ops.abs(x - y)
    near = (isfinite(error) & (error <= atol + rtol * ops.abs(y))) | (x == y)
    return near | (isnan(x) & isnan(y)) if equal_nan else near


@method()
def nan_to_num(
    input: Tensor, nan: float | None = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:  # fmt: skip
    """NaN as ``nan``, infinities as the given numbers, or as the largest of the dtype."""
    if input.dtype.kind != "f":
        return input.clone()
    limits = np.finfo(input.dtype)
    high = float(limits.max) if posinf is None else posinf
    low = float(limits.min) if neginf is None else neginf
    finite = ops.where(input == np.inf, high, ops.where(input == -np.inf, low, input))
    return ops.where(isnan(input), nan or 0.0, finite)


@method()
def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """0 where x < 0, 1 where x > 0, ``values`` where x = 0."""
    return ops.where(input == 0, values, ops.cast(input > 0, dtype=input.dtype))


clip, not_equal, less, less_equal = clamp, ops.ne, ops.lt, ops.le
greater, greater_equal = ops.gt, ops.ge
