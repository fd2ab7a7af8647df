"""What a captured step's line does, as calls that can be repeated without Python.

While a line runs on `Traced` arrays (see `_traced`), each call of a compiled function and of a
NumPy function leaves a `Note`: machine code, and its frame. Where a word of a frame is an address,
the note says of which memory; so a table can be made of notes on any memory.
"""

import threading

import numpy as np

from ._address import Address, address, collapsed, extent, low, origin_of, spread, start
from ._frames import CannotNoteError, compiled_frame
from ._inner import inner_loop
from ._loops import cast, choose, guard, walk
from ._native import AXES, OPERANDS, thunk

COPIED = {1: "B", 2: "H", 4: "I", 8: "L"}  # integers that are copied for any dtype of their size


class Note:
    """One call: `code` of the signature of `_native`, the words of its frame.

    `slots` are (place in the frame, origin, bytes from the start of its memory); an origin is an
    array, or FRAME for the frame itself, or a `Private`.
    """

    def __init__(self, code, words, slots, text):
        self.code, self.words, self.slots, self.text = code, words, slots, text
        self.guards, self.keeps = False, None


FRAME = "frame"


class Memory:
    """Some memory of a step, without what it holds: its bytes, how far behind the first element of
    its array it begins, and the array, if it is always that one."""

    def __init__(self, origin, fixed):
        self.size, self.behind = extent(origin), low(origin) - start(origin)
        self.fixed = origin if fixed else None

    def address(self):
        """Where it is, if it is always there."""
        return low(self.fixed)


class Private:
    """Memory that a table has for itself, with its first content."""

    def __init__(self, content):
        self.content = content


class Noting(threading.local):
    """The notes that this thread takes, if it does."""

    notes = None


noting = Noting()


class Notes:
    """The notes of a line. `fresh` is memory that was made in it, `fixed` holds constants."""

    def __init__(self):
        self.taken, self.fresh, self.fixed, self.problem = [], {}, {}, None

    def refuse(self, problem):
        """Say why the line cannot be repeated; the first reason counts."""
        self.problem = self.problem or problem

    def made(self, array):
        """`array` is memory that the line has made."""
        self.fresh[id(array)] = array
        return array

    def constant(self, array):
        """`array` always holds the same."""
        origin = origin_of(array)
        self.fixed[id(origin)] = origin
        return array

    def add(self, code, words, text):
        """A note from words of which some are `Address`."""
        slots = [(i, w.origin, w.offset) for i, w in enumerate(words) if isinstance(w, Address)]
        plain = [0 if isinstance(w, Address) else w for w in words]
        self.taken.append(Note(code, plain, slots, text))
        return self.taken[-1]

    # Compiled functions

    def compiled(self, function, arguments, plain, result):
        """A call of a function that Numba compiled, with what it gave; the arguments are given as
        they are, and with plain arrays."""
        try:
            words, kind, code = compiled_frame(function, arguments, plain, result)
        except CannotNoteError as problem:
            return self.refuse(str(problem))
        note = self.add(thunk(kind)[0], [code, 0, *words], function.py_func.__name__)
        note.guards = result is not None
        return None

    # NumPy's inner loops

    def loop(self, function, operands, shape, order, text):
        """`function` (address, data) over arrays that are broadcast to `shape`; axes are taken in
        the order of the strides of operand `order`."""
        lengths, strides = collapsed(shape, [spread(a, shape) for a in operands], order)
        inner = [lengths.pop(), *[s.pop() for s in strides]] if lengths else [1]
        inner += [0] * (1 + len(operands) - len(inner))
        self.walk(function, operands, lengths, strides, inner[:1], inner[1:], text)

    def walk(self, function, operands, lengths, strides, dims, steps, text):
        """The note of `_loops.walk`: outer `lengths` with each operand's `strides`."""
        count = len(operands)
        if count > OPERANDS or len(lengths) > AXES:
            return self.refuse(f"{text} of {count} arrays")
        at = 7 + count
        outer = [n for i, m in enumerate(lengths) for n in (m, *[s[i] for s in strides])]
        places = (at, at + len(dims), at + len(dims) + len(steps))
        words = [*function, count, len(lengths), *places]
        self.add(walk()[0], [*words, *map(address, operands), *dims, *steps, *outer], text)
        return None

    def copy(self, source, target):
        """The values of one array (broadcast) in another, in its dtype."""
        if not target.size:
            return
        if source.dtype == target.dtype and source.dtype.itemsize in COPIED:
            function = inner_loop(np.positive, COPIED[source.dtype.itemsize] * 2)
        else:
            try:
                function = cast(source.dtype.char, target.dtype.char)[0], 0
            except LookupError:
                return self.refuse(f"{source.dtype} as {target.dtype}")
        self.loop(function, [source, target], target.shape, 1, "copy")

    def choose(self, condition, a, b, y):
        """y = a where the condition holds, else b; all of y's dtype."""
        if y.size:
            code = choose(y.dtype.itemsize)[0]
            self.loop((code, 0), [condition, a, b, y], y.shape, 3, "where")

    def guard(self, array):
        """What Python has read of an array must be the same in each run."""
        held = np.ndarray.tobytes(array)
        padded = held + bytes(-len(held) % 8)
        if array.size and len(held) <= 8:
            words = [address(array), int.from_bytes(padded, "little"), len(held)]
            self.add(guard()[0], words, "guard").guards = True
        elif array.size:
            self.refuse("a value is read in Python")
