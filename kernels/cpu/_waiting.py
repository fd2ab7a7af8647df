"""How native code waits for another thread's number, in memory that both see.

It looks over and over, with a rest of some nanoseconds between, for what it waits for is often a
matter of microseconds. Then it yields its core between looks, for there may be more threads than
cores; and now and then it looks at the clock.
"""

import ctypes
import platform
import time

from llvmlite import ir

from ._native import I32, I64, WORDS, Code, once

LINE = 16
"""Words between numbers that different threads write: two cache lines, which may be fetched
together."""
CHECKED = 64
"""Yields for one look at the clock, a power of two."""
PAUSE = "llvm.x86.sse2.pause"
"""What tells a core that it waits, where LLVM has a name for it."""


def waiting_words(spins, seconds):
    """The words of a frame that a `Waiter` begins to read at: looks before it yields, the addresses
    of sched_yield and clock_gettime, which clock, and how many nanoseconds to wait."""
    return [spins, *_calls(), time.CLOCK_MONOTONIC, int(min(seconds * 1e9, 2**62))]


@once
def _calls():
    """The addresses of functions of the C library."""
    library = ctypes.CDLL(None)
    return [ctypes.cast(getattr(library, name), ctypes.c_void_p).value
            for name in ("sched_yield", "clock_gettime")]  # fmt: skip


class Waiter(Code):
    """Code that waits; `begin` reads the words of the frame."""

    def begin(self, place):
        """Read `waiting_words` from a place of the frame on."""
        builder, frame = self.builder, self.function.args[0]
        self.spins, self.yields, self.clock, self.which, self.limit = (
            self.load(frame, place + i) for i in range(5)
        )
        self.began, self.time = builder.alloca(I64), builder.alloca(I64, size=I64(2))

    def seen(self, words, place):
        """A number that another thread may have written."""
        return self.builder.load_atomic(self.at(words, place), "acquire", 8)

    def tell(self, value, words, place):
        """Write a number for other threads; they see what was written before it, too."""
        self.builder.store_atomic(value, self.at(words, place), "release", 8)

    def wait(self, words, place, number, meanwhile, too_late, waited=None):
        """Look until the number at a place has become so large. `meanwhile` is what else to do
        between looks, `too_late` what to do when the time is over; both write code. To the first
        word of `waited` the nanoseconds are added that it took, unless the first look saw it."""
        builder, first = self.builder, self.builder.block
        look, rest, there = (builder.append_basic_block(n) for n in ("look", "rest", "there"))
        builder.store(I64(0), self.began)
        builder.branch(look)
        builder.position_at_end(look)
        looks = builder.phi(I64)
        looks.add_incoming(I64(0), first)
        here = builder.icmp_signed(">=", self.seen(words, place), number)
        builder.cbranch(here, there, rest)
        builder.position_at_end(rest)
        if waited is not None:
            with builder.if_then(builder.icmp_signed("==", looks, I64(0))):
                builder.store(self._now(), self.began)
        meanwhile()
        self._rest()
        with builder.if_then(builder.icmp_signed(">", looks, self.spins), likely=False):
            function = ir.FunctionType(I32, []).as_pointer()
            builder.call(builder.inttoptr(self.yields, function), [])
            due = builder.icmp_signed("==", builder.and_(looks, I64(CHECKED - 1)), I64(0))
            with builder.if_then(due):
                self._look_at_the_clock(too_late)
        looks.add_incoming(self.add(looks, 1), builder.block)
        builder.branch(look)
        builder.position_at_end(there)
        if waited is not None:
            with builder.if_then(builder.icmp_signed(">", looks, I64(0))):
                took = builder.sub(self._now(), builder.load(self.began))
                self.store(self.add(self.load(waited, 0), took), waited, 0)

    def _rest(self):
        if platform.machine() in ("x86_64", "AMD64"):
            kind = ir.FunctionType(ir.VoidType(), [])
            known = self.module.globals.get(PAUSE) or ir.Function(self.module, kind, PAUSE)
            self.builder.call(known, [])

    def _now(self):
        """Nanoseconds of the clock."""
        builder = self.builder
        kind = ir.FunctionType(I32, [I32, WORDS]).as_pointer()
        clock = builder.inttoptr(self.clock, kind)
        builder.call(clock, [builder.trunc(self.which, I32), self.time])
        seconds = builder.mul(self.load(self.time, 0), I64(10**9))
        return self.add(seconds, self.load(self.time, 1))

    def _look_at_the_clock(self, too_late):
        builder = self.builder
        now, first = self._now(), builder.load(self.began)
        is_first = builder.icmp_signed("==", first, I64(0))
        builder.store(builder.select(is_first, now, first), self.began)
        waited = builder.sub(now, builder.load(self.began))
        with builder.if_then(builder.icmp_signed(">", waited, self.limit), likely=False):
            too_late()
