"""Normalisation with given statistics, and with those of the values themselves."""

from __future__ import annotations

import math
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


def _mean(values: Any, dim: tuple[int, ...]) -> Any:
    return sum(values, dim=dim, keepdim=True) * (1 / _count(values.shape, dim))


def _count(shape: tuple[int, ...], dim: tuple[int, ...]) -> int:
    return max(1, math.prod(shape[axis] for axis in dim))


@op("f:... -> ...", x=lambda g, x, dim, eps, center: standardize_input(
    g, x, dim=dim, eps=eps, center=center))  # fmt: skip
def standardize(xp: Any, x: Array, dim: tuple[int, ...], eps: float, center: bool = True) -> Array:
    """(x - mean) / sqrt(var + eps), both over ``dim``; not ``center``: x / sqrt(mean(x^2) + eps).

    In two passes, the mean first, so that the variance of large numbers loses no digits.
    """
    return _standard(xp, x, dim, eps, center)[0]


def _standard(xp: Any, x: Array, dim: tuple[int, ...], eps: float, center: bool) -> Any:
    count = _count(x.shape, dim)
    y = x - x.sum(axis=dim, keepdims=True) / count if center else x.copy()
    r = 1 / xp.sqrt((y * y).sum(axis=dim, keepdims=True) / count + eps)
    y *= r
    return y, r


def _bend(g: Any, dy: Any, x: Any, dim: tuple[int, ...], eps: float, center: bool) -> Any:
    """The derivative in x of sum g standardize_input(dy, x): with y and r as there, and D(v) for
    standardize_input(v, x), -r^2 y mean(g D(dy) / r) - r mean(g y) D(dy) - r mean(dy y) D(g)."""
    d = x - _mean(x, dim) if center else x
    r = rsqrt(_mean(d * d, dim) + eps)
    y = d * r
    first, second = (standardize_input(v, x, dim=dim, eps=eps, center=center) for v in (dy, g))
    turned = _mean(g * y, dim) * first + _mean(dy * y, dim) * second
    return -r * (y * _mean(g * first, dim) + turned)


@op("f:..., f:... -> ...",
    dy=lambda g, x, dim, eps, center: standardize_input(g, x, dim=dim, eps=eps, center=center),
    x=_bend)  # fmt: skip
def standardize_input(xp: Any, dy: Array, x: Array, dim: tuple[int, ...], eps: float,
                      center: bool = True) -> Array:  # fmt: skip
    """The cotangent of standardize's x: r (dy - mean(dy) - y mean(dy y)), r = 1 / sqrt(var + eps).

    Not ``center``: without mean(dy).
    """
    y, r = _standard(xp, x, dim, eps, center)
    count = _count(x.shape, dim)
    y *= (dy * y).sum(axis=dim, keepdims=True) / -count
    y += dy
    if center:
        y -= dy.sum(axis=dim, keepdims=True) / count
    y *= r
    return y
