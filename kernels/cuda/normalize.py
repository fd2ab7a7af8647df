"""The apply half of batch normalisation; means and variances are sums, see reduce.py."""

from math import prod

from .runtime import suffix


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
    args = (x, *arrays, y, x.size, x.shape[1], prod(x.shape[2:]), x.dtype.type(eps))
    gpu.launch_each("normalize", f"batch_norm_{kind}", x.size, args)
    return y
