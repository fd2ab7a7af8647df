"""Reading and writing places named by index tensors along one axis, or by masks, under PyTorch's
names."""

from __future__ import annotations

from typing import Any

import numpy as np

from minidp.backend import backend_of
from minidp.create import ones, zeros
from minidp.errors import ArgumentError, AxisError, DTypeError, ShapeError
from minidp.functions.arrange import tril, triu
from minidp.functions.comparison import where
from minidp.functions.index import WHOLE, in_range, index_put
from minidp.functions.inplace import take_over
from minidp.functions.layout import broadcast_shapes, broadcast_tensors, ravel, reshape
from minidp.functions.reduce import cumprod, cumsum
from minidp.mode import mode
from minidp.ops import index as ops
from minidp.ops.elementwise import full_like
from minidp.ops.index import get, put, set_at
from minidp.placement import as_array, place
from minidp.shapes import axis_of
from minidp.tensor import Tensor, method

__all__ = ["gather", "index_add", "index_copy", "index_fill", "index_select", "masked_fill",
           "masked_scatter", "scatter", "scatter_add", "scatter_reduce",
           "take_along_dim"]  # fmt: skip


def _checked(name: str, x: Tensor, dim: int, index: Tensor) -> tuple[int, Tensor]:
    """The axis ``dim``, and the places along it that ``index`` names, which exist, as int64."""
    axis = axis_of(name, dim, x.ndim)
    sizes, own = index.shape or (1,), x.shape or (1,)
    if len(sizes) != len(own) or any(n > own[a] for a, n in enumerate(sizes) if a != axis):
        raise ShapeError(f"{name}: an index of {index.shape} along axis {axis} of {x.shape}")
    return axis, in_range(name, index, own[axis])


def _grid(name: str, x: Tensor, dim: int, index: Tensor) -> tuple[Any, ...]:
    """The key of the places (i, ..., index[i, ...], ...) along ``dim``; all are checked."""
    (axis, index), rank = _checked(name, x, dim, index), max(x.ndim, 1)
    sizes = index.shape or (1,)
    grid = [place(np.arange(n).reshape(n, *(1,) * (rank - 1 - a)), x.device)
            for a, n in enumerate(sizes)]  # fmt: skip
    grid[axis] = reshape(index, sizes).array
    return tuple(grid)


def _lined(x: Tensor) -> Tensor:
    return reshape(x, x.shape or (1,))


def _along(name: str, x: Tensor, dim: int, index: Tensor, low: bool = False) -> tuple[Any, ...]:
    """The key of the slices ``index``, a vector, along ``dim``, counted from the end if negative
    and that is allowed."""
    axis = axis_of(name, dim, x.ndim)
    if index.ndim > 1:
        raise ShapeError(f"{name}: the index has shape {index.shape}; expected a vector")
    size = (x.shape or (1,))[axis]
    places = in_range(name, ravel(index), size, -size if low else 0)
    return (WHOLE,) * axis + (places.array,)


@method()
def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """y[i][j] = x[index[i][j]][j] for dim 0, and so on for other axes.

    >>> dp.gather(dp.tensor([[1, 2], [3, 4]]), 1, dp.tensor([[1], [0]]))
    tensor([[2],
            [3]])
    """
    axis, index = _checked("gather", input, dim, index)
    x, places = (reshape(each, each.shape or (1,)) for each in (input, index))
    part = tuple(WHOLE if a == axis else slice(0, n) for a, n in enumerate(places.shape))
    return reshape(ops.take_along_dim(get(x, key=part), places, dim=axis), index.shape)


@method()
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """``gather``, whose other axes broadcast; without ``dim`` in the flat tensor."""
    if dim is None:
        return gather(ravel(input), 0, ravel(indices))
    axis = axis_of("take_along_dim", dim, input.ndim)
    indices = in_range("take_along_dim", indices, input.shape[axis], -input.shape[axis])
    shape = broadcast_shapes(*((*x.shape[:axis], 1, *x.shape[axis + 1 :])
                               for x in (input, indices)))  # fmt: skip
    x, places = (x.expand((*shape[:axis], x.shape[axis], *shape[axis + 1 :]))
                 for x in (input, indices))  # fmt: skip
    return gather(x, axis, places % max(x.shape[axis], 1))


