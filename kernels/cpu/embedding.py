"""Rows of a table by number, and the adjoint: rows added up by number. Both move memory only."""

from ._jit import compiled
from ._layout import ready, served
from ._memory import empty
from .index import out_of_range, whole


def embedding(input, weight, *, padding_idx):
    """The rows of weight that `input` numbers; IndexError for a number that is none."""
    if not served(weight) or input.dtype.kind != "i":
        return NotImplemented
    numbers, table = whole(input), ready(weight)
    y = empty((numbers.size, weight.shape[1]), weight.dtype)
    bad = _take(numbers, table, y)
    if bad >= 0:
        raise IndexError(out_of_range("embedding", numbers[bad], 0, len(weight)))
    return y.reshape(*input.shape, weight.shape[1])


@compiled
def _take(numbers, table, y):
    """Copy rows; the place of the first wrong number, else -1."""
    for i in range(numbers.shape[0]):
        at = numbers[i]
        if not 0 <= at < table.shape[0]:
            return i
        for j in range(table.shape[1]):
            y[i, j] = table[at, j]
    return -1


def embedding_weight(g, input, *, shape, padding_idx):
    """Zeros of `shape` with each row of g added at its number, in order; none at `padding_idx`."""
    if not served(g):
        return NotImplemented
    y, numbers = empty(shape, g.dtype), whole(input)
    rows = ready(g).reshape(numbers.size, shape[1])
    _add(rows, numbers, -1 if padding_idx is None else padding_idx, y)
    return y


@compiled
def _add(rows, numbers, padding, y):
    y[:] = 0
    for i in range(rows.shape[0]):
        at = numbers[i]
        if at != padding:
            for j in range(rows.shape[1]):
                y[at, j] += rows[i, j]
