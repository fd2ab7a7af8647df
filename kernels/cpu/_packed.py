"""Packed rows: those of step 0 of all sequences, then those of step 1, and so on."""

from functools import cache

import numpy as np

from ._blas import add_product
from ._jit import part
from ._memory import empty

FEW = 3  # steps for which weights are not worth turning
STRIPE = 16  # rows turned side by side: what is written fills lines of the cache


@cache
def spans(sizes, reverse):
    """(first row, rows) of each step, in the order of computing."""
    starts = np.cumsum((0, *sizes[:-1]), dtype=np.int64)
    steps = np.stack([starts, np.array(sizes, np.int64)], axis=1)
    return np.ascontiguousarray(steps[::-1] if reverse else steps)


def turned(w, sizes):
    """Memory for w^T, with no rows where there are few steps."""
    return empty((w.shape[1] if len(sizes) > FEW else 0, w.shape[0]), w.dtype)


@part
def turn(w, out):
    """out = w^T, if there is room: BLAS multiplies by it up to four times as fast as by w.T."""
    for start in range(0, w.shape[0] if out.shape[0] else 0, STRIPE):
        rows = w[start : start + STRIPE]
        for j in range(out.shape[0]):
            target = out[j, start : start + STRIPE]
            for i in range(rows.shape[0]):
                target[i] = rows[i, j]


@part
def multiply(blas, h, w, wide, y):
    """y += h w^T, where ``wide`` is w^T or empty."""
    if wide.shape[0]:
        add_product(blas, h, wide, y)
    else:
        add_product(blas, h, w.T, y)
