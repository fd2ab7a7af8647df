"""Optimiser updates in place: one pass over flat memory, each element by itself.

No sum crosses elements and no multiplication is fused with an addition, so bytes do not depend on
how the memory is sliced.
"""

import math

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
    p, g, m, v, vmax, *, lr, beta1, beta2, eps, weight_decay, decoupled, maximize, amsgrad, step
):
    """Adam (Kingma, Ba 2015) in place, as in PyTorch; AdamW (Loshchilov, Hutter 2019) `decoupled`.

    m += (1 - beta1)(g - m); v = beta2 v + (1 - beta2) g g; vmax = max(vmax, v) if `amsgrad`;
    p -= lr / (1 - beta1^step) m / (sqrt(vmax or v) / sqrt(1 - beta2^step) + eps). Weight decay
    adds weight_decay p to g; decoupled, it first takes lr weight_decay p from p. `step` counts
    from 1.
    """
    flats = _flats(p, g, m, v, vmax if amsgrad else None)
    if flats is None:
        return NotImplemented
    real = p.dtype.type
    rate, root = lr / (1 - beta1**step), math.sqrt(1 - beta2**step)
    decay, shrink = (0.0, 1 - lr * weight_decay) if decoupled else (weight_decay, 1.0)
    moments = real(1 - beta1), real(beta2), real(1 - beta2)
    constants = real(-1 if maximize else 1), real(decay), real(shrink), real(rate), real(root)
    if amsgrad:
        _amsgrad(*flats, *moments, *constants, real(eps))
    else:
        _adam(*flats[:4], *moments, *constants, real(eps))
    return None


@compiled
def _adam(p, g, m, v, rest1, beta2, rest2, sign, decay, shrink, rate, root, eps):
    for i in range(p.shape[0]):
        d = sign * g[i] + (decay * p[i] if decay else decay)
        m[i] += rest1 * (d - m[i])
        v[i] = beta2 * v[i] + rest2 * d * d
        p[i] = p[i] * shrink - rate * m[i] / (np.sqrt(v[i]) / root + eps)


@compiled
def _amsgrad(p, g, m, v, vmax, rest1, beta2, rest2, sign, decay, shrink, rate, root, eps):
    for i in range(p.shape[0]):
        d = sign * g[i] + (decay * p[i] if decay else decay)
        m[i] += rest1 * (d - m[i])
        v[i] = beta2 * v[i] + rest2 * d * d
        vmax[i] = vmax[i] if v[i] <= vmax[i] else v[i]
        p[i] = p[i] * shrink - rate * m[i] / (np.sqrt(vmax[i]) / root + eps)
