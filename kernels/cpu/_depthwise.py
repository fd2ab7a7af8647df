"""Depthwise convolution by sliding tiles: the loops around `_sliding`, and how layers are cut.

Rows of the target are written one after the other, so the source is read from memory once: the rows
under a window stay in cache. A weight gradient goes through a strip of rows of both arrays once for
every kernel row. Each costs 2 n o p k i j flops and moves its arrays once, at 20 to 25 GB/s (28 are
what a core of Xeons with AVX-512 copies from memory), in the second cache at 30.

The words *source*, *target* and *phase* are explained in `_tiling`. Everything depends on the
layer's geometry alone.
"""

from collections import namedtuple
from functools import lru_cache
from itertools import pairwise

import numpy as np

from . import _sliding
from ._axes import Backward, Forward, along
from ._direct import clear, pack, unpack
from ._layout import channels_last, ready
from ._machine_code import call, host
from ._memory import empty
from ._nests import nest
from ._tiling import Layer
from ._transpose import turn

CHAIN = 512  # products in one sum of a weight gradient, about

Slides = namedtuple("Slides", "rows line depth wide move width blocks down across")
Products = namedtuple("Products", "rows strip line depth move spread top kernel width blocks "
                                  "across")  # fmt: skip


def fits(weights, groups):
    """Whether sliding tiles serve a layer."""
    is_depthwise = groups > 1 and weights[1] == 1 and weights[0] == groups
    return is_depthwise and _sliding.serves(host(), weights[3])


