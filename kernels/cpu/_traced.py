"""Arrays that note what is done with them, through NumPy's and Numba's own protocols.

A `Traced` array is a view of a plain one. NumPy hands every ufunc and function that meets it to
`__array_ufunc__` and `__array_function__`; Numba hands every compiled function to `Function` in
`_jit`. These run on plain arrays, and leave a note in `noting.notes`. What a view is of is found by
its base, so views need no note.
"""

import numpy as np

from ._address import origin_of
from ._gather import note_gather
from ._notes import noting
from ._ufuncs import cast, note_ufunc, operand


class Traced(np.ndarray):
    """An array whose use is noted while its thread takes notes."""

    __numba_array_subtype_dispatch__ = True
    is_origin, stands_on = False, None
    """Whether it stands for the memory of all that are views of it; the array that it is a view
    of, where its base is another."""

    def __array_ufunc__(self, ufunc, method, *inputs, out=(), **options):
        given = [plain(x) for x in inputs]
        targets = {"out": tuple(map(plain, out))} if out else {}
        result = getattr(ufunc, method)(*given, **targets, **options)
        if noting.notes is None:
            return result
        if out:
            results = out
        elif isinstance(result, tuple):
            results = tuple(made(y) for y in result)
        else:
            results = (made(result),)
        note_ufunc(noting.notes, ufunc, method, inputs, results, options)
        return results if len(results) > 1 else results[0]

    def __array_function__(self, function, kinds, arguments, options):
        noted = NOTED.get(function) if noting.notes is not None else None
        if noted is not None:
            return noted(*arguments, **options)
        return super().__array_function__(function, kinds, arguments, options)

    def __getitem__(self, key):
        y = _indexed(self, key)
        if shares(y, self):
            return y
        y = made(np.asarray(plain(self)[plain(key)]))
        if noting.notes is not None:
            note_gather(noting.notes, self, key, y)
        return y

    def __setitem__(self, key, value):
        target = _indexed(self, key)
        np.ndarray.__setitem__(plain(self), plain(key), plain(value))
        if noting.notes is None:
            return
        if not shares(target, self):
            noting.notes.refuse("places named by arrays are set")
        else:
            note_copy(value, target)

    def fill(self, value):
        self[...] = value

    def copy(self, order="C"):
        y = made(np.array(plain(self), order=order, copy=True))
        note_copy(self, y)
        return y

    def astype(self, dtype, order="K", casting="unsafe", subok=True, copy=True):
        if not copy and self.dtype == dtype:
            return self
        y = made(plain(self).astype(dtype, order, casting))
        note_copy(self, y)
        return y

    def reshape(self, *shape, order="C"):
        y = plain(self).reshape(*shape, order=order)
        if shares(y, self):
            return np.ndarray.reshape(self, *shape, order=order)
        y = made(y)
        if order == "C":
            dense = made(np.array(plain(self), order="C", copy=True))
            note_copy(self, dense)
            return dense.reshape(*shape)
        return y

    def _read(self):
        if noting.notes is not None:
            noting.notes.guard(self)
        return plain(self)

    def __bool__(self):
        return bool(self._read())

    def __int__(self):
        return int(self._read())

    def __index__(self):
        return self._read().__index__()

    def __float__(self):
        return float(self._read())

    def item(self, *place):
        return self._read().item(*place)

    def tolist(self):
        return self._read().tolist()


def plain(thing):
    """The same with plain arrays, in lists, tuples and dicts too."""
    if isinstance(thing, Traced):
        return thing.view(np.ndarray)
    if type(thing) in (list, tuple):
        return type(thing)([plain(each) for each in thing])
    if type(thing) is dict:
        return {name: plain(each) for name, each in thing.items()}
    return thing


def made(array):
    """A fresh array, or number, of which the notes know."""
    traced = origin(np.asarray(array))
    return noting.notes.made(traced) if noting.notes is not None else traced


class Held:
    """Has an array's memory, without being an array: NumPy takes the base of a base for the base
    of a view, as far as arrays of one type go."""

    def __init__(self, array):
        self.array, self.__array_interface__ = array, array.__array_interface__


def origin(array):
    """`array` as a traced one that stands for its memory."""
    result = np.asarray(Held(array)).view(Traced)
    result.is_origin = True
    return result


def shares(y, x):
    """Whether an array is a view of another's memory; one of no size is of any."""
    if not isinstance(y, np.ndarray):
        return False
    return not y.size or np.may_share_memory(y, x)


def note_copy(source, target):
    if noting.notes is not None:
        noting.notes.copy(operand(noting.notes, source, target.dtype), target)


def _indexed(x, key):
    """x[key], as an array where it is a number."""
    basic = key if isinstance(key, tuple) else (key,)
    if all(p is None or p is ... or isinstance(p, (int, np.integer, slice)) for p in basic):
        key = basic if ... in [p for p in basic if p is ...] else (*basic, ...)
        return np.ndarray.__getitem__(x, key)
    return np.asarray(plain(x)[plain(key)])


# NumPy's functions in C: what they do with values is noted here


def _concatenate(parts, axis=0, **options):
    y = made(np.concatenate(plain(list(parts)), axis, **options))
    at = 0
    for part in parts:
        length = np.shape(part)[axis]
        place = y[(slice(None),) * (axis % y.ndim) + (slice(at, at + length),)]
        note_copy(part, place)
        at += length
    return y


def _where(*arguments):
    y = made(np.where(*plain(arguments)))
    if len(arguments) < 3:
        noting.notes.refuse("numpy.where of a condition alone")
        return y
    condition, a, b = (
        cast(noting.notes, x, dtype)
        for x, dtype in zip(arguments, (np.dtype(bool), y.dtype, y.dtype), strict=True)
    )
    noting.notes.choose(condition, a, b, y)
    return y


def _copyto(target, source, casting="same_kind", where=True):
    np.copyto(plain(target), plain(source), casting, where)
    if where is not True:
        noting.notes.refuse("numpy.copyto with a mask")
    note_copy(source, target)


def _pad(x, widths, mode="constant", *, constant_values=0):
    y = made(np.pad(plain(x), widths, mode, constant_values=constant_values))
    if mode != "constant" or np.ndim(constant_values) or np.shape(widths) != (x.ndim, 2):
        noting.notes.refuse("numpy.pad")
        return y
    note_copy(constant_values, y)
    note_copy(x, y[tuple(slice(before, before + n)
                         for (before, _), n in zip(widths, x.shape, strict=True))])  # fmt: skip
    return y


def _take(x, index, axis=None, **options):
    y = made(np.take(plain(x), plain(index), axis, **options))
    if options or axis is None or not isinstance(x, Traced):
        noting.notes.refuse("numpy.take of all values")
    else:
        note_gather(noting.notes, x, (slice(None),) * (axis % x.ndim) + (index,), y)
    return y


def _broadcast(x, shape, **options):
    y = np.broadcast_to(plain(x), shape).view(Traced)
    y.stands_on = origin_of(x)
    return y


NOTED = {
    np.concatenate: _concatenate,
    np.where: _where,
    np.copyto: _copyto,
    np.pad: _pad,
    np.take: _take,
    np.empty_like: lambda x, *given, **options: made(np.empty_like(plain(x), *given, **options)),
    np.copy: lambda x, *given, **options: x.copy(),
    np.broadcast_to: _broadcast,
    np.may_share_memory: lambda a, b, *given: np.may_share_memory(plain(a), plain(b), *given),
}
