"""Cache lines that another core has written, taken over when they are read.

A line that two cores have read belongs to neither: who writes to it next must ask the other one,
which takes some ten nanoseconds to a hundred, and a core asks for a few at a time at most. A line
that the other one *has* comes as fast as if it were read. So who reads what another core has made,
and will make again, takes it over: each line is written as soon as it is there, with what it holds.
Measured on two cores of a Zen 4: to write 36 KB that the other one has read takes 4.1 us, or 16
where they do not share a cache; 0.7 and 2 if that one has taken them over, which costs it 0.3 more
than to read.
"""

from llvmlite import ir

from ._memory import LINE
from ._native import I32, I64, POINTER, Code, once
from ._notes import Note

AHEAD = 16
"""So many lines ahead the next ones are asked for to be written, where a CPU knows that."""


def taken(memory, first, size):
    """The note that takes over the cache lines of so many bytes of some memory, from one on, in
    which nobody else writes anything new meanwhile."""
    note = Note(_take()[0], [0, -(-size // LINE)], [(0, memory, first)], "take lines")
    note.keeps = memory
    return note


def fetched(memory, first, size):
    """The note that asks for the cache lines of so many bytes of some memory, from one on, to read
    them soon."""
    note = Note(_fetch()[0], [0, -(-size // LINE)], [(0, memory, first)], "fetch lines")
    note.keeps = memory
    return note


class Lines(Code):
    """Builds what goes over lines. Frame: the address of the first one, how many."""

    def __init__(self, name):
        super().__init__(name)
        frame = self.function.args[0]
        kind = ir.FunctionType(ir.VoidType(), [POINTER, I32, I32, I32])
        self._first = self.builder.bitcast(self.words(self.load(frame, 0)), POINTER)
        self._ask = ir.Function(self.module, kind, "llvm.prefetch.p0")
        self.count = self.load(frame, 1)

    def place(self, line):
        return self.builder.gep(self._first, [self.builder.mul(line, I64(LINE))])

    def ask(self, line, write):
        near, data = I32(3), I32(1)
        self.builder.call(self._ask, [self.place(line), I32(write), near, data])


@once
def _fetch():
    code = Lines("fetch")
    with code.each(code.count) as line:
        code.ask(line, write=0)
    code.builder.ret(I32(0))
    return code.address()


@once
def _take():
    code = Lines("take")
    builder = code.builder
    with code.each(code.count) as line:
        ahead = code.add(line, AHEAD)
        inside = builder.icmp_signed("<", ahead, code.count)
        code.ask(builder.select(inside, ahead, line), write=1)
        word = builder.bitcast(code.place(line), I32.as_pointer())
        builder.store_atomic(builder.load_atomic(word, "monotonic", 4), word, "monotonic", 4)
    builder.ret(I32(0))
    return code.address()


__all__ = ["fetched", "taken"]
