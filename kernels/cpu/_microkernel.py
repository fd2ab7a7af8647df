"""The register tile: the one loop in which convolution, products and Winograd spend their time.

    c[i, j]  =  start  +  sum over o, m, k of  a[o, m, k, i] * b[o, m, k, j]

for `rows` values of i, each read once and spread over a vector, and `vectors` vectors of j. All
sums stay in registers until the end: with 14 rows and 2 vectors of 16 floats, 28 registers hold
sums, 2 hold b and 1 holds a, of the 32 there are. Each step of the loop then multiplies 28 vectors
and loads 2 of them and 14 numbers, so that the multipliers never wait: see
docs/design/micro-kernels.md, and Goto and van de Geijn (2008) for the idea.

Costs 2 * rows * columns flops per step. A tile of 14 x 32 floats with data in the second cache runs
at 97 % of a core's peak (110 of 113 GFLOP/s with AVX-512 on Zen 4; 213 of 220 on a core with two
multipliers). Rows of b, and what sums are added to, are asked for ahead, as they may be far.

Use: `tile` gives an address; in a compiled function

    call(address, (a, b, c, bias, columns, loops))

with addresses of the first values, the number of columns that exist (the others are neither read
nor written), and the address of `loops(...)`, an array that says how far apart the values lie.
Every sum is one chain of fused multiply-adds in the order of the loops: it does not depend on the
tile's size, so any split of rows and columns into tiles gives the same bytes.
"""

import numpy as np
from llvmlite import ir

from ._machine_code import INTEGER, address

SHORT, FLAG = ir.IntType(32), ir.IntType(1)
POINTER = ir.IntType(8).as_pointer()
STEPS = ("a_outer", "a_middle", "a_inner", "a_row", "b_outer", "b_middle", "b_inner", "c_row")
START = ("zero", "bias", "own bias", "add")
AHEAD = 16  # steps that b is asked for before its use: some 200 cycles, as long as it takes


def loops(counts, **steps):
    """What a tile wants to know of memory: (outer, middle, inner) counts, distances in values.

    The names of distances are `STEPS`; those that are left out are 0. No count may be negative;
    a tile whose loops are empty writes where its sums start.
    """
    unknown = set(steps) - set(STEPS)
    if unknown:
        raise TypeError(f"loops(): expected distances among {STEPS}, got {sorted(unknown)}")
    return np.array([*counts, *(steps.get(name, 0) for name in STEPS)], np.int64)


def tile(target, dtype, rows, vectors, *, start="zero", relu=False, spread=True, ahead=False,
         masked=False):  # fmt: skip
    """The address of a tile; `start` is "zero", "bias" (of each column), "own bias" (of each row)
    or "add" (to c).

    With `relu` negative results become 0. With `masked`, `bias` has rows as far apart as those of
    c: where it holds 0 or less, results become 0. Without `spread`, a is a vector in each row and
    not a number: c[i, j] = sum of a[i, j] * b[j], which is a depthwise convolution.
    With `ahead` it is called with two more numbers: an address, and how many bytes it goes on in
    each step; what lies there is fetched to the second cache meanwhile.
    """
    known = START[::3] if masked else START
    if not 1 <= rows <= target.rows or vectors not in (1, 2) or start not in known:
        raise ValueError(f"tile(rows={rows}, vectors={vectors}, start={start!r}): expected up to "
                         f"{target.rows} rows, 1 or 2 vectors, start among {known}")  # fmt: skip
    kind = start, relu, spread, ahead, masked
    return address(target, write, np.dtype(dtype).char, rows, vectors, *kind)


def write(target, char, rows, vectors, start, relu, spread, ahead=False, masked=False):
    """LLVM's text of a tile."""
    tile = _Tile(target, np.dtype(char), rows, vectors, spread, ahead)
    return str(tile.module(start, relu, masked))


