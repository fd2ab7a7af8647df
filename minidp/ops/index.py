"""Indexing: reading and writing places that are named by slices, integers, masks or arrays."""

from typing import Any

import numpy as np

from minidp.errors import PlaceError
from minidp.op import op
from minidp.ops.elementwise import cast
from minidp.types import Array, Shape


@op("... -> ...", view=True, x=lambda g, x_shape, key: put(g, shape=x_shape, key=key))
def get(xp: Any, x: Array, key: Any) -> Array:
    """x[key], for every kind of key that NumPy knows."""
    y = x[key]
    plain = y.ndim < 2 or y.flags.c_contiguous or xp.may_share_memory(x, y)
    return y if plain else y.copy()  # what index arrays gather lies in C order


@op("... -> ...", x=lambda g, key: get(g, key=key))
def put(xp: Any, x: Array, shape: Shape, key: Any) -> Array:
    """Zeros of ``shape`` with x added at ``key``; repeated places add up. The adjoint of get."""
    y = xp.zeros(shape, x.dtype)
    if _distinct(key):
        y[key] = x
    else:
        xp.add.at(y, key, x)
    return y


def _distinct(key: Any) -> bool:
    """Whether no place can be named twice: no lists, and no arrays but masks."""
    parts = key if isinstance(key, tuple) else (key,)
    return all(p is None or p is ... or isinstance(p, (int, slice)) or
               getattr(getattr(p, "dtype", None), "kind", "") == "b" for p in parts)  # fmt: skip


@op("..., ... -> ...",
    x=lambda g, key: set_at(g, 0, key=key), value=lambda g, key: get(g, key=key))  # fmt: skip
def set_at(xp: Any, x: Array, value: Array, key: Any) -> Array:
    """A copy of x with ``value`` (broadcast) at ``key``, which gets the cotangent of its places."""
    y = xp.array(x, copy=True)
    y[key] = value
    return y


@op("..., ... -> ...",
    x=lambda g, x, value, y, key: extreme_share(g, x, x, value, y, key),
    value=lambda g, x, value, y, key: extreme_share(g, value, x, value, y, key))  # fmt: skip
def extreme_at(xp: Any, x: Array, value: Array, key: Any, largest: bool) -> Array:
    """The largest (or smallest) of x and of every value put at ``key``; ties share evenly."""
    y = xp.array(x, copy=True)
    (xp.maximum if largest else xp.minimum).at(y, key, value)
    return y


def extreme_share(g: Any, own: Any, x: Any, value: Any, y: Any, key: Any) -> Any:
    """The cotangent of ``own``, which is x or value: of each place, one share per tie."""
    kept, taken = cast(x == y, dtype=y.dtype), cast(value == get(y, key=key), dtype=y.dtype)
    share = g / (kept + put(taken, shape=y.shape, key=key))
    return share * kept if own is x else get(share, key=key) * taken


@op("i:... -> i:...")
def in_range(xp: Any, index: Array, low: int, high: int, name: str) -> Array:
    """A copy of ``index`` as int64; PlaceError where a number is outside of low .. high - 1."""
    wrong = (index < low) | (index >= high)
    if bool(xp.any(wrong)):
        value = int(index[wrong].reshape(-1)[0])
        raise PlaceError(f"{name}: index {value} is out of range for an axis of size {high}; "
                         f"expected {low} to {high - 1}")  # fmt: skip
    return xp.array(index, dtype="int64", order="C", copy=True)


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


@op("... -> i:...")
def argwhere(xp: Any, x: Array) -> Array:
    """The indices of the elements that are not zero, one row each, in C order."""
    if x.ndim == 0:
        return xp.zeros((int(x != 0), 0), "int64")
    return xp.stack(xp.nonzero(x), axis=-1).astype("int64")


@op("..., ... -> i:...")
def searchsorted(xp: Any, sorted: Array, values: Array, right: bool = False) -> Array:
    """How many of ``sorted`` (one row for all values, or one for each row) lie before a value;
    with ``right``, equal ones too."""
    if sorted.ndim == 1:
        found = xp.searchsorted(sorted, values, side="right" if right else "left")
        return xp.asarray(found).astype("int64")
    row, value = sorted[..., None, :], values[..., :, None]
    return (row <= value if right else row < value).sum(axis=-1)


@op("..., ... -> b:...")
def isin(xp: Any, elements: Array, test_elements: Array) -> Array:
    """Whether an element is among ``test_elements``."""
    return xp.isin(elements, test_elements)


@op("i:..., v c -> ... c",
    weight=lambda g, input, weight_shape, constants: embedding_weight(
        g, input, shape=weight_shape, **constants))  # fmt: skip
def embedding(xp: Any, input: Array, weight: Array, padding_idx: int | None = None) -> Array:
    """y_...c = weight_input,c, places checked; the row ``padding_idx`` gets no gradient."""
    in_range.body(xp, input, 0, weight.shape[0], "embedding")
    return xp.take(weight, input, axis=0)


@op("... c, i:... -> v c",
    g=lambda g, input, padding_idx: embedding(
        input, g if padding_idx is None else set_at(g, 0.0, key=padding_idx)))  # fmt: skip
def embedding_weight(xp: Any, g: Array, input: Array, shape: Shape, padding_idx: int | None = None
                     ) -> Array:  # fmt: skip
    """The cotangent of the table: zeros of ``shape`` with each row of g added at its number."""
    y = xp.zeros(shape, np.float32 if g.dtype == np.float16 else g.dtype)
    places = input.reshape(-1, 1) * shape[1] + xp.arange(shape[1])
    xp.add.at(y.reshape(-1), places.reshape(-1), g.reshape(-1).astype(y.dtype))
    if padding_idx is not None:
        y[padding_idx] = 0
    return y.astype(g.dtype, copy=False)
