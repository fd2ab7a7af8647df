"""A few rows by a matrix whose columns are contiguous, y = bias + x w^T, or many rows by one of few
columns: nothing is laid out anew.

A register tile wants a vector of b for each term, which is a column of w. For many rows it is worth
turning w in memory; for a few, blocks of 16 outputs by 16 terms are turned in registers and used
there and then. Costs 2 flops for each value of w and row, 64 shuffles for a block of a kilobyte: w
is read at some 45 GB/s, from the second cache and from the third.

Every value is the same chain of sums as in `_product`: rows have the bytes they have among many.
"""

import numpy as np
from llvmlite import ir

from ._machine_code import INTEGER, address, call, host
from ._memory import empty
from ._nests import nest
from ._transpose import transpose, turn
from ._transpose import turned as turned_block
from ._vectors import POINTER, Vectors

MOST = 7  # rows: their sums, and a block, are in registers
START = "zero", "bias", "own bias", "add"


def dots(target, dtype, rows, start, relu=False):
    """The address of the sums of `rows` rows and as many outputs as a vector has lanes, called with

    (x, w, y, bias, terms, x row, w row, y row)

    where rows are distances in values; `start` is "zero", "bias" (of each output), "own bias" (of
    each row) or "add" (to y).
    With `relu` negative results become 0.
    """
    return address(target, write, np.dtype(dtype).char, rows, start, relu)


def write(target, char, rows, start, relu):
    """LLVM's text: a loop over whole blocks, and what is left of the terms."""
    return str(_Dots(Vectors(target, np.dtype(char)), rows).module(start, relu))


class _Dots:
    def __init__(self, vectors, rows):
        self.vectors, self.rows = vectors, rows

    def module(self, start, relu):
        v = self.vectors
        self.function, build = v.function(8)
        *places, terms, x_row, w_row, y_row = self.function.args
        x, w, y, bias = (build.inttoptr(place, POINTER) for place in places)
        self.x_row, self.w_row, y_row = (v.bytes(build, step) for step in (x_row, w_row, y_row))
        first = [self.whole(build, bias) if start == "bias" else v.zero] * self.rows
        if start == "own bias":
            places = [build.gep(bias, [INTEGER(i * v.size)]) for i in range(self.rows)]
            first = [v.number(build, place) for place in places]
        blocks, rest = (divide(terms, INTEGER(v.lanes)) for divide in (build.sdiv, build.srem))
        build, x, w, sums = self.loop(build, blocks, x, w, first)
        sums = self.tail(build, rest, x, w, sums)
        for value in sums:
            kept = self.whole(build, y) if start == "add" else None
            value = value if kept is None else build.fadd(kept, value)
            value = v.relu(build, value) if relu else value
            build.store(value, build.bitcast(y, v.kind.as_pointer()), align=v.size)
            y = build.gep(y, [y_row])
        build.ret_void()
        return v.unit

    def whole(self, build, place):
        v = self.vectors
        return build.load(build.bitcast(place, v.kind.as_pointer()), align=v.size)

    def loop(self, before, count, x, w, sums):
        """Blocks of as many terms as there are lanes."""
        test, inside, after = (self.function.append_basic_block(name)
                               for name in ("test", "block", "after"))  # fmt: skip
        before.branch(test)
        build, starts = ir.IRBuilder(test), [INTEGER(0), x, w, *sums]
        values = [build.phi(start.type) for start in starts]
        turn, x, w, *sums = values
        build.cbranch(build.icmp_signed("<", turn, count), inside, after)
        build, v = ir.IRBuilder(inside), self.vectors
        columns = self.block(build, w, lambda place: self.whole(build, place))
        results = self.added(build, x, columns, sums)
        length = INTEGER(v.lanes * v.size)
        following = [build.add(turn, INTEGER(1)), build.gep(x, [length]), build.gep(w, [length]),
                     *results]  # fmt: skip
        build.branch(test)
        for value, start, new in zip(values, starts, following, strict=True):
            value.add_incoming(start, before.block)
            value.add_incoming(new, inside)
        return ir.IRBuilder(after), x, w, sums

    def block(self, build, w, load):
        """What lies in a block of w, term by term."""
        v, values = self.vectors, []
        for _ in range(v.lanes):
            values.append(load(w))
            w = build.gep(w, [self.w_row])
        return turned_block(v, build, values)

    def added(self, build, x, columns, sums, exist=None):
        """The sums of all rows with a block's terms, or with as many as exist."""
        v, results = self.vectors, []
        for value in sums:
            for k, column in enumerate(columns):
                more = None if exist is None else build.icmp_signed("<", INTEGER(k), exist)
                step = INTEGER(k * v.size)
                step = step if more is None else build.select(more, step, INTEGER(0))
                new = v.fma(build, v.number(build, build.gep(x, [step])), column, value)
                value = new if more is None else build.select(more, new, value)
            results.append(value)
            x = build.gep(x, [self.x_row])
        return results

    def tail(self, build, rest, x, w, sums):
        """The terms that fill no block."""
        v, before = self.vectors, build.block
        with build.if_then(build.icmp_signed(">", rest, INTEGER(0))):
            mask = v.masks(build, rest, 1)[0]
            columns = self.block(build, w, lambda place: v.load(build, place, mask))
            results, end = self.added(build, x, columns, sums, rest), build.block
        values = [build.phi(v.kind) for _ in sums]
        for value, old, new in zip(values, sums, results, strict=True):
            value.add_incoming(old, before)
            value.add_incoming(new, end)
        return values