class Vectors:
    """Vectors of one kind: how to load and store as many of their lanes as exist."""

    def __init__(self, target, dtype):
        self.lanes, self.size = target.lanes(dtype), dtype.itemsize
        self.real = ir.FloatType() if self.size == 4 else ir.DoubleType()
        self.kind = ir.VectorType(self.real, self.lanes)
        self.mask = ir.VectorType(FLAG, self.lanes)
        self.constants = {}
        self.zero = self.constant(0.0)
        self.suffix = f"v{self.lanes}f{8 * self.size}"
        self.unit = ir.Module("kernel")
        kind, place, nothing = self.kind, [self.kind.as_pointer(), SHORT, self.mask], ir.VoidType()
        masked = f"{self.suffix}.p0{self.suffix}"
        self._load = self.known(f"masked.load.{masked}", kind, [*place, kind])
        self._store = self.known(f"masked.store.{masked}", nothing, [kind, *place])
        self._fma = self.known(f"fma.{self.suffix}", kind, [kind] * 3)
        self._fetch = self.known("prefetch.p0i8", nothing, [POINTER, SHORT, SHORT, SHORT])

    def known(self, name, result, arguments):
        """An instruction of LLVM that it knows as a function."""
        return ir.Function(self.unit, ir.FunctionType(result, arguments), f"llvm.{name}")

    def constant(self, value):
        """A number in every lane, made once: its text is long."""
        if value not in self.constants:
            self.constants[value] = ir.Constant(self.kind, [float(value)] * self.lanes)
        return self.constants[value]

    def function(self, count):
        """A function of integers, and a builder at its begin."""
        kind = ir.FunctionType(ir.VoidType(), [INTEGER] * count)
        function = ir.Function(self.unit, kind, "kernel")
        return function, ir.IRBuilder(function.append_basic_block())

    def masks(self, build, columns, count):
        """For each of `count` vectors, which of its lanes are among `columns`."""
        numbers = ir.VectorType(SHORT, self.lanes)
        places = [ir.Constant(numbers, [j * self.lanes + k for k in range(self.lanes)])
                  for j in range(count)]  # fmt: skip
        wide = self.spread(build, build.trunc(columns, SHORT), numbers)
        return [build.icmp_signed("<", place, wide) for place in places]

    def spread(self, build, value, kind=None):
        """A vector with `value` in every lane."""
        kind = kind or self.kind
        unknown, first = ir.Constant(kind, ir.Undefined), ir.Constant(SHORT, 0)
        single = build.insert_element(unknown, value, first)
        everywhere = ir.Constant(ir.VectorType(SHORT, kind.count), [0] * kind.count)
        return build.shuffle_vector(single, unknown, everywhere)

    def load(self, build, place, mask):
        """The lanes of `mask` at an address, 0 in others."""
        place = build.bitcast(place, self.kind.as_pointer())
        return build.call(self._load, [place, SHORT(self.size), mask, self.zero])

    def store(self, build, value, place, mask):
        place = build.bitcast(place, self.kind.as_pointer())
        build.call(self._store, [value, place, SHORT(self.size), mask])

    def fetch(self, build, place, cache=1, to_write=False):
        """Ask for the line of memory that holds a place: some time later the first or second cache
        has it."""
        build.call(self._fetch, [place, SHORT(int(to_write)), SHORT(4 - cache), SHORT(1)])

    def number(self, build, place):
        """One value, in every lane."""
        return self.spread(build, build.load(build.bitcast(place, self.real.as_pointer())))

    def fma(self, build, a, b, c):
        """a * b + c, rounded once."""
        return build.call(self._fma, [a, b, c])

    def relu(self, build, value):
        """0 for what is less; NaN stays."""
        return build.select(build.fcmp_ordered("<", value, self.zero), self.zero, value)

    def masked(self, build, value, by):
        """0 where `by` is 0 or less, but not where it is NaN."""
        return build.select(build.fcmp_ordered("<=", by, self.zero), self.zero, value)

    def bytes(self, build, count):
        """The length of `count` values."""
        return build.mul(count, INTEGER(self.size))


