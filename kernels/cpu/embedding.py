"""Rows of a table looked up by number, and the adjoint: rows added up by number."""

import numpy as np

from ._jit import compiled, copy
from ._layout import ready, served
from ._memory import empty, zeros


def embedding(input, weight, *, padding_idx):
    """y_...c = weight_input,c; the op's body says what is wrong with other numbers."""
    if not served(weight) or not weight.flags.carray or input.dtype.kind not in "iu":
        return NotImplemented
    numbers = ready(input.astype(np.int64, copy=False)).reshape(-1)
    y = empty((numbers.size, weight.shape[1]), weight.dtype)
    if not _taken(numbers, weight, y):
        return NotImplemented
    return y.reshape(*input.shape, weight.shape[1])


@compiled
def _taken(numbers, table, y):
    """Whether all numbers are rows of the table."""
    for i in range(numbers.shape[0]):
        if not 0 <= numbers[i] < table.shape[0]:
            return False
        copy(table[numbers[i]], y[i])
    return True


def embedding_weight(g, input, *, shape, padding_idx):
    """Zeros of `shape` with each row of g added at its number, in order; none at `padding_idx`."""
    if not served(g):
        return NotImplemented
    y, numbers = zeros(shape, g.dtype), ready(input.astype(np.int64, copy=False)).reshape(-1)
    rows = ready(g).reshape(numbers.size, shape[1])
    _add(rows, numbers, -1 if padding_idx is None else padding_idx, y)
    return y


@compiled
def _add(rows, numbers, padding, y):
    for i in range(rows.shape[0]):
        if numbers[i] != padding:
            row, target = rows[i], y[numbers[i]]
            for j in range(row.shape[0]):
                target[j] += row[j]
