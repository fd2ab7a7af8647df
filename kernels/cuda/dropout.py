"""Dropout by counted random numbers: see dropout.cu."""

from math import floor, prod

import numpy as np

from .runtime import suffix


def words(*values):
    """The low 32 bits of each value, as C `unsigned`."""
    return [np.uint32(value & 0xFFFFFFFF) for value in values]


def dropout(gpu, x, *, p, key, row, batch_dim):
    """x / (1 - p) where kept, else 0.

    key = (seed, step, draw); row: the global number of the first row along batch_dim.
    """
    kind = suffix(x)
    if kind is None:
        return NotImplemented
    seed, step, draw = key
    split = (1, 1, x.size)
    if batch_dim is not None:
        at = batch_dim % x.ndim
        split = (prod(x.shape[:at]), x.shape[at], prod(x.shape[at + 1 :]))
    x, y = gpu.contiguous(x), gpu.empty(x.shape, x.dtype)
    scale, threshold = x.dtype.type(1 / (1 - p) if p < 1 else 0), np.uint64(floor(p * 2**32))
    first_row = 0 if batch_dim is None else row
    args = (x, y, *split, scale, threshold, *words(seed, seed >> 32, first_row, draw, step))
    groups = -(-split[0] * split[2] // 4)
    gpu.launch_each("dropout", f"dropout_{kind}", groups * split[1], args)
    return y
