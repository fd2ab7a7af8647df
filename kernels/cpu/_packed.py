"""Packed rows: those of step 0 of all sequences, then those of step 1, and so on.

Each step multiplies its rows by the same weights. So these are laid out once, as panels of columns
that a register tile reads from begin to end: see `_product` for the idea, and for the chains of
additions. A step of n rows costs 2 n times the weights in flops, and reads them all: some 60 GB/s
from the second cache are the limit for a single row, the multipliers from 14 rows on.
"""

from functools import cache, lru_cache

import numpy as np

from ._blas import add_product
from ._jit import part
from ._machine_code import call, host
from ._memory import empty
from ._microkernel import loops, tile
from ._product import chain
from ._transpose import transpose, turn

FEW = 3  # steps for which weights are not worth laying out
HEAD = 5  # numbers of a plan before the loops of tiles

_turn = part(turn)


@cache
def spans(sizes, reverse):
    """(first row, rows) of each step, in the order of computing."""
    starts = np.cumsum((0, *sizes[:-1]), dtype=np.int64)
    steps = np.stack([starts, np.array(sizes, np.int64)], axis=1)
    return np.ascontiguousarray(steps[::-1] if reverse else steps)


def panels_of(b, sizes):
    """(a plan, memory) to multiply rows by the matrix b, C-contiguous or the transpose of such a
    matrix, in steps of so many rows; both are empty where BLAS is to do it."""
    if len(sizes) <= FEW or not b.size or host() is None:
        return np.empty(0, np.int64), empty((0,), b.dtype)
    plan = _plan(*b.shape, b.dtype, frozenset(sizes), b.flags.c_contiguous)
    columns = -(-b.shape[1] // plan[1]) * plan[1]
    return plan, empty((b.shape[0] * columns,), b.dtype)


@lru_cache(1024)
def _plan(sums, columns, dtype, sizes, is_plain):
    """Numbers for `lay_out` and `multiply`: chain, width of a panel, tallest tile, address of a
    transposition or 0, lanes; the loops of a tile over a whole chain and over the last; tiles."""
    target, chunk = host(), chain(sums)
    width, most = 2 * target.lanes(dtype), target.rows
    counts = chunk, sums - (sums - 1) // chunk * chunk
    steps = [loops((1, 1, count), a_inner=1, a_row=sums, b_inner=width, c_row=columns)
             for count in counts]  # fmt: skip
    heights = {height for rows in sizes for height in _heights(rows, most)}
    tiles = np.zeros((2, most + 1), np.int64)
    for vectors in (1, 2):
        for height in heights:
            tiles[vectors - 1, height] = tile(target, dtype, height, vectors, start="add")
    head = chunk, width, most, 0 if is_plain else transpose(target, dtype), target.lanes(dtype)
    return np.concatenate([head, *steps, tiles.reshape(-1)]).astype(np.int64)


def _heights(rows, most):
    """Of tiles of nearly equal height that lie below each other."""
    parts = -(-rows // most)
    return {rows // parts, -(-rows // parts)} if rows else set()


@part
def lay_out(b, plan, panels):
    """Fill the panels of b, where there are any: `width` columns of each row one after the other,
    those that do not exist left as they are."""
    if not plan.shape[0]:
        return
    (sums, columns), width, item = b.shape, plan[1], panels.itemsize
    for left in range(0, columns, width):
        exist = min(width, columns - left)
        panel = panels[left * sums : (left + width) * sums]
        if plan[3]:
            _turn(plan[3], plan[4], item, b.ctypes.data + left * sums * item, panel.ctypes.data,
                  exist, sums, sums, width)  # fmt: skip
        else:
            for k in range(sums):
                for j in range(exist):
                    panel[k * width + j] = b[k, left + j]


@part
def multiply(blas, a, b, plan, panels, y):
    """y += a b."""
    if not plan.shape[0]:
        add_product(blas, a, b, y)
        return
    (rows, sums), columns, item = a.shape, y.shape[1], y.itemsize
    chunk, width, most = plan[0], plan[1], plan[2]
    steps = (plan.shape[0] - HEAD - 2 * (most + 1)) // 2
    tiles = plan[HEAD + 2 * steps :]
    parts = (rows + most - 1) // most
    for left in range(0, columns, width):
        exist = min(width, columns - left)
        kind = most + 1 if 2 * exist > width else 0
        for first in range(0, sums, chunk):
            last = 0 if sums - first > chunk or sums % chunk == 0 else steps
            numbers = plan.ctypes.data + (HEAD + last) * plan.itemsize
            source, target = a.ctypes.data + first * item, y.ctypes.data + left * item
            place = panels.ctypes.data + (left * sums + first * width) * item
            for p in range(parts):
                height = rows // parts + (1 if p < rows % parts else 0)
                call(tiles[kind + height], (source, place, target, 0, exist, numbers))
                source += height * sums * item
                target += height * columns * item
