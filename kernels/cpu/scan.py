"""Running sums, products and extremes along an axis, and what goes back through products.

Along a row each value waits for the one before it: so four rows are gone through side by side.
Along another axis all that lie behind one another are. Sums and products are kept in float64.
"""

import math

import numpy as np

from ._jit import compiled, part
from ._layout import ready, served
from ._memory import empty

WHOLE, DOUBLE = np.dtype(np.int64), np.dtype(np.float64)


def cumsum(x, *, dim, backward):
    """Running sums along `dim`."""
    return _along(x, dim, backward, False)


def cumprod(x, *, dim):
    """Running products along `dim`."""
    return _along(x, dim, False, True)


def _along(x, dim, backward, is_product):
    if not served(x) or not x.ndim:
        return NotImplemented
    sides = _sides(x, dim)
    y, given = empty(sides, x.dtype), ready(x).reshape(sides)
    if sides[2] == 1:
        _rows(given.reshape(sides[:2]), backward, is_product, y.reshape(sides[:2]))
    else:
        _columns(given, backward, is_product, y, empty(sides[2:], DOUBLE))
    return y.reshape(x.shape)


def _sides(x, dim):
    """(places before, along and behind `dim`)."""
    dim %= x.ndim
    return math.prod(x.shape[:dim]), x.shape[dim], math.prod(x.shape[dim + 1 :])


@part
def _with(total, value, is_product):
    return total * value if is_product else total + value


@compiled
def _rows(x, backward, is_product, y):
    rows, length, start = x.shape[0], x.shape[1], np.float64(1 if is_product else 0)
    for i in range(0, rows - 3, 4):
        a = b = c = d = start
        for k in range(length):
            at = length - 1 - k if backward else k
            a, b = _with(a, x[i, at], is_product), _with(b, x[i + 1, at], is_product)
            c, d = _with(c, x[i + 2, at], is_product), _with(d, x[i + 3, at], is_product)
            y[i, at], y[i + 1, at], y[i + 2, at], y[i + 3, at] = a, b, c, d
    for i in range(rows - rows % 4, rows):
        a = start
        for k in range(length):
            at = length - 1 - k if backward else k
            a = _with(a, x[i, at], is_product)
            y[i, at] = a


@compiled
def _columns(x, backward, is_product, y, total):
    length = x.shape[1]
    for i in range(x.shape[0]):
        total[:] = 1 if is_product else 0
        for k in range(length):
            at = length - 1 - k if backward else k
            for j in range(x.shape[2]):
                total[j] = _with(total[j], x[i, at, j], is_product)
                y[i, at, j] = total[j]


def cumprod_input(dy, x, *, dim):
    """dx_k = p_k s_k with p_k the product before x_k and s_k = dy_k + x_(k+1) s_(k+1)."""
    if not served(dy, x) or not x.ndim or dy.shape != x.shape:
        return NotImplemented
    sides = _sides(x, dim)
    dx, before = empty(sides, x.dtype), empty(sides[1:], DOUBLE)
    run = _rows_back if sides[2] == 1 else _columns_back
    run(ready(dy).reshape(sides), ready(x).reshape(sides), before, empty(sides[2:], DOUBLE), dx)
    return dx.reshape(x.shape)


@compiled
def _columns_back(g, x, before, total, dx):
    last = x.shape[1] - 1
    for i in range(x.shape[0]):
        total[:] = 1
        for k in range(last + 1):
            for j in range(x.shape[2]):
                before[k, j] = total[j]
                total[j] *= x[i, k, j]
        total[:] = 0
        for k in range(last, -1, -1):
            for j in range(x.shape[2]):
                later = x[i, k + 1, j] * total[j] if k < last else 0.0
                total[j] = g[i, k, j] + later
                dx[i, k, j] = before[k, j] * total[j]


@compiled
def _rows_back(g, x, before, total, dx):
    last = x.shape[1] - 1
    for i in range(x.shape[0]):
        product, along, factor = np.float64(1), np.float64(0), np.float64(0)
        for k in range(last + 1):
            before[k, 0] = product
            product *= x[i, k, 0]
        for k in range(last, -1, -1):
            along = g[i, k, 0] + factor * along
            factor = np.float64(x[i, k, 0])
            dx[i, k, 0] = before[k, 0] * along


def running_place(x, *, dim, largest):
    """Where the extreme so far is along `dim`: the last of equals, or NaN."""
    if not served(x) or not x.ndim:
        return NotImplemented
    sides = _sides(x, dim)
    places, given = empty(sides, WHOLE), ready(x).reshape(sides)
    if sides[2] == 1:
        _places(given.reshape(sides[:2]), largest, places.reshape(sides[:2]))
    else:
        top, best = empty(sides[2:], x.dtype), empty(sides[2:], WHOLE)
        _places_behind(given, largest, top, best, places)
    return places.reshape(x.shape)


@part
def _is_better(value, top, largest):
    """Whether the value takes the place of the extreme so far; NaN does, and stays."""
    worse = value < top if largest else value > top
    return not worse and not (top != top and value == value)


@compiled
def _places(x, largest, places):
    for i in range(x.shape[0]):
        best, top = 0, x[i, 0] if x.shape[1] else x.dtype.type(0)
        for j in range(x.shape[1]):
            value = x[i, j]
            worse = value < top if largest else value > top
            if not worse and not (top != top and value == value):  # a branch is soon foreseen
                best, top = j, value
            places[i, j] = best


@compiled
def _places_behind(x, largest, top, best, places):
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            for j in range(x.shape[2]):
                value = x[i, k, j]
                better = k == 0 or _is_better(value, top[j], largest)
                top[j] = value if better else top[j]
                best[j] = k if better else best[j]
                places[i, k, j] = best[j]
