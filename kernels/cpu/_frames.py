"""Calls of functions that Numba compiled, as words: machine code and its arguments."""

import struct

import numpy as np
from numba import types

from ._address import address


class CannotNoteError(Exception):
    """A line does what a table cannot."""


def compiled_code(function, signature):
    """The address of what Numba made of a function for these types, and its type for LLVM."""
    from numba.core.registry import cpu_target

    found = function.overloads.get(signature)
    if found is None:
        raise CannotNoteError(f"{function.py_func.__name__} was compiled for other arguments")
    convention, made = cpu_target.target_context.call_conv, found.fndesc
    kind = convention.get_function_type(made.restype, made.argtypes)
    return found.library.get_pointer_to_function(made.llvm_func_name), kind


def compiled_frame(function, arguments, plain, result):
    signature = tuple(map(function.typeof_pyval, plain))
    code, kind = compiled_code(function, signature)
    words = [_expected(result)]
    kinds = function.overloads[signature].fndesc.argtypes
    for each, argument in zip(kinds, arguments, strict=True):
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
