"""Sums, extremes and running sums; softmax and its kin."""

import minidp as dp
from conformance.layout import axes_of
from minidp.nn import functional as F


def reduction(function):
    """ONNX's way to name axes: an input since some opset, an attribute before, all without."""
    def reduced(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
        if noop_with_empty_axes and (axes is None or axes.numel() == 0):
            return x
        return function(x, axes_of(x, axes), bool(keepdims))
    return reduced


def product(x, dims, keepdim):
    """One axis after the other, the last one first, so that the others keep their places."""
    for dim in sorted(dims, reverse=True):
        x = dp.prod(x, dim, keepdim)
    return x


def norm(p):
    return lambda x, dims, keepdim: dp.linalg.vector_norm(x, p, dims, keepdim)


def arg(name):
    """argmax and argmin; the last of equal values is the first one seen from behind."""
    def found(x, axis=0, keepdims=1, select_last_index=0):
        if not select_last_index:
            return getattr(dp, name)(x, axis, bool(keepdims))
        return x.shape[axis] - 1 - getattr(dp, name)(dp.flip(x, (axis,)), axis, bool(keepdims))
    return found


def running(name, neutral):
    """cumsum and cumprod: reverse between two flips, exclusive after the neutral value."""
    def cumulated(x, axis, exclusive=0, reverse=0):
        axis = int(axis.item())
        x = dp.flip(x, (axis,)) if reverse else x
        if exclusive:
            first = dp.full_like(dp.narrow(x, axis, 0, 1), neutral)
            x = dp.cat([first, dp.narrow(x, axis, 0, x.shape[axis] - 1)], axis)
        y = getattr(dp, name)(x, axis, dtype=x.dtype)
        return dp.flip(y, (axis,)) if reverse else y
    return cumulated


def hardmax(x, axis=-1):
    hot = F.one_hot(dp.argmax(x, axis), x.shape[axis])
    return dp.movedim(hot, -1, axis).to(x.dtype)


def top_k(x, k, axis=-1, largest=1, sorted=1):
    return dp.topk(x, int(k.item()), axis, bool(largest), bool(sorted))


def lp_normalization(x, axis=-1, p=2):
    return F.normalize(x, p=p, dim=axis)


def mean_variance(x, axes=(0, 2, 3)):
    variance = dp.var(x, tuple(axes), correction=0, keepdim=True)
    return (x - dp.mean(x, tuple(axes), keepdim=True)) / (dp.sqrt(variance) + 1e-9)


def unique(x, axis=None, sorted=1):
    """ONNX gives the first index of each value too: the smallest place that holds it."""
    axis = axis if axis is None else axis % x.ndim
    values, inverse, counts = dp.unique(x, return_inverse=True, return_counts=True, dim=axis)
    inverse = inverse.reshape(-1)
    places = dp.arange(len(inverse))
    first = dp.full((len(counts),), len(inverse), dtype=dp.int64)
    first = first.scatter_reduce(0, inverse, places, "amin")
    if not sorted:
        order = dp.argsort(first)
        values, counts, first = values[order], counts[order], first[order]
        inverse = dp.argsort(order)[inverse]
    return values, first, inverse, counts


OPERATORS = {
    "ReduceSum": reduction(lambda x, dims, keepdim: dp.sum(x, dims, keepdim)),
    "ReduceMean": reduction(lambda x, dims, keepdim: dp.mean(x, dims, keepdim)),
    "ReduceMax": reduction(lambda x, dims, keepdim: dp.amax(x, dims, keepdim)),
    "ReduceMin": reduction(lambda x, dims, keepdim: dp.amin(x, dims, keepdim)),
    "ReduceProd": reduction(product),
    "ReduceL1": reduction(norm(1)),
    "ReduceL2": reduction(norm(2)),
    "ReduceLogSum": reduction(lambda x, dims, keepdim: dp.log(dp.sum(x, dims, keepdim))),
    "ReduceLogSumExp": reduction(lambda x, dims, keepdim: dp.logsumexp(x, dims, keepdim)),
    "ReduceSumSquare": reduction(lambda x, dims, keepdim: dp.sum(dp.square(x), dims, keepdim)),
    "ArgMax": arg("argmax"),
    "ArgMin": arg("argmin"),
    "CumSum": running("cumsum", 0),
    "CumProd": running("cumprod", 1),
    "Softmax": lambda x, axis=-1: dp.softmax(x, axis),
    "LogSoftmax": lambda x, axis=-1: dp.log_softmax(x, axis),
    "Hardmax": hardmax,
    "TopK": top_k,
    "LpNormalization": lp_normalization,
    "MeanVarianceNormalization": mean_variance,
    "Unique": unique,
}
