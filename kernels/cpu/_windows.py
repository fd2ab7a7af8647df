"""Max pooling of the pixels of a row, and its adjoint, as vectors over channels.

For each pixel and vector of channels, the largest value so far and its tap stay in registers while
the taps of the window go by; the adjoint reads a cotangent and its tap once, and writes it to the
place of the tap and zeros to the others. So memory is touched once: pooling 2 x 2 runs at the speed
of memory (see `pool` for figures). Costs two comparisons per tap and channel.
"""

from functools import cache

import numpy as np
from llvmlite import ir

from ._machine_code import INTEGER, address
from ._microkernel import POINTER, SHORT, Vectors

KINDS = ("largest", "positive", "placed", "added", "summed", "mean", "shared", "spread")
AHEAD = 2048  # bytes from what is read to what is asked for: half a page
NONE = -1  # in the type of an index, so that no tap has this number


@cache
def window(target, dtype, index, kind):
    """The address of a function of pixels' windows in a row, to be called with

    (image, values, index, channels, rows, columns, row step, column step, tap, tap step,
     pixels, move, extra)

    `image` is the first tap's place in the first window, other taps lie `row step` and `column
    step` apart, the next window `move` (all in values). There are rows x columns taps, numbered
    from `tap` on, a row of them `tap step` after the other. "largest" writes the largest of each
    window to values and its tap to index (uint8 or int32): the first of equals, the last NaN.
    "positive" does so too, but writes 0 and `NONE` where the largest is not positive.
    "placed" writes values to their taps and zeros to all others, "added" adds them. "summed"
    changes no image: behind `extra` lie a mean for each channel and two sums, to which the values
    of taps that exist are added, and these times what the image has there, less the mean.
    "mean" writes the sum of each window by `extra`, a number, to values; "shared" adds values by
    `extra` to all taps, "spread" writes them there: none of these has an index.
    """
    return address(target, write, np.dtype(dtype).char, np.dtype(index).itemsize, kind)


def write(target, char, index_size, kind):
    """LLVM's text of such a function."""
    return _Window(target, np.dtype(char), index_size, kind).text()


