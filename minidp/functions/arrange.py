"""Values in another order, place or number, under PyTorch's names."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from minidp.arguments import expect_tensors
from minidp.errors import ShapeError
from minidp.functions.join import atleast_1d, cat, stack, tensor_split
from minidp.functions.layout import (
    axes_in_order,
    broadcast_to,
    movedim,
    ravel,
    real_axis,
    reshape,
    sizes_of,
    transpose,
)
from minidp.ops import layout as ops
from minidp.ops.index import get
from minidp.placement import place
from minidp.shapes import axes_of, axis_of
from minidp.tensor import Tensor, method

__all__ = ["block_diag", "cartesian_prod", "combinations", "diag", "diag_embed", "diagflat",
           "diagonal", "diagonal_scatter", "flip", "fliplr", "flipud", "meshgrid",
           "repeat_interleave", "roll", "rot90", "select_scatter", "slice_scatter", "tile", "tril",
           "triu"]  # fmt: skip


@method()
def flip(input: Tensor, *axes: Any, dims: Any = None) -> Tensor:
    """The order along ``dims`` reversed; a copy.

    >>> dp.flip(dp.arange(4), (0,))
    tensor([3, 2, 1, 0])
    """
    given = sizes_of(axes, dims)
    turned = axes_of("flip", given, input.ndim) if given else ()
    key = tuple(slice(None, None, -1 if a in turned else 1) for a in range(input.ndim))
    return ops.copy(get(input, key=key))


@method()
def fliplr(input: Tensor) -> Tensor:
    """The order along axis 1 reversed."""
    return flip(input, real_axis(input, "fliplr", 1))


@method()
def flipud(input: Tensor) -> Tensor:
    """The order along axis 0 reversed."""
    return flip(input, real_axis(input, "flipud", 0))


@method()
def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """Every value moved on by ``shifts`` along ``dims`` (None: in the flat tensor), round and
    round."""
    if dims is None:
        return reshape(roll(ravel(input), shifts, 0), input.shape)
    axes = [real_axis(input, "roll", each) for each in sizes_of((dims,))]
    steps = sizes_of((shifts,))
    if len(steps) != len(axes):
        raise ShapeError(f"roll: {len(steps)} shifts for {len(axes)} axes")
    for axis, step in zip(axes, steps, strict=True):
        cut = -step % max(input.shape[axis], 1)
        input = cat(tensor_split(input, [cut], axis)[::-1], axis) if cut else input
    return ops.copy(input)


@method()
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Turned by ``k`` quarters, from the first of ``dims`` towards the second."""
    axes = [real_axis(input, "rot90", each) for each in dims]
    if len(axes) != 2 or axes[0] == axes[1]:
        raise ShapeError(f"rot90{tuple(dims)} of {input.shape}: expected two different axes")
    a, b = axes
    turns: dict[int, Any] = {
        0: lambda: ops.copy(input), 1: lambda: transpose(flip(input, b), a, b),
        2: lambda: flip(input, a, b), 3: lambda: flip(transpose(input, a, b), b),
    }  # fmt: skip
    return turns[int(k % 4)]()


@method("repeat")
def _repeat(self: Tensor, *counts: Any, repeats: Any = None) -> Tensor:
    """Copies side by side, so many along each axis."""
    counts = sizes_of(counts, repeats)
    if len(counts) < self.ndim:
        raise ShapeError(f"repeat{counts}: expected a number for each axis of {self.shape}")
    sizes = (1,) * (len(counts) - self.ndim) + self.shape
    pairs = [(n, size) for n, size in zip(counts, sizes, strict=True)]
    wide = reshape(self, [each for _, n in pairs for each in (1, n)])
    wide = ops.expand(wide, shape=tuple(each for pair in pairs for each in pair))
    return ops.copy(reshape(wide, [n * size for n, size in pairs]))


@method()
def tile(input: Tensor, *counts: Any, dims: Any = None) -> Tensor:
    """Copies side by side; the axes that ``dims`` leaves out, at the front, once."""
    given = sizes_of(counts, dims)
    return _repeat(input, (1,) * (input.ndim - len(given)) + given)


