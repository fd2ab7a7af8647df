"""Normalisation by given statistics, and by those of each row; sums over channels: reduce.py."""

from math import prod

from .runtime import int32, number, suffix, threads_for


def batch_norm(gpu, x, mean, var, weight, bias, *, eps):
    """(x - mean) / sqrt(var + eps) * weight + bias.

    x (n, c, ...), the others (c,); weight and bias may be None.
    """
    kind = suffix(x, mean, var, weight, bias)
    if kind is None or x.ndim < 2:
        return NotImplemented
    x, y = gpu.contiguous(x), gpu.empty(x.shape, x.dtype)
    arrays = [z if z is None else gpu.contiguous(z) for z in (mean, var, weight, bias)]
    if any(z is not None and z.size != x.shape[1] for z in arrays):
        return NotImplemented
    args = (x, *arrays, y, x.size, x.shape[1], prod(x.shape[2:]), number(x)(eps))
    gpu.launch_each("normalize", f"batch_norm_{kind}", x.size, args)
    return y


def standardize(gpu, x, *, dim, eps, center):
    """(x - mean) / sqrt(var + eps) over the last axes, `dim`; other axes are declined."""
    return by_rows(gpu, "standardize", (x,), dim, eps, center)


def standardize_input(gpu, g, x, *, dim, eps, center):
    """r (g - mean(g) - y mean(g y)), r = 1 / sqrt(var + eps), over the last axes."""
    return by_rows(gpu, "standardize_input", (g, x), dim, eps, center)


def by_rows(gpu, name, arrays, dim, eps, center):
    """Launch one block a row of arrays of one shape, whose last axes are the rows."""
    x = arrays[-1]
    kind, first = suffix(*arrays), x.ndim - len(dim)
    if kind is None or tuple(dim) != tuple(range(first, x.ndim)) or arrays[0].shape != x.shape:
        return NotImplemented
    y, length = gpu.empty(x.shape, x.dtype), prod(x.shape[first:])
    rows = x.size // length if length else 0
    args = (*map(gpu.contiguous, arrays), y, length, number(x)(eps), int32(center)[0])
    gpu.launch("normalize", f"{name}_{kind}", rows, threads_for(length), args)
    return y
