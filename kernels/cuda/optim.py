"""Optimiser steps in place, with PyTorch's formulas, on arrays of one shape. They return p."""

from .runtime import int32, number, suffix


def served(p, *arrays):
    """The kernels' suffix if all are like p and C-contiguous (they are written), else None."""
    present = [x for x in (p, *arrays) if x is not None]
    same = all(x.shape == p.shape and x.flags.c_contiguous for x in present)
    return suffix(*present) if same else None


def sgd(gpu, p, g, m, *, lr, momentum, dampening, weight_decay, nesterov, maximize, first):
    """m = momentum m + (1 - dampening) (g + weight_decay p), undamped if first; p -= lr m."""
    g = gpu.contiguous(g)
    kind = served(p, g, m)
    if kind is None:
        return NotImplemented
    numbers = [number(p)(x) for x in (lr, momentum, 1 - dampening, weight_decay)]
    args = (p, g, m, p.size, *numbers, *int32(nesterov, maximize, first))
    gpu.launch_each("optim", f"sgd_{kind}", p.size, args)
    return p


def adam(
    gpu, p, g, m, v, vmax, *, rate, nudge, root, beta1, beta2, eps, weight_decay, shrink,
    maximize, amsgrad,
):  # fmt: skip
    """p = shrink p - (rate m + nudge d) / (sqrt(v) / root + eps)."""
    numbers = (rate, nudge, root, 1 - beta1, beta2, 1 - beta2, eps, weight_decay, shrink)
    return _launch(gpu, "adam", (p, g, m, v, vmax if amsgrad else None), numbers, maximize)


def rmsprop(
    gpu, p, g, v, c, m, *, lr, alpha, rest, eps, weight_decay, momentum, centered, maximize
):  # fmt: skip
    """p -= lr d / (sqrt(v) + eps), v = alpha v + rest d d; c if centered and m if momentum."""
    arrays = (p, g, v, c if centered else None, m if momentum else None)
    numbers = (lr, alpha, rest, eps, weight_decay, momentum)
    return _launch(gpu, "rmsprop", arrays, numbers, maximize)


def adadelta(gpu, p, g, v, u, *, lr, rho, eps, weight_decay, maximize):
    """r = sqrt((u + eps) / (v + eps)) d; p -= lr r; v and u the running means of d d and r r."""
    numbers = (lr, rho, 1 - rho, eps, weight_decay)
    return _launch(gpu, "adadelta", (p, g, v, u), numbers, maximize)


def adamax(gpu, p, g, m, u, *, rate, beta1, beta2, eps, weight_decay, maximize):
    """p -= rate m / u, m the running mean of d and u = max(beta2 u, |d| + eps)."""
    numbers = (rate, 1 - beta1, beta2, eps, weight_decay)
    return _launch(gpu, "adamax", (p, g, m, u), numbers, maximize)


def _launch(gpu, name, arrays, numbers, maximize):
    """Launch one thread a parameter: arrays (p and g first), their count, numbers, maximize."""
    p, g, *state = arrays
    arrays = (p, gpu.contiguous(g), *state)
    kind = served(*arrays)
    if kind is None:
        return NotImplemented
    args = (*arrays, p.size, *map(number(p), numbers), *int32(maximize))
    gpu.launch_each("optim", f"{name}_{kind}", p.size, args)
    return p
