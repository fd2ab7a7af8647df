"""The cross entropy of logits and classes, row by row: softmax's exponentials, and one value."""

import numpy as np

from ._jit import compiled, part
from ._layout import along_rows, ready, rows_along, served
from ._memory import empty
from .reduce import row
from .softmax import exponentials_of, height


class NoClassError(ValueError, IndexError):
    """A target that is not the number of a class."""


def _classes(x, target, ignore_index):
    """target as int64, flat; None if the arrays do not fit; NoClassError for a wrong class."""
    fits = served(x) and x.ndim > 1 and target.dtype.kind in "iu"
    if not fits or target.shape != x.shape[:1] + x.shape[2:]:
        return None
    target = ready(target.astype(np.int64, copy=False)).reshape(target.size)
    bad = _first_bad(target, x.shape[1], int(ignore_index))
    if bad >= 0:
        raise NoClassError(
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
    losses, scratch = empty((len(rows),), x.dtype), empty((height(rows), x.shape[1]), x.dtype)
    _losses(rows, classes, int(ignore_index), losses, *exponentials_of(rows, scratch))
    return losses.reshape(target.shape)


@compiled
def _losses(x, target, ignore, losses, tops, sums):
    for i in range(x.shape[0]):
        losses[i] = 0
        if target[i] != ignore:
            losses[i] = np.log(sums[i]) + (tops[i] - x[i, target[i]])


def cross_entropy_input(g, x, target, *, ignore_index):
    """dx = g * (softmax(x) - onehot(target)) along axis 1, 0 where target == ignore_index.

    Shapes: g and target (n, ...), x and dx (n, c, ...).
    """
    classes = _classes(x, target, ignore_index) if served(g, x) else None
    if classes is None or g.shape != target.shape:
        return NotImplemented
    rows = rows_along(x, 1)
    dx = empty(rows.shape, x.dtype)
    _, sums = exponentials_of(rows, dx)
    _differences(ready(g).reshape(g.size), dx, classes, int(ignore_index), sums)
    return along_rows(dx, x.shape, 1)


@compiled
def _differences(g, dx, target, ignore, sums):
    for i in range(dx.shape[0]):
        scale = dx.dtype.type(g[i] / sums[i])
        if target[i] == ignore:
            dx[i] = 0
        else:
            for j in range(dx.shape[1]):
                dx[i, j] *= scale
            dx[i, target[i]] -= g[i]


def cross_entropy_mean(x, target, *, ignore_index):
    """The mean of the losses of targets that are not ignored, NaN of none: added in float64."""
    classes = _classes(x, target, ignore_index)
    if classes is None:
        return NotImplemented
    rows = rows_along(x, 1)
    losses, scratch = empty((1, len(rows)), x.dtype), empty((height(rows), x.shape[1]), x.dtype)
    mean = empty((), x.dtype)
    _mean(rows, classes, int(ignore_index), losses, *exponentials_of(rows, scratch),
          mean.reshape(1))  # fmt: skip
    return mean


@compiled
def _mean(x, target, ignore, losses, tops, sums, mean):
    _losses(x, target, ignore, losses[0], tops, sums)
    real = x.dtype.type
    mean[0] = real(row(losses, 0)) / real(_count(target, ignore))


@part
def _count(target, ignore):
    """How many are not ignored."""
    count = 0
    for i in range(target.shape[0]):
        count += target[i] != ignore
    return count


def cross_entropy_mean_input(g, x, target, *, ignore_index):
    """The same as of cross_entropy's, where each row that counts has an equal share of g ()."""
    classes = _classes(x, target, ignore_index) if served(g, x) and not g.ndim else None
    if classes is None:
        return NotImplemented
    rows = rows_along(x, 1)
    dx, shares = empty(rows.shape, x.dtype), empty(classes.shape, x.dtype)
    _, sums = exponentials_of(rows, dx)
    _mean_differences(ready(g).reshape(1), dx, classes, int(ignore_index), sums, shares)
    return along_rows(dx, x.shape, 1)


@compiled
def _mean_differences(g, dx, target, ignore, sums, shares):
    shares[:] = g[0] / g.dtype.type(_count(target, ignore))
    _differences(shares, dx, target, ignore, sums)
