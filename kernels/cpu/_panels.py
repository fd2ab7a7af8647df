"""Copies of panels: how narrow parts of a matrix are brought together in cache for a product.

A panel has as many columns as a register tile, one or two vectors, and as many rows as a sum has
terms. Some panels that lie beside each other are copied at once, row by row, so that memory is read
in order. A row of a panel is two loads and two stores, through masks that are made once; C's
memcpy, called for each, would cost as much as computing with them.
"""

import numpy as np
from llvmlite import ir

from ._machine_code import INTEGER, address
from ._vectors import POINTER, Vectors


def copying(target, dtype):
    """The address of a copy of panels of up to 2 * lanes columns, to be called with

    (source, target, panels, source step, target step, rows, columns, source row, target row)

    where steps are distances between panels, rows those between rows, in values.
    """
    return address(target, write, np.dtype(dtype).char)


def write(target, char):
    """LLVM's text of a copy: panels are the inner loop."""
    v = Vectors(target, np.dtype(char))
    function, build = v.function(9)
    source, place, panels, *steps, rows, columns, source_row, place_row = function.args
    steps = [v.bytes(build, step) for step in steps]
    source_row, place_row = (v.bytes(build, step) for step in (source_row, place_row))
    masks = v.masks(build, columns, 2)
    some = build.mul(panels, rows)

    def row(build, read, written):
        return _loop(build, function, panels, (read, written), steps, copy)

    def copy(build, read, written):
        places = [build.inttoptr(each, POINTER) for each in (read, written)]
        for j, mask in enumerate(masks):
            a, b = (build.gep(each, [INTEGER(j * v.lanes * v.size)]) for each in places)
            v.store(build, v.load(build, a, mask), b, mask)
        return build

    with build.if_then(build.icmp_signed(">", some, INTEGER(0))):
        after = _loop(build, function, rows, (source, place), (source_row, place_row), row)
        build.position_at_end(after.block)
    build.ret_void()
    return str(v.unit)


def _loop(before, function, count, places, steps, inside):
    """A loop of at least one turn, in which addresses go on by steps; a builder behind it."""
    build = ir.IRBuilder(function.append_basic_block("loop"))
    starts = INTEGER(0), *places
    begin = build.block
    values = [build.phi(INTEGER) for _ in starts]
    last = inside(build, *values[1:])
    following = [last.add(value, step)
                 for value, step in zip(values, (INTEGER(1), *steps), strict=True)]  # fmt: skip
    for value, start, new in zip(values, starts, following, strict=True):
        value.add_incoming(start, before.block)
        value.add_incoming(new, last.block)
    before.branch(begin)
    after = function.append_basic_block("after")
    last.cbranch(last.icmp_signed("<", following[0], count), begin, after)
    return ir.IRBuilder(after)
