"""Softmax, its logarithm and the cross entropy, row by row; exponentials are NumPy's (SIMD).

The axis of classes is brought last: free where it is last or the memory is channels-last, else a
copy. Rows are shifted by their maximum, and sums are accumulated in float64.
"""

import numpy as np

from ._jit import compiled
from ._layout import along_rows, ready, rows_along, served
from ._memory import empty


def _exponentials(rows):
    """exp(rows - maximum of each row), the maxima, and the sums of the exponentials."""
    exps, tops = np.empty_like(rows), empty(len(rows), rows.dtype)
    sums = empty(len(rows), np.float64)
    _shift(rows, exps, tops)
    np.exp(exps, out=exps)
    _sum(exps, sums)
    return exps, tops, sums


@compiled
def _shift(rows, out, tops):
    for i in range(rows.shape[0]):
        row, shifted = rows[i], out[i]
        top = rows.dtype.type(-np.inf)
        for j in range(row.shape[0]):
            top = row[j] if row[j] > top else top
        for j in range(row.shape[0]):
            shifted[j] = row[j] - top
        tops[i] = top


@compiled
def _sum(rows, sums):
    for i in range(rows.shape[0]):
        row, total = rows[i], 0.0
        for j in range(row.shape[0]):
            total += row[j]
        sums[i] = total


def softmax(x, *, dim):
    """y = exp(x) / sum of exp(x) along `dim`."""
    if not served(x) or not x.ndim:
        return NotImplemented
    exps, _, sums = _exponentials(rows_along(x, dim))
    _divide(exps, sums)
    return along_rows(exps, x.shape, dim)


@compiled
def _divide(rows, sums):
    for i in range(rows.shape[0]):
        row, divisor = rows[i], rows.dtype.type(sums[i])
        for j in range(row.shape[0]):
            row[j] /= divisor


def log_softmax(x, *, dim):
    """y = x - log(sum of exp(x)) along `dim`."""
    if not served(x) or not x.ndim:
        return NotImplemented
    rows = rows_along(x, dim)
    y, tops, sums = _exponentials(rows)
    _log(rows, tops, sums, y)
    return along_rows(y, x.shape, dim)


@compiled
def _log(rows, tops, sums, out):
    for i in range(rows.shape[0]):
        row, target, top, rest = rows[i], out[i], tops[i], rows.dtype.type(np.log(sums[i]))
        for j in range(row.shape[0]):
            target[j] = row[j] - top - rest


def _classes(x, target, ignore_index):
    """target as int64, flat; None if the arrays do not fit; ValueError for a wrong class."""
    fits = served(x) and x.ndim > 1 and target.dtype.kind in "iu"
    if not fits or target.shape != x.shape[:1] + x.shape[2:]:
        return None
    target = ready(target.astype(np.int64, copy=False)).reshape(target.size)
    bad = _first_bad(target, x.shape[1], int(ignore_index))
    if bad >= 0:
        raise ValueError(
            f"cross_entropy(x {x.shape}, target): class {target[bad]} at row {bad} is outside the "
            f"{x.shape[1]} classes, 0 to {x.shape[1] - 1}; labels to be skipped are marked "
            f"ignore_index={ignore_index}"
        )
    return target


@compiled
def _first_bad(target, classes, ignore):
    for i in range(target.shape[0]):
        if target[i] != ignore and not 0 <= target[i] < classes:
            return i
    return -1


def cross_entropy(x, target, *, ignore_index):
    """losses = log(sum of exp(x)) - x[target], 0 where target == ignore_index.

    Shapes: x (n, c, ...), target (n, ...) of integers, losses (n, ...). Raises ValueError for a
    target outside 0 to c - 1 that is not `ignore_index`.
    """
    classes = _classes(x, target, ignore_index)
    if classes is None:
        return NotImplemented
    rows = rows_along(x, 1)
    _, tops, sums = _exponentials(rows)
    losses = empty(len(rows), x.dtype)
    _losses(rows, tops, sums, classes, int(ignore_index), losses)
    return losses.reshape(target.shape)


@compiled
def _losses(rows, tops, sums, target, ignore, losses):
    for i in range(rows.shape[0]):
        losses[i] = 0
        if target[i] != ignore:
            losses[i] = np.log(sums[i]) + (tops[i] - rows[i, target[i]])


def cross_entropy_input(g, x, target, *, ignore_index):
    """dx = g * (softmax(x) - onehot(target)) along axis 1, 0 where target == ignore_index.

    Shapes: g and target (n, ...), x and dx (n, c, ...).
    """
    classes = _classes(x, target, ignore_index) if served(g, x) else None
    if classes is None or g.shape != target.shape:
        return NotImplemented
    exps, _, sums = _exponentials(rows_along(x, 1))
    _differences(ready(g).reshape(g.size), exps, sums, classes, int(ignore_index))
    return along_rows(exps, x.shape, 1)


@compiled
def _differences(g, exps, sums, target, ignore):
    for i in range(exps.shape[0]):
        row, size = exps[i], exps.shape[1]
        if target[i] == ignore:
            row[:] = 0
        else:
            scale = exps.dtype.type(g[i] / sums[i])
            for j in range(size):
                row[j] *= scale
            row[target[i]] -= g[i]
