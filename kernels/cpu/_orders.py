"""How one thread has others run their tables, over and over, without the interpreter.

The others *serve*: they wait natively for an order, run a table, and wait for the next one. Who
gives an order runs a table of its own, and waits until all are done. So between two tables only one
thread needs the interpreter. Who has waited for long gives up, to wait in a way that costs nothing,
and serves again: an order holds until it is carried out.
"""

import ctypes

import numpy as np
from llvmlite import ir

from ._address import start
from ._native import I32, I64, WORDS, driver, once
from ._waiting import LINE, Waiter, waiting_words

PATIENCE = 5e-3
"""Seconds that a thread waits natively: what Python does between two calls takes less."""
SPINS = 100
"""Looks before it yields its core, between one look and the next."""
DONE, ENTRY, HEADER, STOP, WAITED = range(5)
"""Of a thread's line: how many orders it has carried out, and how the last table ended; the header
of its next table, 0 to leave; the address of what to set to 1 where the table stops; nanoseconds
that it has waited."""


class Orders:
    """``size`` threads, of which the first one gives orders to all."""

    def __init__(self, size, spins=SPINS, patience=PATIENCE):
        self.size, self.given = size, 0
        self._memory = np.zeros(LINE * (size + 2), np.int64)
        at = -start(self._memory) % (8 * LINE) // 8
        lines = self._memory[at : at + LINE * (size + 1)].reshape(-1, LINE)
        self._number, self._lines = lines[:1, 0], lines[1:]
        words = [start(self._number), start(self._lines), 0, size, driver(),
                 *waiting_words(spins, patience)]  # fmt: skip
        self._frames = np.tile(np.array(words, np.int64), (size, 1))
        self._frames[:, 2] = np.arange(size)
        self._lead, self._serve = lead(), serve()

    def give(self, headers, stop=0):
        """Make an order ready: what each thread is to run. ``lead`` gives it."""
        self._lines[:, HEADER], self._lines[:, STOP] = headers, stop
        self.given += 1

    def lead(self):
        """Give the order, run the first thread's table; whether all have run theirs."""
        return not self._lead(start(self._frames))

    def serve(self, place):
        """Carry out orders; whether one was to leave: else it was waited for long."""
        return not self._serve(start(self._frames) + place * self._frames.strides[0])

    def awaited(self):
        """Which threads have not carried out the last order."""
        return np.flatnonzero(self._lines[:, DONE] < self.given).tolist()

    def pending(self, place):
        """Whether there is an order that a thread has not carried out."""
        return bool(self._lines[place, DONE] < self.given)

    def entries(self):
        """For each thread, the entry of its table that has stopped, or -1; None if it has not run
        the table at all."""
        ended = zip(self._lines[:, DONE] >= self.given, self._lines[:, ENTRY].tolist(), strict=True)
        return [entry if done else None for done, entry in ended]

    def waited(self):
        """For each thread, how many nanoseconds it has waited since this was asked last."""
        found = self._lines[:, WAITED].copy()
        self._lines[:, WAITED] = 0
        return found


@once
def _code(kind):
    return kind(kind.__name__).built().address()


@once
def lead():
    return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64)(_code(Lead)[0])


@once
def serve():
    return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64)(_code(Serve)[0])


class Carry(Waiter):
    """Frame: the addresses of the order's number and of lines, which thread, of how many, the
    address of what runs a table; `waiting_words`. Gives 1 where it has waited for long."""

    def _open(self):
        frame = self.function.args[0]
        self.number, self.lines = (self.words(self.load(frame, place)) for place in range(2))
        place, self.size, self.drive = (self.load(frame, place) for place in range(2, 5))
        self.begin(5)
        self.own = self.at(self.lines, self.builder.mul(place, I64(LINE)))
        self.waited = self.at(self.own, I64(WAITED))

    def _carry_out(self, turn):
        """Run the table; say how it ended, then that it has."""
        builder = self.builder
        header = self.load(self.own, HEADER)
        kind = ir.FunctionType(I64, [WORDS]).as_pointer()
        entry = builder.call(builder.inttoptr(self.drive, kind), [self.words(header)])
        self.store(entry, self.own, ENTRY)
        with builder.if_then(builder.icmp_signed("!=", entry, I64(-1)), likely=False):
            self.tell(I64(1), self.words(self.load(self.own, STOP)), 0)
        self.tell(turn, self.own, DONE)

    def _give_up(self):
        self.builder.ret(I32(1))

    def _nothing(self):
        pass


class Lead(Carry):
    """Builds what the first thread does."""

    def built(self):
        self._open()
        builder = self.builder
        turn = self.add(self.load(self.own, DONE), 1)
        self.tell(turn, self.number, 0)
        with builder.if_then(self._is_to_run()):
            self._carry_out(turn)
        self.tell(turn, self.own, DONE)
        with self.each(self.size) as other:
            line = builder.mul(other, I64(LINE))
            place = self.add(line, DONE)
            self.wait(self.lines, place, turn, self._nothing, self._give_up, self.waited)
        builder.ret(I32(0))
        return self

    def _is_to_run(self):
        return self.builder.icmp_signed("!=", self.load(self.own, HEADER), I64(0))


class Serve(Lead):
    """Builds what the others do."""

    def built(self):
        self._open()
        builder, again = self.builder, self.function.append_basic_block("again")
        builder.branch(again)
        builder.position_at_end(again)
        turn = self.add(self.load(self.own, DONE), 1)
        self.wait(self.number, 0, turn, self._nothing, self._give_up, self.waited)
        with builder.if_then(builder.not_(self._is_to_run())):
            self.tell(turn, self.own, DONE)
            builder.ret(I32(0))
        self._carry_out(turn)
        builder.branch(again)
        return self


__all__ = ["Orders"]
