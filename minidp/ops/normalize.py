"""Normalisation with given statistics; the statistics are sums like any other."""

from __future__ import annotations

from typing import Any

from minidp.op import op
from minidp.ops.elementwise import rsqrt
from minidp.ops.layout import reshape
from minidp.ops.reduce import sum
from minidp.types import Array


def channels(v: Any, like: Any) -> Any:
    """A vector over axis 1, shaped to broadcast against ``like``."""
    return reshape(v, shape=(1, -1, *(1,) * (len(like.shape) - 2)))


def per_channel(x: Any) -> Any:
    """Summed over every axis but the channels, axis 1."""
    return sum(x, dim=(0, *range(2, len(x.shape))))


def _scale(weight: Any, var: Any, eps: float) -> Any:
    r = rsqrt(var + eps)
    return r if weight is None else weight * r


@op("n c ..., c, c, c, c -> n c ...",
    x=lambda g, weight, var, eps: g * channels(_scale(weight, var, eps), g),
    mean=lambda g, weight, var, eps: -per_channel(g) * _scale(weight, var, eps),
    var=lambda g, x, mean, weight, var, eps: -0.5 * per_channel(g * (x - channels(mean, x)))
    * _scale(weight, var, eps) / (var + eps),
    weight=lambda g, x, mean, var, eps: per_channel(g * (x - channels(mean, x)))
    * rsqrt(var + eps),
    bias=lambda g: per_channel(g))  # fmt: skip
def batch_norm(xp: Any, x: Array, mean: Array, var: Array, weight: Array = None,
               bias: Array = None, eps: float = 1e-5) -> Array:  # fmt: skip
    """y = (x - mean) / sqrt(var + eps) weight + bias, channel by channel (axis 1).

    Source: Ioffe and Szegedy 2015, arXiv 1502.03167.
    """
    shape = (1, -1, *(1,) * (x.ndim - 2))
    y = (x - mean.reshape(shape)) / xp.sqrt(var.reshape(shape) + xp.asarray(eps, x.dtype))
    y = y if weight is None else y * weight.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)