@method()
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The slices ``index`` along ``dim``."""
    if input.ndim == 0 and index.numel() != 1:
        raise AxisError(f"index_select: {index.numel()} indices for a tensor without axes")
    found = get(_lined(input), key=_along("index_select", input, dim, index))
    return found if input.ndim else reshape(found, ())


def _values(name: str, x: Tensor, src: Any, index: Tensor | None = None) -> Any:
    """What is written: numbers, or a tensor of the same dtype, cut to the shape of the index."""
    if not isinstance(src, Tensor):
        return Tensor(as_array(src, x.dtype)).to(x.device)
    if src.dtype != x.dtype:
        raise DTypeError(f"{name}: values of {src.dtype} into {x.dtype}; convert with .to(dtype)")
    if index is None or src.shape == index.shape or src.ndim != index.ndim:
        return src
    if any(n > m for n, m in zip(index.shape, src.shape, strict=True)):
        raise ShapeError(f"{name}: an index of {index.shape} for values of {src.shape}")
    return get(src, key=tuple(slice(0, n) for n in index.shape))


@method()
def scatter(input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None,
            reduce: str | None = None) -> Tensor:  # fmt: skip
    """x with the values of ``src`` at the places ``index`` along ``dim``."""
    new = _values("scatter", input, value if src is None else src, index)
    if reduce is not None:
        names = {"add": "sum", "multiply": "prod"}
        if reduce not in names:
            raise ArgumentError(f"scatter: reduce={reduce!r}; expected 'add' or 'multiply'")
        new = new if isinstance(src, Tensor) else new.expand(index.shape)
        return scatter_reduce(input, dim, index, new, names[reduce])
    key = _grid("scatter", input, dim, index)
    wide = set_at(reshape(input, input.shape or (1,)), reshape(new, new.shape or (1,)), key=key)
    return reshape(wide, input.shape)


@method()
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """x plus the values of ``src`` at the places ``index`` along ``dim``; they add up.

    >>> dp.scatter_add(dp.zeros(3), 0, dp.tensor([0, 2, 2]), dp.ones(3))
    tensor([1., 0., 2.])
    """
    (axis, index), shape = _checked("scatter_add", input, dim, index), index.shape or (1,)
    new = reshape(_values("scatter_add", input, src, index), shape)
    whole = input.shape or (1,)
    part = tuple(m if a == axis else n for a, (n, m) in enumerate(zip(shape, whole, strict=True)))
    added = ops.scatter_along(new, reshape(index, shape), shape=part, dim=axis)
    added = put(added, shape=whole, key=tuple(map(slice, part))) if part != whole else added
    return input + reshape(added, input.shape)


def _products(x: Tensor, new: Tensor, key: tuple[Any, ...]) -> Tensor:
    """x times the values at each place; of all places the k-th at once. Zeros have gradients."""
    grid = np.broadcast_arrays(*[backend_of(part).get(part) for part in key])
    places = np.ravel_multi_index([part.reshape(-1) for part in grid], x.shape)
    order = np.argsort(places, kind="stable")
    begins = np.flatnonzero(np.diff(places[order], prepend=-1))
    turn = np.arange(len(order)) - np.repeat(begins, np.diff([*begins, len(order)]))
    result, values, one = ravel(x), ravel(new), full_like(ravel(x).detach(), value=1)
    for k in range(int(turn.max(initial=0)) + 1):
        chosen = order[turn == k]
        here = get(values, key=(place(chosen, x.device),))
        result = result * set_at(one, here, key=(place(places[chosen], x.device),))
    return reshape(result, x.shape)


@method()
def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """``src`` at the places ``index`` along ``dim`` joined with x there (unless ``include_self``
    is false) by "sum", "prod", "mean", "amax" or "amin"."""
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise ArgumentError(f"scatter_reduce: {reduce!r} is not one of sum, prod, mean, amax, amin")
    if reduce == "prod":
        index._read()  # how often each place occurs decides on the steps
    key = _grid("scatter_reduce", input, dim, index)
    new = _values("scatter_reduce", input, src, index)
    if not include_self:
        start = {"amax": -np.inf, "amin": np.inf, "prod": 1}.get(reduce, 0)
        if reduce in ("amax", "amin") and input.dtype.kind != "f":
            whole = np.iinfo("uint8" if input.dtype.kind == "b" else input.dtype)
            start = whole.max if reduce == "amin" else whole.min
        fresh = Tensor(np.asarray(start, input.dtype)).to(input.device)
        input = reshape(set_at(_lined(input), fresh, key=key), input.shape)
    if input.ndim == 0:
        joined = scatter_reduce(_lined(input), dim, _lined(index), _lined(src), reduce,
                                include_self=include_self)  # fmt: skip
        return reshape(joined, ())
    if reduce in ("amax", "amin"):
        return ops.extreme_at(input, new, key=key, largest=reduce == "amax")
    if reduce == "prod":
        return _products(input, new, key)
    total = input + put(new, shape=input.shape, key=key)
    if reduce == "sum":
        return total
    hits = put(Tensor(np.ones(index.shape, input.dtype)).to(input.device), shape=input.shape,
               key=key)  # fmt: skip
    count = hits + 1 if include_self else where(hits == 0, 1, hits)
    return total / count if input.dtype.kind == "f" else total.floor_divide(count)


@method()
def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1
              ) -> Tensor:  # fmt: skip
    """x plus ``alpha`` times the slices of ``source``, at the slices ``index`` along ``dim``."""
    key = _along("index_add", input, dim, index)
    new = _slices("index_add", input, len(key) - 1, index, source)
    alpha = alpha if input.dtype.kind == "f" else int(alpha)
    new = new if alpha == 1 else (new * alpha).type(input.dtype)
    added = put(new, shape=input.shape or (1,), key=key)
    return input + reshape(added, input.shape)


@method()
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """x with the slices of ``source`` at the slices ``index`` along ``dim``."""
    key = _along("index_copy", input, dim, index)
    new = _slices("index_copy", input, len(key) - 1, index, source)
    return reshape(set_at(_lined(input), new, key=key), input.shape)


def _slices(name: str, x: Tensor, axis: int, index: Tensor, source: Tensor) -> Tensor:
    """``source``, which has one slice of x along ``axis`` for each index."""
    new = _values(name, x, source)
    wanted = (*x.shape[:axis], index.numel(), *x.shape[axis + 1 :])
    if new.shape != wanted and not (x.ndim == 0 or new.ndim == 0):
        raise ShapeError(f"{name}: a source of {new.shape}; expected {wanted}, a slice for each "
                         "index")  # fmt: skip
    return new


@method()
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """x with one value at the slices ``index`` along ``dim``."""
    key = _along("index_fill", input, dim, index, True)
    behind = (1,) * (max(input.ndim, 1) - len(key))
    kind = {"dtype": bool, "device": input.device}
    nothing = zeros((input.shape or (1,))[len(key) - 1], *behind, **kind)
    chosen = set_at(nothing, ones(1, *behind, **kind), key=key[-1:])  # named twice counts once
    return reshape(where(chosen, _scalar(value, input), input), input.shape)


def _scalar(value: Any, like: Tensor) -> Tensor:
    """A number, or a tensor with one, in the dtype and place of ``like``."""
    number = np.asarray(value).astype(like.dtype) if type(value) is int else value  # wraps
    given = value if isinstance(value, Tensor) else Tensor(as_array(number, like.dtype))
    if given.ndim:
        raise ShapeError(f"expected a number or a tensor without axes, got {given.shape}")
    return given.to(like.device).type(like.dtype)


@method()
def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """x with one value where the mask is true.

    >>> dp.masked_fill(dp.ones(3), dp.tensor([True, False, True]), 0)
    tensor([0., 1., 0.])
    """
    if mask.dtype != bool:
        raise DTypeError(f"masked_fill: a mask of {mask.dtype}; expected bool")
    return where(mask, _scalar(value, input), input)


@method()
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """x with the values of ``source``, in order, where the mask is true."""
    mask._read()
    x, chosen = broadcast_tensors(input, mask)
    count = int(chosen.array.sum())
    if source.numel() < count:
        raise ShapeError(f"masked_scatter: {source.numel()} values for {count} places")
    return set_at(x, ravel(source)[:count], key=chosen.array.copy())


def in_place(function: Any) -> Any:
    """The function of a tensor that writes what ``function`` gives to it."""

    def change(self: Tensor, *args: Any, **named: Any) -> Tensor:
        before = self
        if mode.grad:
            self.fresh()
            before = self.detach().clone()  # a rule may keep what is about to be overwritten
            before.node = self.node
        return take_over(self, function(before, *args, **named), f"{function.__name__}_")

    change.__doc__, change.__name__ = f"``{function.__name__}`` in place.", f"{function.__name__}_"
    change.__module__ = function.__module__
    return change


for _function in (scatter, scatter_add, scatter_reduce, index_add, index_copy, index_fill,
                  index_put, masked_fill, masked_scatter, tril, triu, cumsum, cumprod):  # fmt: skip
    method(f"{_function.__name__}_")(in_place(_function))
