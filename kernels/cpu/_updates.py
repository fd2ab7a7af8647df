"""The loops of optimiser updates, and the same behind the sum of several gradients.

Sums and updates of one block follow each other, while it is in the first cache: one after the
other over all the memory they take up to twice as long.
"""

import numpy as np

from ._jit import compiled, part

BLOCK = 512
"""Elements: of five arrays so many take 10 KiB."""


@compiled
def sgd(p, g, numbers):
    lr, decay, sign = numbers[0], numbers[3], numbers[4]
    for i in range(p.shape[0]):
        p[i] -= lr * (sign * g[i] + (decay * p[i] if decay else decay))


@compiled
def momentum(p, g, m, numbers):
    lr, momentum, part, decay, sign = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
    nesterov, first = numbers[5] != 0, numbers[6] != 0
    for i in range(p.shape[0]):
        d = sign * g[i] + (decay * p[i] if decay else decay)
        m[i] = d if first else momentum * m[i] + part * d
        p[i] -= lr * (d + momentum * m[i] if nesterov else m[i])


@compiled
def adam(p, g, m, v, numbers):
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
def amsgrad(p, g, m, v, vmax, numbers):
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


@compiled
def rmsprop_plain(p, g, v, numbers):
    lr, alpha, rest, eps, decay = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
    sign = numbers[6]
    for i in range(p.shape[0]):
        d = sign * g[i] + (decay * p[i] if decay else decay)
        v[i] = alpha * v[i] + rest * d * d
        p[i] -= lr * (d / (np.sqrt(v[i]) + eps))


@compiled
def rmsprop(p, g, v, c, m, numbers):
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


@compiled
def adadelta(p, g, v, u, numbers):
    lr, rho, rest, eps = numbers[0], numbers[1], numbers[2], numbers[3]
    decay, sign = numbers[4], numbers[5]
    for i in range(p.shape[0]):
        d = sign * g[i] + (decay * p[i] if decay else decay)
        v[i] = rho * v[i] + rest * d * d
        r = np.sqrt(u[i] + eps) / np.sqrt(v[i] + eps) * d
        u[i] = rho * u[i] + rest * r * r
        p[i] -= lr * r


@compiled
def adamax(p, g, m, u, numbers):
    rate, rest, beta2, eps = numbers[0], numbers[1], numbers[2], numbers[3]
    decay, sign = numbers[4], numbers[5]
    for i in range(p.shape[0]):
        d = sign * g[i] + (decay * p[i] if decay else decay)
        m[i] += rest * (d - m[i])
        old, new = beta2 * u[i], abs(d) + eps
        u[i] = new if new > old or new != new else old
        p[i] -= rate * m[i] / u[i]


@part
def _sum(gradients, block):
    """A block of all gradients, added into the first, pairwise: (0+1)+(2+3)+..."""
    stride = 1
    while stride < len(gradients):
        for i in range(0, len(gradients) - stride, 2 * stride):
            a, b = gradients[i][block], gradients[i + stride][block]
            for k in range(a.shape[0]):
                a[k] += b[k]
        stride *= 2


@compiled
def sgd_of_sum(p, g, numbers):
    for start in range(0, p.shape[0], BLOCK):
        block = slice(start, start + BLOCK)
        _sum(g, block)
        sgd(p[block], g[0][block], numbers)


@compiled
def momentum_of_sum(p, g, m, numbers):
    for start in range(0, p.shape[0], BLOCK):
        block = slice(start, start + BLOCK)
        _sum(g, block)
        momentum(p[block], g[0][block], m[block], numbers)


@compiled
def adam_of_sum(p, g, m, v, numbers):
    for start in range(0, p.shape[0], BLOCK):
        block = slice(start, start + BLOCK)
        _sum(g, block)
        adam(p[block], g[0][block], m[block], v[block], numbers)


@compiled
def amsgrad_of_sum(p, g, m, v, vmax, numbers):
    for start in range(0, p.shape[0], BLOCK):
        block = slice(start, start + BLOCK)
        _sum(g, block)
        amsgrad(p[block], g[0][block], m[block], v[block], vmax[block], numbers)


@compiled
def rmsprop_plain_of_sum(p, g, v, numbers):
    for start in range(0, p.shape[0], BLOCK):
        block = slice(start, start + BLOCK)
        _sum(g, block)
        rmsprop_plain(p[block], g[0][block], v[block], numbers)


@compiled
def rmsprop_of_sum(p, g, v, c, m, numbers):
    for start in range(0, p.shape[0], BLOCK):
        block = slice(start, start + BLOCK)
        _sum(g, block)
        rmsprop(p[block], g[0][block], v[block], c[block], m[block], numbers)


@compiled
def adadelta_of_sum(p, g, v, u, numbers):
    for start in range(0, p.shape[0], BLOCK):
        block = slice(start, start + BLOCK)
        _sum(g, block)
        adadelta(p[block], g[0][block], v[block], u[block], numbers)


@compiled
def adamax_of_sum(p, g, m, u, numbers):
    for start in range(0, p.shape[0], BLOCK):
        block = slice(start, start + BLOCK)
        _sum(g, block)
        adamax(p[block], g[0][block], m[block], u[block], numbers)


OF_SUM = {
    sgd: sgd_of_sum, momentum: momentum_of_sum, adam: adam_of_sum, amsgrad: amsgrad_of_sum,
    rmsprop_plain: rmsprop_plain_of_sum, rmsprop: rmsprop_of_sum, adadelta: adadelta_of_sum,
    adamax: adamax_of_sum,
}  # fmt: skip
"""For each update the one that takes several gradients, and leaves their sum in the first."""
