"""Packed rows: those of step 0 of all sequences, then those of step 1, and so on.

Each step multiplies its rows by the same weights, which are laid out once for all of them.
"""

from functools import lru_cache

import numpy as np

from . import _small
from ._blas import add_product
from ._jit import part
from ._machine_code import host
from ._memory import empty

FEW = 3  # steps for which weights are not worth laying out


@lru_cache(1024)
def spans(sizes, reverse):
    """(first row, rows) of each step, in the order of computing."""
    starts = np.cumsum((0, *sizes[:-1]), dtype=np.int64)
    steps = np.stack([starts, np.array(sizes, np.int64)], axis=1)
    return np.ascontiguousarray(steps[::-1] if reverse else steps)


def laid_out(b, sizes):
    """(a plan, memory for numbers and for panels) to multiply the rows of steps of these sizes by
    the matrix b; an empty plan where BLAS is to do it."""
    plan, count = _planned(b.dtype, b.shape, sizes)
    return plan, _small.numbers(), empty(count, b.dtype)


@lru_cache(1024)
def _planned(dtype, shape, sizes):
    """The plan, and how many values there are in panels."""
    if len(sizes) <= FEW or host() is None:
        return np.empty(0, np.int64), 0
    return _small.plan_of(dtype, frozenset(sizes)), _small.panels(*shape, dtype)


@part
def lay_out(plan, b, panels):
    """Fill the panels of b, if there are to be any."""
    if plan.shape[0]:
        _small.gathered(plan, b, panels)


@part
def lay_out_turned(plan, w, panels):
    """Fill those of w^T."""
    if plan.shape[0]:
        _small.turned(plan, w, panels)


@part
def multiply(blas, plan, numbers, a, b, panels, y):
    """y += a b."""
    (rows, sums), columns = a.shape, y.shape[1]
    if plan.shape[0]:
        _small.product(plan, numbers, y.itemsize, (rows, sums, columns), a.ctypes.data, (sums, 1),
                       panels.ctypes.data, (sums * plan[0], plan[0]), y.ctypes.data,
                       columns)  # fmt: skip
    else:
        add_product(blas, a, b, y)
