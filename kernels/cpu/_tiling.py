"""How a convolution is cut into register tiles, worked out once for each kind of layer.

A tiling is numbers in small arrays, which `_direct`'s compiled loops follow. It depends on the
layer's geometry alone: an image's bytes depend neither on its batch nor on its neighbours.

Words: the *source* is the image that is read, the *target* the one that is written. A strip of the
source is copied to a *frame*, with zeros around it where kernels reach beyond its edge. Target
pixels that the same taps reach are a *phase*: one for a convolution and for the input gradient of
stride 1, stride^2 for other input gradients. Columns are the target's channels, in *blocks* of two
vectors.
"""

import math
from functools import cached_property, lru_cache

import numpy as np

from ._axes import Backward, Forward, along
from ._direct import ConvolutionSizes, CorrelationSizes, pack, pack_points
from ._geometry import geometry
from ._layout import ready
from ._machine_code import host
from ._memory import empty
from ._microkernel import loops, tile
from ._transpose import transpose

FRAME_VALUES = 1 << 16  # of a strip of the source; half the second cache is left for weights
WIDE = 1 << 18  # weights that the second cache cannot keep beside images
CHAIN = 1024  # products in one sum, about: longer chains of additions lose digits
PIXELS = 256, 512  # of a block whose products are one sum of a weight gradient


def output(*layer):
    """The size (o, p) of a layer's output."""
    return geometry(*layer).output


def are_few(weights, dtype, groups):
    """Whether an input gradient has so few channels that tiles would be mostly empty."""
    lanes, taps = host().lanes(dtype), weights[2] * weights[3]
    return groups == 1 and 2 * weights[1] <= lanes and taps > 1


