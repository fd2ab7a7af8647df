"""Sums over all axes but the last in memory, such as a bias's gradient over places and rows."""

from ._jit import compiled, part
from ._layout import dense_order, flat, served
from ._memory import empty

LANES = 128  # values summed side by side, so that short rows are added several at a time
BLOCK = 64  # rounds of lanes whose sum is one term: errors grow with the terms, not the values


def sum(x, *, dim, keepdim):
    """y = sum of x over the axes `dim`, where these are all but the last in memory."""
    order = dense_order(x) if served(x) and x.size and x.ndim > 1 else None
    if order is None:
        return NotImplemented
    kept = (order or range(x.ndim))[-1]
    others = tuple(axis for axis in range(x.ndim) if axis != kept)
    if dim != others:
        return NotImplemented
    y = empty(x.shape[kept], x.dtype)
    width = len(y) * max(1, LANES // len(y))
    _sum_rows(flat(x, order), y, *empty((2, width), x.dtype))
    return y.reshape([len(y) if axis == kept else 1 for axis in range(x.ndim)]) if keepdim else y


@compiled
def _sum_rows(x, y, total, part):
    """y: the sum of the rows of x, as long as y; total and part hold several rows' lanes."""
    width, length = total.shape[0], y.shape[0]
    total[:] = 0
    for begin in range(0, x.shape[0], BLOCK * width):
        block = x[begin : begin + BLOCK * width]
        part[:] = 0
        for start in range(0, block.shape[0], width):
            _add(block[start : start + width], part)
        _add(part, total)
    y[:] = 0
    for start in range(0, width, length):
        _add(total[start : start + length], y)


@part
def _add(values, sums):
    sums = sums[: values.shape[0]]
    for k in range(sums.shape[0]):
        sums[k] += values[k]
