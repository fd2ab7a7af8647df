"""Where threads that run tables natively wait for each other, without the interpreter.

Each thread has a counter of its own, in cache lines of its own, of the meetings that it came to;
it waits until all others have come to as many. So a meeting costs one line to be handed from core
to core in each direction.

A meeting takes place for all or for none: whoever ends it, ends it instead of coming, so that
nobody can have met. Barrier by flags: Mellor-Crummey and Scott 1991.
"""

import numpy as np

from ._address import start
from ._native import I32, I64, once
from ._notes import Note
from ._waiting import LINE, Waiter, waiting_words

SPINS = 60
"""Looks before a thread yields, of some fifty nanoseconds each: so long a step takes that is worth
it. If both are on one core, all of it is lost."""


class Meeting:
    """A place where ``size`` threads meet, over and over; after ``seconds`` of waiting it stops."""

    def __init__(self, size, seconds=300.0, spins=SPINS):
        self.size, self.seconds, self.spins = size, seconds, spins
        self._memory = np.zeros(LINE * (2 * size + 2), np.int64)
        at = -start(self._memory) % (8 * LINE) // 8
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

    def stops(self):
        """The address of a number: 1 is as good as ``stop``."""
        return start(self.end)

    def reset(self):
        """Begin anew, when nobody is there."""
        self.end[:], self.came[:], self.waited[:] = 0, 0, 0

    def note(self, place):
        """The entry of a table at which the thread number ``place`` meets the others."""
        words = [start(self.end), start(self.came), place, self.size,
                 start(self.waited[place:]), *waiting_words(self.spins, self.seconds)]  # fmt: skip
        note = Note(_meet()[0], words, [], "meet")
        note.keeps = self
        return note


@once
def _meet():
    """Frame: the addresses of `end` and `came`, which thread, how many meet, the address of what it
    has waited; `waiting_words`."""
    return Meet("meet").built().address()


class Meet(Waiter):
    """Builds what a table does at a meeting."""

    def built(self):
        builder, frame = self.builder, self.function.args[0]
        self.end, came = (self.words(self.load(frame, place)) for place in range(2))
        place, size = self.load(frame, 2), self.load(frame, 3)
        self.waited = self.words(self.load(frame, 4))
        self.begin(5)
        asked = builder.icmp_signed("!=", self.seen(self.end, 1), I64(0))
        with builder.if_then(asked, likely=False):
            self.tell(I64(1), self.end, 0)
        self._leave_if_ended()
        own = builder.mul(place, I64(LINE))
        turn = self.add(self.seen(came, own), 1)
        self.tell(turn, came, own)
        with self.each(size) as other:
            line = builder.mul(other, I64(LINE))
            self.wait(came, line, turn, self._leave_if_ended, self._stop, self.waited)
        builder.ret(I32(0))
        return self

    def _leave_if_ended(self):
        """What is there counts, also when the meeting has ended: this is asked behind that."""
        ended = self.builder.icmp_signed("!=", self.seen(self.end, 0), I64(0))
        with self.builder.if_then(ended, likely=False):
            self.builder.ret(I32(1))

    def _stop(self):
        self.tell(I64(1), self.end, 0)
        self.builder.ret(I32(1))


__all__ = ["Meeting"]
