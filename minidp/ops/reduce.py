"""Reductions over axes, running sums and orders: sums, extremes and where they are."""

from typing import Any

import numpy as np

from minidp.errors import AxisError
from minidp.op import op
from minidp.ops.adjoint import composite
from minidp.ops.comparison import cast, full_like, where
from minidp.ops.exponential import exp, wide
from minidp.ops.layout import concat, expand, narrow, unsqueeze_all
from minidp.shapes import axes_of, axis_of
from minidp.types import Array, DType, Shape


@op("... -> ...", x=lambda g, x_shape, dim, keepdim: spread(g, x_shape, dim, keepdim))
def sum(xp: Any, x: Array, dim: Any = None, keepdim: bool = False) -> Array:
    """Sum over ``dim`` (None: all axes); float16 is added in float32, integers in int64."""
    x = xp.asarray(x)
    kept, wide = _of_sums(x)
    y = x.sum(axis=axes_of("sum", dim, x.ndim), keepdims=keepdim, dtype=wide)
    return y.astype(kept, copy=False)


def _of_sums(x: Array) -> tuple[DType, DType]:
    """The dtype of sums of x, and that in which they are added."""
    kept = x.dtype if x.dtype.kind == "f" else np.dtype(np.int64)
    return kept, np.dtype(np.float32) if x.dtype.char == "e" else kept


def spread(g: Any, shape: Shape, dim: Any, keepdim: bool) -> Any:
    """A reduced value back at every place it was reduced from."""
    axes = axes_of("sum", dim, len(shape))
    return expand(g if keepdim else unsqueeze_all(g, axes, len(shape)), shape=shape)


def spread_shares(g: Any, x: Any, y: Any, dim: Any, keepdim: bool) -> Any:
    """The cotangent of what an extreme y was chosen from: ties share it evenly."""
    axes = axes_of("amax", dim, len(x.shape))
    wide = y if keepdim else unsqueeze_all(y, axes, len(x.shape))
    hit = cast(x == wide, dtype=x.dtype)
    return spread(g, x.shape, dim, keepdim) * (hit / sum(hit, dim=axes, keepdim=True))


@op("... -> ...", x=spread_shares)
def amax(xp: Any, x: Array, dim: Any = None, keepdim: bool = False) -> Array:
    """The largest value over ``dim``: dy/dx = 1 there, 1/m at each of m equal ones, else 0."""
    return x.max(axis=_nonempty("amax", x, dim), keepdims=keepdim)


@op("... -> ...", x=spread_shares)
def amin(xp: Any, x: Array, dim: Any = None, keepdim: bool = False) -> Array:
    """The smallest value over ``dim``: dy/dx = 1 there, 1/m at each of m equal ones, else 0."""
    return x.min(axis=_nonempty("amin", x, dim), keepdims=keepdim)


@op("..., ... -> ...", x=lambda g, x, y: _equal_share(g, x, y))
def chosen(xp: Any, x: Array, y: Array) -> Array:
    """y, the value of some elements of x; these (for NaN, the NaNs) share its cotangent evenly."""
    return xp.array(y, copy=True)


def _equal_share(g: Any, x: Any, y: Any) -> Any:
    hit = (x == y) | ((x != x) & (y != y))
    return where(hit, g / sum(cast(hit, dtype=x.dtype)), 0.0)


@op("... -> i:...")
def argmax(xp: Any, x: Array, dim: Any = None, keepdim: bool = False) -> Array:
    """Where the largest value is (the first of equals) along ``dim``, or in the flat array.

    >>> dp.argmax(dp.tensor([[1.0, 5.0], [7.0, 2.0]]), dim=1)
    tensor([1, 0])
    """
    return xp.argmax(x, axis=_axis("argmax", x, dim), keepdims=keepdim)


@op("... -> i:...")
def argmin(xp: Any, x: Array, dim: Any = None, keepdim: bool = False) -> Array:
    """Where the smallest value is (the first of equals) along ``dim``, or in the flat array."""
    return xp.argmin(x, axis=_axis("argmin", x, dim), keepdims=keepdim)


@op("... -> b:...")
def all(xp: Any, x: Array, dim: Any = None, keepdim: bool = False) -> Array:
    """Whether every value is true; of uint8, in uint8."""
    y = x.astype(bool).all(axis=_axes_or_none("all", dim, x), keepdims=keepdim)
    return y.astype(x.dtype) if x.dtype.char == "B" else y


@op("... -> b:...")
def any(xp: Any, x: Array, dim: Any = None, keepdim: bool = False) -> Array:
    """Whether some value is true; of uint8, in uint8."""
    y = x.astype(bool).any(axis=_axes_or_none("any", dim, x), keepdims=keepdim)
    return y.astype(x.dtype) if x.dtype.char == "B" else y


@op("... -> ...", x=lambda g, dim, backward: cumsum(g, dim=dim, backward=not backward))
def cumsum(xp: Any, x: Array, dim: int, backward: bool = False) -> Array:
    """Running sums along ``dim``, from the end if ``backward``; dtypes as those of ``sum``."""
    order = (slice(None),) * dim + (slice(None, None, -1),) if backward else ...
    kept, wide = _of_sums(x)
    return xp.cumsum(x[order], axis=dim, dtype=wide)[order].astype(kept, copy=False)


