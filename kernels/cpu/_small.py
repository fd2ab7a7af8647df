"""Products inside of compiled loops by register tiles: c += a b for matrices that are in cache.

Where a layer multiplies many small matrices, or the same one step after step, a library takes
longer to begin than to multiply. Here the compiled loop calls the tiles itself. b is read in panels
as wide as a tile: where its rows are contiguous they are read where they lie, else `turned` lays it
out. Costs 2 rows * sums * columns flops, at 85 to 95 % of a core's peak from 14 rows and 32 columns
on; a single row waits for b, at some 60 GB/s from the second cache.

Sums are chains of at most `CHAIN` terms, added in order, for any number of rows: see `_product`.
"""

from functools import lru_cache

import numpy as np

from ._jit import part
from ._machine_code import call, host
from ._memory import empty
from ._microkernel import STEPS, tile
from ._product import CHAIN
from ._transpose import transpose, turn

A_INNER, A_ROW, B_INNER, C_ROW = (
    3 + STEPS.index(name) for name in ("a_inner", "a_row", "b_inner", "c_row"))  # fmt: skip
HEAD = 4  # numbers of a plan before the addresses of tiles
WHOLE = np.dtype(np.int64)

_turn = part(turn)


def plan_of(dtype, rows):
    """What `product` and `turned` are told of this computer: the width of a panel, the tallest
    tile, the address of a transposition, lanes, and the addresses of the tiles for so many `rows`
    (any of a frozenset). Empty where there are no tiles, and BLAS is to be called instead."""
    return np.empty(0, WHOLE) if host() is None else _plan(dtype, rows)


@lru_cache(1024)
def _plan(dtype, rows):
    target = host()
    tiles = np.zeros((2, target.rows + 1), np.int64)
    for height in {height for count in rows if count for height in _heights(count, target.rows)}:
        for vectors in (1, 2):
            tiles[vectors - 1, height] = tile(target, dtype, height, vectors, start="add")
    lanes = target.lanes(dtype)
    head = 2 * lanes, target.rows, transpose(target, dtype), lanes
    return np.concatenate([head, tiles.reshape(-1)]).astype(np.int64)


def _heights(count, most):
    """Of tiles of nearly equal height that lie below each other."""
    parts = -(-count // most)
    return count // parts, -(-count // parts)


def numbers():
    """Memory for what a tile is told: its counts and steps."""
    return empty((3 + len(STEPS),), WHOLE)


def panels(sums, columns, dtype):
    """How many values there are in what `turned` and `gathered` lay out."""
    width = 2 * host().lanes(dtype) if host() else 0
    return sums * -(-columns // width) * width if width else 0


@part
def turned(plan, b, out):
    """Lay out the transpose of b (columns, sums), C-contiguous, as panels: one after the other,
    `width` values for each term of a sum; those of columns that do not exist are left as is."""
    (columns, sums), width, item = b.shape, plan[0], b.itemsize
    for left in range(0, columns, width):
        place = left * sums * item
        _turn(plan[2], plan[3], item, b.ctypes.data + place, out.ctypes.data + place,
              min(width, columns - left), sums, sums, width)  # fmt: skip


@part
def gathered(plan, b, out):
    """Lay out b (sums, columns) itself so."""
    (sums, columns), width = b.shape, plan[0]
    for left in range(0, columns, width):
        panel = out[left * sums : (left + width) * sums]
        for k in range(sums):
            row = b[k, left : left + width]
            target = panel[k * width : (k + 1) * width]
            for j in range(row.shape[0]):
                target[j] = row[j]


@part
def product(plan, numbers, item, sizes, a, a_steps, b, b_steps, c, c_row):
    """c += a b for (rows, sums, columns) `sizes` and matrices at addresses, `item` bytes a value.

    `a_steps` are the distances in values between rows and terms of a, `b_steps` those between
    panels and terms of b, `c_row` that between rows of c.
    """
    (rows, sums, columns), width, most = sizes, plan[0], plan[1]
    if not (rows and sums and columns):
        return
    chunk = -(-sums // -(-sums // CHAIN))
    numbers[:] = 0
    numbers[:2] = 1
    numbers[A_ROW], numbers[A_INNER] = a_steps
    numbers[B_INNER], numbers[C_ROW] = b_steps[1], c_row
    tiles, parts = plan[HEAD:], (rows + most - 1) // most
    for first in range(0, sums, chunk):
        numbers[2] = min(chunk, sums - first)
        for left in range(0, columns, width):
            exist = min(width, columns - left)
            kind = most + 1 if 2 * exist > width else 0
            source, target = a + first * a_steps[1] * item, c + left * item
            place = b + (left // width * b_steps[0] + first * b_steps[1]) * item
            for p in range(parts):
                height = rows // parts + (1 if p < rows % parts else 0)
                call(tiles[kind + height],
                     (source, place, target, 0, exist, numbers.ctypes.data))  # fmt: skip
                source += height * a_steps[0] * item
                target += height * c_row * item
