"""Strips of images in a frame of zeros, in cache: where Winograd's tiles are read from.

A strip is copied once, in the order in which it lies in memory, where a tile would fetch pieces of
six rows; and where a window reaches over the edge it finds zeros, so that tiles need not ask.
Costs no flops, and moves each value 6 / 4 or 8 / 4 times, a third or half of it within the cache:
at 15 GB/s, some 7 % of a convolution of 64 channels, and less of wider ones.
"""

from collections import namedtuple

from ._direct import clear
from ._jit import copy, part
from ._machine_code import fetch
from ._memory import LINE

Grid = namedtuple("Grid", "high wide depth offset_h offset_w")  # images, and where tiles begin
VALUES = 1 << 15  # of a strip, about: half the second cache is left for what is done with it


def length(size, depth, across, outputs):
    """How many tiles of `size` x `size` a strip has, of `across` in a row."""
    return min(across, max(1, (VALUES // (size * depth) - size) // outputs + 1))


@part
def lay(images, frame, image, top, left, rows, pixels, line, grid):
    """Rows from `top` and pixels from `left` on of an image in a frame of `line` values a row."""
    c, first, last = grid.depth, max(left, 0), min(left + pixels, grid.wide)
    for i in range(rows):
        row, target = top + i, frame[i * line :][: pixels * c]
        if 0 <= row < grid.high and first < last:
            begin, end = (first - left) * c, (last - left) * c
            clear(target[:begin])
            copy(images[((image * grid.high + row) * grid.wide + first) * c :], target[begin:end])
            clear(target[end:])
        else:
            clear(target)


@part
def ask(place, lines):
    """Ask for some lines of memory from an address on, and give the address behind them.

    Some dozen at a time: a core that waits for more than that cannot read its nearer caches either.
    """
    for i in range(lines):
        fetch(place + i * LINE)
    return place + lines * LINE
