"""Tables of calls that run without the interpreter: what a captured step becomes on the CPU.

`note` runs a piece of Python on traced arrays and gives the calls that it made. A `Plan` lays the
frames of notes out, for memory that is known by a number; a `Bound` is a copy of the frames on
memory of its own, which `drive` runs in one call that does not hold the GIL.
"""

import ctypes

import numba
import numpy as np

from ._meeting import Meeting
from ._native import HEADER, drive
from ._arena import placed
from ._notes import FRAME, CannotNoteError, Notes, Private, extent, fields_known, low, noting
from ._notes import origin_of, start
from ._traced import Traced, made, names, origin, plain



def usable():
    """Whether tables can be made here: with Numba's compiler, on arrays as we know them."""
    return not numba.config.DISABLE_JIT and fields_known()


def native():
    """This module, for who looks for it among kernels; None where it cannot be used."""
    import sys

    return sys.modules[__name__] if usable() else None


def note(function, inputs):
    """Call `function(xp, *inputs)` and take notes: its results, and the notes.

    `inputs` are traced arrays, or other things.
    """
    noting.notes = notes = Notes()
    try:
        result = function(names, *inputs)
        results = result if isinstance(result, tuple) else (result,)
        results = [y if isinstance(y, np.ndarray) else made(y) for y in results]
    except Exception as problem:  # the line is run again, and will say what it has to say
        notes.refuse(f"{type(problem).__name__}: {problem}")
        results = []
    finally:
        noting.notes = None
    return results, notes


class Plan:
    """The frames of notes, and where in them addresses go.

    `place(origin, note)` gives the number of the memory that an origin is, and where in that it begins;
    memory -1 is the frames themselves.
    """

    def __init__(self, notes, place):
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
    arrays from outside whose objects are named anew for each run in `objects`. Groups of entries are tables that are run one at a time."""

    def __init__(self, plan, addresses, outside, groups):
        self.plan, self.words = plan, plan.words.copy()
        self.objects, self.bases = np.zeros(max(1, outside), np.int64), np.zeros(max(1, outside), np.int64)
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

    def _set(self, header, fields):
        for name, value in fields.items():
            header[HEADER.index(name)] = value

    def rounds_done(self, group=0):
        """The round that the last run of a table was in when it ended."""
        return int(self.headers[group][0][HEADER.index("round")])


Array = np.ndarray


def as_traced(y):
    """An array that a line gave, as a traced one."""
    return y if isinstance(y, Traced) else y.view(Traced)


def array_at(address, like):
    """An array of the shape, dtype and strides of another, at an address."""
    if not like.size:
        return np.empty(like.shape, like.dtype)
    first = low(like)
    memory = np.frombuffer(_bytes_at(address + first - start(like), extent(like)), np.uint8)
    return np.ndarray(like.shape, like.dtype, memory, start(like) - first, like.strides)


def aligned(content):
    """A copy of an array, or memory of so many bytes, that begins at a multiple of 64 bytes."""
    size = content if isinstance(content, int) else content.nbytes
    raw = np.empty(size + 64, np.uint8)
    at = -start(raw) % 64
    result = raw[at : at + size]
    if not isinstance(content, int):
        result[...] = content.reshape(-1).view(np.uint8)
    return result


def poison(memory, dtype):
    """Fill memory with what shows where it is read: NaN, of other dtypes ones."""
    size = len(memory) // dtype.itemsize
    np.ndarray((size,), dtype, memory)[...] = np.nan if dtype.kind == "f" else 1


# Whether notes do what the Python did


def verified(notes, inputs, results, function):
    """Whether the notes of a line, run on other values and other memory, give what `function`
    gives; what an array that is no fresh memory holds may count as a constant."""
    if notes.problem is not None:
        return False
    for other in (_other, np.copy):  # other values may be such as the line refuses
        trial = Trial(inputs, other)
        try:
            expected = function(*[trial.view(x) if isinstance(x, Traced) else x for x in inputs])
        except Exception:  # noqa: S112 - then the values that it has run on
            continue
        expected = expected if isinstance(expected, tuple) else (expected,)
        unknown = trial.unknown(notes)
        given = trial.gives(expected, notes, results, {})
        if given is False and unknown:
            given = trial.gives(expected, notes, results, unknown)
            if given:
                notes.fixed |= trial.needed(expected, notes, results, unknown)
        if given is not None:
            return given
    return False


def _other(values):
    """Other values of the same kind: those of the array in another order, or a changed number."""
    if values.size > 1:
        return np.roll(values, 1 + values.size // 3)
    return values * values.dtype.type(0.75) if values.dtype.kind == "f" else values.copy()


def _equal(expected, found):
    return len(expected) == len(found) and all(
        (np.shape(e), np.asarray(e).dtype) == (f.shape, f.dtype)
        and (np.asarray(e).strides == f.strides or f.size < 2) and np.asarray(e).tobytes() == f.tobytes()
        for e, f in zip(expected, found, strict=True)
    )  # fmt: skip


class Trial:
    """Copies of the memory of a line's inputs, with other values, to run its notes on."""

    def __init__(self, inputs, other):
        self.memory, self.kept = {}, []
        for x in [x for x in inputs if isinstance(x, Traced)]:
            origin = origin_of(x)
            if id(origin) not in self.memory:
                self.memory[id(origin)] = self._copied(origin, other)

    def _copied(self, origin, other):
        """The bytes of an origin, changed."""
        size = extent(origin)
        held = aligned(size)
        self.kept.append(origin)
        values = np.ndarray((size // origin.itemsize,), origin.dtype, held)
        ours = np.frombuffer(_bytes_at(low(origin), size), origin.dtype)
        values[...] = other(ours)
        return held

    def view(self, x):
        """Where an array lies in the copies."""
        return self._placed(x, self.memory)

    def unknown(self, notes):
        """Memory that is neither an input nor known to be fresh or constant, by its id."""
        met = {id(o): o for each in notes.taken for _, o, _ in each.slots if isinstance(o, np.ndarray)}
        known = {**self.memory, **notes.fresh, **notes.fixed}
        return {key: origin for key, origin in met.items() if key not in known}

    def needed(self, expected, notes, results, constants):
        """Those of `constants` whose values matter; the others are memory to work in."""
        kept = dict(constants)
        for key in constants:
            fewer = {k: o for k, o in kept.items() if k != key}
            if self.gives(expected, notes, results, fewer):
                kept = fewer
        return kept

    def gives(self, expected, notes, results, constants):
        """Whether the notes give what is expected, from memory that holds nothing of use; None if
        they stop, because of a value that Python has read."""
        made, addresses, numbers = dict(self.memory), [], {}

        def place(origin, note=0):
            key = id(origin)
            if key not in numbers:
                held = made.get(key)
                if held is None and key not in notes.fixed and key not in constants:
                    held = made[key] = aligned(extent(origin))
                    poison(held, origin.dtype)
                numbers[key] = len(addresses)
                addresses.append(low(origin) if held is None else start(held))
            return numbers[key], 0

        plan = Plan(notes.taken, place)
        for y in results:
            place(origin_of(y))
        if Bound(plan, addresses, 0, [(0, len(plan.entries))]).run() != -1:
            return None
        return _equal(expected, [self._placed(y, made) for y in results])

    def _placed(self, y, made):
        origin = origin_of(y)
        held = made.get(id(origin))
        if held is None:
            return plain(y)
        return np.ndarray(y.shape, y.dtype, held, start(y) - low(origin), y.strides)


def _bytes_at(address, size):
    return (ctypes.c_char * size).from_address(address) if size else b""