class Plan(Layer):
    """What the plans of a layer share."""

    def __init__(self, *key):
        super().__init__(*key)
        self.vectors = _sliding.vectors(self.target, self.kernel[1])
        self.width = self.vectors * self.target.lanes(self.dtype)
        self.blocks = -(-self.filters // self.width)
        self.turning = self.transpose, self.target.lanes(self.dtype), self.filters

    def cut(self, count, taps):
        """(first, last + 1) of the pixels of each tile of a row: as few as possible."""
        most = _sliding.pixels(self.target, max(1, taps))
        number = -(-count // most)
        bounds = [count * k // number for k in range(number + 1)] if count else [0]
        return list(pairwise(bounds))

    def grid(self, begin, end, taps, move, spread, origin, size):
        """A tile's grid for `_sliding`, and the source column of its first window."""
        column = origin + begin * move
        last = (end - begin - 1) * move + (taps - 1) * spread + 1
        return (end - begin, taps, move, spread, max(0, -column), min(size - column, last)), column


class Slide(Plan):
    """A forward pass or an input gradient: target rows of all phases for every row of the grid.

    `phases`, `parts` and `loops` are for `slide`, with a row for each phase; `order` and `packing`
    say how `_direct.pack` lays out the weights of phases, in `packed` values.
    """

    def __init__(self, key, kind, source, target, begin):
        super().__init__(*key)
        down, right = along(kind, self)
        self.wide, self.begin, line = source[1], begin, source[1] * self.filters
        pairs = [(high, wide) for high in down.phases for wide in right.phases]
        tiles = [self._tiles(right, wide) for _, wide in pairs]
        panels = [len(high.taps) * len(wide.taps) * self.width for high, wide in pairs]
        places = [sum(panels[:k]) * self.blocks for k in range(len(panels) + 1)]
        self.phases = np.array([
            (high.start, high.count, high.offset - down.before, len(high.taps), high.spread, place,
             panel, len(some))
            for (high, _), place, panel, some in zip(pairs, places, panels, tiles, strict=False)
        ], np.int64)  # fmt: skip
        self.parts = _rows(tiles, 0)
        self.loops = np.array([
            (high.spread * line, self.filters, len(wide.taps) * self.width,
             right.step * self.filters)
            for high, wide in pairs
        ], np.int64)  # fmt: skip
        self.order = _rows([[i * self.kernel[1] + j for i in high.taps for j in wide.taps] + [-1]
                            for high, wide in pairs], -1)  # fmt: skip
        self.packed = places[-1] + self.taps * self.width
        self.packing = 1, self.filters, self.width, 1, self.taps, 0, 0, self.taps
        self.sizes = Slides(down.count, source[0], self.filters, self.wide, down.move, self.width,
                            self.blocks, down.step, target[1])  # fmt: skip

    def _tiles(self, right, phase):
        """(address, source column, target pixel) of the tiles of a row of a phase."""
        taps, found = len(phase.taps), []
        for begin, end in self.cut(phase.count, taps):
            grid, column = self.grid(begin, end, taps, right.move, phase.spread,
                                     phase.offset - right.before, self.wide)  # fmt: skip
            made = _sliding.forward(self.target, self.dtype, grid, self.vectors, *self.begin)
            found.append((made, column, phase.start + begin * right.step))
        return found


def _rows(lists, rest):
    """Lists of numbers, or of tuples of three, as an array, with `rest` behind short ones."""
    longest = max(map(len, lists))
    filler = rest if isinstance(lists[0][0], int) else (rest,) * 3
    return np.array([[*each, *[filler] * (longest - len(each))] for each in lists], np.int64)


@lru_cache(maxsize=512)
def _forward(*key, with_bias, relu):
    layer, start = Layer(*key), "bias" if with_bias else "zero"
    return Slide(key, Forward, layer.image, layer.output, (start, relu))


@lru_cache(maxsize=512)
def _backward(*key):
    layer = Layer(*key)
    return Slide(key, Backward, layer.output, layer.image, ("zero", False))


def conv2d(x, w, b, y, *layer, relu):
    """y (n, o, p, k) of x (n, c, h, w), see `conv.conv2d`."""
    plan = _forward(x.shape[2:], w.shape, *layer, x.dtype, with_bias=b is not None, relu=relu)
    _run(plan, x, w, b, y)


def conv2d_input(g, w, dx, *layer):
    """dx (n, h, w, c) of g (n, k, o, p), see `conv.conv2d_input`."""
    _run(_backward(dx.shape[1:3], w.shape, *layer, g.dtype), g, w, None, dx)


def _run(plan, x, w, b, y):
    packed = empty(plan.packed, w.dtype)
    pack(plan.transpose, ready(w).reshape(-1), packed, plan.order, plan.phases, plan.packing)
    bias = empty(0, w.dtype) if b is None else ready(b)
    slide(plan.phases, plan.parts, plan.loops, *_images(x), packed, bias, y.reshape(len(y), -1),
          plan.turning, plan.sizes)  # fmt: skip


def _images(x):
    """(x (n, c, h, w) as (n, values of an image), room for an image to be turned if in each the
    channels come first): to turn one at a time, in cache, halves what it costs."""
    if x.flags.carray and not x.transpose(0, 2, 3, 1).flags.c_contiguous:
        return x.reshape(len(x), -1), empty(x.size // len(x), x.dtype)
    return channels_last(x).reshape(len(x), -1), empty(0, x.dtype)


def standing(x, image, turned, turning):
    """The address of an image whose channels lie side by side."""
    kernel, lanes, channels = turning
    if turned.shape[0]:
        pixels = x.shape[1] // channels
        turn(kernel, lanes, x.itemsize, x[image].ctypes.data, turned.ctypes.data, channels, pixels,
             pixels, channels)  # fmt: skip
    return turned.ctypes.data if turned.shape[0] else x[image].ctypes.data


@nest
def slide(phases, parts, loops, x, turned, packed, bias, y, turning, sizes):
    """y: for every image, row of the grid and phase."""
    for image in range(x.shape[0]):
        source = standing(x, image, turned, turning)
        for row in range(sizes.rows):
            for k in range(phases.shape[0]):
                if row < phases[k, 1]:
                    write_row(phases[k], parts[k], loops[k], source, packed, bias,
                              y[image].ctypes.data, row, sizes)  # fmt: skip


def write_row(phase, parts, loops, source, packed, bias, target, row, sizes):
    """One row of a phase's places: every tile of it and block of channels."""
    item, depth, spread = packed.itemsize, sizes.depth * packed.itemsize, phase[4]
    top = row * sizes.move + phase[2]
    first = max(0, (spread - 1 - top) // spread)  # of the taps that exist
    count = min(phase[3], (sizes.line - top + spread - 1) // spread) - first
    weights = packed.ctypes.data + (phase[5] + first * loops[2]) * item
    for p in range(phase[7]):
        a = source + ((top + first * spread) * sizes.wide + parts[p, 1]) * depth
        c = target + ((row * sizes.down + phase[0]) * sizes.across + parts[p, 2]) * depth
        for block in range(sizes.blocks):
            column = block * sizes.width
            call(parts[p, 0], (a + column * item, weights + block * phase[6] * item,
                               c + column * item, bias.ctypes.data + column * item,
                               sizes.depth - column, count, loops.ctypes.data))  # fmt: skip


class Correlation(Plan):
    """A weight gradient: tiles of every kernel row, over strips of rows."""

    def __init__(self, *key):
        super().__init__(*key)
        (sh, sw), (dh, dw), (o, p) = self.stride, self.dilation, self.output
        parts = self.cut(p, self.kernel[1])
        longest = max(end - begin for begin, end in parts)
        tiles = []
        for begin, end in parts:
            grid, column = self.grid(begin, end, self.kernel[1], sw, dw, -self.padding[1],
                                     self.image[1])  # fmt: skip
            made = _sliding.weight(self.target, self.dtype, grid, self.vectors)
            tiles.append((made, column, begin))
        self.tiles = np.array(tiles, np.int64)
        across = self.blocks * self.width
        line, depth = self.image[1] * self.filters, self.filters
        self.loops = np.array((sh * line, depth, p * depth, depth, across), np.int64)
        self.total = self.taps * across
        strip = max(1, min(o, CHAIN // longest))
        self.sizes = Products(o, strip, self.image, depth, sh, dh, self.padding[0], self.kernel,
                              self.width, self.blocks, across)  # fmt: skip
        self.unpacking = 1, self.filters, 1, self.taps, across, self.target.lanes(self.dtype), 1


_correlation = lru_cache(maxsize=512)(Correlation)


def conv2d_weight(g, x, dw, *layer):
    """dw (k, 1, i, j) of g (n, k, o, p) and x (n, c, h, w), see `conv.conv2d_weight`."""
    plan = _correlation(x.shape[2:], dw.shape, *layer, x.dtype)
    total = empty(plan.total, x.dtype)
    correlate(plan.tiles, plan.loops, *_images(x), *_images(g), total, plan.turning, plan.sizes)
    unpack(plan.transpose, total, dw.reshape(-1), plan.unpacking)


@nest
def correlate(tiles, loops, x, turned, g, turned_too, total, turning, sizes):
    """total (taps, channels): sums over images, strips of rows, tiles of a row."""
    clear(total)
    for image in range(x.shape[0]):
        source, cotangents = standing(x, image, turned, turning), standing(g, image, turned_too,
                                                                           turning)  # fmt: skip
        for first in range(0, sizes.rows, sizes.strip):
            for p in range(tiles.shape[0]):
                for block in range(sizes.blocks):
                    add_strip(tiles[p], loops, source, cotangents, total, first, block, sizes)


def add_strip(tile, loops, source, cotangents, total, first, block, sizes):
    """The sums of all taps over a tile's pixels in a strip of rows from `first` on."""
    item, depth, last = total.itemsize, sizes.depth * total.itemsize, first + sizes.strip
    column = block * sizes.width
    a = source + tile[1] * depth + column * item
    b = cotangents + tile[2] * depth + column * item
    for i in range(sizes.kernel[0]):
        top = i * sizes.spread - sizes.top
        low = max(first, (sizes.move - 1 - top) // sizes.move)  # rows for which the tap exists
        high = min(min(sizes.rows, last), (sizes.line[0] - 1 - top) // sizes.move + 1)
        c = total.ctypes.data + (i * sizes.kernel[1] * sizes.across + column) * item
        call(tile[0], (a + (low * sizes.move + top) * sizes.line[1] * depth,
                       b + low * loops[2] * item, c, sizes.depth - column, high - low,
                       loops.ctypes.data))  # fmt: skip
