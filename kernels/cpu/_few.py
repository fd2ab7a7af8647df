"""Sums of a few values in their own dtype, in many lanes.

Longer sums add these in float64: so they cost what memory costs, and err as little as sums of FEW.
"""

from ._jit import summing

FEW = 512


@summing
def sum_of(x):
    """The sum of a vector."""
    total = x.dtype.type(0)
    for k in range(x.shape[0]):
        total += x[k]
    return total


@summing
def squares_of(x, level):
    """The sum of the squares of a vector less a number."""
    total = x.dtype.type(0)
    for k in range(x.shape[0]):
        total += (x[k] - level) * (x[k] - level)
    return total
