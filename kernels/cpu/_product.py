"""Products of matrices by register tiles: y = a b, or bias + a b, for any sizes and layouts.

Costs 2 rows * sums * columns flops, and reads b once for each strip of rows. Measured in float32
on one core with AVX-512, packing included: 98 to 110 of 113 GFLOP/s for 128 rows and layers of
hundreds of features, 72 to 85 for 64 rows and thousands. Below 14 rows memory is the limit, and
turning w for `linear`. After Goto and van de Geijn (2008), "Anatomy of high-performance matrix
multiplication".

From the outside in: strips of rows of a, chunks of terms, panels of b as wide as a tile, tiles. A
panel is packed just before its tiles read it, into the same few kilobytes of cache for all: so
there is never a copy of b as a whole. If its rows are contiguous already it is not packed at all,
except where they are spread over many pages, or a multiple of `ALIAS` apart: then they push each
other out of the first cache. Such rows of a are copied to a *frame*, chunk by chunk.

Every value is a sum of one chain for each chunk of at most `CHAIN` terms, and the chains are added
in order. So it depends neither on other rows or columns nor on how many there are.
"""

from collections import namedtuple
from functools import lru_cache

import numpy as np

from ._layout import ready
from ._machine_code import call, host, move
from ._memory import empty
from ._microkernel import loops, tile
from ._nests import nest
from ._transpose import transpose, turn

CHAIN = 512  # terms of one sum: longer chains of additions lose digits
STRIP = 36  # tiles below each other for which b is packed once: half of a megabyte of a
LINE = 64  # bytes that a cache moves at once
ALIAS = 4096  # bytes: lines a multiple of this apart share eight places of the first cache
SPREAD = 7 << 18  # bytes over which a panel may lie, unless packed: some four hundred pages

NAMES = """rows sums columns a_row a_sum b_sum b_column chunk strip width most frame is_packed
kernel"""
ProductSizes = namedtuple("ProductSizes", NAMES)


@nest
def multiply(plan, loops, a, b, bias, y, scratch):
    """y (rows, columns): strip by strip, chunk by chunk, panel by panel."""
    sizes = ProductSizes(plan[0], plan[1], plan[2], plan[3], plan[4], plan[5], plan[6], plan[7],
                         plan[8], plan[9], plan[10], plan[11], plan[12], plan[13])  # fmt: skip
    item, tiles = y.itemsize, plan[14:]
    panel = scratch.ctypes.data + -scratch.ctypes.data % LINE
    frame = panel + sizes.chunk * sizes.width * item
    for top in range(0, sizes.rows, sizes.strip):
        rows = min(sizes.strip, sizes.rows - top)
        for first in range(0, sizes.sums, sizes.chunk):
            count = min(sizes.chunk, sizes.sums - first)
            source = a.ctypes.data + (top * sizes.a_row + first * sizes.a_sum) * item
            if sizes.frame:
                for row in range(rows):
                    move(source + row * sizes.a_row * item, frame + row * sizes.frame * item,
                         count * item)  # fmt: skip
                source = frame
            numbers = loops.ctypes.data + (loops.strides[0] if count < sizes.chunk else 0)
            begin = b.ctypes.data + first * sizes.b_sum * item
            target, starts = y.ctypes.data + top * sizes.columns * item, bias.ctypes.data
            for left in range(0, sizes.columns, sizes.width):
                exist = min(sizes.width, sizes.columns - left)
                place = begin + left * sizes.b_column * item
                if sizes.is_packed:
                    pack(place, panel, exist, count, item, sizes)
                    place = panel
                kind = (2 if first else 0) + (1 if 2 * exist > sizes.width else 0)
                given = place, target + left * item, starts + left * item, exist, numbers
                descend(tiles, kind * (sizes.most + 1), source, given, rows, item, sizes)


def pack(source, panel, exist, count, item, sizes):
    """A panel of b, a row of `width` values for each term; those that do not exist stay as is."""
    if sizes.b_column == 1:
        for k in range(count):
            move(source + k * sizes.b_sum * item, panel + k * sizes.width * item, exist * item)
    else:
        turn(sizes.kernel, sizes.width // 2, item, source, panel, exist, count, sizes.b_column,
             sizes.width)  # fmt: skip


