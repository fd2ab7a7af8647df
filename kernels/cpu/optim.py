"""Optimiser updates in place: one pass over flat memory, each element by itself.

No sum crosses elements and no multiplication is fused with an addition, so bytes do not depend on
how the memory is sliced. The numbers of a rule, such as the learning rate, come to compiled
functions in a small array of the parameters' dtype: in a captured step they change, the calls do
not.
`NUMBERS` says which they are; who has them in memory already gives the kernel `numbers`.
"""

import numpy as np

from ._jit import compiled
from ._layout import dense_order, flat, served


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


def sgd(p, g, m=None, *, momentum, numbers=None, **rest):
    """Stochastic gradient descent in place, as in PyTorch.

    d = g + weight_decay p; m = momentum m + (1 - dampening) d, or d on the first step; p -= lr m,
    or lr (d + momentum m) if `nesterov`. Without momentum m may be None and p -= lr d. `maximize`
    turns g.
    """
    flats = _flats(p, g, m if momentum else None)
    if flats is None:
        return NotImplemented
    numbers = _array(p, numbers, _of_sgd, {"momentum": momentum, **rest})
    if momentum:
        _momentum(*flats, numbers)
    else:
        _sgd(*flats[:2], numbers)
    return None


def _of_sgd(*, lr, momentum, dampening, weight_decay, nesterov, maximize, first):
    return lr, momentum, 1 - dampening, weight_decay, -1 if maximize else 1, nesterov, first


@compiled
def _sgd(p, g, numbers):
    lr, decay, sign = numbers[0], numbers[3], numbers[4]
    for i in range(p.shape[0]):
        p[i] -= lr * (sign * g[i] + (decay * p[i] if decay else decay))


@compiled
def _momentum(p, g, m, numbers):
    lr, momentum, part, decay, sign = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
    nesterov, first = numbers[5] != 0, numbers[6] != 0
    for i in range(p.shape[0]):
        d = sign * g[i] + (decay * p[i] if decay else decay)
        m[i] = d if first else momentum * m[i] + part * d
        p[i] -= lr * (d + momentum * m[i] if nesterov else m[i])


def adam(p, g, m, v, vmax=None, *, amsgrad, numbers=None, **rest):
    """Adam (Kingma, Ba 2015) in place, and its relatives.

    m += (1 - beta1)(d - m); v = beta2 v + (1 - beta2) d d; vmax = max(vmax, v) if `amsgrad`;
    p = shrink p - (rate m + nudge d) / (sqrt(vmax or v) / root + eps), d being g (turned to
    `maximize`) plus weight_decay times the shrunk p.
    """
    flats = _flats(p, g, m, v, vmax if amsgrad else None)
    if flats is None:
        return NotImplemented
    numbers = _array(p, numbers, _of_adam, {"amsgrad": amsgrad, **rest})
    if amsgrad:
        _amsgrad(*flats, numbers)
    else:
        _adam(*flats[:4], numbers)
    return None


def _of_adam(
    *, rate, nudge, root, beta1, beta2, eps, weight_decay, shrink, maximize, amsgrad
):  # fmt: skip
    sign = -1 if maximize else 1
    return 1 - beta1, beta2, 1 - beta2, sign, weight_decay, shrink, rate, nudge, 1 / root, eps


@compiled
def _adam(p, g, m, v, numbers):
    rest1, beta2, rest2, sign, decay = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
    shrink, rate, nudge, share, eps = numbers[5], numbers[6], numbers[7], numbers[8], numbers[9]
    for i in range(p.shape[0]):
        value = p[i] * shrink
        d = sign * g[i] + (decay * value if decay else decay)
        m[i] += rest1 * (d - m[i])
        v[i] = beta2 * v[i] + rest2 * d * d
        move = rate * m[i] + (nudge * d if nudge else nudge)
        p[i] = value - move / (np.sqrt(v[i]) * share + eps)


@compiled
def _amsgrad(p, g, m, v, vmax, numbers):
    rest1, beta2, rest2, sign, decay = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
    shrink, rate, nudge, share, eps = numbers[5], numbers[6], numbers[7], numbers[8], numbers[9]
    for i in range(p.shape[0]):
        value = p[i] * shrink
        d = sign * g[i] + (decay * value if decay else decay)
        m[i] += rest1 * (d - m[i])
        v[i] = beta2 * v[i] + rest2 * d * d
        vmax[i] = vmax[i] if v[i] <= vmax[i] else v[i]
        move = rate * m[i] + (nudge * d if nudge else nudge)
        p[i] = value - move / (np.sqrt(vmax[i]) * share + eps)


