"""Optimiser steps in place, with PyTorch's formulas, on arrays of one shape. They return p."""

from .runtime import int32, suffix


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
    numbers = [p.dtype.type(x) for x in (lr, momentum, 1 - dampening, weight_decay)]
    args = (p, g, m, p.size, *numbers, *int32(nesterov, maximize, first))
    gpu.launch_each("optim", f"sgd_{kind}", p.size, args)
    return p


def adam(
    gpu,
    p,
    g,
    m,
    v,
    vmax,
    *,
    lr,
    beta1,
    beta2,
    eps,
    weight_decay,
    decoupled,
    maximize,
    amsgrad,
    step,
):
    """p -= lr m' / (sqrt(v') + eps), m' and v' the running means without bias.

    decoupled: AdamW; step counts from 1.
    """
    g, vmax = gpu.contiguous(g), vmax if amsgrad else None
    kind = served(p, g, m, v, vmax)
    if kind is None:
        return NotImplemented
    rate, root = lr / (1 - beta1**step), (1 - beta2**step) ** 0.5
    decay, shrink = (0, 1 - lr * weight_decay) if decoupled else (weight_decay, 1)
    numbers = (rate, root, 1 - beta1, beta2, 1 - beta2, eps, decay, shrink)
    args = (p, g, m, v, vmax, p.size, *map(p.dtype.type, numbers), *int32(maximize))
    gpu.launch_each("optim", f"adam_{kind}", p.size, args)
    return p