def descend(tiles, kind, a, given, rows, item, sizes):
    """Tiles of nearly equal height, one below the other."""
    b, c, bias, exist, numbers = given
    parts = (rows + sizes.most - 1) // sizes.most
    small, larger = rows // parts, rows % parts
    further = (sizes.frame or sizes.a_row) * item
    for p in range(parts):
        height = small + (1 if p < larger else 0)
        call(tiles[kind + height], (a, b, c, bias, exist, numbers))
        a += height * further
        c += height * sizes.columns * item


def chain(sums):
    """How many terms each chain of a sum has, but the last, which may have fewer."""
    return -(-sums // -(-sums // CHAIN))


class Product:
    """What `multiply` is told of a product of some shape and layout, besides its arrays."""

    def __init__(self, rows, sums, columns, a_steps, b_steps, dtype, start):
        target, width = host(), 2 * host().lanes(dtype)
        chunk = chain(sums)
        strip = min(rows, STRIP * target.rows)
        is_used_often = rows > 4 and columns > width
        frame = chunk + width if is_used_often and _meet(*a_steps, dtype) else 0
        is_apart = chunk * b_steps[0] * dtype.itemsize > SPREAD or _meet(*b_steps, dtype)
        is_packed = b_steps[1] != 1 or (rows > target.rows and is_apart)
        self.sizes = ProductSizes(rows, sums, columns, *a_steps, *b_steps, chunk, strip, width,
                                  target.rows, frame, is_packed,
                                  transpose(target, dtype))  # fmt: skip
        self.scratch = chunk * width + LINE // dtype.itemsize + strip * frame
        self.loops = np.array([
            loops((1, 1, count), a_inner=a_steps[1], a_row=frame or a_steps[0],
                  b_inner=width if is_packed else b_steps[0], c_row=columns)
            for count in (chunk, sums - (sums - 1) // chunk * chunk)
        ])  # fmt: skip
        starts = (start, "add")[: 1 + (sums > chunk)]
        self.plan = np.array([*self.sizes, *self._tiles(target, dtype, starts)], np.int64)

    def _tiles(self, target, dtype, starts):
        """Addresses of tiles: (start or add, vectors - 1, height), 0 where none is needed."""
        table = np.zeros((2, 2, target.rows + 1), np.int64)
        for i, start in enumerate(starts):
            for vectors in self._vectors():
                for height in self._heights():
                    table[i, vectors - 1, height] = tile(target, dtype, height, vectors,
                                                         start=start)  # fmt: skip
        return table.reshape(-1)

    def _vectors(self):
        """Of the tiles of all panels."""
        columns, width = self.sizes.columns, self.sizes.width
        rest = columns % width
        found = {2} if columns >= width else set()
        return found | {1 if 2 * rest <= width else 2} if rest else found

    def _heights(self):
        """Of the tiles of all strips."""
        found = set()
        for rows in {self.sizes.strip, self.sizes.rows % self.sizes.strip} - {0}:
            parts = -(-rows // self.sizes.most)
            found |= {rows // parts, -(-rows // parts)}
        return found


def _meet(step, inner, dtype):
    """Whether rows so many values apart meet in few places of the first cache."""
    return inner == 1 and step * dtype.itemsize % ALIAS == 0


product_of = lru_cache(maxsize=1024)(Product)


def product(a, b, bias=None):
    """a b, or bias + a b: (rows, sums) by (sums, columns), none of which is 0."""
    (rows, sums), columns, dtype = a.shape, b.shape[1], a.dtype
    a, a_steps = _dense(a)
    b, b_steps = _dense(b)
    start = "zero" if bias is None else "bias"
    known = product_of(rows, sums, columns, a_steps, b_steps, dtype, start)
    y, scratch = empty((rows, columns), dtype), empty(known.scratch, dtype)
    multiply(known.plan, known.loops, a, b, scratch if bias is None else bias, y, scratch)
    return y


def _dense(x):
    """x or its transpose, C-contiguous, and its steps along rows and columns: a copy of gaps."""
    if x.flags.carray:
        return x, (x.shape[1], 1)
    turned = x.T
    return (turned, (1, x.shape[0])) if turned.flags.carray else (ready(x), (x.shape[1], 1))
