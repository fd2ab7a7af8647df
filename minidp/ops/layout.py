"""Layout: the same values in another shape, order, place or number."""

from typing import Any

from minidp.op import op
from minidp.ops.index import get, put
from minidp.placement import place
from minidp.types import Array, Shape


@op("... -> ...", view=True, x=lambda g, x_shape: reshape(g, shape=x_shape))
def reshape(xp: Any, x: Array, shape: Shape) -> Array:
    """The values in C order under another shape; a view where the strides allow it."""
    return x.reshape(shape)


@op("... -> ...", view=True, x=lambda g, axes: permute(
    g, axes=tuple(sorted(range(len(axes)), key=axes.__getitem__))))  # fmt: skip
def permute(xp: Any, x: Array, axes: tuple[int, ...]) -> Array:
    """The axes in another order; a view."""
    return x.transpose(axes)


@op("... -> ...", view=True, x=lambda g: g)
def expand(xp: Any, x: Array, shape: Shape) -> Array:
    """Axes of length one repeated to ``shape``, without a copy."""
    return xp.broadcast_to(x, shape)


@op("*... -> ...", xs=lambda g, i, xs_shape, dim: narrow(
    g, dim=dim, start=sum(s[dim] for s in xs_shape[:i]), length=xs_shape[i][dim]))  # fmt: skip
def concat(xp: Any, *xs: Array, dim: int) -> Array:
    """Arrays end to end along ``dim``."""
    return xp.concatenate(xs, axis=dim)


@op("*... -> ...", xs=lambda g, i, dim: get(g, key=(slice(None),) * dim + (i,)))
def stack(xp: Any, *xs: Array, dim: int) -> Array:
    """Arrays of one shape along a new axis ``dim``."""
    return xp.stack(xs, axis=dim)


def narrow(x: Any, dim: int, start: Any, length: Any) -> Any:
    """``length`` places of axis ``dim``, from ``start``; a view."""
    return get(x, key=(slice(None),) * dim + (slice(start, start + length),))


def embed(x: Any, shape: Shape, dim: int, start: int) -> Any:
    """Zeros of ``shape`` with x at ``start`` along ``dim``: the adjoint of ``narrow``."""
    return put(x, shape=shape, key=(slice(None),) * dim + (slice(start, start + x.shape[dim]),))


@op("... -> ...", view=True,
    x=lambda g, x_shape, constants: put_diagonal(g, shape=x_shape, **constants))  # fmt: skip
def diagonal(xp: Any, x: Array, offset: int, axes: tuple[int, int]) -> Array:
    """y_i = x_i,i+offset of two axes, as the last axis; a view."""
    y = xp.diagonal(x, offset, *axes)
    if hasattr(y.flags, "writeable"):  # NumPy's is not, for no reason that holds here
        y.flags.writeable = x.flags.writeable
    return y


@op("... -> ...", x=lambda g, offset, axes: diagonal(g, offset=offset, axes=axes))
def put_diagonal(xp: Any, x: Array, shape: Shape, offset: int, axes: tuple[int, int]) -> Array:
    """Zeros of ``shape`` with x on a diagonal: the adjoint of ``diagonal``."""
    y, places = xp.zeros(shape, x.dtype), xp.arange(x.shape[-1])
    moved = xp.moveaxis(y, axes, (-2, -1))
    moved[..., places + max(-offset, 0), places + max(offset, 0)] = x
    return y


@op("... -> ...", x=lambda g, constants: triangle(g, **constants))
def triangle(xp: Any, x: Array, offset: int, upper: bool) -> Array:
    """The last two axes on and above (or below) a diagonal, zeros elsewhere."""
    return (xp.triu if upper else xp.tril)(x, offset)


@op("... -> ...", x=lambda g: copy(g))
def copy(xp: Any, x: Array, order: str = "C") -> Array:
    """The same values in fresh memory, C-ordered or, with "K", in the order they had."""
    return xp.array(x, order=order, copy=True)


@op("... -> ...", x=lambda g, source: to_device(g, device=source, source=None))
def to_device(xp: Any, x: Array, device: Any, source: Any) -> Array:
    """The same values on another device; the cotangent travels back to ``source``."""
    return place(x, device)


def unsqueeze_all(x: Any, axes: tuple[int, ...], ndim: int) -> Any:
    """Axes of length one put back at ``axes`` of a shape with ``ndim`` axes."""
    sizes = iter(x.shape)
    return reshape(x, shape=tuple(1 if axis in axes else next(sizes) for axis in range(ndim)))
