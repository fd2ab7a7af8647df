"""Inputs that anyone can make again, in any library, from one line."""

import numpy as np

import minidp as dp


def wave(*shape, scale=1.0, phase=0.0):
    """scale sin(1.7 i + phase) for i = 1, 2, ..., in C order."""
    return scale * np.sin(np.arange(1, np.prod(shape, dtype=int) + 1) * 1.7 + phase).reshape(shape)


def leaf(*shape, **options):
    """``wave`` as a float64 tensor that requires a gradient."""
    return dp.tensor(wave(*shape, **options), requires_grad=True)
