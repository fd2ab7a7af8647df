"""Winograd's transforms: Y = M X M^T for small matrices X of vectors over channels.

Polynomials are multiplied at points instead of coefficient by coefficient (Winograd 1980; Lavin
and Gray 2016, arXiv:1509.09308). Tiles of 4 x 4 outputs of r x r kernels need r + 3 points along
each axis: 0, 1, -1, 2, -2 and infinity for r = 3, and 1/2, -1/2 as well for r = 5. With d an input
tile, w a kernel and g a cotangent of the output,

    y = A^T [(G w G^T) * (B^T d B)] A        dw = G^T [(B^T d B) * (A g A^T)] G

where * is a sum over channels (or tiles), element by element: register tiles do that. 36 products
stand for 144 (r = 3), 64 for 400 (r = 5). Each transform is some 100 to 300 additions for each
channel of a tile, in registers: points of opposite sign share their even and odd parts.

Errors grow because the matrices have condition numbers of some tens: 1 to 2e-6 (relative rms, r =
3) and 2 to 4e-6 (r = 5) in float32, where direct convolution has 2 to 7e-7. A value that is not
finite spoils its whole tile.
"""

import math

import numpy as np
from llvmlite import ir

from ._machine_code import INTEGER, address
from ._vectors import POINTER, Vectors

OUTPUTS = 4  # rows and columns of a tile's output
POINTS = {3: (0, 1, -1, 2, -2), 5: (0, 1, -1, 2, -2, 1 / 2, -1 / 2)}  # besides infinity, last


def points(r):
    """How many there are along one axis."""
    return len(POINTS[r]) + 1


def evaluate(r, count, scales):
    """The (points, count) matrix from coefficients to values, times `scales`."""
    known = zip(scales, POINTS[r], strict=True)
    rows = [tuple(scale * point**k for k in range(count)) for scale, point in known]
    return (*rows, (0,) * (count - 1) + (1,))


def interpolate(r):
    """Row by row, the coefficients of the polynomials that are 0 at all points but one."""
    others = [[q for q in POINTS[r] if q != p] for p in POINTS[r]]
    return tuple((*map(float, np.poly(roots)[::-1]), 0.0)[: points(r)]
                 for roots in (*others, POINTS[r]))  # fmt: skip


def turned(matrix):
    return tuple(zip(*matrix, strict=True))


def matrices(r):
    """By name, the matrix of each transform for kernels of r x r."""
    scales = [1 / math.prod(p - q for q in POINTS[r] if q != p) for p in POINTS[r]]
    a, g = evaluate(r, OUTPUTS, [1] * len(scales)), evaluate(r, r, scales)
    return {"input": interpolate(r), "output": turned(a), "weights": g, "cotangent": a,
            "gradient": turned(g)}  # fmt: skip


def transform(target, name, r):
    """The address of a transform, to be called with

    (source, target, columns, source row, source pixel, target row, target pixel,
     first row, last row, first pixel, last pixel, extra)

    where rows and pixels are distances in values. Rows first..last and pixels first..last of the
    image exist: of others "input" and "cotangent" read zeros, "output" writes nothing. `extra` is
    the address of a bias of `columns` values, for "biased", which is "output" with a bias;
    "rectified" and "biased rectified" are cut off at 0.
    """
    return address(target, write, name, r)


def write(target, name, r):
    """LLVM's text of a transform."""
    return str(_Transform(target, name, r).module())


