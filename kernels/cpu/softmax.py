"""Softmax, its logarithm, and what goes back: about 20 flops an element.

Rows are shifted by their maximum, and sums are accumulated in float64. An axis that is not the
last in memory is gone through with its neighbours side by side, or brought last by a copy.
"""

import math

import numpy as np

from ._jit import compiled, part, summing
from ._layout import along_rows, ready, rows_along, served
from ._math import exp, larger
from ._memory import empty

BLOCK = 4096  # values gone through side by side
DOUBLE = np.dtype(np.float64)


def softmax(x, *, dim):
    """y = exp(x) / sum of exp(x) along `dim`."""
    return _along(x, dim, False)


def log_softmax(x, *, dim):
    """y = x - log(sum of exp(x)) along `dim`."""
    return _along(x, dim, True)


def _along(x, dim, is_log):
    if not served(x) or not x.size or not x.ndim:
        return empty(x.shape, x.dtype) if served(x) and x.ndim else NotImplemented
    shape = _columns_of(x, dim)
    if shape is not None:
        y, scratch = empty(x.shape, x.dtype), empty((2, shape[2]), x.dtype)
        _columns(ready(x).reshape(shape), y.reshape(shape), scratch, is_log)
        return y
    rows = rows_along(x, dim)
    y = empty(rows.shape, x.dtype)
    tops, sums = exponentials_of(rows, y)
    (_logarithms if is_log else _shares)(rows, y, tops, sums)
    return along_rows(y, x.shape, dim)


def logsumexp(x, *, dim, keepdim):
    """y = log(sum of exp(x)) along `dim`; declines several axes."""
    axis = dim[0] if isinstance(dim, (tuple, list)) and len(dim) == 1 else dim
    if not served(x) or not x.size or not isinstance(axis, int) or not -x.ndim <= axis < x.ndim:
        return NotImplemented
    rows, axis = rows_along(x, axis), axis % x.ndim
    y, scratch = empty((len(rows),), x.dtype), empty((height(rows), rows.shape[1]), x.dtype)
    _levels(rows, y, *exponentials_of(rows, scratch))
    return y.reshape(x.shape[:axis] + (1,) * keepdim + x.shape[axis + 1 :])


@compiled
def _levels(x, y, tops, sums):
    for i in range(x.shape[0]):
        if np.isfinite(tops[i]):
            y[i] = np.log(sums[i]) + tops[i]
        else:  # then differences are NaN, exponentials are not
            total = 0.0
            for j in range(x.shape[1]):
                total += np.exp(x[i, j])
            y[i] = np.log(total)


def exponentials_of(rows, y):
    """(the largest of each row, the sums of exp(row - largest)); these go to y, where there are
    fewer rows than that only for a while."""
    tops, sums = empty((len(rows),), rows.dtype), empty((len(rows),), DOUBLE)
    _exponentials(rows, y, tops, sums, height(rows))
    return tops, sums


