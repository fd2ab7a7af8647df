"""The one door through which CPU kernels get memory for results and scratch.

A kernel's Python side only reads shapes and asks for memory here; everything it does with values
happens in compiled functions. So a captured step can keep the memory and repeat the calls alone.
While a thread takes notes, memory is `Traced`: what NumPy's functions do with it is noted too.
"""

import numpy as np

from ._notes import noting
from ._traced import made


def empty(shape, dtype):
    """An array of unknown content, dense in the order of its axes."""
    y = np.empty(shape, dtype)
    return y if noting.notes is None else made(y)


def zeros(shape, dtype):
    """An array of zeros, dense in the order of its axes."""
    if noting.notes is None:
        return np.zeros(shape, dtype)
    y = empty(shape, dtype)
    y.fill(0)
    return y
