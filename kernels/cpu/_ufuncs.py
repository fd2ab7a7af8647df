"""Notes of NumPy's ufuncs: element by element, products of matrices, reductions."""

import numpy as np

from ._address import spread
from ._inner import inner_loop

IDENTITY = {np.add: 0, np.multiply: 1, np.logical_or: 0, np.logical_and: 1, np.bitwise_or: 0}
"""What reductions begin with; extremes begin with the first of their values."""
EXTREME = (np.maximum, np.minimum)


def operand(notes, x, dtype):
    """What a loop for a dtype is given: x itself, cast where it must be; a number as an array."""
    if not isinstance(x, np.ndarray):
        return notes.constant(np.asarray(x, dtype))
    if not hasattr(x, "is_origin") and x.ndim == 0:
        return notes.constant(np.array(x, dtype))
    return x


def cast(notes, x, dtype):
    """x in a dtype, by a note where it is in another one."""
    x = operand(notes, x, dtype)
    if x.dtype == dtype:
        return x
    y = notes.made(np.empty(x.shape, dtype))
    notes.copy(x, y)
    return y


def note_ufunc(notes, ufunc, method, inputs, results, options):
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
    given = [cast(notes, x, d) for x, d in zip(inputs, dtypes, strict=False)]
    targets = [
        y if y.dtype == d else notes.made(np.empty(y.shape, d))
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
    x, axes = inputs[0], (axis,) if isinstance(axis, int) else axis
    axes = [a % max(1, x.ndim) for a in (range(x.ndim) if axes is None else axes)]
    unknown = [name for name, value in options.items() if value is not {"where": True}.get(name)]
    if unknown or len(inputs) > 1 or not (ufunc in IDENTITY or ufunc in EXTREME):
        return notes.refuse(f"{ufunc.__name__}.reduce")
    dtypes = ufunc.resolve_dtypes((y.dtype, x.dtype if dtype is None else np.dtype(dtype), None),
                                  reduction=True)  # fmt: skip
    if x.dtype != dtypes[1] and x.dtype.kind == "f":
        return notes.refuse("a sum in another dtype")  # which NumPy adds in pieces
    if y.dtype != dtypes[2] or not y.size or not x.size:
        return notes.refuse(f"{ufunc.__name__}.reduce in {dtypes}")
    function, x = inner_loop(ufunc, "".join(d.char for d in dtypes)), cast(notes, x, dtypes[1])
    out = y if keepdims else y.reshape([1 if i in axes else n for i, n in enumerate(x.shape)])
    first = x[tuple(slice(0, 1) if i in axes else slice(None) for i in range(x.ndim))]
    notes.copy(operand(notes, IDENTITY[ufunc], y.dtype) if ufunc in IDENTITY else first, out)
    return notes.loop(function, [out, x, out], x.shape, 1, f"{ufunc.__name__}.reduce")