@method()
def repeat_interleave(
    input: Tensor, repeats: Any, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Every slice along ``dim`` (None: every value) ``repeats`` times in a row."""
    if dim is None:
        input, dim = ravel(input), 0
    axis = axis_of("repeat_interleave", dim, input.ndim)
    times = np.asarray(repeats.detach()) if isinstance(repeats, Tensor) else repeats
    if np.ndim(times) and np.size(times) not in (1, input.shape[axis]):
        raise ShapeError(f"repeat_interleave: {np.size(times)} numbers for axis {axis} of "
                         f"{input.shape}")  # fmt: skip
    rows = place(np.repeat(np.arange(input.shape[axis]), times), input.device)
    return get(input, key=(slice(None),) * axis + (rows,))


@method()
def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """The last two axes on and below a diagonal, zeros above.

    >>> dp.tril(dp.ones(2, 2))
    tensor([[1., 0.],
            [1., 1.]])
    """
    return _triangle("tril", input, diagonal)


@method()
def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """The last two axes on and above a diagonal, zeros below."""
    return _triangle("triu", input, diagonal)


def _triangle(name: str, x: Tensor, offset: int) -> Tensor:
    if x.ndim < 2:
        raise ShapeError(f"{name}({x.shape}): expected at least two axes")
    return ops.triangle(x, offset=offset, upper=name == "triu")


@method()
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonal of two axes, as the last axis; a view."""
    axes = tuple(axes_in_order("diagonal", (dim1, dim2), input.ndim))
    if input.ndim < 2 or axes[0] == axes[1]:
        raise ShapeError(f"diagonal({input.shape}): expected two axes, got {dim1} and {dim2}")
    return ops.diagonal(input, offset=offset, axes=axes)


@method()
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Zeros with the last axis on a diagonal of two axes."""
    axes = tuple(axes_in_order("diag_embed", (dim1, dim2), input.ndim + 1))
    size = input.shape[real_axis(input, "diag_embed", -1)] + abs(offset)
    rest = iter(input.shape[:-1])
    shape = tuple(size if a in axes else next(rest) for a in range(input.ndim + 1))
    return ops.put_diagonal(input, shape=shape, offset=offset, axes=axes)


@method()
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """A matrix with a vector on its diagonal, or a matrix's diagonal as a vector."""
    if input.ndim not in (1, 2):
        raise ShapeError(f"diag({input.shape}): expected a vector or a matrix")
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    return ops.copy(ops.diagonal(input, offset=diagonal, axes=(0, 1)))


@method()
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """A matrix with all values on a diagonal."""
    return diag_embed(ravel(input), offset)


def _written(x: Tensor, src: Tensor, place_of: Any) -> Tensor:
    """A copy of x with ``src`` in the view that ``place_of`` gives of it."""
    y = ops.copy(x)
    view = place_of(y)
    if view.shape != src.shape:
        raise ShapeError(f"a source of {src.shape} for places of {view.shape}")
    view.copy_(src)
    return y


@method()
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
                     ) -> Tensor:  # fmt: skip
    """x with ``src`` on a diagonal."""
    return _written(input, src, lambda y: diagonal(y, offset, dim1, dim2))


@method()
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """x with ``src`` as the slice ``index`` along ``dim``."""
    return _written(input, src, lambda y: y.select(dim, index))


@method()
def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None,
    step: int = 1,
) -> Tensor:  # fmt: skip
    """x with ``src`` at the places start:end:step along ``dim``."""
    axis = axis_of("slice_scatter", dim, input.ndim)
    return _written(input, src, lambda y: y[(slice(None),) * axis + (slice(start, end, step),)])


@method()
def fill_diagonal_(self: Tensor, fill_value: float, wrap: bool = False) -> Tensor:
    """The diagonal of all axes set to one value, in place; with ``wrap``, that of a tall matrix
    begins anew behind its end."""
    if self.ndim < 2 or (self.ndim > 2 and len(set(self.shape)) > 1):
        raise ShapeError(f"fill_diagonal_ of {self.shape}: expected a matrix or equal lengths")
    rows, columns = self.shape[0], self.shape[-1]
    stop = (rows if wrap else min(rows, columns)) * columns
    matrix = divmod(np.arange(0, stop, columns + 1), max(columns, 1))
    self[matrix if self.ndim == 2 else (np.arange(rows),) * self.ndim] = fill_value
    return self


def block_diag(*tensors: Tensor) -> Tensor:
    """A matrix of matrices along its diagonal; vectors are rows."""
    expect_tensors("block_diag", *tensors)
    if any(x.ndim > 2 for x in tensors):
        raise ShapeError(f"block_diag of {[x.shape for x in tensors]}: expected matrices")
    parts = [x if x.ndim == 2 else reshape(x, (1, x.numel())) for x in tensors]
    width, rows, start = sum(x.shape[1] for x in parts), [], 0
    for x in parts:
        rows.append(ops.embed(x, shape=(x.shape[0], width), dim=1, start=start))
        start += x.shape[1]
    return cat(rows)


@method()
def unfold(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows of ``size`` places along an axis, ``step`` apart; a window is the last axis."""
    axis = axis_of("unfold", dimension, self.ndim)
    length = (self.shape or (1,))[axis]
    if self.ndim == 0 and size == 1:
        return reshape(self, 1)
    if not 0 <= size <= length or step < 1:
        raise ShapeError(f"unfold: windows of {size}, {step} apart, in an axis of size {length}")
    windows = np.arange(0, length - size + 1, step)[:, None] + np.arange(size)
    key = (slice(None),) * axis + (place(windows, self.device),)
    return movedim(get(atleast_1d(self), key=key), axis + 1, -1)


def meshgrid(*tensors: Any, indexing: str | None = "ij") -> tuple[Tensor, ...]:
    """Each vector along an axis of its own of one grid; "xy" exchanges the first two.

    >>> dp.meshgrid(dp.arange(2), dp.arange(3), indexing="ij")[0]
    tensor([[0, 0, 0],
            [1, 1, 1]])
    """
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    if indexing not in ("ij", "xy", None) or max(x.ndim for x in given) > 1:
        raise ShapeError("meshgrid: expected vectors, and indexing 'ij' or 'xy'")
    order = list(range(len(given)))
    order[:2] = order[:2][::-1] if indexing == "xy" else order[:2]
    shape = [given[i].numel() for i in order]
    behind = [(1,) * (len(given) - 1 - i) for i in order]
    return tuple(broadcast_to(reshape(x, (x.numel(), *ones)), shape)
                 for x, ones in zip(given, behind, strict=True))  # fmt: skip


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of one value from each vector, as rows."""
    grids = [ravel(x) for x in meshgrid(*tensors)]
    return grids[0] if len(grids) == 1 else stack(grids, 1)


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All combinations of ``r`` values of a vector, as rows, in the order of their places."""
    if input.ndim != 1 or r < 0:
        raise ShapeError(f"combinations of {r} of {input.shape}: expected a vector, and 0 or more")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = np.array([*choose(range(input.numel()), r)], int).reshape((-1, r) if r else (0,))
    return get(input, key=(place(rows, input.device),))
