"""The cotangents of batch norm's input, pixel by pixel, as vectors over channels.

    dx = (g - level - (x - mean) along) scale       g = 0 where (x - mean) scale + shift <= 0

Costs 6 to 8 flops for each value, and runs at the speed of the second cache. What it gives are the
bytes of `_batch_passes.slopes_last`: no product is joined with a sum.
"""

import numpy as np
from llvmlite import ir

from ._machine_code import INTEGER, address
from ._microkernel import POINTER, Vectors

AHEAD = 2048  # bytes from what is read to what is asked for: half a page
TABLE = ("mean", "scale", "shift", "level", "along")  # rows of what is known of each channel


def slopes(target, dtype, rectify):
    """The address of a function to be called with (x, g, dx, table, channels, pixels): addresses of
    pixels one after the other, and of `TABLE`. With `rectify` the sign of the result is found
    again; dx may be g."""
    return address(target, write, np.dtype(dtype).char, rectify)


def write(target, char, rectify):
    """LLVM's text of such a function: a loop over vectors of channels in one over pixels."""
    v = Vectors(target, np.dtype(char))
    function, build = v.function(6)
    *places, channels, pixels = function.args
    places = [build.inttoptr(place, POINTER) for place in places]
    row, start = v.bytes(build, channels), build.block
    outer, inner, end = (function.append_basic_block() for _ in range(3))
    build.cbranch(build.icmp_signed(">", pixels, INTEGER(0)), outer, end)
    build = ir.IRBuilder(outer)
    pixel, offset = build.phi(INTEGER), build.phi(INTEGER)
    for value in (pixel, offset):
        value.add_incoming(INTEGER(0), start)
    build.branch(inner)
    build = ir.IRBuilder(inner)
    begin = build.phi(INTEGER)
    begin.add_incoming(INTEGER(0), outer)
    (mask,) = v.masks(build, build.sub(channels, begin), 1)
    at = v.bytes(build, begin)
    _write(v, build, places, (build.add(offset, at), at), row, mask, rectify,
           target.foresees_reads)  # fmt: skip
    following = build.add(begin, INTEGER(v.lanes))
    begin.add_incoming(following, inner)
    after = function.append_basic_block()
    build.cbranch(build.icmp_signed("<", following, channels), inner, after)
    build = ir.IRBuilder(after)
    further = build.add(pixel, INTEGER(1))
    pixel.add_incoming(further, after)
    offset.add_incoming(build.add(offset, row), after)
    build.cbranch(build.icmp_signed("<", further, pixels), outer, end)
    ir.IRBuilder(end).ret_void()
    return str(v.unit)


def _write(v, build, places, offsets, row, mask, rectify, foresees):
    """One vector of channels of one pixel."""
    x, g, dx, table = places
    known = {}
    place = build.gep(table, [offsets[1]])
    for name in TABLE:
        known[name] = v.load(build, place, mask)
        place = build.gep(place, [row])
    x, g, dx = (build.gep(each, [offsets[0]]) for each in (x, g, dx))
    for each in () if foresees else (x, g):
        v.fetch(build, build.gep(each, [INTEGER(AHEAD)]), cache=2)
    x, g = (v.load(build, each, mask) for each in (x, g))
    d = build.fsub(x, known["mean"])
    if rectify:
        y = build.fadd(build.fmul(d, known["scale"]), known["shift"])
        g = v.masked(build, g, y)
    rest = build.fsub(build.fsub(g, known["level"]), build.fmul(d, known["along"]))
    v.store(build, build.fmul(rest, known["scale"]), dx, mask)
