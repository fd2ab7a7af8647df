"""The element-wise part of an LSTM's step backwards: see recurrent.cu."""

from .runtime import suffix


def lstm_back(gpu, dm, dc, gates, cell, past):
    """(cotangents of the gates' arguments (n, 4 h), that of the old cell (n, h))."""
    kind, arrays = suffix(dm, dc, gates, cell, past), (dm, dc, gates, cell, past)
    if kind is None:
        return NotImplemented
    da, before = gpu.empty(gates.shape, gates.dtype), gpu.empty(cell.shape, cell.dtype)
    args = (*map(gpu.contiguous, arrays), da, before, cell.size, cell.shape[1])
    gpu.launch_each("recurrent", f"lstm_back_{kind}", cell.size, args)
    return da, before
