"""Sums, means, variances, products and norms under PyTorch's names."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minidp.errors import DTypeError, ShapeError
from minidp.functions.comparison import isclose, isnan
from minidp.functions.elementwise import square
from minidp.functions.weighted import weighted_mean
from minidp.ops import elementwise
from minidp.ops import reduce as ops
from minidp.ops import softmax as exponential
from minidp.ops.elementwise import where
from minidp.ops.layout import concat, narrow, reshape
from minidp.ops.reduce import all, amax, amin, any, argmax, argmin
from minidp.shapes import axes_of, axis_of
from minidp.tensor import Tensor, method
from minidp.types import category

__all__ = ["all", "allclose", "amax", "amin", "any", "argmax", "argmin", "count_nonzero",
           "cumprod", "cumsum", "equal", "log_softmax", "logcumsumexp", "logsumexp", "mean",
           "nanmean", "nansum", "norm", "prod", "softmax", "std", "std_mean", "sum", "var",
           "var_mean"]  # fmt: skip


@method()
def sum(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Sum over ``dim`` (None: all axes).

    >>> dp.sum(dp.ones(2, 3), dim=1)
    tensor([3., 3.])
    """
    if dtype is not None:
        return ops.sum(input.to(dtype), dim=_static(dim), keepdim=keepdim).to(dtype)
    return ops.sum(input, dim=_static(dim), keepdim=keepdim)


