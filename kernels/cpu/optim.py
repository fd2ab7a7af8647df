"""Optimiser updates in place: one pass over flat memory, each element by itself.

No sum crosses elements and no multiplication is fused with an addition, so bytes do not depend on
how the memory is sliced. The numbers of a rule, such as the learning rate, come to compiled
functions in a small array of the parameters' dtype: in a captured step they change, the calls do
not.
`NUMBERS` says which they are; who has them in memory already gives the kernel `numbers`. In place
of g there may be a tuple of gradients: their sum is left in the first, and is g.
"""

import numpy as np

from . import _updates
from ._layout import dense_order, flat, served


def _flats(p, g, *state):
    """p, g and state as flat arrays in the order of p; None if p or state would be copied, or the
    first of several gradients."""
    several = isinstance(g, tuple)
    gradients, arrays = g if several else (g,), [array for array in state if array is not None]
    own = [p, *arrays, *(g[:1] if several else ())]
    order = dense_order(p) if served(p, *gradients, *arrays) else None
    if order is None or any(array.shape != p.shape for array in (*own, *gradients)):
        return None
    if not all((array.transpose(order) if order else array).flags.carray for array in own):
        return None
    flats = [flat(each, order) for each in gradients]
    return [flat(p, order), tuple(flats) if several else flats[0],
            *(v if v is None else flat(v, order) for v in state)]  # fmt: skip


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
        _run(_updates.momentum, flats, numbers)
    else:
        _run(_updates.sgd, flats[:2], numbers)
    return None


def _of_sgd(*, lr, momentum, dampening, weight_decay, nesterov, maximize, first):
    return lr, momentum, 1 - dampening, weight_decay, -1 if maximize else 1, nesterov, first


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
        _run(_updates.amsgrad, flats, numbers)
    else:
        _run(_updates.adam, flats[:4], numbers)
    return None


def _of_adam(
    *, rate, nudge, root, beta1, beta2, eps, weight_decay, shrink, maximize, amsgrad
):  # fmt: skip
    sign = -1 if maximize else 1
    return 1 - beta1, beta2, 1 - beta2, sign, weight_decay, shrink, rate, nudge, 1 / root, eps


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
        _run(_updates.rmsprop_plain, flats[:3], _array(p, numbers, _of_rmsprop, given))
        return None
    flats = [flats[0] if x is None else x for x in flats]  # never read
    _run(_updates.rmsprop, flats, _array(p, numbers, _of_rmsprop, given))
    return None


def _of_rmsprop(*, lr, alpha, rest, eps, weight_decay, momentum, centered, maximize):
    return lr, alpha, rest, eps, weight_decay, momentum, -1 if maximize else 1, centered


def adadelta(p, g, v, u, *, numbers=None, **rest):
    """Adadelta (Zeiler 2012) in place.

    d = g + weight_decay p; v = rho v + (1 - rho) d d; r = sqrt(u + eps) / sqrt(v + eps) d;
    u = rho u + (1 - rho) r r; p -= lr r.
    """
    flats = _flats(p, g, v, u)
    if flats is None:
        return NotImplemented
    _run(_updates.adadelta, flats, _array(p, numbers, _of_adadelta, rest))
    return None


def _of_adadelta(*, lr, rho, eps, weight_decay, maximize):
    return lr, rho, 1 - rho, eps, weight_decay, -1 if maximize else 1


def adamax(p, g, m, u, *, numbers=None, **rest):
    """Adamax (Kingma, Ba 2015) in place.

    d = g + weight_decay p; m += (1 - beta1)(d - m); u = max(beta2 u, |d| + eps); p -= rate m / u.
    """
    flats = _flats(p, g, m, u)
    if flats is None:
        return NotImplemented
    _run(_updates.adamax, flats, _array(p, numbers, _of_adamax, rest))
    return None


def _of_adamax(*, rate, beta1, beta2, eps, weight_decay, maximize):
    return rate, 1 - beta1, beta2, eps, weight_decay, -1 if maximize else 1


def _run(update, flats, numbers):
    (_updates.OF_SUM[update] if isinstance(flats[1], tuple) else update)(*flats, numbers)


def _array(p, numbers, give, constants):
    return np.array(give(**constants), p.dtype) if numbers is None else numbers


NUMBERS = {"sgd": _of_sgd, "adam": _of_adam, "rmsprop": _of_rmsprop, "adadelta": _of_adadelta,
           "adamax": _of_adamax}  # fmt: skip
"""What gives the numbers of a rule, in their order, from its constants."""
