"""Whether numbers are finite."""

import numpy as np

from ._jit import compiled


def all_finite(x):
    """Whether no element of an array is NaN or infinite."""
    return _all_finite(x.reshape(-1))


@compiled
def _all_finite(x):
    strange = False
    for i in range(x.shape[0]):
        strange |= not np.isfinite(x[i])
    return not strange
