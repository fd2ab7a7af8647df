"""Reductions over axes: sums, extremes and where they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from minidp.errors import ShapeError
from minidp.op import op
from minidp.ops.elementwise import abs, cast, sqrt, square
from minidp.ops.layout import expand, reshape, unsqueeze_all
from minidp.shapes import axes_of, axis_of
from minidp.tensor import Tensor, method
from minidp.types import Array, Shape, category


@op("... -> ...", x=lambda g, x_shape, dim, keepdim: spread(g, x_shape, dim, keepdim))
def sum(xp: Any, x: Array, dim: Any = None, keepdim: bool = False) -> Array:
    """Sum over ``dim`` (None: all axes); float16 is added in float32, integers in int64."""
    x = xp.asarray(x)
    axes = axes_of("sum", dim, x.ndim)
    wide = {"e": np.float32, "f": None, "d": None}.get(x.dtype.char, np.int64)
    return x.sum(axis=axes, keepdims=keepdim, dtype=wide).astype(
        x.dtype if x.dtype.char == "e" else wide or x.dtype, copy=False
    )


def spread(g: Any, shape: Shape, dim: Any, keepdim: bool) -> Any:
    """A reduced value back at every place it was reduced from."""
    axes = axes_of("sum", dim, len(shape))
    return expand(g if keepdim else unsqueeze_all(g, axes, len(shape)), shape=shape)


def _extreme_rule(g: Any, x: Any, y: Any, dim: Any, keepdim: bool) -> Any:
    axes = axes_of("amax", dim, len(x.shape))
    wide = y if keepdim else unsqueeze_all(y, axes, len(x.shape))
    hit = cast(x == wide, dtype=x.dtype)
    return spread(g, x.shape, dim, keepdim) * (hit / sum(hit, dim=axes, keepdim=True))


@method("amax")
@op("... -> ...", x=_extreme_rule)
def amax(xp: Any, x: Array, dim: Any = None, keepdim: bool = False) -> Array:
    """The largest value over ``dim``; ties share the cotangent evenly."""
    return x.max(axis=_nonempty("amax", x, dim), keepdims=keepdim)


@method("amin")
@op("... -> ...", x=_extreme_rule)
def amin(xp: Any, x: Array, dim: Any = None, keepdim: bool = False) -> Array:
    """The smallest value over ``dim``; ties share the cotangent evenly."""
    return x.min(axis=_nonempty("amin", x, dim), keepdims=keepdim)


@method("argmax")
@op("... -> i:...")
def argmax(xp: Any, x: Array, dim: Any = None, keepdim: bool = False) -> Array:
    """Where the largest value is (the first of equals) along ``dim``, or in the flat array."""
    _nonempty("argmax", x, dim)
    return xp.argmax(x, axis=_axis("argmax", x, dim), keepdims=keepdim)


@method("argmin")
@op("... -> i:...")
def argmin(xp: Any, x: Array, dim: Any = None, keepdim: bool = False) -> Array:
    """Where the smallest value is (the first of equals) along ``dim``, or in the flat array."""
    _nonempty("argmin", x, dim)
    return xp.argmin(x, axis=_axis("argmin", x, dim), keepdims=keepdim)


@method("all")
@op("... -> b:...")
def all(xp: Any, x: Array, dim: Any = None, keepdim: bool = False) -> Array:
    """Whether every value is true."""
    return x.astype(bool).all(axis=axes_of("all", dim, x.ndim), keepdims=keepdim)


@method("any")
@op("... -> b:...")
def any(xp: Any, x: Array, dim: Any = None, keepdim: bool = False) -> Array:
    """Whether some value is true."""
    return x.astype(bool).any(axis=axes_of("any", dim, x.ndim), keepdims=keepdim)


def _axis(name: str, x: Array, dim: Any) -> int | None:
    return None if dim is None else axis_of(name, dim, x.ndim)


def _nonempty(name: str, x: Array, dim: Any) -> tuple[int, ...]:
    axes = axes_of(name, dim, x.ndim)
    if x.size == 0 and (not axes or 0 in [x.shape[axis] for axis in axes]):
        raise ShapeError(f"{name}(shape {x.shape}, dim={dim}): nothing to choose from")
    return axes


@method("sum")
def sum_of(self: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Sum over ``dim`` (None: all axes)."""
    x = self if dtype is None else self.to(dtype)
    result: Tensor = sum(x, dim=_static(dim), keepdim=keepdim)
    return result


@method()
def mean(self: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Mean over ``dim`` (None: all axes); NaN of nothing."""
    x = self if dtype is None else self.to(dtype)
    if category(x.dtype) < 2:
        raise TypeError(f"mean of {x.dtype}: convert to a float dtype first, or give dtype=")
    axes = axes_of("mean", _static(dim), x.ndim)
    count = int(np.prod([x.shape[axis] for axis in axes], dtype=int))
    total: Tensor = sum(x, dim=axes, keepdim=keepdim) if axes else x
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
    total: Tensor = sum(square(deviation), dim=axes, keepdim=keepdim)
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
        result: Tensor = amax(self.abs(), dim=_static(dim), keepdim=keepdim)
    else:
        powers = square(self) if p == 2 else self.abs() ** p
        total = sum(powers, dim=_static(dim), keepdim=keepdim)
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
    from minidp.ops.index import take_along_dim

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


__all__ = ["all", "amax", "amin", "any", "argmax", "argmin", "max", "mean", "min", "norm",
           "reshape", "std", "sum", "sum_of", "var"]  # fmt: skip
