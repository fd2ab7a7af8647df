"""Optimiser updates in place: one pass over flat memory, each element by itself.

No sum crosses elements and no multiplication is fused with an addition, so bytes do not depend on
how the memory is sliced.
"""

import numpy as np

from ._jit import compiled
from ._layout import dense_order, flat, served
from ._memory import empty


def _flats(p, g, *state):
    """p, g and state as flat arrays in the order of p; None if p or state would be copied."""
    arrays = [array for array in state if array is not None]
    order = dense_order(p) if served(p, g, *arrays) and g.shape == p.shape else None
    own = [p, *arrays]
    if order is None or any(array.shape != p.shape for array in own):
        return None
    if not all((array.transpose(order) if order else array).flags.carray for array in own):
        return None
    return [flat(p, order), flat(g, order), *(v if v is None else flat(v, order) for v in state)]


def sgd(p, g, m, *, lr, momentum, dampening, weight_decay, nesterov, maximize, first):
    """Stochastic gradient descent in place, as in PyTorch.

    d = g + weight_decay p; m = momentum m + (1 - dampening) d, or d on the first step; p -= lr m,
    or lr (d + momentum m) if `nesterov`. Without momentum m may be None and p -= lr d. `maximize`
    turns g.
    """
    flats = _flats(p, g, m if momentum else None)
    if flats is None:
        return NotImplemented
    real = p.dtype.type
    lr, decay, sign = real(lr), real(weight_decay), real(-1 if maximize else 1)
    if not momentum:
        _sgd(*flats[:2], lr, decay, sign)
    else:
        part = real(1 - dampening)
        _momentum(*flats, lr, real(momentum), part, decay, sign, bool(nesterov), bool(first))
    return None


@compiled
def _sgd(p, g, lr, decay, sign):
    for i in range(p.shape[0]):
        p[i] -= lr * (sign * g[i] + (decay * p[i] if decay else decay))


@compiled
def _momentum(p, g, m, lr, momentum, part, decay, sign, nesterov, first):
    for i in range(p.shape[0]):
        d = sign * g[i] + (decay * p[i] if decay else decay)
        m[i] = d if first else momentum * m[i] + part * d
        p[i] -= lr * (d + momentum * m[i] if nesterov else m[i])


def adam(
    p, g, m, v, vmax, *, rate, nudge, root, beta1, beta2, eps, weight_decay, shrink, maximize,
    amsgrad,
):  # fmt: skip
    """Adam (Kingma, Ba 2015) in place, and its relatives.

    m += (1 - beta1)(d - m); v = beta2 v + (1 - beta2) d d; vmax = max(vmax, v) if `amsgrad`;
    p = shrink p - (rate m + nudge d) / (sqrt(vmax or v) / root + eps), d being g (turned to
    `maximize`) plus weight_decay times the shrunk p.
    """
    flats = _flats(p, g, m, v, vmax if amsgrad else None)
    if flats is None:
        return NotImplemented
    sign = -1 if maximize else 1
    numbers = (1 - beta1, beta2, 1 - beta2, sign, weight_decay, shrink, rate, nudge, root, eps)
    numbers = [p.dtype.type(x) for x in numbers]
    if amsgrad:
        _amsgrad(*flats, *numbers)
    else:
        _adam(*flats[:4], *numbers)
    return None


@compiled
def _adam(p, g, m, v, rest1, beta2, rest2, sign, decay, shrink, rate, nudge, root, eps):
    for i in range(p.shape[0]):
        value = p[i] * shrink
        d = sign * g[i] + (decay * value if decay else decay)
        m[i] += rest1 * (d - m[i])
        v[i] = beta2 * v[i] + rest2 * d * d
        move = rate * m[i] + (nudge * d if nudge else nudge)
        p[i] = value - move / (np.sqrt(v[i]) / root + eps)


@compiled
def _amsgrad(p, g, m, v, vmax, rest1, beta2, rest2, sign, decay, shrink, rate, nudge, root, eps):
    for i in range(p.shape[0]):
        value = p[i] * shrink
        d = sign * g[i] + (decay * value if decay else decay)
        m[i] += rest1 * (d - m[i])
        v[i] = beta2 * v[i] + rest2 * d * d
        vmax[i] = vmax[i] if v[i] <= vmax[i] else v[i]
        move = rate * m[i] + (nudge * d if nudge else nudge)
        p[i] = value - move / (np.sqrt(vmax[i]) / root + eps)