def rmsprop(p, g, v, c=None, m=None, *, centered, momentum, numbers=None, **rest):
    """RMSprop (Tieleman, Hinton 2012) in place; Adagrad with alpha = rest = 1.

    d = g + weight_decay p; v = alpha v + rest d d; c += rest (d - c); r = d / (sqrt(v) + eps), or
    of v - c c if `centered`; m = momentum m + r; p -= lr m, or lr r. c and m may be None where
    they are not used.
    """
    flats = _flats(p, g, v, c if centered else None, m if momentum else None)
    if flats is None:
        return NotImplemented
    given = {"centered": centered, "momentum": momentum, **rest}
    if not momentum and not centered:
        _rmsprop_plain(*flats[:3], _array(p, numbers, _of_rmsprop, given))
        return None
    flats = [flats[0] if x is None else x for x in flats]  # never read
    _rmsprop(*flats, _array(p, numbers, _of_rmsprop, given))
    return None


def _of_rmsprop(*, lr, alpha, rest, eps, weight_decay, momentum, centered, maximize):
    return lr, alpha, rest, eps, weight_decay, momentum, -1 if maximize else 1, centered


@compiled
def _rmsprop_plain(p, g, v, numbers):
    lr, alpha, rest, eps, decay = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
    sign = numbers[6]
    for i in range(p.shape[0]):
        d = sign * g[i] + (decay * p[i] if decay else decay)
        v[i] = alpha * v[i] + rest * d * d
        p[i] -= lr * (d / (np.sqrt(v[i]) + eps))


@compiled
def _rmsprop(p, g, v, c, m, numbers):
    lr, alpha, rest, eps, decay = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
    momentum, sign, centered = numbers[5], numbers[6], numbers[7] != 0
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


def adadelta(p, g, v, u, *, numbers=None, **rest):
    """Adadelta (Zeiler 2012) in place.

    d = g + weight_decay p; v = rho v + (1 - rho) d d; r = sqrt(u + eps) / sqrt(v + eps) d;
    u = rho u + (1 - rho) r r; p -= lr r.
    """
    flats = _flats(p, g, v, u)
    if flats is None:
        return NotImplemented
    _adadelta(*flats, _array(p, numbers, _of_adadelta, rest))
    return None


def _of_adadelta(*, lr, rho, eps, weight_decay, maximize):
    return lr, rho, 1 - rho, eps, weight_decay, -1 if maximize else 1


@compiled
def _adadelta(p, g, v, u, numbers):
    lr, rho, rest, eps = numbers[0], numbers[1], numbers[2], numbers[3]
    decay, sign = numbers[4], numbers[5]
    for i in range(p.shape[0]):
        d = sign * g[i] + (decay * p[i] if decay else decay)
        v[i] = rho * v[i] + rest * d * d
        r = np.sqrt(u[i] + eps) / np.sqrt(v[i] + eps) * d
        u[i] = rho * u[i] + rest * r * r
        p[i] -= lr * r


def adamax(p, g, m, u, *, numbers=None, **rest):
    """Adamax (Kingma, Ba 2015) in place.

    d = g + weight_decay p; m += (1 - beta1)(d - m); u = max(beta2 u, |d| + eps); p -= rate m / u.
    """
    flats = _flats(p, g, m, u)
    if flats is None:
        return NotImplemented
    _adamax(*flats, _array(p, numbers, _of_adamax, rest))
    return None


def _of_adamax(*, rate, beta1, beta2, eps, weight_decay, maximize):
    return rate, 1 - beta1, beta2, eps, weight_decay, -1 if maximize else 1


@compiled
def _adamax(p, g, m, u, numbers):
    rate, rest, beta2, eps = numbers[0], numbers[1], numbers[2], numbers[3]
    decay, sign = numbers[4], numbers[5]
    for i in range(p.shape[0]):
        d = sign * g[i] + (decay * p[i] if decay else decay)
        m[i] += rest * (d - m[i])
        old, new = beta2 * u[i], abs(d) + eps
        u[i] = new if new > old or new != new else old
        p[i] -= rate * m[i] / u[i]


def _array(p, numbers, give, constants):
    return np.array(give(**constants), p.dtype) if numbers is None else numbers


NUMBERS = {"sgd": _of_sgd, "adam": _of_adam, "rmsprop": _of_rmsprop, "adadelta": _of_adadelta,
           "adamax": _of_adamax}  # fmt: skip
"""What gives the numbers of a rule, in their order, from its constants."""
