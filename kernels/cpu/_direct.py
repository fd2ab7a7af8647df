"""Direct convolution: register tiles slide over images in cache, and nothing is unrolled.

A tile of up to 14 pixels by 32 channels is summed over all taps and source channels in registers
(see `_microkernel`). Only weights are rearranged, once a call, so that a tile reads them in order,
and the strip of an image whose windows reach over the edge is copied into a frame of zeros.

A layer costs 2 n o p k c i j / groups flops, and moves x, y and w once, with w again for every
strip that fits the cache. Forward, input and weight gradient run at 95 to 98 % of a core's peak
from 32 channels on, at 80 to 90 % with 1 to 3 (float32, AVX-512). Depthwise convolution comes here
with wide kernels only: see `_depthwise`. After Georganas et al. (2018), "Anatomy of
high-performance deep learning convolutions on SIMD architectures".

The words *frame*, *phase* and *block* are explained in `_tiling`, where the small arrays of
numbers and the sizes come from.
"""

from collections import namedtuple

from ._jit import copy
from ._machine_code import call, fetch
from ._memory import LINE
from ._nests import nest
from ._transpose import turn

# Distances (line, left, a_..., b_row) are in values, unless in pixels of the target (down, right).
SharedSizes = "line top left move reach rows strip groups blocks a_group a_block columns width most"
ConvolutionSizes = namedtuple(
    "ConvolutionSizes", SharedSizes + " wide depth down right a_pixel span together each"
)
CorrelationSizes = namedtuple("CorrelationSizes", SharedSizes + " images length step b_row")
# How many images are in cache together, and where the first is read and written; steps in bytes,
# and how far behind what is written lies what will be (0: that is near).
Images = namedtuple("Images", "many source source_step target target_step ahead")
NEAR = 1 << 22  # bytes of results that may well be in a cache


@nest
def pack(kernel, w, packed, taps, phases, sizes):
    """Weights as tiles read them: phase by phase, (groups, blocks, taps, rows, width) with zeros.

    `w` is flat, (group, row, column, tap) at distances of sizes; rows are what is summed. Behind
    what is packed there is room for the taps of one row of a block.
    """
    rows, columns, width, groups, count, group_step, row_step, column_step = sizes
    lanes, item, blocks = width // 2, w.itemsize, (columns + width - 1) // width
    begin_buffer = packed.shape[0] - count * width
    buffer, place_buffer = packed[begin_buffer:], packed.ctypes.data + begin_buffer * item
    for group in range(groups):
        for block in range(blocks):
            exist = min(width, columns - block * width)
            if exist < width:
                clear(buffer)
            for row in range(rows):
                begin = group * group_step + block * width * column_step + row * row_step
                turn(kernel, lanes, item, w.ctypes.data + begin * item, place_buffer, exist,
                     count, column_step, width)  # fmt: skip
                for phase in range(phases.shape[0]):
                    place = phases[phase, 5] + (group * blocks + block) * phases[phase, 6]
                    k = 0
                    while taps[phase, k] >= 0:
                        target = packed[place + (k * rows + row) * width :][:width]
                        copy(buffer[taps[phase, k] * width :], target)
                        k += 1


@nest
def pack_points(kernel, w, packed, sizes):
    """The same for one tap: the turned matrix of each group, or for input gradients the matrix."""
    rows, columns, width, groups, _, group_step, row_step, column_step = sizes
    item, blocks = w.itemsize, (columns + width - 1) // width
    for group in range(groups):
        for block in range(blocks):
            panel = packed[(group * blocks + block) * rows * width :][: rows * width]
            exist = min(width, columns - block * width)
            begin = group * group_step + block * width * column_step
            if exist < width:
                clear(panel)
            if row_step == 1:
                turn(kernel, width // 2, item, w.ctypes.data + begin * item, panel.ctypes.data,
                     exist, rows, column_step, width)  # fmt: skip
            else:
                for row in range(rows):
                    copy(w[begin + row * row_step :], panel[row * width :][:exist])


