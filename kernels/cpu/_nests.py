"""Nests of loops around machine code, compiled by ourselves: `_translate` says what they may do.

Numba infers types, and takes a third to a whole second for each of these functions, though all that
they do is count and add up addresses. `_translate` and LLVM need some hundredths of that, and the
machine code is kept on disk like that of tiles.

A nest is called with numbers, tuples of whole ones, and arrays that are C-contiguous. They become a
frame of 64-bit words: an array its address and its shape; so a captured step repeats a nest as it
is. Other calls hand objects to `_unpacking.run`, which makes the frame without the interpreter.
"""

import ctypes
import hashlib
import struct
from functools import cache, cached_property, lru_cache, update_wrapper
from types import FunctionType

import numba
import numpy as np
from numba import types
from numba.extending import typeof_impl

from ._address import address, start
from ._expressions import python_of
from ._jit import part
from ._machine_code import address as compiled_at
from ._machine_code import anyhow
from ._notes import noting
from ._traced import Traced
from ._translate import write
from ._unpacking import program, unpacking

FRAME = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p)


def nest(function):
    """Compile `function` as a nest of loops when it is first called with new kinds of arguments."""
    return function if numba.config.DISABLE_JIT else Nest(function)


class Version:
    """A nest for some kinds of arguments: its machine code, and what calls it with objects."""

    def __init__(self, code, kinds):
        self.code, self.run = code, unpacking()
        self.program = program(code, kinds)
        self.fits = _caller(kinds, self.run, start(self.program))


class Nest:
    """A nest of loops that can be called."""

    def __init__(self, function):
        update_wrapper(self, function)
        self.function, self.versions, self.latest = function, {}, None

    def __call__(self, *arguments):
        version = self.latest
        try:
            fits = noting.notes is None and version.fits(*arguments)
        except (AttributeError, TypeError, struct.error):  # no version yet, or for other arguments
            fits = False
        if not fits:
            self._call(arguments)

    def _call(self, arguments):
        """Find or compile the version for these arguments, call it, and leave a note."""
        kinds = tuple(map(_kind, arguments))
        if kinds not in self.versions:
            code = compiled_at(anyhow(), write, self, kinds, improved=True)
            self.versions[kinds] = Version(code, kinds)
        version = self.versions[kinds]
        words = [word for each in arguments for word in _words(each, start)]
        FRAME(version.code)(struct.pack(f"{len(words)}q", *words))
        if version.run is not None:
            self.latest = version
        if noting.notes is not None and any(isinstance(each, Traced) for each in arguments):
            words = [word for each in arguments for word in _words(each, address)]
            noting.notes.add(version.code, words, self.__name__)

    @cached_property
    def part(self):
        """The same for functions that Numba compiles, which may call it."""
        return part(self.function)

    def __repr__(self):
        """What the machine code depends on, in short."""
        return hashlib.sha256("\n".join(_said(self.function)).encode()).hexdigest()


@typeof_impl.register(Nest)
def _type_for_numba(nest, context):
    return types.Dispatcher(nest.part)


def _kind(value):
    """What `_translate` is told of an argument."""
    if isinstance(value, np.ndarray):
        if not (value.flags.carray and value.dtype.isnative):
            raise ValueError(f"a nest of loops was given an array {value.dtype}{value.shape} of "
                             f"strides {value.strides}; it takes C-contiguous ones that can be "
                             "written")  # fmt: skip
        return value.dtype.char, value.ndim
    if isinstance(value, tuple):
        return type(value), *map(_kind, value)
    return float if isinstance(value, (float, np.floating)) else int


def _caller(kinds, run, program):
    """A function that calls a nest if the arguments are of these kinds, and says whether they are:
    Python without loops, which packs of an array where its object is, of others their numbers."""
    names, words = [f"a{i}" for i in range(len(kinds))], []
    for name, kind in zip(names, kinds, strict=True):
        is_tuple = isinstance(kind, tuple) and not _is_array(kind)
        words.append(f"*flat({name})" if is_tuple else f"id({name})" if _is_array(kind) else name)
    letters = "".join("d" if kind is float else "q" * _count(kind) for kind in kinds)
    known = {"pack": struct.Struct(letters).pack, "flat": _flat, "run": run, "program": program}
    return eval(f"lambda {', '.join(names)}: not run(pack({', '.join(words)}), program)", known)


def _is_array(kind):
    return isinstance(kind, tuple) and isinstance(kind[0], str)


def _count(kind):
    """How many words stand for an argument."""
    is_tuple = isinstance(kind, tuple) and not _is_array(kind)
    return sum(map(_count, kind[1:])) if is_tuple else 1


@lru_cache(4096)
def _flat(values):
    """The numbers in nested tuples."""
    return [x for each in values for x in (_flat(each) if isinstance(each, tuple) else [each])]


def _words(value, place):
    """The words of an argument; `place` gives that of an array."""
    if isinstance(value, np.ndarray):
        return [place(value) if value.size else 0, *value.shape]
    if isinstance(value, tuple):
        return _flat(value)
    if isinstance(value, (float, np.floating)):
        return struct.unpack("q", struct.pack("d", value))
    return [int(value)]


@cache
def _said(function):
    """What a function and the functions it calls say: their instructions, numbers and names."""
    code, said = function.__code__, []
    for name in code.co_names:
        given = function.__globals__.get(name)
        given = python_of(given) if callable(given) else given
        if isinstance(given, FunctionType):
            said += _said(given)
        elif isinstance(given, (int, float)) or hasattr(given, "_fields"):
            said.append(f"{name} {getattr(given, '_fields', given)}")
    constants = [each for each in code.co_consts if each != function.__doc__]
    said.append(f"{function.__defaults__} {constants} {code.co_names} {code.co_varnames}")
    return [*said, code.co_code.hex()]