class _Tile:
    """Writes a tile, from the inside out: a step, three loops around it, begin and end."""

    def __init__(self, target, dtype, rows, vectors, spread, ahead):
        self.vectors, self.is_ahead = Vectors(target, dtype), ahead
        self.rows, self.count, self.is_spread = rows, vectors, spread

    def module(self, start, relu, masked):
        v = self.vectors
        self.function, build = v.function(8 if self.is_ahead else 6)
        *places, columns, numbers = self.function.args[:6]
        a, b, c, bias = (build.inttoptr(place, POINTER) for place in places)
        self.masks = v.masks(build, columns, self.count)
        self._read(build, numbers)
        read = [a, b]
        if self.is_ahead:
            far, further = self.function.args[6:]
            read.append(build.inttoptr(far, POINTER))
            self.steps.append([INTEGER(0), INTEGER(0), further])
        if start == "add":
            self._fetch(build, c)
        build, sums = self._guarded(build, read, self._first(build, bias, start))
        self._finish(build, c, sums, start == "add", relu, bias if masked else None)
        return v.unit

    def _first(self, build, bias, start):
        """What the sums of all rows start from."""
        v = self.vectors
        if start == "own bias":
            places = [build.gep(bias, [INTEGER(i * v.size)]) for i in range(self.rows)]
            return [value for place in places for value in [v.number(build, place)] * self.count]
        first = [v.zero] * self.count
        if start == "bias":
            first = [v.load(build, self._column(build, bias, j), self.masks[j])
                     for j in range(self.count)]  # fmt: skip
        return first * self.rows

    def _read(self, build, numbers):
        """The counts and steps, from memory."""
        numbers = build.inttoptr(numbers, INTEGER.as_pointer())
        numbers = [build.load(build.gep(numbers, [INTEGER(k)])) for k in range(3 + len(STEPS))]
        self.counts = numbers[:3]
        steps = [self.vectors.bytes(build, step) for step in numbers[3:]]
        self.steps, self.a_row, self.c_row = [steps[:3], steps[4:7]], steps[3], steps[7]

    def _column(self, build, place, j):
        return build.gep(place, [INTEGER(j * self.vectors.lanes * self.vectors.size)])

    def _guarded(self, build, read, sums):
        """The loops, or nothing if one of them is empty."""
        begin, end = build.block, self.function.append_basic_block("end")
        inside = ir.IRBuilder(self.function.append_basic_block("begin"))
        outer, middle, inner = self.counts
        steps = build.mul(build.mul(outer, middle), inner)
        build.cbranch(build.icmp_signed(">", steps, INTEGER(0)), inside.block, end)
        inside, results = self._loop(inside, 0, read, sums)
        inside.branch(end)
        build = ir.IRBuilder(end)
        return build, [_either(build, begin, old, inside.block, new)
                       for old, new in zip(sums, results, strict=True)]  # fmt: skip

    def _loop(self, before, level, read, sums):
        """A loop around the loops of higher level, or around the step."""
        build = ir.IRBuilder(self.function.append_basic_block(("outer", "middle", "inner")[level]))
        before.branch(build.block)
        starts = [INTEGER(0), *read, *sums]
        values = [build.phi(start.type) for start in starts]
        turn, read, sums = values[0], values[1 : 1 + len(read)], values[1 + len(read) :]
        for value, start in zip(values, starts, strict=True):
            value.add_incoming(start, before.block)
        last, results = build, sums
        if level < 2:
            last, results = self._loop(build, level + 1, read, sums)
        else:
            results = self._step(build, *read, sums)
        pairs = zip(read, self.steps, strict=True)
        places = [last.gep(place, [steps[level]]) for place, steps in pairs]
        following = [last.add(turn, INTEGER(1)), *places, *results]
        for value, new in zip(values, following, strict=True):
            value.add_incoming(new, last.block)
        after = self.function.append_basic_block("after")
        more = last.icmp_signed("<", following[0], self.counts[level])
        last.cbranch(more, build.block, after)
        return ir.IRBuilder(after), results

    def _step(self, build, a, b, *rest):
        """One more product in every sum."""
        v, results, (*far, sums) = self.vectors, [], rest
        for place in far:
            v.fetch(build, place, cache=2)
        weights = [v.load(build, self._column(build, b, j), self.masks[j])
                   for j in range(self.count)]  # fmt: skip
        if self.is_spread:
            ahead = build.gep(b, [build.mul(self.steps[1][2], INTEGER(AHEAD))])
            for j in range(self.count):
                v.fetch(build, self._column(build, ahead, j))
        for i in range(self.rows):
            value = v.number(build, a) if self.is_spread else None
            for j in range(self.count):
                mine = value or v.load(build, self._column(build, a, j), self.masks[j])
                results.append(v.fma(build, mine, weights[j], sums[i * self.count + j]))
            a = build.gep(a, [self.a_row])
        return results

    def _fetch(self, build, c):
        """Ask for what the sums will be added to: it comes while they are made."""
        for _ in range(self.rows):
            for j in range(self.count):
                self.vectors.fetch(build, self._column(build, c, j))
            c = build.gep(c, [self.c_row])

    def _finish(self, build, c, sums, add, relu, by):
        v = self.vectors
        for i in range(self.rows):
            for j in range(self.count):
                place, value = self._column(build, c, j), sums[i * self.count + j]
                if add:
                    value = build.fadd(v.load(build, place, self.masks[j]), value)
                if by is not None:
                    sign = v.load(build, self._column(build, by, j), self.masks[j])
                    value = v.masked(build, value, sign)
                v.store(build, v.relu(build, value) if relu else value, place, self.masks[j])
            c = build.gep(c, [self.c_row])
            by = by and build.gep(by, [self.c_row])
        build.ret_void()


def _either(build, block, value, other_block, other):
    """The value that belongs to the block one comes from."""
    result = build.phi(value.type)
    result.add_incoming(value, block)
    result.add_incoming(other, other_block)
    return result
