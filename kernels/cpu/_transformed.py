"""Winograd's loops: a block of tiles after the other is transformed, multiplied, transformed back.

`_winograd` says what is computed, and what a block is; addresses of machine code and numbers of
loops come from there. A block's planes stay in the second cache. What comes from memory, or goes
there, is asked for some lines at a time between register tiles, while these keep the core busy:
images of the next block, and where results will be written. So less time passes beside products:
2.7 ms instead of 4.8 beside 5.9, for 64 channels of 64 images of 32 x 32 in memory.
"""

from collections import namedtuple

from ._machine_code import call
from ._memory import LINE
from ._nests import nest
from ._strips import ask, lay
from ._transforms import OUTPUTS

GAP = 16  # values between planes: planes a power of two apart would share lines of the cache

Soon = namedtuple("Soon", "one other ones others")  # places, and lines to ask for at a time


@nest
def transform_weights(turn, packed, weights, c, columns, width, r, size):
    """Weights (blocks, r, r, c, width) as (size, size, blocks, c, width)."""
    item, step = packed.itemsize, c * columns
    for block in range(columns // width):
        for row in range(c):
            source = packed.ctypes.data + (block * r * r * c + row) * width * item
            target = weights.ctypes.data + (block * c + row) * width * item
            call(turn, (source, target, width, r * c * width, c * width, size * step, step,
                        0, r, 0, r, source))  # fmt: skip


@nest
def transform_sums(back, sums, total, c, width, r, size):
    """Sums (size, size, c, width) as the gradient (r, r, c, width), row by row."""
    step, item = c * width, sums.itemsize
    for row in range(c):
        source = sums.ctypes.data + row * width * item
        target = total.ctypes.data + row * width * item
        call(back, (source, target, width, size * step, step, r * step, step, 0, size, 0, size,
                    source))  # fmt: skip


def place_of(tile, sizes):
    """Image, and first row and pixel of its target, of a tile."""
    across, down = sizes.across, sizes.down
    return tile // (down * across), tile // across % down * OUTPUTS, tile % across * OUTPUTS


def level(values):
    """The address of the first line of the cache in some memory."""
    return (values.ctypes.data + LINE - 1) // LINE * LINE


def read(turn, images, frame, planes, first, last, grid, size, sizes):
    """Transform tiles first..last, of `size` rows and pixels, of images to a block's planes.

    A strip is laid at its first tile, and stays for the tiles of it that are in the next block.
    """
    item, c, step = images.itemsize, grid.depth, sizes.block * grid.depth + GAP
    line = (sizes.strip * OUTPUTS + size - OUTPUTS) * c + GAP
    for tile in range(first, last):
        image, row, pixel = place_of(tile, sizes)
        place = tile % sizes.across % sizes.strip
        if place == 0:
            many = min(sizes.strip, sizes.across - tile % sizes.across)
            lay(images, frame, image, row - grid.offset_h, pixel - grid.offset_w, size,
                many * OUTPUTS + size - OUTPUTS, line, grid)  # fmt: skip
        source = frame.ctypes.data + place * OUTPUTS * c * item
        target = planes + (tile - first) * c * item
        call(turn, (source, target, c, line, c, sizes.size * step, step, 0, size, 0, size,
                    source))  # fmt: skip


def product(tiles, a, a_step, b, b_step, c, c_step, rows, columns, numbers, soon, sizes):
    """c = a @ b, or added to c: `rows` in as few tiles as possible, at addresses.

    Rows of a, and blocks of columns of b, lie so many bytes apart, and tiles of rows of c. Before
    each tile the next lines of what is wanted `soon` are asked for; what is wanted then.
    """
    parts = (rows + sizes.most - 1) // sizes.most
    small, larger, item = rows // parts, rows % parts, c_step[1]
    one, other = soon.one, soon.other
    for column in range(0, columns, sizes.width):
        exist = min(sizes.width, columns - column)
        heights = tiles[1 if 2 * exist > sizes.width else 0]
        row = 0
        for p in range(parts):
            height = small + (1 if p < larger else 0)
            one, other = ask(one, soon.ones), ask(other, soon.others)
            call(heights[height], (a + row * a_step, b, c + row * c_step[0] + column * item, a,
                                   exist, numbers))  # fmt: skip
            row += height
        b += b_step
    return one, other


def part_of(values, tile, count):
    """The address of a tile's part of memory, about: tiles lie one after the other."""
    return values.ctypes.data + tile * (values.shape[0] * values.itemsize // count)


def portion(values, tiles, times, count):
    """The lines in the parts of so many tiles, asked for in `times` portions of equal size."""
    return (values.shape[0] * values.itemsize // count * tiles + LINE * times - 1) // (LINE * times)


def times(rows, columns, sums, sizes):
    """How many register tiles a block's products have."""
    below = (rows + sizes.most - 1) // sizes.most
    beside = (columns + sizes.width - 1) // sizes.width
    return sizes.size**2 * below * beside * ((sums + sizes.chain - 1) // sizes.chain)


@nest
def multiply(tiles, numbers, into, out, x, frame, weights, bias, planes, products, y, count, sizes):
    """y: input tiles to planes, their products, and back, block after block of tiles."""
    source, target, item = sizes.source, sizes.target, x.itemsize
    c, k, width = source.depth, target.depth, sizes.width
    step, panel = sizes.block * k + GAP, c * width * item
    begin, sums = level(planes), level(products)
    for first in range(0, count, sizes.block):
        last = min(count, first + sizes.block)
        read(into, x, frame, begin, first, last, source, sizes.size, sizes)
        portions = times(last - first, k, c, sizes)
        ones = portion(x, min(count - last, sizes.block), portions, count)
        others = portion(y, last - first, portions, count)
        one, other = part_of(x, last + sizes.across, count), part_of(y, first, count)
        for plane in range(sizes.size**2):
            a = begin + plane * (sizes.block * c + GAP) * item
            b = weights.ctypes.data + plane * ((k + width - 1) // width) * panel
            place = sums + plane * step * item
            for chunk in range(0, c, sizes.chain):
                starts = tiles[0 if chunk == 0 else 1]
                steps = numbers[0 if chunk + sizes.chain < c else 1]
                one, other = product(
                    starts, a + chunk * item, c * item, b + chunk * width * item, panel, place,
                    (k * item, item), last - first, k, steps.ctypes.data,
                    Soon(one, other, ones, others), sizes,
                )  # fmt: skip
        for tile in range(first, last):
            image, row, pixel = place_of(tile, sizes)
            place = y.ctypes.data + ((image * target.high + row) * target.wide + pixel) * k * item
            call(out, (sums + (tile - first) * k * item, place, k,
                       sizes.size * step, step, target.wide * k, k, 0,
                       min(OUTPUTS, target.high - row), 0, min(OUTPUTS, target.wide - pixel),
                       bias.ctypes.data))  # fmt: skip


@nest
def correlate(tiles, numbers, into, turn, x, g, frame, strip, planes, others, sums, count, sizes):
    """sums (size, size, c, columns): products of a block's input and cotangent tiles, added up."""
    add_products(tiles, numbers, into, turn, x, g, frame, strip, planes, others, sums, count, sizes,
                 0)  # fmt: skip


def add_products(tiles, numbers, into, turn, x, g, frame, strip, planes, others, sums, count, sizes,
                 before):  # fmt: skip
    """The same for images behind so many others; numbers[1] is for a last block that is smaller."""
    source, target, item, width = sizes.source, sizes.target, x.itemsize, sizes.width
    c, k = source.depth, target.depth
    columns = (k + width - 1) // width * width
    inputs, cotangents = level(planes), level(others)
    for first in range(0, count, sizes.block):
        last = min(count, first + sizes.block)
        read(into, x, frame, inputs, first, last, source, sizes.size, sizes)
        outputs = min(OUTPUTS, sizes.size)  # Numba would compile `read` once more for a literal
        read(turn, g, strip, cotangents, first, last, target, outputs, sizes)
        starts, steps = tiles[0 if first + before == 0 else 1], numbers[0 if last < count else 1]
        following, portions = min(count - last, sizes.block), times(c, k, 1, sizes)
        ones = portion(x, following, portions, count)
        more = portion(g, following, portions, count)
        one, other = part_of(x, last + sizes.across, count), part_of(g, last, count)
        for plane in range(sizes.size**2):
            a = inputs + plane * (sizes.block * c + GAP) * item
            b = cotangents + plane * (sizes.block * k + GAP) * item
            place = sums.ctypes.data + plane * c * columns * item
            one, other = product(starts, a, item, b, width * item, place, (columns * item, item), c,
                                 k, steps.ctypes.data, Soon(one, other, ones, more),
                                 sizes)  # fmt: skip
