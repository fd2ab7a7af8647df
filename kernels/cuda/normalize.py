"""Normalisation: channels by given statistics or by their own, groups of channels of each row by
theirs; see normalize.cu. Sums over channels: reduce.py."""

from math import prod

from .reduce import reduced
from .runtime import int32, number, suffix, threads_for


def batch_norm(gpu, x, mean, var, weight=None, bias=None, *, eps):
    """(x - mean) / sqrt(var + eps) * weight + bias.

    x (n, c, ...), the others (c,); weight and bias may be None.
    """
    if not fits(x, mean, var, weight, bias):
        return NotImplemented
    y = gpu.empty(x.shape, x.dtype)
    launch(gpu, "", x, (x, mean, var, weight, bias, y), (number(x)(eps),))
    return y


def batch_norm_own(gpu, x, weight=None, bias=None, *, eps):
    """batch_norm by the mean and the variance of x itself; these two too."""
    if not fits(x, weight, bias) or x.size == 0:
        return NotImplemented
    mean, squares = of_channels(gpu, x) / rows(x), gpu.empty(x.shape, number(x))
    launch(gpu, "_squares", x, (x, mean, squares), ())
    var = of_channels(gpu, squares) / rows(x)
    mean, var = (each.astype(x.dtype, copy=False) for each in (mean, var))
    return batch_norm(gpu, x, mean, var, weight, bias, eps=eps), mean, var


def batch_norm_own_back(gpu, dy, x, mean, var, weight=None, *, eps):
    """The cotangents of batch_norm_own's x, weight and bias."""
    if not fits(x, mean, var, weight, dy=dy) or x.size == 0:
        return NotImplemented
    products, eps = gpu.empty(x.shape, number(x)), (number(x)(eps),)
    launch(gpu, "_products", x, (dy, x, mean, var, products), eps)
    dweight, dbias = of_channels(gpu, products), of_channels(gpu, dy)
    dx = gpu.empty(x.shape, x.dtype)
    launch(gpu, "_slope", x, (dy, x, mean, var, weight, dweight, dbias, dx), eps)
    return dx, *(each.astype(x.dtype, copy=False) for each in (dweight, dbias))


def fits(x, *vectors, dy=None):
    """Whether x is (n, c, ...), the vectors are (c,) or None, dy is like x, and of one type."""
    alike = suffix(x, dy, *vectors) is not None and x.ndim > 1
    shaped = alike and all(v is None or v.shape == x.shape[1:2] for v in vectors)
    return shaped and (dy is None or dy.shape == x.shape)


def rows(x):
    """How many values a channel has."""
    return x.size // x.shape[1]


def of_channels(gpu, x):
    """Sums over every axis but the channels, axis 1; of float16 in float32."""
    return reduced(gpu, "sum", x, [0, *range(2, x.ndim)])


def launch(gpu, name, x, arrays, numbers):
    """Launch a thread for each element of x (n, c, ...)."""
    arrays = [each if each is None else gpu.contiguous(each) for each in arrays]
    args = (*arrays, x.size, x.shape[1], prod(x.shape[2:]), *numbers)
    gpu.launch_each("normalize", f"batch_norm{name}_{suffix(x)}", x.size, args)


def group_norm(gpu, x, weight=None, bias=None, *, groups, eps, center):
    """(x - mean) r weight + bias by groups of channels of each row, the mean and r."""
    if not fits(x, weight, bias) or x.size == 0:
        return NotImplemented
    y, shape = gpu.empty(x.shape, x.dtype), (len(x), groups)
    mean, r = (gpu.empty(shape, x.dtype) for _ in range(2))
    numbers = number(x)(eps), int32(center)[0]
    by_groups(gpu, "", x, mean, (x, weight, bias, y, mean, r), numbers)
    return y, mean, r


def group_norm_back(gpu, dy, x, mean, r, weight=None, *, center):
    """The cotangents of group_norm's x, weight and bias, from what it found."""
    if not fits(x, weight, dy=dy) or suffix(x, mean, r) is None or x.size == 0:
        return NotImplemented
    dx, products = gpu.empty(x.shape, x.dtype), gpu.empty(x.shape, number(x))
    by_groups(gpu, "_back", x, mean, (dy, x, mean, r, weight, dx, products), int32(center))
    sums = of_channels(gpu, products), of_channels(gpu, dy)
    return dx, *(each.astype(x.dtype, copy=False) for each in sums)


def by_groups(gpu, name, x, mean, arrays, numbers):
    """Launch a block for each group of channels of each row of x; mean has a value for each."""
    arrays = [each if each is None else gpu.contiguous(each) for each in arrays]
    length = x.size // mean.size
    args = (*arrays, length, mean.shape[1], prod(x.shape[2:]), *numbers)
    name = f"group_norm{name}_{suffix(x)}"
    gpu.launch("normalize", name, mean.size, threads_for(length), args)
