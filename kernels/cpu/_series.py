"""Several tables in one native call, one after the other.

The interpreter is let go and taken again once for all of them: where other threads want it, that
may take longer than a table.
"""

import ctypes

import numpy as np
from llvmlite import ir

from ._address import start
from ._native import I32, I64, WORDS, Code, driver, once


def run_all(headers):
    """Run the tables with these addresses of headers; whether all ran to their ends."""
    words = np.array([driver(), len(headers), *headers], np.int64)
    return not _call()(start(words))


@once
def _call():
    return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64)(_series()[0])


@once
def _series():
    """Frame: the address of what runs a table, how many there are, the address of each header."""
    code = Code("series")
    builder, frame = code.builder, code.function.args[0]
    kind = ir.FunctionType(I64, [WORDS]).as_pointer()
    drive = builder.inttoptr(code.load(frame, 0), kind)
    with code.each(code.load(frame, 1)) as turn:
        entry = builder.call(drive, [code.words(code.load(frame, code.add(turn, 2)))])
        with builder.if_then(builder.icmp_signed("!=", entry, I64(-1)), likely=False):
            builder.ret(I32(1))
    builder.ret(I32(0))
    return code.address()


__all__ = ["run_all"]
