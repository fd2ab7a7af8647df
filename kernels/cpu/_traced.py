"""Arrays that note what is done with them, through NumPy's and Numba's own protocols.

A `Traced` array is a view of a plain one. NumPy hands every ufunc and function that meets it to
`__array_ufunc__` and `__array_function__`; Numba hands every compiled function to `Function` in
`_jit`. These run on plain arrays, and leave a note in `noting.notes`. What a view is of is found by
its base, so views need no note.
"""

from types import ModuleType, SimpleNamespace

import numpy as np

from ._notes import inner_loop, noting, origin_of, spread

IDENTITY = {np.add: 0, np.multiply: 1, np.logical_or: 0, np.logical_and: 1, np.bitwise_or: 0}
"""What reductions begin with; extremes begin with the first of their values."""
EXTREME = (np.maximum, np.minimum)


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
        _note_ufunc(noting.notes, ufunc, method, inputs, results, options)
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
        noting.notes and noting.notes.refuse("an array is indexed by arrays")
        return made(np.asarray(plain(self)[plain(key)]))

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
        noting.notes.copy(operand(source, target.dtype), target)


def operand(x, dtype):
    """What a loop for a dtype is given: x itself, cast where it must be; a number as an array."""
    if not isinstance(x, np.ndarray):
        return noting.notes.constant(np.asarray(x, dtype))
    if not isinstance(x, Traced) and x.ndim == 0:
        return noting.notes.constant(np.array(x, dtype))
    return x


def _indexed(x, key):
    """x[key], as an array where it is a number."""
    basic = key if isinstance(key, tuple) else (key,)
    if all(p is None or p is ... or isinstance(p, (int, np.integer, slice)) for p in basic):
        key = basic if ... in [p for p in basic if p is ...] else (*basic, ...)
        return np.ndarray.__getitem__(x, key)
    return np.asarray(plain(x)[plain(key)])


def _cast(notes, x, dtype):
    """x in a dtype, by a note where it is in another one."""
    x = operand(x, dtype)
    if x.dtype == dtype:
        return x
    y = notes.made(np.empty(x.shape, dtype).view(Traced))
    notes.copy(x, y)
    return y


def _note_ufunc(notes, ufunc, method, inputs, results, options):
    try:
        if method == "__call__" and not options:
            if ufunc.signature is None:
                _note_elements(notes, ufunc, inputs, results)
            elif ufunc is np.matmul:
                _note_matmul(notes, *inputs, *results)
            else:
                notes.refuse(ufunc.__name__)
        elif method == "reduce":
            _note_reduction(notes, ufunc, inputs, results[0], **options)
        else:
            notes.refuse(f"{ufunc.__name__}.{method}")
    except (LookupError, TypeError) as problem:
        notes.refuse(f"{ufunc.__name__}: {problem}")


def _note_elements(notes, ufunc, inputs, results):
    kinds = [x.dtype if hasattr(x, "dtype") else type(x) for x in inputs]
    dtypes = ufunc.resolve_dtypes((*kinds, *[None] * len(results)))
    function = inner_loop(ufunc, "".join(dtype.char for dtype in dtypes))
    if not results[0].size:
        return
    given = [_cast(notes, x, d) for x, d in zip(inputs, dtypes, strict=False)]
    targets = [
        y if y.dtype == d else notes.made(np.empty(y.shape, d).view(Traced))
        for y, d in zip(results, dtypes[len(inputs) :], strict=True)
    ]
    shape = results[0].shape
    notes.loop(function, [*given, *targets], shape, len(given), ufunc.__name__)
    for y, target in zip(results, targets, strict=True):
        if y is not target:
            notes.copy(target, y)


def _note_matmul(notes, a, b, y):
    """NumPy's loop takes outer axes, then rows, inner and columns with the strides of each."""
    if min(a.ndim, b.ndim) < 2 or not y.size or not a.size:
        return notes.refuse("matmul of vectors, or of nothing")
    function = inner_loop(np.matmul, a.dtype.char + b.dtype.char + y.dtype.char)
    outer = y.shape[:-2]
    strides = [spread(x, (*outer, *x.shape[-2:]))[:-2] for x in (a, b, y)]
    lengths, inner = list(outer), [1, 0, 0, 0]
    if lengths:
        inner = [lengths.pop(), *[s.pop() for s in strides]]
    dims = [inner[0], a.shape[-2], a.shape[-1], b.shape[-1]]
    steps = [*inner[1:], *[s for x in (a, b, y) for s in x.strides[-2:]]]
    return notes.walk(function, [a, b, y], lengths, strides, dims, steps, "matmul")


def _note_reduction(notes, ufunc, inputs, y, axis=0, dtype=None, keepdims=False, **options):
    x, axes = inputs[0], range(inputs[0].ndim) if axis is None else axis
    axes = tuple(a % max(1, x.ndim) for a in (axes if isinstance(axes, (tuple, range)) else (axes,)))
    unknown = [name for name, value in options.items() if value is not {"where": True}.get(name)]
    if unknown or len(inputs) > 1 or not (ufunc in IDENTITY or ufunc in EXTREME):
        return notes.refuse(f"{ufunc.__name__}.reduce")
    dtypes = ufunc.resolve_dtypes((y.dtype, x.dtype if dtype is None else np.dtype(dtype), None),
                                  reduction=True)  # fmt: skip
    if x.dtype != dtypes[1] and x.dtype.kind == "f":
        return notes.refuse("a sum in another dtype")  # which NumPy adds in pieces
    if y.dtype != dtypes[2] or not y.size or not x.size:
        return notes.refuse(f"{ufunc.__name__}.reduce in {dtypes}")
    function, x = inner_loop(ufunc, "".join(d.char for d in dtypes)), _cast(notes, x, dtypes[1])
    out = y if keepdims else y.reshape([1 if i in axes else n for i, n in enumerate(x.shape)])
    first = x[tuple(slice(0, 1) if i in axes else slice(None) for i in range(x.ndim))]
    notes.copy(operand(IDENTITY[ufunc], y.dtype) if ufunc in IDENTITY else first, out)
    return notes.loop(function, [out, x, out], x.shape, 1, f"{ufunc.__name__}.reduce")


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
        _cast(noting.notes, x, dtype)
        for x, dtype in zip(arguments, (np.dtype(bool), y.dtype, y.dtype), strict=True)
    )
    noting.notes.choose(condition, a, b, y)
    return y


def _copyto(target, source, casting="same_kind", where=True):
    np.copyto(plain(target), plain(source), casting, where)
    if where is not True:
        noting.notes.refuse("numpy.copyto with a mask")
    note_copy(source, target)


def _broadcast(x, shape, **options):
    y = np.broadcast_to(plain(x), shape).view(Traced)
    y.stands_on = origin_of(x)
    return y


NOTED = {
    np.concatenate: _concatenate,
    np.where: _where,
    np.copyto: _copyto,
    np.empty_like: lambda x, *given, **options: made(np.empty_like(plain(x), *given, **options)),
    np.copy: lambda x, *given, **options: x.copy(),
    np.broadcast_to: _broadcast,
    np.may_share_memory: lambda a, b, *given: np.may_share_memory(plain(a), plain(b), *given),
}


def _arrays(thing):
    """All traced arrays in lists, tuples and dicts."""
    if isinstance(thing, Traced):
        return [thing]
    if isinstance(thing, dict):
        thing = tuple(thing.values())
    return [x for each in thing for x in _arrays(each)] if isinstance(thing, (list, tuple)) else []


# NumPy's names for the bodies of ops


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