def are_few(x, w):
    """Whether x has few rows, or w, and the other one as many as a vector has lanes."""
    lanes = host().lanes(x.dtype)
    return w.flags.carray and min(len(x), len(w)) <= MOST and max(len(x), len(w)) >= lanes


def few(x, w, bias, y, chunk, relu=False):
    """y = bias + x w^T for C-contiguous x, w and y, with `relu` 0 for what is less. Few outputs of
    many rows are the rows of y^T = w x^T."""
    if len(x) <= MOST and len(w) >= host().lanes(x.dtype):
        _rows(x, w, bias, y, chunk, relu, False)
    elif len(w) == 1:
        _rows(w, x, bias, y.reshape(1, -1), chunk, relu, True)
    else:
        turned = empty((len(w), len(x)), x.dtype)
        _rows(w, x, bias, turned, chunk, relu, True)
        _turn(transpose(host(), x.dtype), host().lanes(x.dtype), turned, y)


def _rows(x, w, bias, y, chunk, relu, own):
    """bias + x w^T, with a bias of each output, or each row's `own`."""
    target, is_one = host(), chunk == w.shape[1]
    first = "zero" if bias is None else "own bias" if own else "bias"
    kinds = (first, relu and is_one), ("add", False), ("add", relu)
    kernels = tuple(dots(target, x.dtype, len(x), *kind) for kind in kinds)
    bias = x if bias is None else bias.reshape(1, -1)
    _multiply(kernels, target.lanes(x.dtype), 0 if own else 1, chunk, x, w, bias, y)


@nest
def _turn(kernel, lanes, x, y):
    turn(kernel, lanes, x.itemsize, x.ctypes.data, y.ctypes.data, x.shape[0], x.shape[1],
         x.shape[1], x.shape[0])  # fmt: skip


@nest
def _multiply(kernels, lanes, step, chunk, x, w, bias, y):
    """As many outputs at once as there are lanes; the last ones may be computed twice. Of
    `kernels` there is one for the first chunk of terms, further ones, and the last; a bias is
    `step` behind that of the output before."""
    item, outputs, sums = y.itemsize, w.shape[0], w.shape[1]
    for begin in range(0, outputs, lanes):
        left = min(begin, outputs - lanes)
        for first in range(0, sums, chunk):
            place = x.ctypes.data + first * item, w.ctypes.data + (left * sums + first) * item
            target = y.ctypes.data + left * item, bias.ctypes.data + left * step * item
            steps = min(chunk, sums - first), sums, sums, outputs
            is_last = first + chunk >= sums
            kernel = kernels[0] if first == 0 else kernels[2] if is_last else kernels[1]
            call(kernel, (*place, *target, *steps))
