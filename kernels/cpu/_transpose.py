"""Transposition of matrices in registers: how weights are packed and memory layouts changed.

A block of 16 x 16 floats is loaded by rows, crossed over in four rounds of 16 shuffles (two rows
exchange every second lane, then pairs of lanes, fours, eights), and stored by columns: some 100
instructions for 256 values, where a loop needs four each and waits for the cache as well. Blocks at
an edge are read and written through masks, which take as many instructions again.
"""

from functools import cache

import numpy as np
from llvmlite import ir

from ._machine_code import INTEGER, address, call
from ._vectors import POINTER, SHORT, Vectors


@cache
def transpose(target, dtype):
    """The address of a transposition of up to lanes x lanes values, to be called with

    (source, target, rows, columns, source step, target step)

    where steps are distances between rows in values; target has `columns` rows.
    """
    return address(target, write, np.dtype(dtype).char)


def write(target, char):
    """LLVM's text of a transposition."""
    v = Vectors(target, np.dtype(char))
    function, build = v.function(6)
    source, place, rows, columns, *steps = function.args
    source, place = build.inttoptr(source, POINTER), build.inttoptr(place, POINTER)
    steps = [v.bytes(build, step) for step in steps]
    whole = [build.icmp_signed("==", count, INTEGER(v.lanes)) for count in (rows, columns)]
    with build.if_else(build.and_(*whole)) as (then, otherwise):
        with then:
            _whole(v, build, source, place, *steps)
        with otherwise:
            _part(v, build, source, place, rows, columns, *steps)
    build.ret_void()
    return str(v.unit)


def _whole(v, build, source, place, source_step, target_step):
    """A block of which every value exists."""
    values = []
    for _ in range(v.lanes):
        values.append(build.load(build.bitcast(source, v.kind.as_pointer()), align=v.size))
        source = build.gep(source, [source_step])
    for value in turned(v, build, values):
        build.store(value, build.bitcast(place, v.kind.as_pointer()), align=v.size)
        place = build.gep(place, [target_step])


def _part(v, build, source, place, rows, columns, source_step, target_step):
    """A block of which some rows and columns exist."""
    values = []
    for i in range(v.lanes):
        values.append(v.load(build, source, _mask(v, build, i, rows, columns)))
        source = _next(build, source, i, rows, source_step)
    for j, value in enumerate(turned(v, build, values)):
        v.store(build, value, place, _mask(v, build, j, columns, rows))
        place = _next(build, place, j, columns, target_step)


def turned(v, build, values):
    """The columns of the matrix of which `values` are the rows."""
    distance = 1
    while distance < v.lanes:
        values = _cross(v, build, values, distance)
        distance *= 2
    return values


def _mask(v, build, i, rows, columns):
    """The lanes among `columns` if there is a row i, else none."""
    exist = build.icmp_signed("<", INTEGER(i), rows)
    return v.masks(build, build.select(exist, columns, INTEGER(0)), 1)[0]


def _next(build, place, i, rows, step):
    """The row behind row i, or row i again: even with an empty mask, memory of no one is slow."""
    more = build.icmp_signed("<", INTEGER(i + 1), rows)
    return build.gep(place, [build.select(more, step, INTEGER(0))])


def _cross(v, build, values, distance):
    """Rows `distance` apart exchange every second group of `distance` lanes."""
    results = list(values)
    kind = ir.VectorType(SHORT, v.lanes)
    for i in range(v.lanes):
        if not i & distance:
            lanes = range(v.lanes)
            low = [k if not k & distance else v.lanes + k - distance for k in lanes]
            high = [k + distance if not k & distance else v.lanes + k for k in lanes]
            pair = values[i], values[i + distance]
            results[i] = build.shuffle_vector(*pair, ir.Constant(kind, low))
            results[i + distance] = build.shuffle_vector(*pair, ir.Constant(kind, high))
    return results


def turn(kernel, lanes, item, source, target, rows, columns, source_step, target_step):
    """target[j, i] = source[i, j] for matrices of any size at addresses; `item` bytes a value."""
    for i in range(0, rows, lanes):
        for j in range(0, columns, lanes):
            a = source + (i * source_step + j) * item
            b = target + (j * target_step + i) * item
            high, wide = min(lanes, rows - i), min(lanes, columns - j)
            call(kernel, (a, b, high, wide, source_step, target_step))
