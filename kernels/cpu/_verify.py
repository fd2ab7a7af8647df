"""Whether the notes of a line do what its Python does: they are run on other values, in other
memory, and must give the same bytes."""

import numpy as np

from ._address import extent, low, origin_of, start
from ._table import Bound, Plan, aligned, bytes_at
from ._traced import Traced, plain


def verified(notes, inputs, results, function):
    """Whether notes that were taken on `inputs` give what `function` gives.

    Arrays that are neither inputs nor fresh may hold constants of a kernel; those that do are
    added to `notes.fixed`.
    """
    if notes.problem is not None or not _accounted(notes, inputs, results):
        return False
    notes.fixed |= _tables(notes, inputs, results)
    trials = ((_rolled, True), (_turned, False), (np.copy, True), (np.copy, False))
    constants, settled = {}, 0
    for other, poisoned in trials:
        if settled == 2:
            break
        given = _tried(Trial(inputs, other, poisoned), notes, inputs, results, function, constants)
        if given is False:
            return False
        settled += bool(given)
    notes.fixed |= constants
    return settled == 2


def _accounted(notes, inputs, results):
    """Whether it is known where all memory is from: what NumPy has computed from traced arrays
    without a note is traced, and no origin; results are views of inputs, or notes write them."""
    origins = {id(origin_of(x)): origin_of(x) for x in inputs if isinstance(x, Traced)}
    met = _met(notes)
    found = [*met.values(), *map(origin_of, results)]
    known = {**origins, **notes.fresh, **notes.fixed}
    strange = [o for o in found if id(o) not in known and isinstance(o, Traced)]
    written = {**origins, **notes.fixed, **met}
    return not strange and all(not y.size or id(origin_of(y)) in written for y in results)


def _tables(notes, inputs, results):
    """Plain arrays of whole numbers that are constants of a kernel: addresses of machine code and
    counts of loops, which must not be tried with other values."""
    known = {id(origin_of(x)) for x in (*inputs, *results) if isinstance(x, np.ndarray)}
    known |= {*notes.fresh, *notes.fixed}
    return {key: o for key, o in _met(notes).items() if key not in known and o.dtype.kind in "iu"}


def _met(notes):
    """The arrays that notes are about, by their ids."""
    return {id(o): o for note in notes.taken for _, o, _ in note.slots if isinstance(o, np.ndarray)}


def _tried(trial, notes, inputs, results, function, constants):
    """One trial; None where the line refuses the values, or its notes stop at them. Adds to
    `constants` what must keep its values."""
    try:
        expected = function(*[trial.view(x) if isinstance(x, Traced) else x for x in inputs])
    except Exception:
        return None
    expected = expected if isinstance(expected, tuple) else (expected,)
    unknown = trial.unknown(notes, results, constants)
    given = trial.gives(expected, notes, results, constants)
    if given is not None:
        constants |= trial.untouched(unknown)
    if given is False and unknown:
        given = trial.gives(expected, notes, results, {**constants, **unknown})
        if given:
            constants |= trial.needed(expected, notes, results, {**constants, **unknown})
    return given


# Other values of the same kind


def _rolled(values):
    if values.size and (values == values[0]).all():
        return _changed(values)
    return np.roll(values, 1 + values.size // 3)


def _turned(values):
    return _scaled(values[::-1], 1.25)


def _changed(values):
    """Others for values that are all equal, so that a copy of them is told from themselves; but no
    other whole numbers, which may be places."""
    if values.dtype.kind == "f":
        return _scaled(values, 0.75) + np.arange(values.size, dtype=values.dtype) % 8 / 8
    return ~values if values.dtype.kind == "b" else values


def _scaled(values, factor):
    return values * values.dtype.type(factor) if values.dtype.kind == "f" else values


def _equal(expected, found):
    """Whether arrays are the same in shape, dtype, strides and bytes."""
    pairs = [(np.asarray(e), f) for e, f in zip(expected, found, strict=False)]
    return len(expected) == len(found) and all(
        (e.shape, e.dtype) == (f.shape, f.dtype) and (e.strides == f.strides or f.size < 2)
        and e.tobytes() == f.tobytes() for e, f in pairs
    )  # fmt: skip


class Trial:
    """Copies of the memory of a line's inputs, with other values, to run its notes on."""

    def __init__(self, inputs, other, poisoned):
        self.poisoned, self.memory, self.kept, self.made = poisoned, {}, [], {}
        for x in [x for x in inputs if isinstance(x, Traced)]:
            origin = origin_of(x)
            if id(origin) not in self.memory:
                self.memory[id(origin)] = self._copied(origin, other)

    def _copied(self, origin, other):
        size = extent(origin)
        held = aligned(size)
        self.kept.append(origin)
        values = np.ndarray((size // origin.itemsize,), origin.dtype, held)
        values[...] = other(np.frombuffer(bytes_at(low(origin), size), origin.dtype))
        return held

    def view(self, x):
        """Where an array lies in the copies."""
        return self._placed(x, self.memory)

    def unknown(self, notes, results, constants):
        """Plain arrays that are neither inputs nor known to be fresh or constant, nor results."""
        given = {id(origin_of(y)): y for y in results}
        known = {**self.memory, **notes.fresh, **notes.fixed, **given, **constants}
        return {key: origin for key, origin in _met(notes).items() if key not in known}

    def untouched(self, unknown):
        """Those of `unknown` that nothing was written to, so that they are there to be read, even
        if on these values what they hold made no difference."""
        useless = {key: self._useless(origin) for key, origin in unknown.items()}
        return {key: unknown[key] for key, held in useless.items()
                if self.poisoned and held.tobytes() == self.made[key].tobytes()}  # fmt: skip

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
        self.made = made

        def place(origin, note=0):
            key = id(origin)
            if key not in numbers:
                held = made.get(key)
                if held is None and key not in notes.fixed and key not in constants:
                    held = made[key] = self._useless(origin)
                numbers[key] = len(addresses)
                addresses.append(low(origin) if held is None else start(held))
            return numbers[key], 0

        plan = Plan(notes.taken, place)
        for y in results:
            place(origin_of(y))
        if Bound(plan, addresses, 0, [(0, len(plan.entries))]).run() != -1:
            return None
        return _equal(expected, [self._placed(y, made) for y in results])

    def _useless(self, origin):
        """Memory that shows where it is read: NaN, of other dtypes ones; or noughts."""
        held = aligned(extent(origin))
        values = np.ndarray((len(held) // origin.itemsize,), origin.dtype, held)
        values[...] = (np.nan if origin.dtype.kind == "f" else 1) if self.poisoned else 0
        return held

    def _placed(self, y, made):
        origin = origin_of(y)
        held = made.get(id(origin))
        if held is None or not y.size:
            return plain(y)
        return np.ndarray(y.shape, y.dtype, held, start(y) - low(origin), y.strides)
