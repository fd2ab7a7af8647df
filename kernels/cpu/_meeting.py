"""Where threads that run tables natively wait for each other, without the interpreter.

Each thread has a counter of its own, in a cache line of its own, of the meetings that it came to;
it waits until all others have come to as many. So a meeting costs one line to be handed from core
to core in each direction. A waiting thread spins for a while, for a step of a small model takes
microseconds; then it yields its core between looks, for there may be more threads than cores; then
it looks at the clock.

A meeting takes place for all or for none: whoever ends it, ends it instead of coming, so that
nobody can have met. Barrier by flags: Mellor-Crummey and Scott 1991.
"""

import ctypes
import time

import numpy as np
from llvmlite import ir

from ._address import start
from ._native import I32, I64, Code, once
from ._notes import Note

LINE = 8  # words of a cache line
SPINS = 4000
"""Looks before a thread yields: about as long as a step takes that is worth it."""
FOREVER = 2.0**62
"""Nanoseconds; a century."""
CHECKED = 1024
"""Looks at the counters for one at the clock, a power of two."""


class Meeting:
    """A place where ``size`` threads meet, over and over; after ``seconds`` of waiting it stops."""

    def __init__(self, size, seconds=300.0, spins=SPINS):
        self.size, self.seconds, self.spins = size, seconds, spins
        self._memory = np.zeros(LINE * (2 * size + 2), np.int64)
        at = -start(self._memory) % 64 // 8
        lines = self._memory[at : at + LINE * (2 * size + 1)]
        self.end, counts = lines[:2], lines[LINE:].reshape(2, size, LINE)
        """Whether there will be no more meetings, and whether that was asked for."""
        self.came, self.waited = counts[:, :, 0]
        """How often each thread came, and how many nanoseconds it has waited for others."""

    @property
    def stopped(self):
        """Whether it was stopped, or somebody waited too long: tables end at it from then on."""
        return bool(self.end[0])

    def stop(self):
        """Let all who wait go, and nobody wait any more: for a thread that does not come."""
        self.end[0] = 1

    def ask(self):
        """Let the next thread that comes stop the meeting instead: for who is not among them."""
        self.end[1] = 1

    def reset(self):
        """Begin anew, when nobody is there."""
        self.end[:], self.came[:], self.waited[:] = 0, 0, 0

    def note(self, place):
        """The entry of a table at which the thread number ``place`` meets the others."""
        library = ctypes.CDLL(None)
        calls = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value
                 for name in ("sched_yield", "clock_gettime")]  # fmt: skip
        words = [start(self.end), start(self.came), place, self.size, self.spins,
                 *calls, time.CLOCK_MONOTONIC, int(min(1e9 * self.seconds, FOREVER)),
                 start(self.waited[place:])]  # fmt: skip
        note = Note(_meet()[0], words, [], "meet")
        note.keeps = self
        return note


@once
def _meet():
    """Frame: the addresses of `end` and `came`, which thread, how many meet, spins; the addresses
    of sched_yield and clock_gettime, which clock, and how many nanoseconds to wait; the address of
    those that were waited."""
    return Meet("meet").built().address()


class Meet(Code):
    """Builds what a table does at a meeting."""

    def built(self):
        builder, frame = self.builder, self.function.args[0]
        self.end, came = (self.words(self.load(frame, place)) for place in range(2))
        place, size, self.spins, self.yields, self.clock, self.which, self.limit = (
            self.load(frame, place) for place in range(2, 9)
        )
        self.waited = self.words(self.load(frame, 9))
        self.began, self.time = builder.alloca(I64), builder.alloca(I64, size=I64(2))
        asked = builder.icmp_signed("!=", self._seen(self.end, 1), I64(0))
        with builder.if_then(asked, likely=False):
            self._set(self.end, 0, I64(1))
        self._leave_if_ended()
        own = builder.mul(place, I64(LINE))
        self.turn = self.add(self._seen(came, own), 1)
        self._set(came, own, self.turn)
        with self.each(size) as other:
            self._wait(came, builder.mul(other, I64(LINE)))
        builder.ret(I32(0))
        return self

    def _seen(self, words, place):
        return self.builder.load_atomic(self.at(words, place), "acquire", 8)

    def _set(self, words, place, value):
        self.builder.store_atomic(value, self.at(words, place), "release", 8)

    def _leave_if_ended(self):
        ended = self.builder.icmp_signed("!=", self._seen(self.end, 0), I64(0))
        with self.builder.if_then(ended, likely=False):
            self.builder.ret(I32(1))

    def _wait(self, came, other):
        """Look, over and over, whether the other one has come; what is there counts, also when the
        meeting has ended."""
        builder, first = self.builder, self.builder.block
        look, wait, there = (builder.append_basic_block(n) for n in ("look", "wait", "there"))
        builder.branch(look)
        builder.position_at_end(look)
        looks = builder.phi(I64)
        looks.add_incoming(I64(0), first)
        here = builder.icmp_signed(">=", self._seen(came, other), self.turn)
        builder.cbranch(here, there, wait)
        builder.position_at_end(wait)
        with builder.if_then(builder.icmp_signed("==", looks, I64(0))):
            builder.store(self._now(), self.began)
        self._leave_if_ended()
        with builder.if_then(builder.icmp_signed(">", looks, self.spins), likely=False):
            rest = builder.inttoptr(self.yields, ir.FunctionType(I32, []).as_pointer())
            builder.call(rest, [])
            due = builder.icmp_signed("==", builder.and_(looks, I64(CHECKED - 1)), I64(0))
            with builder.if_then(due):
                self._give_up()
        looks.add_incoming(self.add(looks, 1), builder.block)
        builder.branch(look)
        builder.position_at_end(there)
        with builder.if_then(builder.icmp_signed(">", looks, I64(0))):
            self.store(self.add(self.load(self.waited, 0), self._since()), self.waited, 0)

    def _now(self):
        """Nanoseconds of the clock."""
        kind = ir.FunctionType(I32, [I32, I64.as_pointer()]).as_pointer()
        clock = self.builder.inttoptr(self.clock, kind)
        self.builder.call(clock, [self.builder.trunc(self.which, I32), self.time])
        seconds = self.builder.mul(self.load(self.time, 0), I64(10**9))
        return self.add(seconds, self.load(self.time, 1))

    def _since(self):
        """Nanoseconds for which this thread has waited for the other one."""
        return self.builder.sub(self._now(), self.builder.load(self.began))

    def _give_up(self):
        """Stop the meeting if its time is over."""
        builder = self.builder
        over = builder.icmp_signed(">", self._since(), self.limit)
        with builder.if_then(over, likely=False):
            self._set(self.end, 0, I64(1))
            builder.ret(I32(1))


__all__ = ["Meeting"]
