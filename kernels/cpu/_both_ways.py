"""Loops of a convolution's way back whose cotangents are made some images at a time.

What makes them is batch norm's way back, often behind a pool's (`Back`). They are written to memory
for a few images, which both gradients read while it is in cache: so an array as large as the
layer's output is neither written nor read twice. `norm_conv` says how a layer is cut.
"""

from collections import namedtuple

from ._direct import add_images, clear
from ._machine_code import call
from ._nests import nest
from ._transformed import add_products, multiply
from .pool import each_window

Back = namedtuple("Back", "slopes spread whole grid pixels depth")
Chunk = namedtuple("Chunk", "images tiles")  # how many there are; of an image


def cotangents(back, x, g, index, table, some, flat, first, last):
    """Those of x (n, h, w, k) for images first..last, into `some` (images, h, w, k)."""
    size = back.pixels * back.depth * x.itemsize
    source, place = first * size, flat.ctypes.data
    given = g.ctypes.data + source
    if back.spread:
        kh, kw, sh, sw, ph, pw, dh, dw = back.grid
        if not back.whole:
            clear(flat)
        each_window(back.spread, False, some[0 : last - first], g[first:last], index[first:last],
                    0.0, 0, kh, kw, sh, sw, ph, pw, dh, dw, 0, 0)  # fmt: skip
        given = place
    call(back.slopes, (x.ctypes.data + source, given, place, table.ctypes.data, back.depth,
                       (last - first) * back.pixels))  # fmt: skip


@nest
def transformed(back, x, g, index, table, some, flat, chunk, tiles, numbers, transforms, frame,
                weights, planes, products, dz, sizes, w_tiles, w_numbers, w_transforms, z, w_frame,
                strip, w_planes, others, sums, w_sizes):  # fmt: skip
    """dz and the sums of a weight gradient, by Winograd's transforms; z (n * h * w * c) is what the
    layer was given. `w_numbers` are those of all chunks but the last, and of this."""
    n = x.shape[0]
    step = dz.shape[0] // n
    for first in range(0, n, chunk.images):
        last = min(n, first + chunk.images)
        count = (last - first) * chunk.tiles
        cotangents(back, x, g, index, table, some, flat, first, last)
        into, out = transforms
        multiply(tiles, numbers, into, out, flat, frame, weights, table[0], planes, products,
                 dz[first * step : last * step], count, sizes)  # fmt: skip
        into, turn = w_transforms
        add_products(w_tiles, w_numbers[0 if last < n else 1], into, turn,
                     z[first * step : last * step], flat, w_frame, strip, w_planes, others, sums,
                     count, w_sizes, first)  # fmt: skip


@nest
def direct(back, x, g, index, table, some, flat, tiles, loops, runs, z, rows, total, frame, sizes):
    """The weight gradient alone, by register tiles on images; z (n, h, w * c), `rows` is `some` as
    (images, h * w * k)."""
    clear(frame)
    for first in range(0, x.shape[0], sizes.images):
        last = min(x.shape[0], first + sizes.images)
        cotangents(back, x, g, index, table, some, flat, first, last)
        add_images(tiles, loops, runs, z[first:last], rows, total, frame, sizes, first)
