"""Batch normalisation by statistics that replicas share: two meetings a layer, one each way.

Forward each replica finds the moments of its own values in one pass, all learn everyone's, and
each normalises its values by the merged ones. Backward each adds its cotangents, all learn the
sums, and each finds the cotangents of its values. What is exchanged is a few numbers a channel.
"""

from typing import Any

from minidp.op import op
from minidp.ops.adjoint import each, recorded
from minidp.ops.arithmetic import relu, relu_input
from minidp.ops.collective import all_reduce
from minidp.ops.elementwise import rsqrt
from minidp.ops.layout import concat
from minidp.ops.normalize import batch_norm, channels, per_channel
from minidp.types import Array

STATISTICS = "batch norm"
"""What the exchange is called."""


@op("f:k m -> c, c, one", outputs="mean var count")
def merged_moments(xp: Any, rows: Array) -> Any:
    """The moments of all values, and their number, from rows of (number, c means, c variances).

    Source: Chan, Golub and LeVeque 1979, Updating formulae and a pairwise algorithm."""
    c = rows.shape[1] // 2
    number, mean, var = rows[:, :1], rows[:, 1 : 1 + c], rows[:, 1 + c :]
    count = number.sum(axis=0)
    divisor = xp.maximum(count, xp.ones_like(count))
    middle = (number * mean).sum(axis=0) / divisor
    distance = mean - middle
    return middle, (number * (var + distance * distance)).sum(axis=0) / divisor, count


@op("f:n c ..., f:n c ..., f:c, f:c, f:c, f:c -> c, c", outputs="total along")
def batch_norm_sums(xp: Any, dy: Array, x: Array, mean: Array, var: Array, weight: Array = None,
                    bias: Array = None, eps: float = 1e-5, rectify: bool = False
                    ) -> Any:  # fmt: skip
    """Sums over each channel of dy, and of dy (x - mean); with ``rectify`` of what relu lets
    back of dy: only for that are weight and bias needed."""
    if rectify:
        dy = relu_input.body(xp, dy, batch_norm.body(xp, x, mean, var, weight, bias, eps))
    shape, axes = (1, -1, *(1,) * (x.ndim - 2)), (0, *range(2, x.ndim))
    return dy.sum(axis=axes), (dy * (x - mean.reshape(shape))).sum(axis=axes)


@op("f:n c ..., f:n c ..., f:c, f:c, f:two, f:one, f:c, f:c -> n c ...")
def batch_norm_back(xp: Any, dy: Array, x: Array, mean: Array, var: Array, sums: Array,
                    count: Array, weight: Array = None, bias: Array = None, eps: float = 1e-5,
                    rectify: bool = False) -> Any:  # fmt: skip
    """The cotangent of x: with r = 1 / sqrt(var + eps), and the ``sums`` of batch_norm_sums over
    all ``count`` values, dx = weight r (dy - total / count - (x - mean) r^2 along / count)."""
    if rectify:
        dy = relu_input.body(xp, dy, batch_norm.body(xp, x, mean, var, weight, bias, eps))
    shape, c = (1, -1, *(1,) * (x.ndim - 2)), x.shape[1]
    r = 1 / xp.sqrt(var + xp.asarray(eps, x.dtype))
    level, slope = sums[:c] / count, sums[c:] * r * r / count
    dx = dy - level.reshape(shape) - (x - mean.reshape(shape)) * slope.reshape(shape)
    return dx * (r if weight is None else r * weight).reshape(shape)


def _adjoint(g: Any, x: Any, mean: Any, var: Any, count: Any, r: Any, weight: Any, bias: Any,
             eps: float, rectify: bool) -> Any:  # fmt: skip
    """The cotangents of x, weight and bias; composed of ops where it is to be differentiated."""
    dy, affine, options = g[0], (weight, bias), {"eps": eps, "rectify": rectify}
    if recorded(*g.values(), x, weight):
        if rectify:
            dy = relu_input(dy, batch_norm(x, mean, var, *affine, eps=eps))
        return _composed(dy, x, count, weight, eps)
    total, along = batch_norm_sums(dy, x, mean, var, *affine, **options)
    sums = all_reduce(concat(total, along, dim=0), name=f"{STATISTICS} backward")
    dx = batch_norm_back(dy, x, mean, var, sums, count, *affine, **options)
    return dx, along * r, total


def _composed(g: Any, x: Any, count: Any, weight: Any, eps: float) -> Any:
    """The same from x alone, whose statistics are found once more."""
    mean = all_reduce(per_channel(x), name=STATISTICS) / count
    d = x - channels(mean, x)
    var = all_reduce(per_channel(d * d), name=STATISTICS) / count
    r, total, along = rsqrt(var + eps), per_channel(g), per_channel(g * d)
    level = all_reduce(total, name=f"{STATISTICS} backward") / count
    slope = all_reduce(along, name=f"{STATISTICS} backward") * r * r / count
    scale = r if weight is None else r * weight
    return channels(scale, x) * (g - channels(level, x) - channels(slope, x) * d), along * r, total


@op("f:n c ..., f:c, f:c, f:one, f:c, f:c -> n c ..., c", outputs="y r",
    **each(_adjoint, "x weight bias"))  # fmt: skip
def batch_norm_shared(xp: Any, x: Array, mean: Array, var: Array, count: Array,
                      weight: Array = None, bias: Array = None, eps: float = 1e-5,
                      rectify: bool = False) -> Any:  # fmt: skip
    """``batch_norm`` by the mean and the variance of all ``count`` values of all replicas, with
    ``rectify`` and relu; and r = 1 / sqrt(var + eps). Its rule knows that they depend on x."""
    y = batch_norm.body(xp, x, mean, var, weight, bias, eps)
    r = 1 / xp.sqrt(var + xp.asarray(eps, x.dtype))
    return relu.body(xp, y) if rectify else y, r
