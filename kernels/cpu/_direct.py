"""Direct convolution: register tiles slide over images in cache, and nothing is unrolled.

A tile of up to 14 pixels by 32 channels is summed over all taps and source channels in registers
(see `_microkernel`). Only weights are rearranged, once a call, so that a tile reads them in order,
and the strip of an image whose windows reach over the edge is copied into a frame of zeros.

A layer costs 2 n o p k c i j / groups flops, and moves x, y and w once, with w again for every
strip that fits the cache. Forward, input and weight gradient run at 95 to 98 % of a core's peak
from 32 channels on, at 80 to 90 % with 1 to 3 (float32, AVX-512). Depthwise convolution moves more
than it computes: it runs at the speed of memory. After Georganas et al. (2018), "Anatomy of
high-performance deep learning convolutions on SIMD architectures".

`sizes` and the small arrays of numbers come from `_plans`.
"""

from ._jit import compiled, copy, part
from ._machine_code import call
from ._transpose import turn


@compiled
def pack(kernel, w, packed, taps, phases, sizes):
    """Weights as tiles read them: phase by phase, (groups, blocks, taps, rows, width) with zeros.

    `w` is flat, (group, row, column, tap) at distances of sizes; rows are what is summed. Behind
    what is packed there is room for the taps of one row of a block.
    """
    rows, columns, width, groups, count, group_step, row_step, column_step = sizes
    lanes, item, blocks = width // 2, w.itemsize, (columns + width - 1) // width
    buffer = packed[packed.shape[0] - count * width :]
    for group in range(groups):
        for block in range(blocks):
            exist = min(width, columns - block * width)
            if exist < width:
                clear(buffer)
            for row in range(rows):
                begin = group * group_step + block * width * column_step + row * row_step
                turn(kernel, lanes, item, w.ctypes.data + begin * item, buffer.ctypes.data, exist,
                     count, column_step, width)  # fmt: skip
                for phase in range(phases.shape[0]):
                    place = phases[phase, 5] + (group * blocks + block) * phases[phase, 6]
                    k = 0
                    while taps[phase, k] >= 0:
                        target = packed[place + (k * rows + row) * width :][:width]
                        copy(buffer[taps[phase, k] * width :], target)
                        k += 1


@compiled
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


@compiled
def unpack(kernel, total, w, sizes):
    """Sums (groups, taps, rows, width) of a weight gradient as w (k, c/groups, i * j)."""
    groups, columns, rows, taps, width, lanes = sizes
    item = w.itemsize
    for group in range(groups):
        source = total.ctypes.data + group * taps * rows * width * item
        target = w.ctypes.data + group * columns * rows * taps * item
        if taps == 1:
            turn(kernel, lanes, item, source, target, rows, columns, width, rows)
            continue
        for first in range(0, columns, lanes):  # so few rows of w at a time stay in cache
            for row in range(rows):
                turn(kernel, lanes, item, source + (row * width + first) * item,
                     target + (first * rows + row) * taps * item, taps, min(lanes, columns - first),
                     rows * width, rows * taps)  # fmt: skip


@compiled
def clear(values):
    """Set a vector to zero."""
    for k in range(values.shape[0]):
        values[k] = 0


@part
def fill(lines, frame, first, rows, line, left):
    """Lines first.. of an image into `rows` lines of a frame, from `left` on; zeros beyond."""
    for i in range(rows):
        target = frame[i * line + left :][: lines.shape[1]]
        if 0 <= first + i < lines.shape[0]:
            copy(lines[first + i], target)
        else:
            clear(target)


@compiled
def convolve(tiles, loops, phases, x, packed, bias, frame, y, sizes):
    """y: for every strip of every image of x (n, h, w * c), its phases, blocks, rows, tiles."""
    line, top, left, move, reach, rows, strip = sizes[:7]
    clear(frame)
    for image in range(x.shape[0]):
        for first in range(0, rows, strip):
            last = min(rows, first + strip)
            place = x[image].ctypes.data + first * move * line * x.itemsize
            if frame.shape[0]:
                place = frame.ctypes.data
                count = (last - first - 1) * move + reach
                fill(x[image], frame, first * move - top, count, line, left)
            out = y[image].ctypes.data
            for phase in range(phases.shape[0]):
                sweep(tiles, loops[phase], phases[phase], place, packed, bias, out, first, last,
                      sizes)  # fmt: skip


