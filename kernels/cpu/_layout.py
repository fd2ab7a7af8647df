"""Memory layouts: how arrays of any strides become the few layouts that kernels are compiled for.

Kernels see aligned, writable, C-contiguous arrays only: Numba compiles a kernel anew for every
other layout, and read-only arrays are a type of their own.
"""

import math

import numpy as np

from ._machine_code import host
from ._memory import empty
from ._nests import nest
from ._transpose import transpose, turn

_LAST, _FIRST = (0, 2, 3, 1), (0, 3, 1, 2)  # of images
FEW = 1 << 12  # values that NumPy has copied before a nest of loops has begun
FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def served(first, *others):
    """Whether all arrays (the first, and others but None) are float32, or all float64."""
    if not hasattr(first, "dtype") or first.dtype not in FLOATS:  # a number, or of integers
        return False
    for array in others:  # all(...) takes twice as long
        if array is not None and array.dtype is not first.dtype and array.dtype != first.dtype:
            return False
    return True


def ready(array):
    """`array` itself if aligned, writable and C-contiguous, else a copy that is."""
    return array if array.flags.carray else array.copy("C")


def _last(x):
    """The view (n, ..., c) of x (n, c, ...); np.moveaxis takes longer than a small op."""
    return x.transpose(_LAST if x.ndim == 4 else (0, *range(2, x.ndim), 1))


def lies_last(x):
    """Whether the channels of x (n, c, ...) lie side by side: then `channels_last` is a view."""
    return _last(x).flags.carray


def channels_last(x):
    """x (n, c, ...) as a C-contiguous array (n, ..., c): a view if the memory is so already."""
    last = _last(x)
    if last.flags.carray:
        return last
    if x.size < FEW or not (x.flags.carray and x.dtype in FLOATS and host()):
        return ready(last)
    y, kernel = empty(last.shape, x.dtype), transpose(host(), x.dtype)
    _turn(kernel, host().lanes(x.dtype), x.reshape(len(x), -1), y.reshape(len(x), -1), x.shape[1])
    return y


@nest
def _turn(kernel, lanes, x, y, c):
    """Each row of x, a matrix of c rows, transposed."""
    if x.shape[1]:
        pixels = x.shape[1] // c
        for image in range(x.shape[0]):
            offset = image * x.shape[1] * x.itemsize
            turn(kernel, lanes, x.itemsize, x.ctypes.data + offset, y.ctypes.data + offset, c,
                 pixels, pixels, c)  # fmt: skip


def channels_first(x):
    """The logical view (n, c, ...) of an array (n, ..., c)."""
    if x.ndim == 4:
        return x.transpose(_FIRST)
    return x.transpose(0, x.ndim - 1, *range(1, x.ndim - 1)) if x.ndim > 2 else x


def dense_order(x):
    """The order of axes in which x is C-contiguous, largest stride first; None if there is none.

    The empty tuple stands for the order that the axes have already.
    """
    if x.flags.c_contiguous:
        return ()
    if x.ndim == 4 and x.transpose(_LAST).flags.c_contiguous:
        return _LAST
    order = tuple(sorted(range(x.ndim), key=lambda axis: (-x.strides[axis], axis)))
    return order if x.transpose(order).flags.c_contiguous else None


def flat(x, order):
    """x as a one-dimensional array with its axes in `order`: a view where memory allows."""
    x = ready(x.transpose(order) if order else x)
    return x if x.ndim == 1 else x.reshape(-1)


def unflat(values, shape, order):
    """The inverse of `flat`: a view of logical `shape` on memory whose axes lie in `order`."""
    if not order:
        return values if len(shape) == 1 else values.reshape(shape)
    memory = values.reshape([shape[axis] for axis in order])
    if order == _LAST:
        return memory.transpose(_FIRST)
    return memory.transpose(sorted(range(len(order)), key=order.__getitem__))


def moved(x, source, target):
    """`np.moveaxis`, which takes longer than a small op, where there is something to move."""
    return x if source == target else np.moveaxis(x, source, target)


def rows_along(x, dim):
    """x as (rows, shape[dim]), C-contiguous: one row for every place in the other axes."""
    moved = x if dim in (-1, x.ndim - 1) else np.moveaxis(x, dim, -1)
    return ready(moved).reshape(math.prod(moved.shape[:-1]), x.shape[dim])


def along_rows(rows, shape, dim):
    """The inverse of `rows_along`: a view of logical `shape`."""
    if dim in (-1, len(shape) - 1):
        return rows.reshape(shape)
    dim %= len(shape)
    moved = shape[:dim] + shape[dim + 1 :] + shape[dim : dim + 1]
    return np.moveaxis(rows.reshape(moved), -1, dim)