@nest
def unpack(kernel, total, w, sizes):
    """Sums (groups, taps, rows, width) of a weight gradient as w (k, c/groups, i * j); of `joined`
    groups, whose sums are those of one, each has some of the rows and columns."""
    groups, columns, rows, taps, width, lanes, joined = sizes
    item, step = w.itemsize, rows * joined * width
    for group in range(groups):
        own = group % joined
        begin = (group - own) * taps * rows * width + own * (rows * width + columns)
        source = total.ctypes.data + begin * item
        target = w.ctypes.data + group * columns * rows * taps * item
        if taps == 1:
            turn(kernel, lanes, item, source, target, rows, columns, width, rows)
            continue
        for first in range(0, columns, lanes):  # so few rows of w at a time stay in cache
            for row in range(rows):
                turn(kernel, lanes, item, source + (row * width + first) * item,
                     target + (first * rows + row) * taps * item, taps, min(lanes, columns - first),
                     step, rows * taps)  # fmt: skip


@nest
def clear(values):
    """Set a vector to zero."""
    values[:] = 0


def fill(lines, frame, first, rows, line, left):
    """Lines first.. of an image into `rows` lines of a frame, from `left` on; zeros beyond."""
    for i in range(rows):
        target = frame[i * line + left :][: lines.shape[1]]
        if 0 <= first + i < lines.shape[0]:
            copy(lines[first + i], target)
        else:
            clear(target)


@nest
def convolve(tiles, loops, phases, x, packed, bias, frame, y, sizes):
    """y: for every strip of some images of x (n, h, w * c), its phases, blocks, images, rows,
    tiles."""
    clear(frame)
    is_far = y.shape[0] * y.shape[1] * y.itemsize > NEAR
    ahead = sizes.down * sizes.wide * sizes.depth * y.itemsize if is_far else 0  # a row
    for image in range(0, x.shape[0], sizes.together):
        many = min(sizes.together, x.shape[0] - image)
        for first in range(0, sizes.rows, sizes.strip):
            last = min(sizes.rows, first + sizes.strip)
            place = x[image].ctypes.data + first * sizes.move * sizes.line * x.itemsize
            if frame.shape[0]:
                place = frame.ctypes.data
                top, count = first * sizes.move - sizes.top, (last - first - 1) * sizes.move
                for k in range(many):
                    part = frame[k * sizes.each :]
                    fill(x[image + k], part, top, count + sizes.reach, sizes.line, sizes.left)
            step, out = sizes.each * x.itemsize, y[image].ctypes.data
            images = Images(many, place, step, out, y.strides[0], ahead)
            for phase in range(phases.shape[0]):
                sweep(tiles, loops[phase], phases[phase], packed, bias, images, first, last, sizes)


def sweep(tiles, loops, phase, packed, bias, images, first, last, sizes):
    """Rows first..last of a phase's grid: as many tiles of a row as stay in cache, by block."""
    parts = (phase[3] + sizes.most - 1) // sizes.most
    for begin in range(0, parts, sizes.span):
        area = first, min(last, phase[1]), begin, min(parts, begin + sizes.span)
        for group in range(sizes.groups):
            for block in range(sizes.blocks):
                for image in range(images.many):
                    place = images.source + image * images.source_step
                    out = images.target + image * images.target_step
                    slide(tiles, loops, phase, place, packed, bias, out, group, block, area,
                          images.ahead, sizes)  # fmt: skip


