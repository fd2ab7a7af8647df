"""The one door through which CPU kernels get memory for results and scratch.

A kernel's Python side only reads shapes and asks for memory here; everything it does with values
happens in compiled functions. So a captured step can keep the memory and repeat the calls alone.
While a thread takes notes, memory is `Traced`: what NumPy's functions do with it is noted too.

Large arrays begin at cache lines. NumPy's begin anywhere (at multiples of 16 bytes), and then each
vector of AVX-512 lies in two lines: depthwise convolution in the second cache takes 1.2 (forward)
to 1.6 times (weight gradient) as long.
"""

import ctypes
import math

import numpy as np

from ._notes import noting
from ._traced import made

LINE = 64  # bytes of a cache line
LARGE = 1 << 14  # values of an array that is worth a microsecond


def empty(shape, dtype):
    """An array of unknown content, dense in the order of its axes."""
    if noting.notes is not None:
        return made(np.empty(shape, dtype))
    count = shape if isinstance(shape, int) else math.prod(shape)
    if count < LARGE:
        return np.empty(shape, dtype)
    memory = np.empty(count * np.dtype(dtype).itemsize + LINE, np.uint8)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))  # a fifth of NumPy's own ways
    return np.ndarray(shape, dtype, memory, -start % LINE)


def zeros(shape, dtype):
    """An array of zeros, dense in the order of its axes."""
    if noting.notes is None:
        return np.zeros(shape, dtype)
    y = empty(shape, dtype)
    y.fill(0)
    return y
