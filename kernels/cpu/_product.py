"""Products of matrices by register tiles: y = a b, or bias + a b, for any sizes and layouts; with
0 for negative values, or for those that a mask names, as they are written.

Costs 2 rows * sums * columns flops. Measured in float32 on one core with AVX-512 of which the tile
alone reaches 217 GFLOP/s: 185 to 210 for 128 rows and layers of hundreds of features, 180 to 200
for thousands, 165 to 195 for 1 x 1 convolutions, whose results go to memory; in a training step,
where everything comes from the third cache, 165 to 190. After Goto and van de Geijn (2008),
"Anatomy of high-performance matrix multiplication". The loops are in `_blocks`.

How matrices are read: for each term a tile reads one number of each row of a, and a vector of b.
Rows of b that are contiguous are read where they lie, unless spread over many pages or a multiple
of `ALIAS` apart: then they push each other out of the first cache. Other panels of b are packed,
once a block, by copies or by transposition. Of a, contiguous columns are copied, some tiles at a
time, as is what lies a multiple of `ALIAS` apart.

Turned products: transposing b costs more than transposing a where b is the larger one, as in the
layer y = x w^T. Then y^T = w x^T is computed, some tiles at a time, and turned. So is dw = g^T x
where g is the larger one, which is read in place then, while x is copied.

Every value is a sum of one chain for each chunk of at most `CHAIN` terms, and the chains are added
in order. So it depends neither on other rows or columns nor on how many there are, nor on which of
the two ways is taken.
"""

from functools import lru_cache

import numpy as np

from ._blocks import (
    ALWAYS,
    COPIED,
    FRAMED,
    OF_A,
    OF_B,
    OF_Y,
    UNALIGNED,
    ProductSizes,
    multiply,
)
from ._layout import ready
from ._machine_code import host
from ._memory import LINE, empty
from ._microkernel import loops, tile
from ._panels import copying
from ._transpose import transpose

CHAIN = 512  # terms of one sum: longer chains of additions lose digits
BLOCK = 1 << 19  # bytes of a block of b: a quarter of the second cache, or half
PANELS = 8  # in a block at least, which use what is packed of a
ALIAS = 4096  # bytes: lines a multiple of this apart share eight places of the first cache
SPREAD = 7 << 18  # bytes over which a panel may lie, unless packed: some four hundred pages
FEW = 8  # rows below which no product is turned: vectors along rows would be half empty
MANY = 256  # rows from which on b is packed if its rows do not begin with a line of the cache
SOME = 4  # tiles whose part of a is copied at once
LINES = 8  # tiles that are turned at once: seven lines of y, if a tile has 14 rows
ONE = 1, 0, 0, 0  # group


