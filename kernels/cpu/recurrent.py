"""One step of an LSTM backwards, in one pass; the hyperbolic tangent is NumPy's (SIMD)."""

import numpy as np

from ._jit import compiled
from ._layout import ready, served
from ._memory import empty


def lstm_back(dm, dc, gates, cell, past):
    """(cotangents of the gates' arguments, that of the old cell)."""
    if not served(dm, dc, gates, cell, past):
        return NotImplemented
    da, before = empty(gates.shape, gates.dtype), empty(cell.shape, cell.dtype)
    _back(ready(dm), ready(dc), ready(gates), np.tanh(ready(cell)), ready(past), da, before)
    return da, before


@compiled
def _back(dm, dc, gates, t, past, da, before):
    one, width = dm.dtype.type(1), dm.shape[1]
    for row in range(dm.shape[0]):
        gate, out = gates[row], da[row]
        for j in range(width):
            i, f, u, o = gate[j], gate[width + j], gate[2 * width + j], gate[3 * width + j]
            m = dm[row, j] * o
            d = dc[row, j] + m * (one - t[row, j] * t[row, j])
            out[j] = d * u * i * (one - i)
            out[width + j] = d * past[row, j] * f * (one - f)
            out[2 * width + j] = d * i * (one - u * u)
            out[3 * width + j] = m * t[row, j] * (one - o)
            before[row, j] = d * f
