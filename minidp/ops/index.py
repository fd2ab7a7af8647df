"""Indexing: reading and writing places that are named by slices, integers, masks or arrays."""

from __future__ import annotations

from typing import Any

from minidp.op import op
from minidp.types import Array, Shape


@op("... -> ...", view=True, x=lambda g, x_shape, key: put(g, shape=x_shape, key=key))
def get(xp: Any, x: Array, key: Any) -> Array:
    """x[key], for every kind of key that NumPy knows."""
    return x[key]


@op("... -> ...", x=lambda g, key: get(g, key=key))
def put(xp: Any, x: Array, shape: Shape, key: Any) -> Array:
    """Zeros of ``shape`` with x added at ``key``; repeated places add up. The adjoint of get."""
    y = xp.zeros(shape, x.dtype)
    if _basic(key):
        y[key] = x
    else:
        xp.add.at(y, key, x)
    return y


def _basic(key: Any) -> bool:
    """Whether no place can be named twice: only slices, integers, None and Ellipsis."""
    parts = key if isinstance(key, tuple) else (key,)
    return all(p is None or p is ... or isinstance(p, (int, slice)) for p in parts)


@op("..., i:... -> ...",
    x=lambda g, index, x_shape, dim: scatter_along(g, index, shape=x_shape, dim=dim))  # fmt: skip
def take_along_dim(xp: Any, x: Array, index: Array, dim: int) -> Array:
    """Along ``dim``, the places that ``index`` names; other axes broadcast."""
    return xp.take_along_axis(x, index, axis=dim)


@op("..., i:... -> ...", x=lambda g, index, dim: take_along_dim(g, index, dim=dim))
def scatter_along(xp: Any, x: Array, index: Array, shape: Shape, dim: int) -> Array:
    """Zeros of ``shape`` with x added at the places ``index`` along ``dim``."""
    y = xp.zeros(shape, x.dtype)
    places = [xp.arange(n).reshape((1,) * axis + (-1,) + (1,) * (x.ndim - axis - 1))
              if shape[axis] != 1 else 0 for axis, n in enumerate(x.shape)]  # fmt: skip
    places[dim] = xp.broadcast_to(index, x.shape)
    xp.add.at(y, tuple(places), x)
    return y
