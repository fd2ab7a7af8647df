"""GRU over all steps of packed rows, forwards and backwards, each one compiled call.

Per step a matrix product by BLAS, 2 n k h flops for the k = 3 h gates of n sequences, and then
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


def gru(x, h, w, b=None, *, sizes, reverse):
    """The states, the last ones, and (r, z, u, w_u h)."""
    if not served(x, h, w, b):
        return NotImplemented
    width, dtype = h.shape[1], x.dtype
    y, last, gates = (empty(s, dtype) for s in ((len(x), width), h.shape, (len(x), 4 * width)))
    bias = empty((0,), dtype) if b is None else ready(b)
    a, given = empty((len(h), 3 * width), dtype), [ready(each) for each in (x, h, w)]
    _gru(blas(), spans(sizes, reverse), *given, bias, *laid_out(given[2].T, sizes), y, last, gates,
         a)  # fmt: skip
    return y, last, gates


@compiled
def _gru(blas, spans, x, h, w, b, plan, numbers, panels, y, last, gates, a):
    copy(h, last)
    lay_out_turned(plan, w, panels)
    for k in range(spans.shape[0]):
        start, n = spans[k]
        for i in range(n):
            if b.shape[0]:
                copy(b, a[i])
            else:
                a[i] = 0
        multiply(blas, plan, numbers, last[:n], w.T, panels, a[:n])
        for i in range(n):
            _gru_row(x[start + i], a[i], gates[start + i], last[i], y[start + i])


@part
def _gru_row(x, a, row, h, y):
    width = h.shape[0]
    both, u, q = row[: 2 * width], row[2 * width : 3 * width], row[3 * width :]
    r, z, x_u = row[:width], row[width : 2 * width], x[2 * width :]
    for j in range(both.shape[0]):
        both[j] = sigmoid(x[j] + a[j])
    copy(a[2 * width :], q)
    for j in range(width):
        u[j] = tanh(x_u[j] + r[j] * q[j])
    for j in range(width):
        y[j] = u[j] + z[j] * (h[j] - u[j])
        h[j] = y[j]


def gru_back(dy, dh, y, gates, h, w, *, sizes, reverse):
    """The cotangents of x, of w h + b, and of the initial state."""
    if not served(dy, dh, y, gates, h, w):
        return NotImplemented
    shape = len(gates), 3 * h.shape[1]
    dx, da, first = (empty(s, y.dtype) for s in (shape, shape, h.shape))
    given = [ready(each) for each in (dy, dh, y, gates, h, w)]
    _gru_back(blas(), spans(sizes, reverse), *given, *laid_out(given[5], sizes), dx, da, first)
    return dx, da, first


@compiled
def _gru_back(blas, spans, dy, dh, y, gates, h, w, plan, numbers, panels, dx, da, first):
    copy(dh, first)
    lay_out(plan, w, panels)
    for k in range(spans.shape[0] - 1, -1, -1):
        start, n = spans[k]
        before, m = spans[k - 1 if k else 0]
        m = m if k else 0
        for i in range(n):
            past = y[before + i] if i < m else h[i]
            at = start + i
            _gru_row_back(dy[at], gates[at], past, first[i], dx[at], da[at])
        multiply(blas, plan, numbers, da[start : start + n], w, panels, first[:n])


@part
def _gru_row_back(dy, row, past, d, dx, da):
    """d += dy; the cotangents of the arguments of r, z and u; d z."""
    width, one = d.shape[0], d.dtype.type(1)
    r, z, u, q = row[:width], row[width : 2 * width], row[2 * width : 3 * width], row[3 * width :]
    dr, dz, du = dx[:width], dx[width : 2 * width], dx[2 * width :]
    da_z, da_u = da[width : 2 * width], da[2 * width :]
    for j in range(width):
        d[j] += dy[j]
    for j in range(width):
        du[j] = d[j] * (one - z[j]) * (one - u[j] * u[j])
        da_u[j] = du[j] * r[j]
    for j in range(width):
        dr[j] = du[j] * q[j] * r[j] * (one - r[j])
    for j in range(width):
        da_z[j] = d[j] * (past[j] - u[j]) * z[j] * (one - z[j])
    for j in range(width):
        d[j] *= z[j]
    copy(dr, da[:width])
    copy(da_z, dz)
