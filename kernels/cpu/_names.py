"""NumPy's names for the bodies of ops, those that make arrays with notes."""

from types import ModuleType, SimpleNamespace

import numpy as np

from ._notes import noting
from ._traced import Traced, made, note_copy, plain


def _arrays(thing):
    """All traced arrays in lists, tuples and dicts."""
    if isinstance(thing, Traced):
        return [thing]
    if isinstance(thing, dict):
        thing = tuple(thing.values())
    return [x for each in thing for x in _arrays(each)] if isinstance(thing, (list, tuple)) else []


def _filled(function):
    """A function that makes arrays of one value: it is put there in each run."""

    def make(*arguments, **options):
        y = function(*plain(list(arguments)), **plain(options))
        traced = made(y)
        if y.size:
            note_copy(noting.notes.constant(y.reshape(-1)[:1].copy().reshape(())), traced)
        return traced

    return make


def _constant(function):
    """A function that makes arrays of numbers alone."""

    def make(*arguments, **options):
        y = function(*arguments, **options)
        return noting.notes.constant(y) if isinstance(y, np.ndarray) else y

    return make


def _array(x, dtype=None, *, copy=True, order="K", **options):
    """numpy.array."""
    if not isinstance(x, Traced):
        traced = _arrays(x) if isinstance(x, (list, tuple)) else []
        if traced:
            noting.notes.refuse("numpy.array of arrays")
        return noting.notes.constant(np.array(plain(x), dtype, copy=copy, order=order, **options))
    if not copy and (dtype is None or x.dtype == dtype):
        return x
    y = made(np.array(plain(x), dtype, copy=copy, order=order, **options))
    note_copy(x, y)
    return y


def _asarray(x, dtype=None, **options):
    """numpy.asarray."""
    if isinstance(x, Traced):
        return x if dtype is None or x.dtype == dtype else x.astype(dtype)
    return _array(x, dtype)


def _dense(x, dtype=None):
    """numpy.ascontiguousarray."""
    x = _asarray(x, dtype)
    return x if x.flags.c_contiguous and x.ndim else x.copy("C").reshape(x.shape or (1,))


def _empty(*arguments, **options):
    return made(np.empty(*arguments, **options))


def _names():
    """NumPy's public names, those that make arrays with notes."""
    public = {name: vars(np)[name] for name in np.__all__ if name in vars(np)}
    names = {name: thing for name, thing in public.items() if not isinstance(thing, ModuleType)}
    filling = {name: _filled(names[name]) for name in ("zeros", "ones", "full")}
    constant = {name: _constant(names[name]) for name in
                ("arange", "linspace", "eye", "identity", "tri")}  # fmt: skip
    special = {"array": _array, "asarray": _asarray, "empty": _empty, "linalg": np.linalg,
               "ascontiguousarray": _dense}
    return SimpleNamespace(**names | filling | constant | special)


names = _names()