class _Transform:
    """Writes a transform: a loop over channels for tiles inside the image, and one for its edge."""

    def __init__(self, target, name, r):
        self.vectors = Vectors(target, np.dtype(np.float32))
        self.is_biased, self.is_rectified = "biased" in name, "rectified" in name
        self.name = "output" if self.is_biased or self.is_rectified else name
        self.matrix, self.points = matrices(r)[self.name], points(r)
        self.pairs = [(k, k + 1) for k in range(1, self.points - 1, 2)]  # opposite points
        self.high, self.wide = len(self.matrix), len(self.matrix[0])
        self.none = ir.Constant(self.vectors.mask, [0] * self.vectors.lanes)
        self.image = self.high if self.name == "output" else self.wide  # lines of the image side

    def module(self):
        v = self.vectors
        self.function, build = v.function(12)
        source, target, self.columns, *numbers, extra = self.function.args
        self.steps, self.ranges = [v.bytes(build, step) for step in numbers[:4]], numbers[4:]
        self.places = [build.inttoptr(place, POINTER) for place in (source, target, extra)]
        inside, end = (self.function.append_basic_block(name) for name in ("inside", "end"))
        if self.name == "output":
            edge = self.function.append_basic_block("edge")
            build.cbranch(self._is_inside(build), inside, edge)
            self._loop(edge, end, True)
        else:  # what is read has a frame around it
            build.branch(inside)
        self._loop(inside, end, False)
        ir.IRBuilder(end).ret_void()
        return v.unit

    def _is_inside(self, build):
        """Whether the image has all rows and pixels."""
        whole, row, last_row, pixel, last_pixel = INTEGER(self.image), *self.ranges
        rows = build.and_(build.icmp_signed("<=", row, INTEGER(0)),
                          build.icmp_signed(">=", last_row, whole))  # fmt: skip
        pixels = build.and_(build.icmp_signed("<=", pixel, INTEGER(0)),
                            build.icmp_signed(">=", last_pixel, whole))  # fmt: skip
        return build.and_(rows, pixels)

    def _exist(self, build):
        """Which rows, and which pixels, the image has."""
        bounds = self.ranges[:2], self.ranges[2:]
        return [[build.and_(build.icmp_signed("<=", first, INTEGER(place)),
                            build.icmp_signed(">", last, INTEGER(place)))
                 for place in range(self.image)] for first, last in bounds]  # fmt: skip

    def _loop(self, block, end, checked):
        """The transform of one vector of channels after the other."""
        v, before = self.vectors, ir.IRBuilder(block)
        self.rows, self.pixels = self._exist(before) if checked else ((), ())
        build = ir.IRBuilder(self.function.append_basic_block())
        before.branch(build.block)
        begin = build.phi(INTEGER)
        begin.add_incoming(INTEGER(0), block)
        offset = v.bytes(build, begin)
        source, target, extra = (build.gep(place, [offset]) for place in self.places)
        (mask,) = v.masks(build, build.sub(self.columns, begin), 1)
        half = self._read(build, source, mask)
        bias = v.load(build, extra, mask) if self.is_biased else None
        self._write(build, target, mask, checked, half, bias)
        following = build.add(begin, INTEGER(v.lanes))
        begin.add_incoming(following, build.block)
        build.cbranch(build.icmp_signed("<", following, self.columns), build.block, end)

    def _mask(self, build, mask, checked, i, j):
        """`mask`, or no lane where the image has no such place."""
        if not checked:
            return mask
        return build.select(build.and_(self.rows[i], self.pixels[j]), mask, self.none)

    def _read(self, build, source, mask):
        """M X, column by column: each is multiplied as soon as it is there, to save registers."""
        rows = self._lines(build, source, self.steps[0], self.wide)
        grid = [self._lines(build, row, self.steps[1], self.wide) for row in rows]
        return [self._times(build, [self.vectors.load(build, row[j], mask) for row in grid])
                for j in range(self.wide)]  # fmt: skip

    def _lines(self, build, place, step, count):
        """Addresses `step` apart."""
        places = [place]
        while len(places) < count:
            places.append(build.gep(places[-1], [step]))
        return places

    def _write(self, build, target, mask, checked, half, bias):
        """M X M^T, row by row, from the columns of M X."""
        v = self.vectors
        places = self._lines(build, target, self.steps[2], self.high)
        for i, place in enumerate(places):
            line = self._lines(build, place, self.steps[3], self.high)
            for j, value in enumerate(self._times(build, [column[i] for column in half])):
                value = value if bias is None else build.fadd(value, bias)
                value = v.relu(build, value) if self.is_rectified else value
                v.store(build, value, line[j], self._mask(build, mask, checked, i, j))

    def _times(self, build, values):
        """M x: a sum over each row; pairs of opposite points share what they have in common."""
        if self.high == self.points:
            return self._to_points(build, values)
        values, matrix = list(values), [list(row) for row in self.matrix]
        for one, other in self.pairs:
            both = build.fadd(values[one], values[other]), build.fsub(values[one], values[other])
            values[one], values[other] = both
            for row in matrix:
                row[one], row[other] = (row[one], 0) if row[one] == row[other] else (0, row[one])
        return [self._sum(build, row, values) for row in matrix]

    def _to_points(self, build, values):
        results = [self._sum(build, row, values) for row in (self.matrix[0], self.matrix[-1])]
        for one, other in self.pairs:
            pairs = list(zip(self.matrix[one], self.matrix[other], strict=True))
            even = self._sum(build, [a if a == b else 0 for a, b in pairs], values)
            odd = self._sum(build, [a if a != b else 0 for a, b in pairs], values)
            results[-1:-1] = [build.fadd(even, odd), build.fsub(even, odd)]
        return results

    def _sum(self, build, factors, values):
        """The sum of factors times values, the simple factors first; what all have is added last,
        in a doubling: there are instructions for sums beside those for products."""
        v, total = self.vectors, None
        terms = [term for term in zip(factors, values, strict=True) if term[0]]
        if len(terms) > 1 and {abs(factor) for factor, _ in terms} == {2}:
            half = self._sum(build, [factor / 2 for factor in factors], values)
            return build.fadd(half, half)
        for factor, value in sorted(terms, key=lambda term: abs(term[0]) != 1):
            wide = v.constant(factor)
            if total is None:
                total = value if factor == 1 else build.fmul(wide, value)
            elif abs(factor) == 1:
                total = (build.fadd if factor == 1 else build.fsub)(total, value)
            else:
                total = v.fma(build, wide, value, total)
        return total
