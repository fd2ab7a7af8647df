"""Dropout and noise by counted random numbers: see dropout.cu."""

from math import floor, prod

import numpy as np

from .runtime import number, suffix


def words(*values):
    """The low 32 bits of each value, as C `unsigned`."""
    return [np.uint32(value & 0xFFFFFFFF) for value in values]


def dropout(gpu, x, *, p, key, row, batch_dim):
    """x / (1 - p) where kept, else 0.

    key = (seed, step, draw); row: the global number of the first row along batch_dim.
    """
    scale = number(x)(x.dtype.type(1 / (1 - p) if p < 1 else 0))  # as x rounds it
    threshold = np.uint64(floor(p * 2**32))
    return counted(gpu, "dropout", (gpu.contiguous(x),), x, (scale, threshold), key, row, batch_dim)


def noise(gpu, x, *, key, row, batch_dim):
    """Uniform numbers between 0 and 1, neither included, one for each element of x."""
    return counted(gpu, "noise", (), x, (), key, row, batch_dim)


def counted(gpu, name, arrays, x, numbers, key, row, batch_dim):
    """Launch one thread for four elements of a row of an array like x."""
    kind, split = suffix(x), (1, 1, x.size)
    if kind is None:
        return NotImplemented
    if batch_dim is not None:
        at = batch_dim % x.ndim
        split = (prod(x.shape[:at]), x.shape[at], prod(x.shape[at + 1 :]))
    y, (seed, step, draw) = gpu.empty(x.shape, x.dtype), key
    counters = words(seed, seed >> 32, 0 if batch_dim is None else row, draw, step)
    groups = -(-split[0] * split[2] // 4)
    args = (*arrays, y, *split, *numbers, *counters)
    gpu.launch_each("dropout", f"{name}_{kind}", groups * split[1], args)
    return y
