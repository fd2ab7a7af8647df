"""Where threads that run tables natively wait for each other, without the interpreter.

Counters in memory that all share: who comes last lets the others go. A waiting thread spins for a
while, for a step of a small model takes microseconds; then it yields its core between looks, for
there may be more threads than cores; then it looks at the clock. Sense-reversing barrier: Mellor-
Crummey and Scott 1991.
"""

import ctypes
import time

import numpy as np
from llvmlite import ir

from ._address import start
from ._native import I32, I64, Code, once
from ._notes import Note

ARRIVED, ROUND, STOPPED = 0, 8, 16
"""Places of the counters, a cache line each: who is there, how many meetings were held, and
whether there will be no more."""
SPINS = 4000
"""Looks before a thread yields: about as long as a step takes that is worth it."""
CHECKED = 1024
"""Looks at the counters for one at the clock, a power of two."""


class Meeting:
    """A place where ``size`` threads meet, over and over; after ``seconds`` of waiting it stops."""

    def __init__(self, size, seconds=300.0, spins=SPINS):
        self.size, self.seconds, self.spins = size, seconds, spins
        self._memory = np.zeros(32, np.int64)
        at = -start(self._memory) % 64 // 8
        self.counters = self._memory[at : at + 24]

    @property
    def stopped(self):
        """Whether it was stopped, or somebody waited too long: tables end at it from then on."""
        return bool(self.counters[STOPPED])

    def stop(self):
        """Let all who wait go, and nobody wait any more."""
        self.counters[STOPPED] = 1

    def reset(self):
        """Begin anew, when nobody is there."""
        self.counters[ARRIVED] = self.counters[STOPPED] = 0

    def note(self):
        """The entry of a table at which its thread meets the others."""
        base, library = start(self.counters), ctypes.CDLL(None)
        calls = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value
                 for name in ("sched_yield", "clock_gettime")]  # fmt: skip
        words = [base + 8 * ARRIVED, base + 8 * ROUND, base + 8 * STOPPED, self.size, self.spins,
                 *calls, time.CLOCK_MONOTONIC, int(self.seconds * 1e9)]  # fmt: skip
        note = Note(_meet()[0], words, [], "meet")
        note.keeps = self
        return note


@once
def _meet():
    """Frame: the addresses of the counters, how many meet, spins; the addresses of sched_yield and
    of clock_gettime, which clock, and how many nanoseconds to wait."""
    return Meet("meet").built().address()


class Meet(Code):
    """Builds what a table does at a meeting."""

    def built(self):
        builder, frame = self.builder, self.function.args[0]
        self.arrived, self.turn, self.stopped = (
            self.words(self.load(frame, place)) for place in range(3)
        )
        self.size, self.spins, self.yields, self.clock, self.which, self.limit = (
            self.load(frame, place) for place in range(3, 9)
        )
        self.began, self.time = builder.alloca(I64), builder.alloca(I64, size=I64(2))
        builder.store(I64(0), self.began)
        self._leave_if("!=", self._seen(self.stopped), I64(0), 1)
        before = self._seen(self.turn)
        self._arrive()
        self._wait(before)
        return self

    def _seen(self, counter):
        return self.builder.load_atomic(counter, "seq_cst", 8)

    def _leave_if(self, sign, a, b, status):
        with self.builder.if_then(self.builder.icmp_signed(sign, a, b)):
            self.builder.ret(I32(status))

    def _arrive(self):
        """The last one lets the others go, and leaves."""
        builder = self.builder
        count = builder.atomic_rmw("add", self.arrived, I64(1), "seq_cst")
        with builder.if_then(builder.icmp_signed("==", self.add(count, 1), self.size)):
            builder.store_atomic(I64(0), self.arrived, "seq_cst", 8)
            builder.atomic_rmw("add", self.turn, I64(1), "seq_cst")
            builder.ret(I32(0))

    def _wait(self, before):
        """Look, over and over, whether the turn has changed since."""
        builder, first = self.builder, self.builder.block
        look = builder.append_basic_block("look")
        builder.branch(look)
        builder.position_at_end(look)
        looks = builder.phi(I64)
        looks.add_incoming(I64(0), first)
        self._leave_if("!=", self._seen(self.turn), before, 0)
        self._leave_if("!=", self._seen(self.stopped), I64(0), 1)
        with builder.if_then(builder.icmp_signed(">", looks, self.spins), likely=False):
            rest = builder.inttoptr(self.yields, ir.FunctionType(I32, []).as_pointer())
            builder.call(rest, [])
            due = builder.icmp_signed("==", builder.and_(looks, I64(CHECKED - 1)), I64(0))
            with builder.if_then(due):
                self._give_up()
        looks.add_incoming(self.add(looks, 1), builder.block)
        builder.branch(look)

    def _give_up(self):
        """Stop the meeting if its time is over."""
        builder = self.builder
        kind = ir.FunctionType(I32, [I32, I64.as_pointer()]).as_pointer()
        clock = builder.inttoptr(self.clock, kind)
        builder.call(clock, [builder.trunc(self.which, I32), self.time])
        seconds = builder.mul(self.load(self.time, 0), I64(10**9))
        now, first = builder.add(seconds, self.load(self.time, 1)), builder.load(self.began)
        is_first = builder.icmp_signed("==", first, I64(0))
        builder.store(builder.select(is_first, now, first), self.began)
        waited = builder.sub(now, builder.load(self.began))
        over = builder.icmp_signed(">", waited, self.limit)
        with builder.if_then(over, likely=False):
            builder.store_atomic(I64(1), self.stopped, "seq_cst", 8)
            builder.ret(I32(1))


__all__ = ["Meeting"]
