"""Products of matrices, and affine maps of rows: see `_product`."""

from ._layout import ready, served
from ._machine_code import host
from ._product import product


def matmul(a, b):
    """y = a b for matrices a (rows, sums) and b (sums, columns)."""
    if not served(a, b) or a.ndim != 2 or b.ndim != 2 or not _fits(a, b):
        return NotImplemented
    return product(a, b)


def linear(x, w, b=None):
    """y = x w^T + b for x (n, c), w (k, c), b (k)."""
    if not served(x, w, b) or not _fits(x, w):
        return NotImplemented
    return product(x, w.T, None if b is None else ready(b))


def _fits(a, b):
    """Whether there is something to add up, and vectors to do it with."""
    return host() is not None and a.shape[1] > 1 and a.size and b.size