def height(rows):
    """How many rows are gone through side by side: what one waits for, another one can use."""
    return max(1, min(len(rows), BLOCK // max(1, rows.shape[1])))


def _columns_of(x, dim):
    """(places before, along and behind `dim`), None where `dim` is the last in memory."""
    dim %= x.ndim
    places = math.prod(x.shape[dim + 1 :])
    if places < 2 or np.moveaxis(x, dim, -1).flags.c_contiguous:
        return None
    return math.prod(x.shape[:dim]), x.shape[dim], places


@compiled
def _exponentials(x, y, tops, sums, count):
    is_whole = y.shape[0] == x.shape[0]
    for start in range(0, x.shape[0], count):
        end = start + count if start + count < x.shape[0] else x.shape[0]
        shift = 0 if is_whole else start
        for i in range(start, end):
            tops[i] = _largest(x, i)
        for i in range(start, end):
            _shifted(x, i, tops[i], y, i - shift)
        for i in range(start, end):
            sums[i] = _sum(y, i - shift)


@compiled
def _logarithms(x, y, tops, sums):
    for i in range(x.shape[0]):
        top, rest = tops[i], x.dtype.type(np.log(sums[i]))
        for j in range(x.shape[1]):
            y[i, j] = x[i, j] - top - rest


@compiled
def _shares(x, y, tops, sums):
    for i in range(x.shape[0]):
        scale = x.dtype.type(1 / sums[i])
        for j in range(x.shape[1]):
            y[i, j] *= scale


@part
def _shifted(x, i, top, y, at):
    for j in range(x.shape[1]):
        y[at, j] = exp(x[i, j] - top)


@part
def _largest(x, i):
    top = x.dtype.type(-np.inf)
    for j in range(x.shape[1]):
        top = larger(x[i, j], top)
    return top


@summing
def _sum(x, i):
    total = 0.0
    for j in range(x.shape[1]):
        total += x[i, j]
    return total


@compiled
def _columns(x, y, scratch, is_log):
    top, total = scratch[0], scratch[1]
    for i in range(x.shape[0]):
        top[:], total[:] = -np.inf, 0
        for k in range(x.shape[1]):
            for j in range(x.shape[2]):
                top[j] = larger(x[i, k, j], top[j])
        for k in range(x.shape[1]):
            for j in range(x.shape[2]):
                y[i, k, j] = exp(x[i, k, j] - top[j])
            for j in range(x.shape[2]):
                total[j] += y[i, k, j]
        for j in range(x.shape[2]):
            total[j] = np.log(total[j]) if is_log else 1 / total[j]
        for k in range(x.shape[1]):
            if is_log:
                for j in range(x.shape[2]):
                    y[i, k, j] = x[i, k, j] - top[j] - total[j]
            else:
                for j in range(x.shape[2]):
                    y[i, k, j] *= total[j]


def softmax_input(dy, y, *, dim):
    """dx = y (dy - sum of dy y along `dim`)."""
    return _back(dy, y, dim, False)


def log_softmax_input(dy, y, *, dim):
    """dx = dy - exp(y) sum of dy along `dim`."""
    return _back(dy, y, dim, True)


def _back(dy, y, dim, is_log):
    if not served(dy, y) or not y.ndim:
        return NotImplemented
    shape = _columns_of(y, dim)
    if shape is not None:
        dx, total = empty(shape, y.dtype), empty(shape[2:], y.dtype)
        _columns_back(ready(dy).reshape(shape), ready(y).reshape(shape), dx, total, is_log)
        return dx.reshape(y.shape)
    rows = rows_along(y, dim)
    dx = empty(rows.shape, y.dtype)
    _rows_back(rows_along(dy, dim), rows, dx, is_log)
    return along_rows(dx, y.shape, dim)


@compiled
def _rows_back(g, y, dx, is_log):
    for i in range(y.shape[0]):
        if is_log:
            total = y.dtype.type(_sum(g, i))
            for j in range(y.shape[1]):
                dx[i, j] = g[i, j] - exp(y[i, j]) * total
        else:
            total = y.dtype.type(_sum_products(g, y, i))
            for j in range(y.shape[1]):
                dx[i, j] = y[i, j] * (g[i, j] - total)


@summing
def _sum_products(x, y, i):
    total = 0.0
    for j in range(x.shape[1]):
        total += x[i, j] * y[i, j]
    return total


@compiled
def _columns_back(g, y, dx, total, is_log):
    for i in range(y.shape[0]):
        total[:] = 0
        for k in range(y.shape[1]):
            if is_log:
                for j in range(y.shape[2]):
                    total[j] += g[i, k, j]
            else:
                for j in range(y.shape[2]):
                    total[j] += g[i, k, j] * y[i, k, j]
        for k in range(y.shape[1]):
            if is_log:
                for j in range(y.shape[2]):
                    dx[i, k, j] = g[i, k, j] - exp(y[i, k, j]) * total[j]
            else:
                for j in range(y.shape[2]):
                    dx[i, k, j] = y[i, k, j] * (g[i, k, j] - total[j])
