"""The one door through which CPU kernels get memory for results and scratch.

A kernel's Python side only reads shapes and asks for memory here; everything it does with values
happens in compiled functions. So a captured step can keep the memory and repeat the calls alone.
"""

import numpy as np


def empty(shape, dtype):
    """An array of unknown content, dense in the order of its axes."""
    return np.empty(shape, dtype)
