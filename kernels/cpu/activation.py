"""Activations in one pass over any dense memory, and what goes back through them.

Eight bytes forwards and twelve backwards for a float32; 2 to 40 flops. The functions are those of
`_math`, so loops over them become vector code.
"""

import math

from ._jit import compiled
from ._layout import dense_order, flat, served, unflat
from ._math import below, decay, exp, expm1, log1pexp, sigmoid, tanh
from ._memory import empty

BELL = 1 / math.sqrt(2 * math.pi)
BEND, CUBE = math.sqrt(2 / math.pi), 0.044715


def activation(x, *, kind, a, b):
    """y = f(x); declines arrays with gaps."""
    order = dense_order(x) if served(x) else None
    if order is None:
        return NotImplemented
    y, real = empty((x.size,), x.dtype), x.dtype.type
    FORWARD[kind](flat(x, order), y, real(a), real(b))
    return unflat(y, x.shape, order)


def activation_input(dy, x, *, kind, a, b):
    """dx = dy f'(x) in the layout of x; declines an x with gaps."""
    order = dense_order(x) if served(x, dy) and x.shape == dy.shape else None
    if order is None:
        return NotImplemented
    dx, real = empty((x.size,), x.dtype), x.dtype.type
    BACKWARD[kind](flat(dy, order), flat(x, order), dx, real(a), real(b))
    return unflat(dx, x.shape, order)


@compiled
def _gelu(x, y, a, b):
    for i in range(x.shape[0]):
        y[i] = x[i] * below(x[i])


@compiled
def _gelu_input(g, x, dx, a, b):
    half, bell = x.dtype.type(0.5), x.dtype.type(BELL)
    for i in range(x.shape[0]):
        dx[i] = g[i] * (below(x[i]) + x[i] * bell * decay(-half * x[i] * x[i]))


@compiled
def _gelu_tanh(x, y, a, b):
    half, one, bend = x.dtype.type(0.5), x.dtype.type(1), x.dtype.type(BEND)
    cube = x.dtype.type(CUBE)
    for i in range(x.shape[0]):
        y[i] = half * x[i] * (one + tanh(bend * (x[i] + cube * x[i] * x[i] * x[i])))


@compiled
def _gelu_tanh_input(g, x, dx, a, b):
    half, one, bend = x.dtype.type(0.5), x.dtype.type(1), x.dtype.type(BEND)
    cube, three = x.dtype.type(CUBE), x.dtype.type(3 * CUBE)
    for i in range(x.shape[0]):
        square = x[i] * x[i]
        t = tanh(bend * (x[i] + cube * square * x[i]))
        inner = bend * (one + three * square)
        dx[i] = g[i] * half * (one + t + x[i] * (one - t * t) * inner)


@compiled
def _silu(x, y, a, b):
    for i in range(x.shape[0]):
        y[i] = x[i] * sigmoid(x[i])


@compiled
def _silu_input(g, x, dx, a, b):
    one = x.dtype.type(1)
    for i in range(x.shape[0]):
        s = sigmoid(x[i])
        dx[i] = g[i] * s * (one + x[i] * (one - s))


@compiled
def _elu(x, y, a, b):
    for i in range(x.shape[0]):
        low = a * expm1(x[i])
        y[i] = low if x[i] <= 0 else x[i]


@compiled
def _elu_input(g, x, dx, a, b):
    for i in range(x.shape[0]):
        low = g[i] * a * exp(x[i])
        dx[i] = low if x[i] <= 0 else g[i]


@compiled
def _softplus(x, y, a, b):
    for i in range(x.shape[0]):
        z = x[i] * a
        low = log1pexp(z) / a
        y[i] = x[i] if z > b else low


@compiled
def _softplus_input(g, x, dx, a, b):
    for i in range(x.shape[0]):
        z = x[i] * a
        low = g[i] * sigmoid(z)
        dx[i] = g[i] if z > b else low


@compiled
def _leaky_relu(x, y, a, b):
    for i in range(x.shape[0]):
        low = x[i] * a
        y[i] = x[i] if x[i] > 0 else low


@compiled
def _leaky_relu_input(g, x, dx, a, b):
    for i in range(x.shape[0]):
        low = g[i] * a
        dx[i] = g[i] if x[i] > 0 else low


@compiled
def _hardswish(x, y, a, b):
    zero, three, six = x.dtype.type(0), x.dtype.type(3), x.dtype.type(6)
    for i in range(x.shape[0]):
        part = x[i] + three
        part = zero if part <= zero else part
        part = six if part >= six else part
        y[i] = x[i] * (part / six)


@compiled
def _hardswish_input(g, x, dx, a, b):
    zero, three, half = x.dtype.type(0), x.dtype.type(3), x.dtype.type(0.5)
    for i in range(x.shape[0]):
        slope = g[i] * (x[i] / three + half)
        slope = zero if x[i] <= -three else slope
        dx[i] = g[i] if x[i] >= three else slope


@compiled
def _mish(x, y, a, b):
    two, most = x.dtype.type(2), x.dtype.type(20)
    for i in range(x.shape[0]):
        e = exp(most if x[i] > most else x[i])
        e *= e + two
        y[i] = x[i] * (e / (e + two))


@compiled
def _mish_input(g, x, dx, a, b):
    one, two, most = x.dtype.type(1), x.dtype.type(2), x.dtype.type(20)
    for i in range(x.shape[0]):
        e = exp(most if x[i] > most else x[i])
        e *= e + two
        t = e / (e + two)
        dx[i] = g[i] * (t + x[i] * (one - t * t) * sigmoid(x[i]))


FORWARD = {"gelu": _gelu, "gelu_tanh": _gelu_tanh, "silu": _silu, "elu": _elu,
           "softplus": _softplus, "leaky_relu": _leaky_relu, "hardswish": _hardswish,
           "mish": _mish}  # fmt: skip
BACKWARD = {"gelu": _gelu_input, "gelu_tanh": _gelu_tanh_input, "silu": _silu_input,
            "elu": _elu_input, "softplus": _softplus_input, "leaky_relu": _leaky_relu_input,
            "hardswish": _hardswish_input, "mish": _mish_input}  # fmt: skip
