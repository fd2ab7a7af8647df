"""Tables of calls that run without the interpreter: what a captured step becomes on the CPU.

A `Plan` lays the frames of notes out, for memory that is known by a number; a `Bound` is a copy of
the frames on memory of its own, which `drive` runs in one call that does not hold the GIL.
"""

import ctypes

import numpy as np

from ._address import start
from ._native import HEADER, drive
from ._notes import FRAME, Private

OBJECTS, ROUNDS = HEADER.index("objects"), HEADER.index("rounds")


class Plan:
    """The frames of notes, and where in them addresses go.

    `place(origin, note)` gives the number of the memory that an origin is, and where in that it
    begins; memory -1 is the frames themselves.
    """

    def __init__(self, notes, place):
        self.notes = notes  # which keep alive what they are about
        self.words, self.entries, self.slots, self.private = [], [], [], []
        for turn, each in enumerate(notes):
            base = len(self.words)
            self.entries.append((each.code, base))
            for word, origin, offset in each.slots:
                number, behind = self._memory(origin, base, place, turn)
                self.slots.append((base + word, number, offset + behind))
            self.words += each.words
        self.words = np.array(self.words, np.int64)
        table = np.array(self.slots, np.int64).reshape(-1, 3)
        self.at, self.memory, self.offset = table.T.copy()

    def _memory(self, origin, base, place, turn):
        if origin is FRAME:
            return -1, 8 * base
        if isinstance(origin, Private):
            if origin not in self.private:
                self.private.append(origin)
            return -2 - self.private.index(origin), 0
        return place(origin, turn)


class Bound:
    """The frames of a plan on memory: `addresses` of it by number, those below `outside` being
    arrays from outside whose objects are named anew for each run in `objects`. `groups` (first,
    last) of entries are tables that are run one at a time."""

    def __init__(self, plan, addresses, outside, groups):
        self.plan, self.words = plan, plan.words.copy()
        self.objects, self.bases = np.zeros((2, max(1, outside)), np.int64)
        self.names = memoryview(self.objects)
        self.private = [aligned(each.content) for each in plan.private]
        own = [start(self.words), *map(start, self.private)]
        table = np.array([*addresses, *reversed(own)], np.int64)
        fixed = (plan.memory < 0) | (plan.memory >= outside)
        self.words[plan.at[fixed]] = table[plan.memory[fixed]] + plan.offset[fixed]
        self.patched = ~fixed
        entries = np.array(plan.entries, np.int64).reshape(-1, 2)
        self.entries = entries * [1, 8] + [0, start(self.words)]
        self.headers = [self._header(*group, outside) for group in groups]
        self.addresses = [start(header) for header, *_ in self.headers]

    def _header(self, first, last, outside):
        """The header of the table of entries first..last."""
        frames = [base for _, base in self.plan.entries] + [len(self.words)]
        inside = self.patched & (self.plan.at >= frames[first]) & (self.plan.at < frames[last])
        fixups = np.stack([
            start(self.words) + 8 * self.plan.at[inside], self.plan.memory[inside],
            self.plan.offset[inside],
        ], axis=1).astype(np.int64)  # fmt: skip
        which = np.unique(self.plan.memory[inside])
        fields = {
            "count": last - first, "entries": start(self.entries) + 16 * first,
            "outside": len(which), "which": start(which), "width": outside,
            "objects": start(self.objects), "bases": start(self.bases),
            "fixups": len(fixups), "patches": start(fixups), "begin": 0, "rounds": 1, "round": 0,
        }  # fmt: skip
        header = np.array([fields[name] for name in HEADER], np.int64)
        return header, fixups, which

    def run(self, group=0, begin=0, rows=None):
        """Run a table from an entry on; the number of the entry that failed, or -1.

        `rows` (rounds, arrays from outside) holds the addresses of array objects: the table is run
        once for each row, without Python between; `rounds_done` tells how often it was.
        """
        header = self.headers[group][0]
        changed = {"begin": begin}
        if rows is not None:
            changed |= {"objects": start(rows), "rounds": len(rows)}
        before = {name: header[HEADER.index(name)] for name in changed}
        try:
            self._set(header, changed)
            return drive()(start(header))
        finally:
            self._set(header, before)

    def ready(self, rows, count, group=0):
        """The address of the header of a table, made ready to be run for so many of the rows that
        begin at an address."""
        header = self.headers[group][0]
        header[OBJECTS], header[ROUNDS] = rows, count
        return self.addresses[group]

    def _set(self, header, fields):
        for name, value in fields.items():
            header[HEADER.index(name)] = value

    def rounds_done(self, group=0):
        """The round that the last run of a table was in when it ended."""
        return int(self.headers[group][0][HEADER.index("round")])


def array_at(address, shape, dtype, strides):
    """An array whose first element is at an address; nobody keeps that memory for it."""
    steps = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    if 0 in shape:
        return np.empty(shape, dtype)
    first = sum(step for step in steps if step < 0)
    size = dtype.itemsize + sum(map(abs, steps))
    memory = np.frombuffer(bytes_at(address + first, size), np.uint8)
    return np.ndarray(shape, dtype, memory, -first, strides)


def bytes_at(address, size):
    """The bytes at an address, as a buffer."""
    return (ctypes.c_char * size).from_address(address) if size else b""


def aligned(content):
    """A copy of an array, or memory of so many bytes, that begins at a multiple of 64 bytes."""
    size = content if isinstance(content, int) else content.nbytes
    raw = np.empty(size + 64, np.uint8)
    at = -start(raw) % 64
    result = raw[at : at + size]
    if not isinstance(content, int):
        result[...] = content.reshape(-1).view(np.uint8)
    return result
