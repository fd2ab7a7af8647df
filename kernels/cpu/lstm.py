"""LSTM over all steps of packed rows, forwards and backwards, each one compiled call.

Per step a matrix product by BLAS, 2 n k h flops for the k = 4 h gates of n sequences, and then
row by row what the gates do, in loops short enough for the cache and simple enough for vectors:
the compiler asks before each whether its arrays overlap, and gives up when it would have to ask
more than eight times.
"""

from ._blas import blas
from ._jit import compiled, copy, part
from ._layout import ready, served
from ._math import sigmoid, tanh
from ._memory import empty
from ._packed import laid_out, lay_out, lay_out_turned, multiply, spans


def lstm(x, h, c, w, v=None, *, sizes, reverse):
    """The states, the last state and cell, all cells, and the gates after sigmoid or tanh.

    Declines projections.
    """
    if v is not None or not served(x, h, c, w):
        return NotImplemented
    count, width = len(x), c.shape[1]
    y, cells, gates = (empty((count, k), x.dtype) for k in (width, width, 4 * width))
    last, cell = empty(h.shape, x.dtype), empty(c.shape, x.dtype)
    given, sums = [ready(each) for each in (x, h, c, w)], empty((len(h), 4 * width), x.dtype)
    _lstm(blas(), spans(sizes, reverse), *given, *laid_out(given[3].T, sizes), y, last, cell,
          cells, gates, sums)  # fmt: skip
    return y, last, cell, cells, gates


@compiled
def _lstm(blas, spans, x, h, c, w, plan, numbers, panels, y, last, cell, cells, gates, sums):
    copy(h, last)
    copy(c, cell)
    lay_out_turned(plan, w, panels)
    for k in range(spans.shape[0]):
        start, n = spans[k]
        a = sums[:n]
        a[:] = 0
        multiply(blas, plan, numbers, last[:n], w.T, panels, a)
        for i in range(n):
            _lstm_row(x[start + i], a[i], gates[start + i], cell[i], y[start + i])
        copy(cell[:n], cells[start : start + n])
        copy(y[start : start + n], last[:n])


@part
def _lstm_row(x, a, row, cell, y):
    width = cell.shape[0]
    i, f, u, o = row[:width], row[width : 2 * width], row[2 * width : 3 * width], row[3 * width :]
    x_u, x_o, a_u, a_o = x[2 * width :], x[3 * width :], a[2 * width :], a[3 * width :]
    both = row[: 2 * width]
    for j in range(both.shape[0]):
        both[j] = sigmoid(x[j] + a[j])
    for j in range(width):
        u[j] = tanh(x_u[j] + a_u[j])
    for j in range(width):
        o[j] = sigmoid(x_o[j] + a_o[j])
    for j in range(width):
        cell[j] = f[j] * cell[j] + i[j] * u[j]
    for j in range(width):
        y[j] = o[j] * tanh(cell[j])


def lstm_back(dy, dh, dc, gates, cells, c, w, *, sizes, reverse):
    """The cotangents of the gates' arguments, and those of the initial state and cell."""
    if not served(dy, dh, dc, gates, cells, c, w):
        return NotImplemented
    da, first, cell = (empty(a.shape, a.dtype) for a in (gates, dh, dc))
    given = [ready(each) for each in (dy, dh, dc, gates, cells, c, w)]
    scratch = empty(c.shape[1:], c.dtype)
    _lstm_back(blas(), spans(sizes, reverse), *given, *laid_out(given[6], sizes), da, first, cell,
               scratch)  # fmt: skip
    return da, first, cell


@compiled
def _lstm_back(
    blas, spans, dy, dh, dc, gates, cells, c, w, plan, numbers, panels, da, first, cell, scratch
):
    copy(dh, first)
    copy(dc, cell)
    lay_out(plan, w, panels)
    for k in range(spans.shape[0] - 1, -1, -1):
        start, n = spans[k]
        before, m = spans[k - 1 if k else 0]
        m = m if k else 0
        for i in range(n):
            past = cells[before + i] if i < m else c[i]
            row, slopes = gates[start + i], da[start + i]
            _lstm_out(dy[start + i], cells[start + i], row, first[i], cell[i], slopes, scratch)
            _lstm_in(row, past, cell[i], slopes)
        state = first[:n]
        state[:] = 0
        multiply(blas, plan, numbers, da[start : start + n], w, panels, state)


@part
def _lstm_out(dy, cells, row, dh, d, da, t):
    """dh += dy; t = tanh c; d += dh o (one - t^2); the cotangent of o's argument."""
    width, one = d.shape[0], d.dtype.type(1)
    o, do = row[3 * width :], da[3 * width :]
    for j in range(width):
        dh[j] += dy[j]
        t[j] = tanh(cells[j])
    for j in range(width):
        m = dh[j] * o[j]
        do[j] = m * t[j] * (one - o[j])
        d[j] += m * (one - t[j] * t[j])


@part
def _lstm_in(row, past, d, da):
    """The cotangents of the arguments of i, f and u, and d f."""
    width, one = d.shape[0], d.dtype.type(1)
    i, f, u = row[:width], row[width : 2 * width], row[2 * width : 3 * width]
    di, df, du = da[:width], da[width : 2 * width], da[2 * width : 3 * width]
    for j in range(width):
        di[j] = d[j] * u[j] * i[j] * (one - i[j])
        du[j] = d[j] * i[j] * (one - u[j] * u[j])
    for j in range(width):
        df[j] = d[j] * past[j] * f[j] * (one - f[j])
        d[j] = d[j] * f[j]