@part
def sweep(tiles, loops, phase, place, packed, bias, out, first, last, sizes):
    """Rows first..last of a phase's grid: as many tiles of a row as stay in cache, by block."""
    (groups, blocks), (most, span) = sizes[7:9], sizes[18:]
    parts = (phase[3] + most - 1) // most
    for begin in range(0, parts, span):
        area = first, min(last, phase[1]), begin, min(parts, begin + span)
        for group in range(groups):
            for block in range(blocks):
                slide(tiles, loops, phase, place, packed, bias, out, group, block, area, sizes)


@part
def slide(tiles, loops, phase, place, packed, bias, out, group, block, area, sizes):
    """One block's tiles over an area: first and last row of the grid, and tile of a row."""
    (line, _, _, move), (blocks, a_group, a_block, columns, width) = sizes[:4], sizes[8:13]
    wide, depth, down, right, a_pixel, most = sizes[13:19]
    first, last, begin, end = area
    item, count, chunks = packed.itemsize, phase[3], phase[7]
    parts = (count + most - 1) // most
    exist, column = min(width, columns - block * width), group * columns + block * width
    sizes, plan = tiles[:, 1 if 2 * exist > width else 0], loops.ctypes.data
    b = packed.ctypes.data + (phase[5] + (group * blocks + block) * phase[6]) * item
    source = place + (phase[4] + group * a_group + block * a_block) * item
    target = out + ((phase[0] * wide + phase[2]) * depth + column) * item
    biases = bias.ctypes.data + column * item
    small, larger = count // parts, count % parts  # so many tiles have a row more
    for row in range(first, last):
        pixel = begin * small + min(begin, larger)
        for p in range(begin, end):
            height = small + (1 if p < larger else 0)
            a = source + ((row - first) * move * line + pixel * a_pixel) * item
            c = target + (row * down * wide + pixel * right) * depth * item
            call(sizes[0, height], (a, b, c, biases, exist, plan))
            for k in range(1, chunks):
                further = a + loops[k, 11] * item, b + loops[k, 12] * item
                call(sizes[1, height], (*further, c, biases, exist, plan + 104 * k))
            pixel += height


@compiled
def correlate(tiles, loops, runs, x, g, total, frame, sizes):
    """total: sums over the pixels of a block of g (n, o * p * k) and x (n, h, w * c), added up."""
    line, top, left, move, rows, o, strip, images = sizes[:8]
    clear(frame)
    for image in range(0, x.shape[0], images):
        count = min(images, x.shape[0] - image)
        for first in range(0, o, strip):
            place = x[image].ctypes.data + first * move * line * x.itemsize
            if frame.shape[0]:
                place = frame.ctypes.data
                for k in range(count):
                    part = frame[k * rows * line :]
                    fill(x[image + k], part, first * move - top, rows, line, left)
            start = 0 if image == 0 and first == 0 else 1
            numbers = loops[count, 0 if first + strip <= o else 1]
            add_block(tiles[start], numbers, runs, place, g[image], total, first, sizes)


@part
def add_block(tiles, numbers, runs, place, g, total, first, sizes):
    """The sums of one block, all tiles of them."""
    groups, blocks, a_group, a_block, columns, width, length, step, b_row, most = sizes[8:]
    item, parts = g.itemsize, (length + most - 1) // most
    small, larger, plan = length // parts, length % parts, numbers.ctypes.data
    for group in range(groups):
        for block in range(blocks):
            column, exist = block * width, min(width, columns - block * width)
            b = g.ctypes.data + (first * b_row + group * columns + column) * item
            heights = tiles[1 if 2 * exist > width else 0]
            for run in range(runs.shape[0]):
                a = place + (runs[run] + group * a_group + block * a_block) * item
                row = (group * runs.shape[0] + run) * length
                c = total.ctypes.data + (row * blocks * width + column) * item
                for p in range(parts):
                    height = small + (1 if p < larger else 0)
                    call(heights[height], (a, b, c, c, exist, plan))
                    a += height * step * item
                    c += height * blocks * width * item