def rmsprop(
    p, g, v, c, m, *, lr, alpha, rest, eps, weight_decay, momentum, centered, maximize
):  # fmt: skip
    """RMSprop (Tieleman, Hinton 2012) in place; Adagrad with alpha = rest = 1.

    d = g + weight_decay p; v = alpha v + rest d d; c += rest (d - c); r = d / (sqrt(v) + eps), or
    of v - c c if `centered`; m = momentum m + r; p -= lr m, or lr r. c and m may be None where
    they are not used.
    """
    flats = _flats(p, g, v, c if centered else None, m if momentum else None)
    if flats is None:
        return NotImplemented
    numbers = (lr, alpha, rest, eps, weight_decay, -1 if maximize else 1, momentum)
    numbers = [p.dtype.type(x) for x in numbers]
    if not momentum and not centered:
        _rmsprop_plain(*flats[:3], *numbers[:-1])
    else:
        flats = [empty((0,), p.dtype) if x is None else x for x in flats]
        _rmsprop(*flats, *numbers, bool(centered))
    return None


@compiled
def _rmsprop_plain(p, g, v, lr, alpha, rest, eps, decay, sign):
    for i in range(p.shape[0]):
        d = sign * g[i] + (decay * p[i] if decay else decay)
        v[i] = alpha * v[i] + rest * d * d
        p[i] -= lr * (d / (np.sqrt(v[i]) + eps))


@compiled
def _rmsprop(p, g, v, c, m, lr, alpha, rest, eps, decay, sign, momentum, centered):
    for i in range(p.shape[0]):
        d = sign * g[i] + (decay * p[i] if decay else decay)
        v[i] = alpha * v[i] + rest * d * d
        square = v[i]
        if centered:
            c[i] += rest * (d - c[i])
            square -= c[i] * c[i]
        d /= np.sqrt(square) + eps
        if momentum:
            d += momentum * m[i]
            m[i] = d
        p[i] -= lr * d


def adadelta(p, g, v, u, *, lr, rho, eps, weight_decay, maximize):
    """Adadelta (Zeiler 2012) in place.

    d = g + weight_decay p; v = rho v + (1 - rho) d d; r = sqrt(u + eps) / sqrt(v + eps) d;
    u = rho u + (1 - rho) r r; p -= lr r.
    """
    flats = _flats(p, g, v, u)
    if flats is None:
        return NotImplemented
    numbers = (lr, rho, 1 - rho, eps, weight_decay, -1 if maximize else 1)
    _adadelta(*flats, *[p.dtype.type(x) for x in numbers])
    return None


@compiled
def _adadelta(p, g, v, u, lr, rho, rest, eps, decay, sign):
    for i in range(p.shape[0]):
        d = sign * g[i] + (decay * p[i] if decay else decay)
        v[i] = rho * v[i] + rest * d * d
        r = np.sqrt(u[i] + eps) / np.sqrt(v[i] + eps) * d
        u[i] = rho * u[i] + rest * r * r
        p[i] -= lr * r


def adamax(p, g, m, u, *, rate, beta1, beta2, eps, weight_decay, maximize):
    """Adamax (Kingma, Ba 2015) in place.

    d = g + weight_decay p; m += (1 - beta1)(d - m); u = max(beta2 u, |d| + eps); p -= rate m / u.
    """
    flats = _flats(p, g, m, u)
    if flats is None:
        return NotImplemented
    numbers = (rate, 1 - beta1, beta2, eps, weight_decay, -1 if maximize else 1)
    _adamax(*flats, *[p.dtype.type(x) for x in numbers])
    return None


@compiled
def _adamax(p, g, m, u, rate, rest, beta2, eps, decay, sign):
    for i in range(p.shape[0]):
        d = sign * g[i] + (decay * p[i] if decay else decay)
        m[i] += rest * (d - m[i])
        old, new = beta2 * u[i], abs(d) + eps
        u[i] = new if new > old or new != new else old
        p[i] -= rate * m[i] / u[i]
