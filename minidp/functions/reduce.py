"""Reductions under PyTorch's names."""

from __future__ import annotations

from typing import Any

import numpy as np

from minidp.functions.elementwise import square
from minidp.ops import reduce as ops
from minidp.ops.collective import weighted_mean
from minidp.ops.elementwise import abs, sqrt
from minidp.ops.index import take_along_dim
from minidp.ops.reduce import all, amax, amin, any, argmax, argmin
from minidp.shapes import axes_of, axis_of
from minidp.tensor import Tensor, method
from minidp.types import category

__all__ = ["all", "allclose", "amax", "amin", "any", "argmax", "argmin", "max", "mean", "min",
           "norm", "std", "sum", "var"]  # fmt: skip


@method()
def sum(self: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Sum over ``dim`` (None: all axes)."""
    x = self if dtype is None else self.to(dtype)
    result: Tensor = ops.sum(x, dim=_static(dim), keepdim=keepdim)
    return result


@method()
def mean(
    self: Tensor, dim: Any = None, keepdim: bool = False, *, weight: Any = None, dtype: Any = None
) -> Tensor:  # fmt: skip
    """Mean over ``dim`` (None: all axes); NaN of nothing. With ``weight``, sum(self) /
    sum(weight) over the rows of all replicas: exact for any split."""
    if isinstance(dim, Tensor):
        dim, weight = None, dim
    if weight is not None:
        return weighted_mean(self, weight)
    x = self if dtype is None else self.to(dtype)
    if category(x.dtype) < 2:
        raise TypeError(f"mean of {x.dtype}: convert to a float dtype first, or give dtype=")
    axes = axes_of("mean", _static(dim), x.ndim)
    count = int(np.prod([x.shape[axis] for axis in axes], dtype=int))
    total: Tensor = ops.sum(x, dim=axes, keepdim=keepdim) if axes else x
    return total / count if count else total * float("nan")


@method()
def var(
    self: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: int = 1,
) -> Tensor:  # fmt: skip
    """Variance: the mean square deviation, with ``count - correction`` below."""
    correction = correction if unbiased is None else int(unbiased)
    axes = axes_of("var", _static(dim), self.ndim)
    count = int(np.prod([self.shape[axis] for axis in axes], dtype=int))
    deviation = self - mean(self, axes, True)
    total: Tensor = ops.sum(square(deviation), dim=axes, keepdim=keepdim)
    return total / (count - correction) if count > correction else total * float("nan")


@method()
def std(
    self: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: int = 1,
) -> Tensor:  # fmt: skip
    """Standard deviation: the square root of the variance."""
    result: Tensor = sqrt(var(self, dim, unbiased, keepdim, correction=correction))
    return result


@method()
def norm(self: Tensor, p: float = 2, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The p-norm over ``dim`` (p = 2 or infinity)."""
    if p == float("inf"):
        result: Tensor = ops.amax(self.abs(), dim=_static(dim), keepdim=keepdim)
    else:
        powers = square(self) if p == 2 else self.abs() ** p
        total = ops.sum(powers, dim=_static(dim), keepdim=keepdim)
        result = sqrt(total) if p == 2 else total ** (1 / p)
    return result


@method()
def allclose(self: Tensor, other: Any, rtol: float = 1e-5, atol: float = 1e-8) -> bool:
    """Whether every |x - y| is at most atol + rtol |y|."""
    return bool(all(abs(self - other) <= atol + rtol * abs(_tensor(other))))


@method()
def equal(self: Tensor, other: Tensor) -> bool:
    """Whether shape and all values are the same."""
    return self.shape == other.shape and bool(all(self == other))


def _tensor(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else Tensor(value)


def _static(dim: Any) -> Any:
    return tuple(dim) if isinstance(dim, list) else dim


@method()
def max(self: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """The largest value; with ``dim`` also where it is; with a Tensor, element by element."""
    return _choose("max", self, dim, keepdim)


@method()
def min(self: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """The smallest value; with ``dim`` also where it is; with a Tensor, element by element."""
    return _choose("min", self, dim, keepdim)


def _choose(name: str, x: Tensor, dim: Any, keepdim: bool) -> Any:
    if isinstance(dim, Tensor):
        return x.maximum(dim) if name == "max" else x.minimum(dim)
    if dim is None:
        return x.amax() if name == "max" else x.amin()
    if x.ndim == 0:
        return tuple(each.squeeze() for each in _choose(name, x.reshape(1), dim, keepdim))
    where = argmax if name == "max" else argmin
    indices = where(x, dim=dim, keepdim=True)
    values = take_along_dim(x, indices, dim=axis_of(name, dim, x.ndim))
    return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))