class _Window:
    """Four loops: pixels, vectors of channels, rows and columns of taps."""

    def __init__(self, target, dtype, index_size, kind):
        self.vectors, self.kind, self.index_size = Vectors(target, dtype), kind, index_size
        lanes, self.is_choice = self.vectors.lanes, kind in ("largest", "positive")
        asked = {"largest": not target.foresees, "summed": not target.foresees_reads}
        self.is_asking = asked.get("largest" if self.is_choice else kind, False)
        self.narrow = ir.VectorType(ir.IntType(8 * index_size), lanes)
        self.taps = ir.VectorType(SHORT, lanes)
        suffix = f"v{lanes}i{8 * index_size}"
        place = [self.narrow.as_pointer(), SHORT, self.vectors.mask]
        known = self.vectors.known
        name = f"{suffix}.p0{suffix}"
        self._load = known(f"masked.load.{name}", self.narrow, [*place, self.narrow])
        self._store = known(f"masked.store.{name}", ir.VoidType(), [self.narrow, *place])

    def text(self):
        v = self.vectors
        self.function, build = v.function(13)
        (image, values, index, self.channels, rows, columns, row_step, column_step, self.tap,
         self.tap_step, pixels, move, extra) = self.function.args  # fmt: skip
        self.extra = build.inttoptr(extra, POINTER)
        self.number = v.spread(build, build.sitofp(extra, v.real))
        self.counts = rows, columns
        self.steps = v.bytes(build, row_step), v.bytes(build, column_step)
        places = [build.inttoptr(place, POINTER) for place in (image, values, index)]
        steps = [v.bytes(build, move), v.bytes(build, self.channels),
                 build.mul(self.channels, INTEGER(self.index_size))]  # fmt: skip
        build, _ = self._loop(build, pixels, list(zip(places, steps, strict=True)), [], self._pixel)
        build.ret_void()
        return str(v.unit)

    def _loop(self, before, count, places, values, body):
        """`body`, with places that advance by a step each time and values that it renews."""
        build = ir.IRBuilder(self.function.append_basic_block())
        before.branch(build.block)
        starts = [INTEGER(0), *(place for place, _ in places), *values]
        held = [build.phi(start.type) for start in starts]
        for phi, start in zip(held, starts, strict=True):
            phi.add_incoming(start, before.block)
        turn, moving, kept = held[0], held[1 : 1 + len(places)], held[1 + len(places) :]
        last, results = body(build, moving, kept)
        following = last.add(turn, INTEGER(1))
        moved = [_advance(last, place, step)
                 for place, (_, step) in zip(moving, places, strict=True)]  # fmt: skip
        for phi, new in zip(held, [following, *moved, *results], strict=True):
            phi.add_incoming(new, last.block)
        after = ir.IRBuilder(self.function.append_basic_block())
        last.cbranch(last.icmp_signed("<", following, count), build.block, after.block)
        return after, results

    def _pixel(self, build, places, _):
        """All channels of one window."""
        v = self.vectors
        wide = INTEGER(v.lanes * v.size)
        steps = wide, wide, INTEGER(v.lanes * self.index_size)
        count = build.sdiv(build.add(self.channels, INTEGER(v.lanes - 1)), INTEGER(v.lanes))
        moving = [*zip(places, steps, strict=True), (self.extra, wide),
                  (self.channels, INTEGER(-v.lanes))]  # fmt: skip
        build, _ = self._loop(build, count, moving, [], self._channels)
        return build, []

    def _channels(self, build, places, _):
        """One vector of channels of one window."""
        v, (image, values, index, extra, left) = self.vectors, places
        (mask,) = v.masks(build, left, 1)
        tap = build.trunc(self.tap, SHORT)
        index = build.bitcast(index, self.narrow.as_pointer())
        if self.is_choice:
            held = [v.load(build, image, mask), v.spread(build, tap, self.taps)]
        elif self.kind == "mean":
            held = [v.zero]
        elif self.kind in ("shared", "spread"):
            held = [build.fdiv(v.load(build, values, mask), self.number)]
        else:
            none = ir.Constant(self.narrow, [0] * v.lanes)
            chosen = build.call(self._load, [index, SHORT(self.index_size), mask, none])
            chosen = chosen if self.index_size == 4 else build.zext(chosen, self.taps)
            held = [v.load(build, values, mask), chosen]
        if self.kind == "summed":
            step = v.bytes(build, self.channels)
            sums = [build.gep(extra, [step]), build.gep(extra, [build.mul(step, INTEGER(2))])]
            self.mean = v.load(build, extra, mask)
            held += [v.load(build, place, mask) for place in sums]
        build, held = self._rows(build, image, tap, mask, held)
        if self.kind == "summed":
            for place, value in zip(sums, held[2:], strict=True):
                v.store(build, value, place, mask)
        if self.kind == "mean":
            v.store(build, build.fdiv(held[0], self.number), values, mask)
        if self.kind == "positive":
            held = self._rectified(build, *held)
        if self.is_choice:
            v.store(build, held[0], values, mask)
            chosen = held[1] if self.index_size == 4 else build.trunc(held[1], self.narrow)
            build.call(self._store, [chosen, index, SHORT(self.index_size), mask])
        return build, []

    def _rectified(self, build, value, chosen):
        """0 and no tap where the largest is not positive; NaN keeps its tap."""
        v, none = self.vectors, ir.Constant(self.taps, [NONE] * self.vectors.lanes)
        is_cut = build.fcmp_ordered("<=", value, v.zero)
        return [build.select(is_cut, v.zero, value), build.select(is_cut, none, chosen)]

    def _rows(self, build, image, tap, mask, held):
        step, one = build.trunc(self.tap_step, SHORT), SHORT(1)

        def row(build, places, held):
            columns = [(places[0], self.steps[1]), (places[1], one)]
            return self._loop(build, self.counts[1], columns, held,
                              lambda b, at, held: (b, self._tap(b, *at, mask, *held)))  # fmt: skip

        return self._loop(build, self.counts[0], [(image, self.steps[0]), (tap, step)], held, row)

    def _tap(self, build, place, tap, mask, value, chosen=None, *sums):
        """The largest so far and its tap; the sum; or the cotangent and where it belongs, as they
        were."""
        v = self.vectors
        if self.kind == "mean":
            return [build.fadd(value, v.load(build, place, mask))]
        if self.kind in ("shared", "spread"):  # 0 + -0 is 0, as where zeros are added to
            before = v.zero if self.kind == "spread" else v.load(build, place, mask)
            v.store(build, build.fadd(before, value), place, mask)
            return [value]
        tap = v.spread(build, tap, self.taps)
        if self.is_asking:
            v.fetch(build, build.gep(place, [INTEGER(AHEAD)]))
        if self.is_choice:
            new = v.load(build, place, mask)
            is_nan = build.fcmp_unordered("uno", new, new)
            wins = build.or_(build.fcmp_ordered(">", new, value), is_nan)
            return [build.select(wins, new, value), build.select(wins, tap, chosen)]
        mine = build.select(build.icmp_signed("==", chosen, tap), value, v.zero)
        if self.kind == "summed":
            distance = build.fsub(v.load(build, place, mask), self.mean)
            return [value, chosen, build.fadd(sums[0], mine),
                    v.fma(build, mine, distance, sums[1])]  # fmt: skip
        if self.kind == "added":
            mine = build.fadd(v.load(build, place, mask), mine)
        v.store(build, mine, place, mask)
        return [value, chosen]


def _advance(build, place, step):
    """A place `step` bytes further, or a number larger by `step`."""
    if isinstance(place.type, ir.PointerType):
        return build.gep(place, [step])
    return build.add(place, step)
