"""Products of matrices: by cuBLAS through CuPy, but in a CUDA graph by linalg.cu.

CuPy raises NotImplementedError for a call of cuBLAS while a stream is captured (its issue 6290).
"""

from math import prod

import numpy as np

from .runtime import THREADS, blocks, int32, suffix

SIDE = 64  # of a tile


def matmul(gpu, a, b):
    """a @ b in a graph; declines else."""
    return product(gpu, a, b) if gpu.capturing else NotImplemented


def linear(gpu, x, w, b=None):
    """y = x w^T + b in a graph; declines else."""
    y = product(gpu, x, w.T) if gpu.capturing else NotImplemented
    if b is not None and y is not NotImplemented:
        y += b
    return y


def multiplied(gpu, a, b):
    """a @ b, wherever we are."""
    return product(gpu, a, b) if gpu.capturing else gpu.xp.matmul(a, b)


def product(gpu, a, b):
    """a (..., i, k) times b (..., k, j) by our kernel; declines mixed types and vectors."""
    kind = suffix(a, b)
    if kind is None or min(a.ndim, b.ndim) < 2:
        return NotImplemented
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    (rows, depth), columns = a.shape[-2:], b.shape[-1]
    a, *a_steps = laid(gpu, a, batch)
    b, *b_steps = laid(gpu, b, batch)
    c = gpu.empty((*batch, rows, columns), a.dtype)
    args = (a, b, c, *int32(rows), columns, depth, *a_steps, *b_steps)
    tiles = prod(batch) * blocks(rows, SIDE) * blocks(columns, SIDE)
    gpu.launch("linalg", f"matmul_{kind}", tiles, THREADS, args)
    return c


def laid(gpu, x, batch):
    """Matrices as the kernel takes them: the array, elements from one to the next, to the next row,
    to the next column. One matrix may serve all, and may lie in columns."""
    if x.ndim == 2 and x.flags.f_contiguous and not x.flags.c_contiguous:
        return x.T, 0, 1, x.shape[0]
    if x.ndim > 2 and x.shape[:-2] != batch:
        x = gpu.xp.broadcast_to(x, (*batch, *x.shape[-2:]))
    x = gpu.contiguous(x)
    return x, 0 if x.ndim == 2 else x.shape[-2] * x.shape[-1], x.shape[-1], 1
