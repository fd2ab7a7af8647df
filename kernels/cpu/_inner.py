"""NumPy's inner loops: the C functions that its ufuncs call on memory."""

import ctypes
from functools import cache

import numpy as np

from ._address import start
from ._native import DATA

HEAD = object.__basicsize__  # where the fields of a ufunc object begin


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
    data = ctypes.c_void_p.from_address(id(array) + DATA).value
    fields = Fields.from_address(id(np.tanh) + HEAD)
    kinds = (fields.nin, fields.nout, fields.nargs, fields.ntypes)
    known = kinds == (np.tanh.nin, np.tanh.nout, np.tanh.nargs, np.tanh.ntypes)
    return known and data == start(array)
