"""Nests of loops around machine code, compiled by ourselves: see `_translate` for what they may say.

Numba infers types, and takes a third to a whole second for each of these functions, though all that
they do is count and add up addresses. `_translate` and LLVM need some hundredths of that, and the
machine code is kept on disk like that of tiles.

A nest is called with numbers, tuples of them and arrays that are C-contiguous. They become a frame
of 64-bit words: an array its address and its shape; so a captured step repeats a nest as it is.
"""

import ctypes
import hashlib
import struct
import types
from functools import cache, update_wrapper

import numba
import numpy as np

from ._address import address, start
from ._machine_code import anyhow
from ._machine_code import address as compiled_at
from ._native import DATA
from ._notes import noting
from ._traced import Traced
from ._translate import plain, write


def nest(function):
    """Compile `function` as a nest of loops when it is first called with new kinds of arguments."""
    return function if numba.config.DISABLE_JIT else Nest(function)


class Nest:
    """A nest of loops that can be called."""

    def __init__(self, function):
        update_wrapper(self, function)
        self.function, self.known = function, {}

    def __call__(self, *arguments):
        words, kinds = [], []
        has_traced = _lay_out(arguments, words, kinds, _place)
        kinds = tuple(kinds)
        function = self.known.get(kinds)
        if function is None:
            function = self.known[kinds] = self.compiled(kinds)
        function(struct.pack(f"{len(words)}q", *words))
        if has_traced and noting.notes is not None:
            words = []
            _lay_out(arguments, words, [], address)
            noting.notes.add(self.address(kinds), words, self.__name__)

    def compiled(self, kinds):
        """The machine code for arguments of these kinds, as a function of a frame's bytes."""
        return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p)(self.address(kinds))

    def address(self, kinds):
        return compiled_at(anyhow(), write, self, kinds, improved=True)

    def __repr__(self):
        """What the machine code depends on, in short."""
        return hashlib.sha256("\n".join(_said(self.function)).encode()).hexdigest()


def _lay_out(arguments, words, kinds, place):
    """Add the words of arguments, and their kinds; whether an array is traced."""
    has_traced = False
    for each in arguments:
        if type(each) is int or isinstance(each, (int, np.integer, np.bool_)):
            words.append(int(each))
            kinds.append(int)
        elif isinstance(each, np.ndarray):
            if not each.flags.c_contiguous:
                raise ValueError(f"a nest of loops was given an array {each.dtype}{each.shape} of "
                                 f"strides {each.strides}; it takes C-contiguous ones")  # fmt: skip
            words.append(place(each) if each.size else 0)
            words += each.shape
            kinds.append((each.dtype.char, each.ndim))
            has_traced |= type(each) is Traced
        elif isinstance(each, tuple):
            inside = [type(each)]
            _lay_out(each, words, inside, place)
            kinds.append(tuple(inside))
        else:
            words.append(struct.unpack("q", struct.pack("d", each))[0])
            kinds.append(float)
    return has_traced


def _place(array):
    """Where an array lies: read from its object, ten times as fast as NumPy tells."""
    return ctypes.c_int64.from_address(id(array) + DATA).value


@cache
def _said(function):
    """What a function and the functions it calls say: their instructions, numbers and names."""
    code, said = function.__code__, []
    for name in code.co_names:
        given = function.__globals__.get(name)
        given = plain(given) if callable(given) else given
        if isinstance(given, types.FunctionType):
            said += _said(given)
        elif isinstance(given, (int, float)) or hasattr(given, "_fields"):
            said.append(f"{name} {getattr(given, '_fields', given)}")
    constants = [each for each in code.co_consts if each != function.__doc__]
    return [*said, f"{code.co_code.hex()} {constants} {code.co_names} {code.co_varnames}"]
