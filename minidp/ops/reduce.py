"""Reductions over axes: sums, extremes and where they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from minidp.errors import ShapeError
from minidp.op import op
from minidp.ops.elementwise import cast
from minidp.ops.layout import expand, unsqueeze_all
from minidp.shapes import axes_of, axis_of
from minidp.tensor import method
from minidp.types import Array, Shape


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
