"""Sliding tiles: the innermost loops of depthwise convolution, which share what windows share.

A tile is a few pixels of a row by one or two vectors of channels. Neighbouring windows overlap: a
column of the source is loaded once, and multiplied for every window of the tile that contains it,
while sums and the weights of a kernel row stay in registers. So 3 x 3 taps cost 1.2 loads and 9
multiplications for a vector of y, where `_microkernel` needs 9 loads and 9; weight gradients hold
the sums of a kernel row, and load x and g once for it.

Which columns lie in the image is known when a tile is made: those of the border are left away, so
images have no frames. Sums are chains of fused multiply-adds by kernel row, then column.
"""

import numpy as np
from llvmlite import ir

from ._machine_code import INTEGER, address
from ._vectors import POINTER, Vectors

MOST = 14  # pixels of a tile, however many registers there are


def registers(target):
    """How many vector registers there are."""
    return 32 if target.bytes == 64 else 16


def serves(target, taps):
    """Whether registers hold what a tile of `taps` kernel columns needs."""
    return taps < registers(target) // 2


def vectors(target, taps):
    """How many vectors of channels such a tile has."""
    return 2 if taps < registers(target) // 4 else 1


def pixels(target, taps):
    """How many pixels it has at most."""
    return min(MOST, registers(target) // vectors(target, taps) - 1 - taps)


def sums(target, taps):
    """How many sums a tile's weight gradient has for a tap and vector: of several, each has every
    second pixel, so that enough of them are under way."""
    count = vectors(target, taps)
    return 2 if (3 * taps + 1) * count <= registers(target) else 1


def forward(target, dtype, grid, count, start, relu):
    """The address of a tile of windows, to be called with

    (source, weights, target, bias, channels, kernel rows, steps)

    `grid` is (pixels, kernel columns, distance of windows, distance of taps, first column in the
    image, last + 1), in columns from the first window's first; `steps` the address of four
    distances in values: of kernel rows, columns, rows of weights, pixels of the target. `start`
    is what sums begin with, "zero" or "bias"; with `relu` negative results become 0.
    """
    return address(target, write, np.dtype(dtype).char, grid, count, start, relu)


def weight(target, dtype, grid, count):
    """The address of a tile's weight gradient for a kernel row, to be called with

    (source, cotangents, sums, channels, rows, steps)

    It adds to sums[tap] the products of source and cotangents of some rows of pixels; `steps` are
    distances of rows of the source, columns, rows of cotangents, pixels of those, taps of sums.
    """
    return address(target, write_weight, np.dtype(dtype).char, grid, count)


def write(target, char, grid, count, start, relu):
    """LLVM's text of a tile of windows."""
    return _Windows(target, char, grid, count).text(start, relu)


def write_weight(target, char, grid, count):
    """LLVM's text of a weight gradient."""
    return _Products(target, char, grid, count).text()


class _Sliding:
    """What both share: columns of the source, met by (pixel, tap) pairs; a loop over rows."""

    def __init__(self, target, char, grid, count):
        self.target, self.vectors = target, Vectors(target, np.dtype(char))
        self.pixels, self.taps, self.move, spread, first, end = grid
        self.count, self.columns = count, {}
        for pixel in range(self.pixels):
            for tap in range(self.taps):
                column = pixel * self.move + tap * spread
                if first <= column < end:
                    self.columns.setdefault(column, []).append((pixel, tap))

    def begin(self, arguments, steps):
        """A function's first block: its arguments, of which the last is the address of `steps`."""
        v = self.vectors
        self.function, build = v.function(arguments)
        numbers = build.inttoptr(self.function.args[-1], INTEGER.as_pointer())
        found = [build.load(build.gep(numbers, [INTEGER(k)])) for k in range(steps)]
        return build, [v.bytes(build, step) for step in found]

    def at(self, build, place, j, step=None, number=0):
        """Vector j, `number` steps further."""
        offset = INTEGER(j * self.vectors.lanes * self.vectors.size)
        if step is not None:
            offset = build.add(offset, build.mul(step, INTEGER(number)))
        return build.gep(place, [offset])

    def load(self, build, place, step=None, number=0):
        """All vectors of a pixel or tap."""
        return [self.vectors.load(build, self.at(build, place, j, step, number), self.masks[j])
                for j in range(self.count)]  # fmt: skip

    def fetch(self, build, place, step, numbers, to_write):
        """Ask for lines of memory before they are needed."""
        for number in numbers:
            for j in range(self.count):
                line = self.at(build, place, j, step, number)
                self.vectors.fetch(build, line, to_write=to_write)

    def each_row(self, build, rows, places, steps, sums, body):
        """`body` for each row, with places that move on and sums that it renews."""
        entry = build.block
        loop = ir.IRBuilder(self.function.append_basic_block("row"))
        end = ir.IRBuilder(self.function.append_basic_block("end"))
        build.cbranch(build.icmp_signed(">", rows, INTEGER(0)), loop.block, end.block)
        starts = [INTEGER(0), *places, *sums]
        held = [loop.phi(value.type) for value in starts]
        for phi, value in zip(held, starts, strict=True):
            phi.add_incoming(value, entry)
        moving, old = held[1 : 1 + len(places)], held[1 + len(places) :]
        new = body(loop, moving, old)
        turn = loop.add(held[0], INTEGER(1))
        moved = [loop.gep(p, [step]) for p, step in zip(moving, steps, strict=True)]
        for phi, value in zip(held, [turn, *moved, *new], strict=True):
            phi.add_incoming(value, loop.block)
        loop.cbranch(loop.icmp_signed("<", turn, rows), loop.block, end.block)
        results = []
        for before, after in zip(sums, new, strict=True):
            results.append(end.phi(before.type))
            results[-1].add_incoming(before, entry)
            results[-1].add_incoming(after, loop.block)
        return end, results


class _Windows(_Sliding):
    """y of some pixels: sums[pixel] += x[column] * w[tap], kernel row by kernel row."""

    def text(self, start, relu):
        v, count = self.vectors, self.count
        build, (a_row, a_pixel, b_row, c_pixel) = self.begin(7, 4)
        *given, channels, rows, _ = self.function.args
        a, b, c, bias = (build.inttoptr(place, POINTER) for place in given)
        self.masks = v.masks(build, channels, count)
        first = self.load(build, bias) if start == "bias" else [v.zero] * count

        def row(loop, places, old):
            new = list(old)
            width = INTEGER(count * v.lanes * v.size)
            weights = [self.load(loop, places[1], width, tap) for tap in range(self.taps)]
            for column, pairs in sorted(self.columns.items()):
                values = self.load(loop, places[0], a_pixel, column)
                for pixel, tap in pairs:
                    for j in range(count):
                        at = pixel * count + j
                        new[at] = v.fma(loop, values[j], weights[tap][j], new[at])
            return new

        self.fetch(build, c, c_pixel, range(self.pixels), True)
        for more in range(self.move):
            behind = build.mul(a_row, build.add(rows, INTEGER(more)))
            self.fetch(build, build.gep(a, [behind]), a_pixel, self.columns, False)
        begin = first * self.pixels
        build, found = self.each_row(build, rows, [a, b], [a_row, b_row], begin, row)
        for pixel in range(self.pixels):
            for j in range(count):
                value = found[pixel * count + j]
                value = v.relu(build, value) if relu else value
                v.store(build, value, self.at(build, c, j, c_pixel, pixel), self.masks[j])
        build.ret_void()
        return str(v.unit)


class _Products(_Sliding):
    """dw of a kernel row: sums[tap] += x[column] * g[pixel]."""

    def text(self):
        v, count = self.vectors, self.count
        build, (a_row, a_pixel, g_row, g_pixel, c_tap) = self.begin(6, 5)
        *given, channels, rows, _ = self.function.args
        a, g, c = (build.inttoptr(place, POINTER) for place in given)
        self.masks = v.masks(build, channels, count)
        several = sums(self.target, self.taps)

        def row(loop, places, old):
            new, known = list(old), {}
            for column, pairs in sorted(self.columns.items()):
                values = self.load(loop, places[0], a_pixel, column)
                for pixel, tap in pairs:
                    if pixel not in known:
                        known[pixel] = self.load(loop, places[1], g_pixel, pixel)
                    for j in range(count):
                        at = (tap * several + pixel % several) * count + j
                        new[at] = v.fma(loop, values[j], known[pixel][j], new[at])
            return new

        start = [v.zero] * (self.taps * several * count)
        build, found = self.each_row(build, rows, [a, g], [a_row, g_row], start, row)
        for tap in range(self.taps):
            old = self.load(build, c, c_tap, tap)
            for j in range(count):
                parts = [found[(tap * several + k) * count + j] for k in range(several)]
                whole = parts[0] if several == 1 else build.fadd(*parts)
                v.store(build, build.fadd(old[j], whole), self.at(build, c, j, c_tap, tap),
                        self.masks[j])  # fmt: skip
        build.ret_void()
        return str(v.unit)