@method()
def nansum(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Sum over ``dim`` of what is not NaN."""
    return sum(where(isnan(input), 0, input), dim, keepdim, dtype=dtype)


@method()
def mean(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, weight: Any = None, dtype: Any = None
) -> Tensor:  # fmt: skip
    """Mean over ``dim`` (None: all axes); NaN of nothing. With ``weight``, sum(input) /
    sum(weight) over the rows of all replicas: exact for any split.

    >>> dp.mean(dp.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=0)
    tensor([2., 3.])
    """
    if isinstance(dim, Tensor) and (dim.ndim or dim.dtype.kind == "f"):
        dim, weight = None, dim
    if weight is not None:
        return weighted_mean(input, weight)
    x = input if dtype is None else input.to(dtype)
    if category(x.dtype) < 2:
        raise DTypeError(f"mean of {x.dtype}: convert to a float dtype first, or give dtype=")
    if x.dtype.char == "e":
        return mean(x.float(), dim, keepdim).half()
    axes = axes_of("mean", _static(dim), x.ndim)
    return ops.sum(x, dim=axes, keepdim=keepdim) / _count(x, axes) if axes else x / 1


@method()
def nanmean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Mean over ``dim`` of what is not NaN."""
    if category(input.dtype) < 2:
        raise DTypeError(f"nanmean of {input.dtype}: convert to a float dtype first")
    return nansum(input, dim, keepdim, dtype=dtype) / sum(~isnan(input), dim, keepdim)


@method()
def var(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = 1,
) -> Tensor:  # fmt: skip
    """Variance: the mean square deviation, with ``count - correction`` below.

    >>> dp.var(dp.tensor([1.0, 2.0, 3.0, 4.0]))
    tensor(1.6667)
    """
    return var_mean(input, dim, unbiased, keepdim, correction=correction)[0]


@method()
def std(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = 1,
) -> Tensor:  # fmt: skip
    """Standard deviation: the square root of the variance; its derivative is 0 at 0."""
    return std_mean(input, dim, unbiased, keepdim, correction=correction)[0]


def var_mean(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = 1,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The variance and the mean."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if input.dtype.char == "e":
        pair = var_mean(input.float(), dim, unbiased, keepdim, correction=correction)
        return pair[0].half(), pair[1].half()
    axes = axes_of("var", _static(dim), input.ndim)
    correction = 1 if correction is None else correction
    below = _count(input, axes) - (correction if unbiased is None else int(unbiased))
    center = mean(input, axes, True)
    squares = ops.sum(square(input - center), dim=axes, keepdim=keepdim) if axes else input - input
    middle = center if keepdim else reshape(center, shape=squares.shape)
    return squares / (below if below > 0 else 0), middle


def std_mean(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: float | None = 1,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The standard deviation and the mean."""
    if input.dtype.char == "e":
        pair = std_mean(input.float(), dim, unbiased, keepdim, correction=correction)
        return pair[0].half(), pair[1].half()
    variance, middle = var_mean(input, dim, unbiased, keepdim, correction=correction)
    return root(variance), middle


def root(x: Tensor, degree: float = 2) -> Tensor:
    """x^(1/degree), with a derivative of 0 at 0."""
    null = x == 0
    safe = where(null, 1.0, x)
    power = elementwise.sqrt(safe) if degree == 2 else safe ** (1 / degree)
    return where(null, 0.0 if degree > 0 else math.inf, power)


def vector_norm(
    input: Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:  # fmt: skip
    """(sum |x|^p)^(1/p) over ``dim``: the count of what is not 0 for p = 0, the largest |x| for
    inf, the smallest for -inf. Its derivative is 0 where it is not defined."""
    x, dim = input if dtype is None else input.to(dtype), _static(dim)
    if category(x.dtype) < 2:
        raise DTypeError(f"norm of {x.dtype}: convert to a float dtype first")
    if x.dtype.char == "e":
        return vector_norm(x.float(), ord, dim, keepdim).half()
    if ord == 0:
        return ops.sum(where(x != 0, 1.0, x * 0), dim=dim, keepdim=keepdim)
    size = elementwise.abs(x)
    if ord < 0 and 0 in [x.shape[axis] for axis in axes_of("norm", dim, x.ndim)]:
        raise ShapeError(f"norm of order {ord} of {x.shape}: nothing to choose from")
    if math.isinf(ord):
        return (ops.amax if ord > 0 else ops.amin)(size, dim=dim, keepdim=keepdim)
    powers = size if ord == 1 else square(x) if ord == 2 else _powers(size, ord)
    total = ops.sum(powers, dim=dim, keepdim=keepdim)
    return total if ord == 1 else root(total, ord)


def _powers(size: Tensor, p: float) -> Tensor:
    """size^p, with a derivative of 0 at 0."""
    null = size == 0
    return where(null, 0.0 if p > 0 else math.inf, where(null, 1.0, size) ** p)


@method()
def norm(
    input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Tensor:
    """The p-norm of the values over ``dim``; "fro" is 2, "nuc" the sum of singular values."""
    if p == "nuc":
        from minidp.linalg import matrix_norm  # which imports this file

        return matrix_norm(input, p, (0, 1) if dim is None else dim, keepdim, dtype=dtype)
    return vector_norm(input, 2 if p in ("fro", None) else p, dim, keepdim, dtype=dtype)


@method()
def logsumexp(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """log sum e^x over ``dim``, without overflow; -inf of nothing.

    >>> dp.logsumexp(dp.tensor([1000.0, 1000.0]), dim=0)
    tensor(1000.6932)
    """
    return ops.logsumexp(input, dim=_static(dim), keepdim=keepdim)


@method()
def softmax(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """y = e^x / sum e^x along ``dim``, computed in ``dtype`` if given.

    >>> dp.softmax(dp.tensor([0.0, 0.0]), dim=0)
    tensor([0.5000, 0.5000])
    """
    return exponential.softmax(input if dtype is None else input.to(dtype), dim=dim)


@method()
def log_softmax(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """y = x - log sum e^x along ``dim``, computed in ``dtype`` if given."""
    return exponential.log_softmax(input if dtype is None else input.to(dtype), dim=dim)


@method()
def prod(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Product over ``dim`` (None: all axes); integers in int64.

    A tree of products of two, so that zeros are no special case in any derivative.
    """
    x = _widened(input.reshape(-1) if dim is None or input.ndim == 0 else input, dtype)
    axis = axis_of("prod", dim or 0, input.ndim)
    if x.shape[axis] == 0:
        x = (ops.sum(x, dim=axis, keepdim=True) + 1).type(x.dtype)
    while (count := x.shape[axis]) > 1:
        half = count // 2
        pairs = narrow(x, axis, 0, half) * narrow(x, axis, half, half)
        x = concat(pairs, narrow(x, axis, 2 * half, count % 2), dim=axis) if count % 2 else pairs
    y = x if keepdim and dim is not None and input.ndim else x.squeeze(axis)
    y = y.clone() if input.numel() == y.numel() else y
    return y.half() if input.dtype.char == "e" and dtype is None else y


def _widened(x: Tensor, dtype: Any) -> Tensor:
    """What products are computed in: integers in int64, float16 in float32."""
    wide = np.int64 if category(x.dtype) < 2 else np.float32 if x.dtype.char == "e" else x.dtype
    return x.type(dtype or wide)


@method()
def cumsum(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Running sums along ``dim``.

    >>> dp.cumsum(dp.tensor([1, 2, 3]), dim=0)
    tensor([1, 3, 6])
    """
    x = input if dtype is None else input.to(dtype)
    axis = axis_of("cumsum", dim, x.ndim)
    y = ops.cumsum(x, dim=axis) if x.ndim else ops.sum(x)
    return y if dtype is None else y.to(dtype)


@method()
def cumprod(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Running products along ``dim``, right in every derivative where there are zeros."""
    x, axis = _widened(input, dtype), axis_of("cumprod", dim, input.ndim)
    y = ops.cumprod(x, dim=axis) if x.ndim else x.clone()
    return y.half() if input.dtype.char == "e" and dtype is None else y


@method()
def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """log of the running sums of e^x along ``dim``, without overflow."""
    return scan(elementwise.logaddexp, input, axis_of("logcumsumexp", dim, input.ndim)).clone()


def scan(combine: Callable[[Tensor, Tensor], Tensor], x: Tensor, axis: int) -> Tensor:
    """y_i = x_0 . x_1 . ... . x_i for an associative ``combine``, in log2 n steps.

    Hillis and Steele, Data Parallel Algorithms (1986)."""
    step, count = 1, x.shape[axis] if x.ndim else 0
    while step < count:
        both = combine(narrow(x, axis, 0, count - step), narrow(x, axis, step, count - step))
        x, step = concat(narrow(x, axis, 0, step), both, dim=axis), 2 * step
    return x


@method()
def count_nonzero(input: Tensor, dim: Any = None) -> Tensor:
    """How many values over ``dim`` are not 0."""
    return sum(input != 0, dim)


@method()
def allclose(
    input: Tensor, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Whether every |x - y| is at most atol + rtol |y|."""
    y = other if isinstance(other, Tensor) else Tensor(other)
    return bool(all(isclose(input, y, rtol, atol, equal_nan)))


@method()
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether shape and all values are the same."""
    return input.shape == other.shape and bool(all(input == other))


def _static(dim: Any) -> Any:
    return tuple(dim) if isinstance(dim, list) else dim


def _count(x: Tensor, axes: tuple[int, ...]) -> int:
    return math.prod(x.shape[axis] for axis in axes)
