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
from ._vectors import POINTER, Vectors

STEPS = ("a_outer", "a_middle", "a_inner", "a_row", "b_outer", "b_middle", "b_inner", "c_row")
START = ("zero", "bias", "own bias", "add")
APART = 4  # rows whose places are found from that of the first
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


class _Tile:
    """Writes a tile, from the inside out: a step, three loops around it, begin and end.

    The places of a step's rows, one addition behind the other, would take 14 cycles: as long as 28
    products, but twice as long as the 14 of a tile of one vector. That one goes on in steps of some
    rows, and takes three quarters of the time.
    """

    def __init__(self, target, dtype, rows, vectors, spread, ahead):
        self.vectors, self.is_ahead = Vectors(target, dtype), ahead
        self.rows, self.count, self.is_spread = rows, vectors, spread
        self.apart = APART if vectors == 1 else 1

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
        self.steps, self.c_row = [steps[:3], steps[4:7]], steps[7]
        self.a_rows = [build.mul(steps[3], INTEGER(k)) for k in range(1, self.apart + 1)]
        if self.apart > 1:
            self.a_rows = [_unknown(build, row) for row in self.a_rows]

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
            ahead = i % self.apart
            place = build.gep(a, [self.a_rows[ahead - 1]]) if ahead else a
            value = v.number(build, place) if self.is_spread else None
            for j in range(self.count):
                mine = value or v.load(build, self._column(build, place, j), self.masks[j])
                results.append(v.fma(build, mine, weights[j], sums[i * self.count + j]))
            if ahead == self.apart - 1:
                a = build.gep(a, [self.a_rows[-1]])
                a = _unknown(build, a) if self.apart > 1 else a
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


def _unknown(build, value):
    """The same value, of which LLVM knows nothing more: knowing that rows lie equally far apart it
    would make a chain of additions of it again, to save registers."""
    kind = ir.FunctionType(value.type, [value.type])
    return build.call(ir.InlineAsm(kind, "", "=r,0"), [value])


def _either(build, block, value, other_block, other):
    """The value that belongs to the block one comes from."""
    result = build.phi(value.type)
    result.add_incoming(value, block)
    result.add_incoming(other, other_block)
    return result
