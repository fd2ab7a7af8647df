"""Packed rows: those of step 0 of all sequences, then those of step 1, and so on."""

from functools import cache

import numpy as np


@cache
def spans(sizes, reverse):
    """(first row, rows) of each step, in the order of computing."""
    starts = np.cumsum((0, *sizes[:-1]), dtype=np.int64)
    steps = np.stack([starts, np.array(sizes, np.int64)], axis=1)
    return np.ascontiguousarray(steps[::-1] if reverse else steps)
