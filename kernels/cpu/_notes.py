"""What a captured step's line does, as calls that can be repeated without Python.

While a line runs on `Traced` arrays (see `_traced`), each call of a compiled function and of a
NumPy function leaves a `Note`: machine code, and its frame. Where a word of a frame is an address,
the note says of which memory; so a table can be made of notes on any memory.
"""

import ctypes
import struct
import threading
from functools import cache

import numpy as np
from numba import types

from . import _native as native

HEAD = object.__basicsize__  # where the fields of a ufunc object begin
COPIED = {1: "B", 2: "H", 4: "I", 8: "L"}  # integers that are copied for any dtype of their size


class CannotNoteError(Exception):
    """A line does what a table cannot."""


class Note:
    """One call: `code` of the signature of `_native`, the words of its frame.

    `slots` are (place in the frame, origin, bytes from the start of its memory); an origin is an
    array, or FRAME for the frame itself, or a `Private`.
    """

    def __init__(self, code, words, slots, text):
        self.code, self.words, self.slots, self.text = code, words, slots, text
        self.guards, self.keeps = False, None


FRAME = "frame"


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
        self.fixed[id(origin_of(array))] = origin_of(array)
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
            words, kind, code = _compiled_frame(function, arguments, plain, result)
        except CannotNoteError as problem:
            return self.refuse(str(problem))
        note = self.add(native.thunk(kind)[0], [code, 0, *words], function.py_func.__name__)
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
        """The note of `_native.walk`: outer `lengths` with each operand's `strides`."""
        count = len(operands)
        if count > native.OPERANDS or len(lengths) > native.AXES:
            return self.refuse(f"{text} of {count} arrays")
        at = 7 + count
        outer = [n for i, m in enumerate(lengths) for n in (m, *[s[i] for s in strides])]
        places = (at, at + len(dims), at + len(dims) + len(steps))
        words = [*function, count, len(lengths), *places]
        self.add(native.walk()[0], [*words, *map(address, operands), *dims, *steps, *outer], text)
        return None

    def copy(self, source, target):
        """The values of one array (broadcast) in another, in its dtype."""
        if not target.size:
            return
        if source.dtype == target.dtype and source.dtype.itemsize in COPIED:
            function = inner_loop(np.positive, COPIED[source.dtype.itemsize] * 2)
        else:
            try:
                function = native.cast(source.dtype.char, target.dtype.char)[0], 0
            except LookupError:
                return self.refuse(f"{source.dtype} as {target.dtype}")
        self.loop(function, [source, target], target.shape, 1, "copy")

    def choose(self, condition, a, b, y):
        """y = a where the condition holds, else b; all of y's dtype."""
        if y.size:
            code = native.choose(y.dtype.itemsize)[0]
            self.loop((code, 0), [condition, a, b, y], y.shape, 3, "where")

    def guard(self, array):
        """What Python has read of an array must be the same in each run."""
        held = np.ndarray.tobytes(array)
        padded = held + bytes(-len(held) % 8)
        if array.size and len(held) <= 8:
            words = [address(array), int.from_bytes(padded, "little"), len(held)]
            self.add(native.guard()[0], words, "guard").guards = True
        elif array.size:
            self.refuse("a value is read in Python")


class Address:
    """A word of a frame: bytes from the start of an origin's memory."""

    def __init__(self, origin, offset):
        self.origin, self.offset = origin, offset


def address(array):
    """The address of an array's first element."""
    origin = origin_of(array)
    return Address(origin, start(array) - low(origin))


def start(array):
    return array.__array_interface__["data"][0]


@cache
def _bounds():
    """Lowest and highest address of an array."""
    module = getattr(np.lib, "array_utils", np)
    return module.byte_bounds


def low(array):
    """The lowest address of an array."""
    return _bounds()(array)[0] if any(s < 0 for s in array.strides) else start(array)


def extent(array):
    """How many bytes an array spans."""
    first, last = _bounds()(array)
    return last - first if array.size else 0


def origin_of(array):
    """The memory that an array is a view of: the traced array that stands for it, else the array
    that owns it."""
    while not getattr(array, "is_origin", False):
        base = getattr(array, "stands_on", None)
        base = array.base if base is None else base
        if not isinstance(base, np.ndarray):
            break
        array = base
    return array


def spread(array, shape):
    """The strides of an array that is broadcast to `shape`."""
    missing = len(shape) - array.ndim
    own = [0 if n == 1 else s for n, s in zip(array.shape, array.strides, strict=True)]
    return [0] * missing + own


