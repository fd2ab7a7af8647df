"""Products of matrices, and affine maps of rows, by register tiles: see `_product`.

A product of a column and a row costs one flop for each value written. One row is multiplied by a
matrix in the order in which it lies in memory, which is all there is to wait for: 2 flops for each
4 bytes read, at 55 GB/s from the second and the third cache, as PyTorch's library does.

A rectifier behind a product costs nothing. A mask is 4 bytes more to read for each value written:
4 us beside the 172 of a product of 128 rows, 256 terms and 512 columns; a pass of its own takes 16.
"""

from ._dots import are_few, few
from ._jit import compiled, part
from ._layout import ready, served
from ._machine_code import host
from ._math import fma
from ._memory import empty
from ._product import chain, product
from .elementwise import relu_input

WIDE = 4096  # columns gone through side by side, whose sums stay in the first cache


def matmul(a, b):
    """y = a b for matrices a (rows, sums) and b (sums, columns)."""
    if not served(a, b) or a.ndim != 2 or b.ndim != 2 or not _fits(a, b):
        return NotImplemented
    if a.shape[1] == 1:
        y = empty((len(a), b.shape[1]), a.dtype)
        _outer(ready(a).reshape(-1), ready(b).reshape(-1), y)
        return y
    if len(a) == 1 and b.flags.carray:
        y, sums = empty((1, b.shape[1]), a.dtype), empty((WIDE,), a.dtype)
        _row(ready(a).reshape(-1), b, sums, y.reshape(-1), chain(a.shape[1]))
        return y
    return product(a, b)


def matmul_relu_input(a, b, y):
    """a b where y > 0 or y is NaN, else 0, in the layout of y; see `relu_input`."""
    if not served(a, b, y) or a.ndim != 2 or b.ndim != 2 or not _fits(a, b):
        return NotImplemented
    if len(a) > 1 and a.shape[1] > 1 and y.flags.carray:
        return product(a, b, mask=y)
    g = matmul(a, b)
    return NotImplemented if g is NotImplemented else relu_input(g, y)


def linear(x, w, b=None):
    """y = x w^T + b for x (n, c), w (k, c), b (k)."""
    return _affine(x, w, b, False)


def linear_relu(x, w, b=None):
    """max(y, 0) of the same, NaN for NaN: cut off before it is written."""
    return _affine(x, w, b, True)


def _affine(x, w, b, is_cut):
    if not served(x, w, b) or x.shape[1] == 1 or not _fits(x, w):
        return NotImplemented
    b = None if b is None else ready(b)
    if are_few(x, w):
        y = empty((len(x), len(w)), x.dtype)
        few(ready(x), w, b, y, chain(w.shape[1]), is_cut)
        return y
    return product(x, w.T, b, relu=is_cut)


def _fits(a, b):
    """Whether there is something to add up, and vectors to do it with."""
    return host() is not None and a.size and b.size


@compiled
def _outer(a, b, y):
    for i in range(y.shape[0]):
        for j in range(y.shape[1]):
            y[i, j] = a[i] * b[j]


@compiled
def _row(a, b, sums, y, count):
    """y = a b, where each value is added up as tiles do it: in one chain for `count` terms."""
    for left in range(0, y.shape[0], WIDE):
        right = min(left + WIDE, y.shape[0])
        for first in range(0, a.shape[0], count):
            last = min(first + count, a.shape[0])
            sums[:] = 0
            for k in range(first, last - 3, 4):
                _add_four(a[k : k + 4], b[k, left:right], b[k + 1, left:right],
                          b[k + 2, left:right], b[k + 3, left:right], sums)  # fmt: skip
            for k in range(last - (last - first) % 4, last):
                _add_one(a[k], b[k, left:right], sums)
            for j in range(right - left):
                y[left + j] = sums[j] if first == 0 else y[left + j] + sums[j]


@part
def _add_four(a, p, q, r, s, sums):
    first, second, third, fourth = a[0], a[1], a[2], a[3]
    for j in range(len(p)):
        value = fma(second, q[j], fma(first, p[j], sums[j]))
        sums[j] = fma(fourth, s[j], fma(third, r[j], value))


@part
def _add_one(a, row, sums):
    for j in range(len(row)):
        sums[j] = fma(a, row[j], sums[j])