def chain(sums):
    """How many terms each chain of a sum has, but the last, which may have fewer."""
    return -(-sums // -(-sums // CHAIN))


class Product:
    """What `multiply` is told of a product of some shape and layout, besides its arrays.

    `shape` is (rows, sums, columns), `groups` how many products there are, and how far apart those
    of a, b and y lie; steps are those along rows and columns, in values.
    """

    def __init__(self, shape, a_steps, b_steps, y_row, groups, dtype, ends):
        (rows, sums, columns), (count, a_group, b_group, y_group) = shape, groups
        self.dtype, self.target, (bias, relu, self.masked) = dtype, host(), ends
        self.turned = not self.masked and _is_turned(shape, a_steps, b_steps)
        if self.turned:
            rows, columns, a_group, b_group = columns, rows, b_group, a_group
            a_steps, b_steps = b_steps[::-1], a_steps[::-1]
        most, width, chunk = self.target.rows, 2 * self.target.lanes(dtype), chain(sums)
        pack_a = self._pack_a(a_steps) if rows > 4 and columns > width else 0
        is_apart = chunk * b_steps[0] * dtype.itemsize > SPREAD or self._meet(*b_steps)
        pack_b = ALWAYS if b_steps[1] != 1 or (rows > most and is_apart) else (
            UNALIGNED if rows >= MANY else 0)  # fmt: skip
        values, all_columns = BLOCK // dtype.itemsize, -(-columns // width) * width
        wide = min(all_columns, max(PANELS * width, values // sums // width * width))
        deep = min(sums, chunk * max(1, values // (wide * chunk)))
        tall = width // 2 if most <= width // 2 else width
        some = LINES if self.turned else SOME if pack_a == COPIED else 1
        frame = (0, some * chunk * tall, most * (chunk + width))[pack_a]
        whole, depth = wide >= columns, deep == sums  # columns of b, terms of a
        ahead = (OF_B if whole and not depth and b_steps == (columns, 1) else
                 OF_Y if whole and sums <= columns == y_row and not self.turned else
                 OF_A if depth and not pack_a and a_steps == (sums, 1) else 0)  # fmt: skip
        self.sizes = ProductSizes(
            count, rows, sums, columns, *a_steps, a_group, *b_steps, b_group, y_row, y_group,
            1 if self.turned else y_row if self.masked else 0,
            chunk, deep, wide, width, most, tall, some, pack_a, pack_b, ahead, self.turned, frame,
            transpose(self.target, dtype), copying(self.target, dtype),
        )  # fmt: skip
        strip = some * most * wide if self.turned else 0
        self.scratch = LINE // dtype.itemsize + bool(pack_b) * deep * wide + frame + strip
        steps = {
            "a_inner": (a_steps[1], tall, 1)[pack_a],
            "a_row": (a_steps[0], 1, chunk + width)[pack_a],
            "c_row": wide if self.turned else y_row,
        }  # fmt: skip
        self.loops = np.array([
            [loops((1, 1, terms), b_inner=b_inner, **steps)
             for terms in (chunk, sums - (sums - 1) // chunk * chunk)]
            for b_inner in (b_steps[0], width)
        ])  # fmt: skip
        first = "zero" if not bias else "own bias" if self.turned else "bias"
        last = relu, self.masked
        kinds = [(first, last)] if chunk == sums else [
            (first, (False, False)), ("add", (False, False)), ("add", last)]  # fmt: skip
        self.plan = np.array([*self.sizes, *self._tiles(kinds)], np.int64)

    def _pack_a(self, steps):
        if steps[1] != 1:
            return COPIED if steps[0] == 1 else 0
        return FRAMED if self._meet(*steps) else 0

    def _meet(self, step, inner):
        """Whether rows so many values apart meet in few places of the first cache."""
        return inner == 1 and step * self.dtype.itemsize % ALIAS == 0

    def _tiles(self, kinds):
        """Addresses of tiles: (kind, vectors - 1, height), 0 where none is needed."""
        s = self.sizes
        table = np.zeros((len(kinds), 2, s.most + 1), np.int64)
        parts, rest = -(-s.rows // s.most), s.columns % s.width
        found = {2} if s.columns >= s.width else set()
        for vectors in found | ({1 if 2 * rest <= s.width else 2} if rest else set()):
            for height in {s.rows // parts, -(-s.rows // parts)}:
                for i, (start, (relu, masked)) in enumerate(kinds):
                    table[i, vectors - 1, height] = tile(
                        self.target, self.dtype, height, vectors, start=start, relu=relu,
                        masked=masked, ahead=True)  # fmt: skip
        return table.reshape(-1)


def _is_turned(shape, a_steps, b_steps):
    """Whether y is turned, since less is turned or copied then: values of y, and of a or b."""
    rows, sums, columns = shape
    if b_steps[1] == 1:  # both lie term by term: a is copied, b is read as it is, or the other way
        return a_steps[0] == 1 and rows * sums > columns * sums + 2 * rows * columns
    given = rows * sums if a_steps[0] != 1 else 0
    return b_steps[0] == 1 and rows >= FEW and columns * sums > rows * columns + given


product_of = lru_cache(maxsize=1024)(Product)


def products(a, b, bias, y, *layout, relu=False, mask=None):
    """y = bias + a b for groups of matrices: arrays, of which `layout` says how they lie. With
    `relu` 0 for what is less; of one matrix, without a bias, 0 where a `mask` like y is 0 or less.
    """
    known = product_of(*layout, y.dtype, (bias is not None, relu, mask is not None))
    scratch = empty(known.scratch, y.dtype)
    a, b = (b, a) if known.turned else (a, b)
    bias = mask if bias is None else bias
    multiply(known.plan, known.loops, a, b, scratch if bias is None else bias, y, scratch)


def product(a, b, bias=None, **ends):
    """a b, or bias + a b: (rows, sums) by (sums, columns), none of which is 0; `ends` are those of
    `products`."""
    (rows, sums), columns = a.shape, b.shape[1]
    a, a_steps = _dense(a)
    b, b_steps = _dense(b)
    y = empty((rows, columns), a.dtype)
    products(a, b, bias, y, (rows, sums, columns), a_steps, b_steps, columns, ONE, **ends)
    return y


def _dense(x):
    """x or its transpose, C-contiguous, and its steps along rows and columns: a copy of gaps."""
    if x.flags.carray:
        return x, (x.shape[1], 1)
    turned = x.T
    return (turned, (1, x.shape[0])) if turned.flags.carray else (ready(x), (x.shape[1], 1))