def collapsed(shape, strides, order):
    """Lengths and strides of the fewest axes that go through the same places, sorted by the size
    of the strides of one operand; the last one is the inner one."""
    axes = [i for i, n in enumerate(shape) if n != 1]
    axes.sort(key=lambda i: (-abs(strides[order][i]), i))
    lengths, kept = [], [[] for _ in strides]
    for axis in axes:
        n = shape[axis]
        if lengths and all(k[-1] == s[axis] * n for k, s in zip(kept, strides, strict=True)):
            lengths[-1] *= n
            for k, s in zip(kept, strides, strict=True):
                k[-1] = s[axis]
        else:
            lengths.append(n)
            for k, s in zip(kept, strides, strict=True):
                k.append(s[axis])
    return lengths, kept


# Frames of compiled functions


def compiled_code(function, signature):
    """The address of what Numba made of a function for these types, and its type for LLVM."""
    from numba.core.registry import cpu_target

    found = function.overloads.get(signature)
    if found is None:
        raise CannotNoteError(f"{function.py_func.__name__} was compiled for other arguments")
    convention, made = cpu_target.target_context.call_conv, found.fndesc
    kind = convention.get_function_type(made.restype, made.argtypes)
    return found.library.get_pointer_to_function(made.llvm_func_name), kind


def _compiled_frame(function, arguments, plain, result):
    signature = tuple(map(function.typeof_pyval, plain))
    code, kind = compiled_code(function, signature)
    words = [_expected(result)]
    for each, argument in zip(function.overloads[signature].fndesc.argtypes, arguments, strict=True):
        words += _words(each, argument)
    if len(words) != len(kind.args) - 1:
        raise CannotNoteError(f"{function.py_func.__name__} takes what has no words")
    return words, kind, code


def _expected(result):
    """What a function must give in each run: nothing, or the same whole number."""
    if result is None:
        return 0
    if isinstance(result, (bool, int, np.integer, np.bool_)):
        return int(result)
    raise CannotNoteError(f"it gives a {type(result).__name__} to Python")


def _words(kind, value):
    """An argument as Numba hands it on: an array is its owner, size, address, shape, strides."""
    if isinstance(kind, types.Array):
        at = address(value) if value.size else 0
        return [0, 0, value.size, value.itemsize, at, *value.shape, *value.strides]
    if isinstance(kind, types.BaseTuple):
        return [w for k, v in zip(kind, value, strict=True) for w in _words(k, v)]
    if isinstance(kind, (types.Integer, types.Boolean)):
        return [_signed(int(value))]
    if kind == types.float64:
        return [struct.unpack("<q", struct.pack("<d", value))[0]]
    if kind == types.float32:
        return [struct.unpack("<i", struct.pack("<f", value))[0]]
    if kind == types.none:
        return [0]
    raise CannotNoteError(f"an argument is of {kind}")


def _signed(value):
    return value - 2**64 if value >= 2**63 else value


# NumPy's inner loops: the C functions that its ufuncs call on memory


class Fields(ctypes.Structure):
    """The head of PyUFuncObject, from NumPy's ufuncobject.h, behind what all objects have."""

    _fields_ = [("nin", ctypes.c_int), ("nout", ctypes.c_int), ("nargs", ctypes.c_int),
                ("identity", ctypes.c_int), ("functions", ctypes.POINTER(ctypes.c_void_p)),
                ("data", ctypes.POINTER(ctypes.c_void_p)), ("ntypes", ctypes.c_int),
                ("reserved", ctypes.c_int), ("name", ctypes.c_char_p),
                ("types", ctypes.POINTER(ctypes.c_char))]  # fmt: skip


def inner_loop(ufunc, letters):
    """The addresses of a ufunc's loop for dtypes, by their letters ("ff->f" without the arrow),
    and of its data; a LookupError where there is none."""
    kinds = f"{letters[: ufunc.nin]}->{letters[ufunc.nin :]}"
    if "O" in kinds or kinds not in ufunc.types:
        raise LookupError(f"{ufunc.__name__} of {kinds}")
    fields, place = Fields.from_address(id(ufunc) + HEAD), ufunc.types.index(kinds)
    same = (fields.nin, fields.nout, fields.nargs, fields.ntypes)
    if same != (ufunc.nin, ufunc.nout, ufunc.nargs, ufunc.ntypes) or not fields.functions[place]:
        raise LookupError(ufunc.__name__)
    return fields.functions[place], fields.data[place] or 0


@cache
def fields_known():
    """Whether arrays and ufuncs of this Python and NumPy lie in memory as their headers say."""
    array = np.arange(3.0)[1:]
    data = ctypes.c_void_p.from_address(id(array) + native.DATA).value
    fields = Fields.from_address(id(np.tanh) + HEAD)
    kinds = (fields.nin, fields.nout, fields.nargs, fields.ntypes)
    known = kinds == (np.tanh.nin, np.tanh.nout, np.tanh.nargs, np.tanh.ntypes)
    return known and data == start(array)
