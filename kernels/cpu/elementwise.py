"""The rectifier, bounds, choices, the logistic and the error function, and the smooth rectifier, on
any dense memory: contiguous in some order of axes. Eight bytes for a float32 (of choices 9 or 13),
and 1, 2, 1, 20, 40 or 40 flops."""

import math

import numpy as np

from ._jit import compiled
from ._layout import dense_order, flat, served, unflat
from ._math import erf as _erf_of
from ._math import log1pexp as _log1pexp_of
from ._math import sigmoid as _sigmoid_of
from ._memory import empty


def relu(x):
    """y = max(x, 0), NaN for NaN; declines arrays with gaps."""
    return _each(_relu, x)


def erf(x):
    """y = erf x; declines arrays with gaps."""
    return _each(_erf, x)


def log1pexp(x):
    """y = log(1 + e^x), without overflow; declines arrays with gaps."""
    return _each(_log1pexp, x)


def sigmoid(x):
    """y = 1 / (1 + e^-x); declines arrays with gaps."""
    return _each(_sigmoid, x)


def clamp(x, low=None, high=None):
    """y = min(max(x, low), high), NaN for NaN; declines bounds that are no numbers."""
    low, high = (-math.inf if low is None else low), (math.inf if high is None else high)
    known = isinstance(low, (int, float)) and isinstance(high, (int, float))
    if not known or low != low or high != high or not served(x):
        return NotImplemented
    return _each(_clamp, x, x.dtype.type(low), x.dtype.type(high))


def where(condition, a, b):
    """a where the condition holds, else b: arrays of one shape, one of them perhaps a number.
    Without branches, which random conditions would mislead."""
    if not getattr(condition, "ndim", 0) or condition.dtype.kind != "b":
        return NotImplemented
    like = a if getattr(a, "ndim", 0) else b
    order = dense_order(like) if getattr(like, "ndim", 0) and served(like) else None
    if order is None or like.shape != condition.shape:
        return NotImplemented
    a, b = _choice(a, like, order), _choice(b, like, order)
    if a is None or b is None:
        return NotImplemented
    y = empty(condition.size, like.dtype)
    _where(flat(condition, order), a, b, y)
    return unflat(y, condition.shape, order)


def _choice(x, like, order):
    """x flat like another array, a number as one element; None if its shape or dtype differs."""
    if not hasattr(x, "dtype"):
        return np.array((x,), like.dtype)
    if x.dtype != like.dtype or x.shape not in ((), like.shape):
        return None
    return flat(x, order) if x.ndim else x.reshape(1)


def _each(function, x, *numbers):
    """What a compiled function makes of the elements of x, in the layout of x."""
    order = dense_order(x) if served(x) else None
    if order is None:
        return NotImplemented
    y = empty(x.size, x.dtype)
    function(flat(x, order), y, *numbers)
    return unflat(y, x.shape, order)


@compiled
def _where(condition, a, b, y):
    if len(a) < len(y):
        first = a[0]
        for i in range(len(y)):
            second = b[i]
            y[i] = first if condition[i] else second
    elif len(b) < len(y):
        second = b[0]
        for i in range(len(y)):
            first = a[i]
            y[i] = first if condition[i] else second
    else:
        for i in range(len(y)):
            first, second = a[i], b[i]
            y[i] = first if condition[i] else second


@compiled
def _clamp(x, y, low, high):
    for i in range(x.shape[0]):
        least = low if x[i] <= low else x[i]
        y[i] = high if least >= high else least


@compiled
def _relu(x, y):
    zero = x.dtype.type(0)
    for i in range(x.shape[0]):
        y[i] = zero if x[i] <= zero else x[i]


def relu_input(g, y):
    """dx = g where y > 0 or y is NaN, else 0, in the layout of y; declines a y with gaps."""
    order = dense_order(y) if served(g, y) and g.shape == y.shape else None
    if order is None:
        return NotImplemented
    dx = empty(y.size, y.dtype)
    _relu_input(flat(g, order), flat(y, order), dx)
    return unflat(dx, y.shape, order)


@compiled
def _relu_input(g, y, dx):
    zero = y.dtype.type(0)
    for i in range(y.shape[0]):
        dx[i] = zero if y[i] <= zero else g[i]


@compiled
def _sigmoid(x, y):
    for i in range(x.shape[0]):
        y[i] = _sigmoid_of(x[i])


@compiled
def _erf(x, y):
    for i in range(x.shape[0]):
        y[i] = _erf_of(x[i])


@compiled
def _log1pexp(x, y):
    for i in range(x.shape[0]):
        y[i] = _log1pexp_of(x[i])