class Layer:
    """What the tilings of a layer share: sizes as ints, and how channels lie in weights."""

    def __init__(self, image, weights, stride, padding, dilation, groups, dtype):
        known = geometry(image, weights, stride, padding, dilation, groups)
        self.output, self.kernel, self.stride, self.padding, self.dilation, *_ = known.sizes
        self.image, self.dtype, self.target = tuple(map(int, image)), np.dtype(dtype), host()
        self.filters, self.size = int(weights[0]), int(weights[1])
        self.taps = self.kernel[0] * self.kernel[1]
        self.is_depthwise = groups > 1 and self.size == 1 and self.filters == groups
        self.groups = 1 if self.is_depthwise else groups
        self.width = 2 * self.target.lanes(self.dtype)
        self.transpose = transpose(self.target, self.dtype)

    @property
    def channels(self):
        return self.filters if self.is_depthwise else self.size * self.groups

    def tiles(self, heights, columns, starts):
        """Addresses of tiles: (start, vectors - 1, height), 0 where none is needed.

        A start's name is the microkernel's, with " relu" behind it if results are cut off at 0.
        """
        table = np.zeros((len(starts), 2, self.target.rows + 1), np.int64)
        lanes, wanted = self.width // 2, set()
        for block in range(0, columns, self.width):
            wanted.add(1 if columns - block <= lanes else 2)
        for vectors in wanted:
            for height in heights:
                for i, name in enumerate(starts):
                    start, _, relu = name.partition(" ")
                    table[i, vectors - 1, height] = tile(
                        self.target, self.dtype, height, vectors, start=start, relu=bool(relu),
                        spread=not self.is_depthwise,
                    )  # fmt: skip
        return table

    def heights(self, count):
        """Of the tiles for `count` rows: as few as possible, and nearly equal."""
        parts = -(-count // self.target.rows)
        return {count // parts, -(-count // parts)} if parts else set()


class Convolution:
    """A tiling for the target (c), as sums over source channels and taps.

    `sizes`, `packing` and the arrays `tiles`, `loops`, `phases`, `taps` are for `_direct.convolve`
    and `_direct.pack`; `packed` and `frame` are lengths of memory to work in.
    """

    def __init__(self, layer, source, target, sums, columns, axes, strides, start, relu=False):
        self.layer, (self.sums, self.columns) = layer, (sums, columns)
        self.axes, self.steps = axes, tuple(axis.step for axis in axes)
        self.lines, self.depth = source[0], source[2]
        self.blocks = -(-columns // layer.width)
        top, left = (axis.before for axis in axes)
        self.width = max(axes[1].needs(source[1]), left + source[1])
        self.line = self.width * self.depth
        is_framed = axes[0].needs(source[0]) > source[0] or top or self.width > source[1]
        rows, reach = axes[0].count, axes[0].reach
        strip = max(1, FRAME_VALUES // max(1, axes[0].move * self.line)) if is_framed else rows
        strip = max(1, min(rows, strip))
        each = ((strip - 1) * axes[0].move + reach) * self.line if is_framed else math.prod(source)
        self._write(target)
        together = self._together(each) if strip == rows else 1
        self.frame = together * each if is_framed else 0
        self.is_point = layer.taps == 1 and len(self.phases) == 1
        self.packing = sums, columns, layer.width, layer.groups, layer.taps, *strides
        self.starts = self._starts(start, relu)
        span = max(1, FRAME_VALUES // max(1, self.depth * axes[1].move * layer.target.rows))
        self.sizes = ConvolutionSizes(
            self.line, top, left * self.depth, axes[0].move, reach, rows, strip, layer.groups,
            self.blocks, 0 if layer.is_depthwise else sums, layer.width * layer.is_depthwise,
            columns, layer.width, layer.target.rows,
            target[1], target[2], *self.steps, axes[1].move * self.depth, span, together, each,
        )  # fmt: skip

    def _together(self, each):
        """How many images of `each` values use weights that do not stay in cache meanwhile."""
        return max(1, 2 * FRAME_VALUES // max(1, each)) if self.packed >= WIDE else 1

    def _starts(self, start, relu):
        """Tiles of a sum's first chunk, and if there are several, of further ones and the last."""
        last = " relu" if relu else ""
        several = any(phase[7] > 1 for phase in self.phases)
        return (start, "add", f"add{last}") if several else (f"{start}{last}",)

    @cached_property
    def tiles(self):
        """Addresses of tiles: compiled when they are asked for, which Winograd's way does not."""
        heights = {h for phase in self.phases for h in self.layer.heights(int(phase[3]))}
        return self.layer.tiles(heights, self.columns, self.starts)

    def _write(self, target):
        """Phases, their loops, and the taps of each, in the order of the packed weights."""
        phases, plans, taps, self.packed = [], [], [], 0
        for down in self.axes[0].phases:
            for right in self.axes[1].phases:
                chunks = self._chunks(down, right, target)
                panel = len(down.taps) * len(right.taps) * self.sums * self.layer.width
                offset = down.offset * self.line + right.offset * self.depth
                phases.append((down.start, down.count, right.start, right.count, offset,
                               self.packed, panel, len(chunks)))  # fmt: skip
                plans.append(chunks)
                taps.append([i * self.layer.kernel[1] + j for i in down.taps for j in right.taps])
                self.packed += panel * self.blocks * self.layer.groups
        self.phases = np.array(phases, np.int64)
        self.packed += self.layer.taps * self.layer.width
        self.taps = np.full((len(taps), 1 + max(map(len, taps))), -1, np.int64)
        self.loops = np.zeros((len(plans), max(map(len, plans)), 13), np.int64)
        for phase, (some, chunks) in enumerate(zip(taps, plans, strict=True)):
            self.taps[phase, : len(some)] = some
            self.loops[phase, : len(chunks)] = chunks

    def _chunks(self, down, right, target):
        """Loops over as many kernel rows as make a sum of moderate length; where they begin."""
        high, wide, depth, width = len(down.taps), len(right.taps), self.depth, self.layer.width
        each = wide * self.sums
        rows = max(1, CHAIN // max(1, each))
        steps = {
            "a_outer": down.spread * self.line, "a_middle": right.spread * depth, "a_inner": 1,
            "a_row": self.axes[1].move * depth, "b_outer": each * width,
            "b_middle": self.sums * width, "b_inner": width, "c_row": self.steps[1] * target[2],
        }  # fmt: skip
        is_run = right.spread == 1 and self.sums == depth
        inside = (1, each) if is_run else (wide, self.sums)
        chunks = []
        for first in range(0, max(1, high), rows):
            numbers = loops((min(rows, high - first), *inside), **steps)
            chunks.append([*numbers, first * steps["a_outer"], first * steps["b_outer"]])
        return chunks


@lru_cache(maxsize=512)
def forward(*key, with_bias, relu=False):
    """The tiling of a convolution; `key` is what a `Layer` is made of.

    It has one phase, so with `relu` all of its sums have the same chunks.
    """
    layer, taps = Layer(*key), math.prod(key[1][2:])
    each = 1 if layer.is_depthwise else layer.size
    columns = layer.filters // layer.groups
    strides = columns * each * taps, 0 if layer.is_depthwise else taps, each * taps
    source, target = (*layer.image, layer.channels), (*layer.output, layer.filters)
    start = "bias" if with_bias else "zero"
    axes = along(Forward, layer)
    return Convolution(layer, source, target, each, columns, axes, strides, start, relu)


@lru_cache(maxsize=512)
def backward(*key):
    """The tiling of an input gradient."""
    layer, taps = Layer(*key), math.prod(key[1][2:])
    each = 1 if layer.is_depthwise else layer.filters // layer.groups
    columns = layer.channels // layer.groups
    strides = each * columns * taps, 0 if layer.is_depthwise else columns * taps, taps
    source, target = (*layer.output, layer.filters), (*layer.image, layer.channels)
    axes = along(Backward, layer)
    return Convolution(layer, source, target, each, columns, axes, strides, "zero")


class Correlation:
    """A tiling for a weight gradient: sums over pixels of a few images, added in their order.

    The sums of a group are rows of `length` from each of `runs`: tap by tap, or where neighbouring
    taps are neighbours in memory, kernel row by kernel row. `total` is the length of all.

    Some small groups are one here, of which what belongs together is taken in the end: as many as
    have filters for a vector. Its lanes, or more sums at once, would be idle without the others.
    """

    def __init__(self, layer):
        self.layer, c, (sh, sw) = layer, layer.channels, layer.stride
        (h, w), (o, p) = layer.image, layer.output
        joined = self._joined()
        groups, columns = layer.groups // joined, layer.filters // layer.groups * joined
        each = 1 if layer.is_depthwise else layer.size * joined
        axis_h, axis_w = along(Forward, layer)
        width = max(axis_w.needs(w), layer.padding[1] + w)
        is_framed = axis_h.needs(h) > h or width > w or any(layer.padding)
        line = width * c
        self._runs(line, each)
        blocks = -(-columns // layer.width)
        images, strip = self._block(sh * line + p * layer.filters)
        rows = (strip - 1) * sh + axis_h.reach if is_framed else h
        self.frame = images * rows * line if is_framed else 0
        self.total = groups * len(self.runs) * self.length * blocks * layer.width
        self.tiles = layer.tiles(layer.heights(self.length), columns, ("zero", "add"))
        self.loops = np.array([
            [loops((count, last, p), a_outer=rows * line, a_middle=sh * line, a_inner=sw * c,
                   a_row=self.step, b_outer=o * p * layer.filters, b_middle=p * layer.filters,
                   b_inner=layer.filters, c_row=blocks * layer.width)
             for last in (strip, o - (o - 1) // strip * strip)]
            for count in range(images + 1)
        ])  # fmt: skip
        self.sizes = CorrelationSizes(
            line, layer.padding[0], layer.padding[1] * c, sh, rows, o, strip, groups, blocks,
            0 if layer.is_depthwise else each, layer.width * layer.is_depthwise,
            columns, layer.width, layer.target.rows,
            images, self.length, self.step, p * layer.filters,
        )  # fmt: skip
        self.unpacking = (layer.groups, columns // joined, each // joined, layer.taps,
                          blocks * layer.width, layer.width // 2, joined)  # fmt: skip

    def _joined(self):
        """How many groups are one."""
        layer, columns = self.layer, self.layer.filters // self.layer.groups
        most = min(layer.width // 2 // columns, layer.width // layer.size)
        return max(m for m in range(1, max(1, most) + 1) if layer.groups % m == 0)

    def _runs(self, line, each):
        """Where runs begin in a frame, and how far their rows lie apart."""
        layer, (kh, kw), (dh, dw) = self.layer, self.layer.kernel, self.layer.dilation
        runs, pixel = [i * dh * line for i in range(kh)], dw * layer.channels
        if layer.is_depthwise:
            self.length, self.step = kw, pixel
        elif layer.groups == 1 and (dw == 1 or kw == 1):
            self.length, self.step = kw * layer.size, 1
        else:
            runs = [run + j * pixel for run in runs for j in range(kw)]
            self.length, self.step = each, 1
        self.runs = np.array(runs, np.int64)

    def _block(self, row):
        """(images, rows) of a block; `row` is how many values a row of pixels reads."""
        o, p = self.layer.output
        pixels = min(PIXELS[1], max(PIXELS[0], 2 * FRAME_VALUES * p // max(1, row)))
        if o * p > pixels:
            return 1, max(1, pixels // p)
        return max(1, pixels // (o * p)), o


@lru_cache(maxsize=512)
def correlation(*key):
    """The tiling of a weight gradient."""
    return Correlation(Layer(*key))


def packed(tiling, w):
    """The weights w in the order in which a tiling's tiles read them."""
    values, kernel = empty(tiling.packed, w.dtype), tiling.layer.transpose
    if tiling.is_point:
        pack_points(kernel, ready(w).reshape(-1), values, tiling.packing)
    else:
        pack(kernel, ready(w).reshape(-1), values, tiling.taps, tiling.phases, tiling.packing)
    return values
