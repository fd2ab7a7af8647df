"""Activations on C-contiguous arrays of one float type, and their cotangents; see activation.cu."""

from .runtime import number, suffix


def activation(gpu, x, *, kind, a=0.0, b=0.0):
    """y = f(x) for the kind's f; declines strides."""
    return launch(gpu, kind, (x,), a, b)


def activation_input(gpu, dy, x, *, kind, a=0.0, b=0.0):
    """dx = dy f'(x); declines strides."""
    return launch(gpu, f"{kind}_input", (dy, x), a, b)


def launch(gpu, name, arrays, a, b):
    """One thread an element of arrays that are of one shape and dense."""
    x, kind = arrays[-1], suffix(*arrays)
    if kind is None or not all(y.shape == x.shape and y.flags.c_contiguous for y in arrays):
        return NotImplemented
    real, y = number(x), gpu.empty(x.shape, x.dtype)
    args = (*arrays, y, real(a), real(b), x.size)
    gpu.launch_each("activation", f"{name}_{kind}", x.size, args)
    return y