@op("... -> ...", x=lambda g, x, dim: cumprod_input(g, x, dim=dim))
def cumprod(xp: Any, x: Array, dim: int) -> Array:
    """Running products along ``dim``."""
    return xp.cumprod(x, axis=dim, dtype=x.dtype)


@composite("f:..., f:... -> ...")
def cumprod_input(xp: Any, dy: Array, x: Array, dim: int) -> Array:
    """The cotangent of cumprod's x, also where there are zeros: dx_k = p_k s_k for the product p_k
    of what is before x_k and s_k = dy_k + x_(k+1) s_(k+1), in rounds as ``running_place``."""
    count, step, s = x.shape[dim], 1, dy
    if count < 2:
        return dy
    one, factor = full_like(narrow(x, dim, 0, 1), value=1.0), narrow(x, dim, 1, count - 1)
    while step < count:
        rest = count - step
        head = narrow(s, dim, 0, rest) + factor * narrow(s, dim, step, rest)
        s, step = concat(head, narrow(s, dim, rest, step), dim=dim), 2 * step
        if step < count:
            rest -= step // 2
            factor = narrow(factor, dim, 0, rest) * narrow(factor, dim, step // 2, rest)
    return concat(one, narrow(cumprod(x, dim=dim), dim, 0, count - 1), dim=dim) * s


@op("f:... -> ...",
    x=lambda g, x, y, dim, keepdim: spread(g, x.shape, dim, keepdim)
    * exp(x - spread(y, x.shape, dim, keepdim)))  # fmt: skip
def logsumexp(xp: Any, x: Array, dim: Any = None, keepdim: bool = False) -> Array:
    """y = log sum e^x over ``dim``, shifted by the maximum so that nothing overflows."""
    axes, e = axes_of("logsumexp", dim, x.ndim), wide(xp, x)
    if x.size == 0:
        return xp.log(e.sum(axis=axes, keepdims=keepdim)).astype(x.dtype, copy=False)
    top = e.max(axis=axes, keepdims=True)
    top = xp.where(xp.isfinite(top), top, xp.zeros((), top.dtype))
    y = xp.log(xp.exp(e - top).sum(axis=axes, keepdims=True)) + top
    return (y if keepdim else y.squeeze(axes)).astype(x.dtype, copy=False)


@op("... -> i:...")
def argsort(xp: Any, x: Array, dim: int, descending: bool = False, start: int = 0,
            stop: int | None = None) -> Array:  # fmt: skip
    """The order of the values along ``dim``, of those with ranks ``start`` to ``stop``; NaN is the
    largest, equal ones stay in order."""
    order = xp.argsort(xp.flip(x, dim) if descending else x, axis=dim, kind="stable")
    order = x.shape[dim] - 1 - xp.flip(order, dim) if descending else order
    return order[(slice(None),) * dim + (slice(start, stop),)]


@op("... -> i:...")
def running_place(xp: Any, x: Array, dim: int, largest: bool = True) -> Array:
    """Where the largest (or smallest) value so far is along ``dim``: the last of equals, or NaN.

    In rounds: places are compared with those 1, 2, 4 ... before (Hillis and Steele 1986)."""
    shape = (-1, *(1,) * (x.ndim - dim - 1))
    places = xp.zeros(x.shape, np.int64) + xp.arange(x.shape[dim]).reshape(shape)
    step, front = 1, (slice(None),) * dim
    while step < x.shape[dim]:
        later, before = places[(*front, slice(step, None))], places[(*front, slice(None, -step))]
        a, b = (xp.take_along_axis(x, each, axis=dim) for each in (later, before))
        better = ((a >= b) if largest else (a <= b)) | (a != a)
        kept = places[(*front, slice(None, step))]
        places = xp.concatenate([kept, xp.where(better, later, before)], axis=dim)
        step *= 2
    return places


@op("... -> ..., i:..., i:...", outputs="values inverse counts")
def unique(xp: Any, x: Array, dim: int | None = None) -> tuple[Array, Array, Array]:
    """The different values (or slices along ``dim``) in order, where each element is among them,
    and how often each occurs."""
    values, inverse, counts = xp.unique(x, return_inverse=True, return_counts=True, axis=dim,
                                        equal_nan=False)  # fmt: skip
    return values, inverse.reshape(x.shape if dim is None else -1), counts


def _axes_or_none(name: str, dim: Any, x: Array) -> tuple[int, ...]:
    """The axes that ``dim`` means; () and [] mean none, where other reductions take all."""
    return () if isinstance(dim, (tuple, list)) and not dim else axes_of(name, dim, x.ndim)


def _axis(name: str, x: Array, dim: Any) -> int | None:
    _nonempty(name, x, dim)
    return None if dim is None else axis_of(name, dim, x.ndim)


def _nonempty(name: str, x: Array, dim: Any) -> tuple[int, ...]:
    axes = axes_of(name, dim, x.ndim)
    if x.size == 0 and (not axes or 0 in [x.shape[axis] for axis in axes]):
        raise AxisError(f"{name}(shape {x.shape}, dim={dim}): nothing to choose from")
    return axes