def slide(tiles, loops, phase, place, packed, bias, out, group, block, area, ahead, sizes):
    """One block's tiles over an area: first and last row of the grid, and tile of a row."""
    first, last, begin, end = area
    item, count, numbers = packed.itemsize, phase[3], loops.ctypes.data
    exist = min(sizes.width, sizes.columns - block * sizes.width)
    column = group * sizes.columns + block * sizes.width
    starts = tiles[:, 1 if 2 * exist > sizes.width else 0]
    b = packed.ctypes.data + (phase[5] + (group * sizes.blocks + block) * phase[6]) * item
    source = place + (phase[4] + group * sizes.a_group + block * sizes.a_block) * item
    target = out + ((phase[0] * sizes.wide + phase[2]) * sizes.depth + column) * item
    biases = bias.ctypes.data + column * item
    parts = (count + sizes.most - 1) // sizes.most
    small, larger = count // parts, count % parts  # so many tiles have a row more
    for row in range(first, last):
        pixel = begin * small + min(begin, larger)
        for p in range(begin, end):
            height = small + (1 if p < larger else 0)
            a = source + ((row - first) * sizes.move * sizes.line + pixel * sizes.a_pixel) * item
            c = row * sizes.down * sizes.wide + pixel * sizes.right
            c = target + c * sizes.depth * item
            if ahead:
                soon(c + ahead, height, sizes.right * sizes.depth * item, exist * item)
            call(starts[0, height], (a, b, c, biases, exist, numbers))
            for k in range(1, phase[7]):
                further = a + loops[k, 11] * item, b + loops[k, 12] * item
                start = starts[1 if k + 1 < phase[7] else 2, height]
                call(start, (*further, c, biases, exist, loops[k].ctypes.data))
            pixel += height


def soon(place, pixels, step, size):
    """Ask for the lines of a tile's results: it comes while others are computed."""
    for pixel in range(pixels):
        for at in range(0, size, LINE):
            fetch(place + pixel * step + at)


@nest
def correlate(tiles, loops, runs, x, g, total, frame, sizes):
    """total: sums over the pixels of a block of g (n, o * p * k) and x (n, h, w * c), added up."""
    clear(frame)
    for image in range(0, x.shape[0], sizes.images):
        last = min(x.shape[0], image + sizes.images)
        add_images(tiles, loops, runs, x[image:last], g[image:last], total, frame, sizes, image)


def add_images(tiles, loops, runs, x, g, total, frame, sizes, before):
    """The sums over a block of images, behind so many others."""
    for first in range(0, sizes.rows, sizes.strip):
        place = x.ctypes.data + first * sizes.move * sizes.line * x.itemsize
        if frame.shape[0]:
            place, top = frame.ctypes.data, first * sizes.move - sizes.top
            for k in range(x.shape[0]):
                part = frame[k * sizes.reach * sizes.line :]
                fill(x[k], part, top, sizes.reach, sizes.line, sizes.left)
        starts = tiles[0 if before == 0 and first == 0 else 1]
        numbers = loops[x.shape[0], 0 if first + sizes.strip <= sizes.rows else 1]
        add_block(starts, numbers, runs, place, g, total, first, sizes)


def add_block(tiles, numbers, runs, place, g, total, first, sizes):
    """The sums over one block of pixels, all tiles of them."""
    item, parts = g.itemsize, (sizes.length + sizes.most - 1) // sizes.most
    small, larger, steps = sizes.length // parts, sizes.length % parts, numbers.ctypes.data
    width = sizes.blocks * sizes.width
    for group in range(sizes.groups):
        for block in range(sizes.blocks):
            column = block * sizes.width
            exist = min(sizes.width, sizes.columns - column)
            b = g.ctypes.data + (first * sizes.b_row + group * sizes.columns + column) * item
            heights = tiles[1 if 2 * exist > sizes.width else 0]
            for run in range(runs.shape[0]):
                a = place + (runs[run] + group * sizes.a_group + block * sizes.a_block) * item
                row = (group * runs.shape[0] + run) * sizes.length
                c = total.ctypes.data + (row * width + column) * item
                for p in range(parts):
                    height = small + (1 if p < larger else 0)
                    call(heights[height], (a, b, c, c, exist, steps))
                    a += height * sizes.step * item
                    c += height * width * item
