"""Normalisation with given statistics, and with those of the values themselves."""

import math
from typing import Any

from minidp.errors import ShapeError
from minidp.mode import switched
from minidp.op import op
from minidp.ops.adjoint import composite, each, given
from minidp.ops.elementwise import full_like, rsqrt
from minidp.ops.layout import reshape, unsqueeze_all
from minidp.ops.reduce import sum
from minidp.types import Array, Shape


def channels(v: Any, like: Any) -> Any:
    """A vector over axis 1, shaped to broadcast against ``like``."""
    return v.reshape((1, -1, *(1,) * (len(like.shape) - 2)))


def per_channel(x: Any) -> Any:
    """Summed over every axis but the channels, axis 1."""
    return sum(x, dim=(0, *range(2, len(x.shape))), keepdim=False)


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

    Source: Ioffe and Szegedy 2015, arXiv 1502.03167."""
    shape = (1, -1, *(1,) * (x.ndim - 2))
    y = (x - mean.reshape(shape)) / xp.sqrt(var.reshape(shape) + xp.asarray(eps, x.dtype))
    y = y if weight is None else y * weight.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)


@op("f:n c ... -> c, c", outputs="mean var")
def batch_moments(xp: Any, x: Array) -> Any:
    """The mean and the variance (of all: divided by their number) of each channel (axis 1); 0 and 0
    of no values. In two passes, so that the variance of large numbers loses no digits."""
    shape, axes, count = (1, -1, *(1,) * (x.ndim - 2)), (0, *range(2, x.ndim)), rows(x)
    mean = x.sum(axis=axes) / count
    return mean, ((x - mean.reshape(shape)) ** 2).sum(axis=axes) / count


@composite("f:n c ..., f:n c ..., f:c, f:c, f:c -> n c ..., c, c", outputs="dx dweight dbias")
def batch_norm_own_back(xp: Any, dy: Array, x: Array, mean: Array, var: Array,
                        weight: Array = None, eps: float = 1e-5) -> Any:  # fmt: skip
    """The cotangents of batch_norm_own's x, weight and bias.

    With r = 1 / sqrt(var + eps) and v = (x - mean) r: dx = weight r (dy - mean(dy) -
    v mean(dy v)); those of weight and bias are the sums of dy v and dy."""
    r, d = rsqrt(var + eps), x - channels(mean, x)
    dweight, dbias = per_channel(dy * d) * r, per_channel(dy)
    level = (channels(dweight * r, x) * d + channels(dbias, x)) / rows(x)
    return channels(_scale(weight, var, eps), x) * (dy - level), dweight, dbias


def rows(x: Any) -> int:
    """How many values a channel has, at least 1."""
    return max(1, math.prod(x.shape) // max(1, x.shape[1]))


def _own_adjoint(g: Any, x: Any, mean: Any, var: Any, weight: Any, eps: float) -> Any:
    dx, dweight, dbias = batch_norm_own_back(given(g, 0, x), x, mean, var, weight, eps=eps)
    if 1 in g:
        dx = dx + channels(g[1] / rows(x), x)
    if 2 in g:
        dx = dx + (x - channels(mean, x)) * channels(g[2] * (2 / rows(x)), x)
    return dx, dweight, dbias


@op("f:n c ..., f:c, f:c -> n c ..., c, c", outputs="y mean var",
    **each(_own_adjoint, "x weight bias"))  # fmt: skip
def batch_norm_own(xp: Any, x: Array, weight: Array = None, bias: Array = None, eps: float = 1e-5
                   ) -> Any:  # fmt: skip
    """``batch_norm`` by the ``batch_moments`` of x itself."""
    mean, var = batch_moments.body(xp, x)
    return batch_norm.body(xp, x, mean, var, weight, bias, eps), mean, var


def _grouped(x: Any, groups: int) -> Any:
    """x (n, c, ...) as (n, groups, values of a group)."""
    return x.reshape((x.shape[0], groups, size_of_group(x.shape, groups)))


def size_of_group(shape: Shape, groups: int) -> int:
    """How many values are normalised together."""
    return math.prod(shape[1:]) // max(1, groups)


def _check_back(dy: Shape, x: Shape, mean: Shape, *others: Any, **constants: Any) -> None:
    if mean[1] < 1 or x[1] % mean[1]:
        raise ShapeError(f"group_norm_back(x {x}, mean {mean}): expected one mean for each of the "
                         "groups of channels, which are equal")  # fmt: skip


@composite("f:n c ..., f:n c ..., f:n m, f:n m, f:c -> n c ..., c, c", outputs="dx dweight dbias",
           check=_check_back)  # fmt: skip
def group_norm_back(xp: Any, dy: Array, x: Array, mean: Array, r: Array, weight: Array = None,
                    center: bool = True) -> Any:  # fmt: skip
    """The cotangents of group_norm's x, weight and bias, from that of y and what it found.

    With v = (x - mean) r and h = dy weight: dx = r (h - mean(h) - v mean(h v)), without mean(h)
    if not ``center``; those of weight and bias are the sums of dy v and dy."""
    v, share = _normal(x, mean, r), 1 / _count(x, mean)
    h = _grouped(dy if weight is None else dy * channels(weight, dy), mean.shape[1])
    dx = h - v * (sum(h * v, dim=2, keepdim=True) * share)
    dx = dx - sum(h, dim=2, keepdim=True) * share if center else dx
    dx, v = (reshape(each, shape=x.shape) for each in (dx * column(r), v))
    return dx, per_channel(dy * v), per_channel(dy)


def _normal(x: Any, mean: Any, r: Any) -> Any:
    return (_grouped(x, mean.shape[1]) - column(mean)) * column(r)


def _count(x: Any, mean: Any) -> int:
    return max(1, size_of_group(x.shape, mean.shape[1]))


def column(v: Any) -> Any:
    """One value for each group, beside the values of a group."""
    return unsqueeze_all(v, (2,), 3)


def _adjoint(g: Any, x: Any, mean: Any, r: Any, weight: Any, center: bool) -> Any:
    dx, dweight, dbias = group_norm_back(given(g, 0, x), x, mean, r, weight, center=center)
    more: Any = 0.0
    if 1 in g and center:
        more = column(g[1])
    if 2 in g:
        more = more - _normal(x, mean, r) * column(r * r * g[2])
    if set(g) - {0}:
        more = _grouped(full_like(x, value=1.0), mean.shape[1]) * more / _count(x, mean)
        dx = dx + reshape(more, shape=x.shape)
    return dx, dweight, dbias


def _check_groups(x: Shape, *vectors: Any, groups: int, **constants: Any) -> None:
    if groups < 1 or x[1] % groups:
        raise ShapeError(f"group_norm(x {x}, groups={groups}): expected (n, c, ...) with c "
                         "divisible by the number of groups")  # fmt: skip


@op("f:n c ..., f:c, f:c -> n c ..., n m, n m", outputs="y mean r", check=_check_groups,
    **each(_adjoint, "x weight bias"))  # fmt: skip
def group_norm(xp: Any, x: Array, weight: Array = None, bias: Array = None, groups: int = 1,
               eps: float = 1e-5, center: bool = True) -> Any:  # fmt: skip
    """y = (x - mean) r weight + bias, with the mean of each row's group of channels (axis 1) and
    r = 1 / sqrt(mean((x - mean)^2) + eps); not ``center``: 0 for the mean. All three.

    In two passes, the mean first, so that the variance of large numbers loses no digits."""
    n, count = len(x), size_of_group(x.shape, groups)
    rows, shape = x.reshape(n, groups, count), (1, -1, *(1,) * (x.ndim - 2))
    mean = rows.sum(axis=2) / max(1, count) if center else xp.zeros((n, groups), x.dtype)
    d = rows - mean[..., None]
    r = 1 / xp.sqrt((d * d).sum(axis=2) / max(1, count) + eps)
    y = (d * r[..., None]).reshape(x.shape)
    y = y if weight is None else y * weight.reshape(shape)
    return y if bias is None else y + bias.reshape(shape), mean, r


def _rows_adjoint(g: Any, x: Any, mean: Any, r: Any, weight: Any, axes: int, center: bool) -> Any:
    rows = (len(mean), math.prod(x.shape) // max(1, len(mean)))
    flat = g | {0: g[0].reshape(rows)} if 0 in g else g
    vector = weight if weight is None or axes == 1 else weight.reshape((-1,))
    dx, *others = _adjoint(flat, x.reshape(rows), mean, r, vector, center)
    others = others if axes == 1 else [v.reshape(x.shape[-axes:]) for v in others]
    return dx.reshape(x.shape), *others


@op("f:..., f:..., f:... -> ..., n m, n m", outputs="y mean r",
    **each(_rows_adjoint, "x weight bias"))  # fmt: skip
def layer_norm(xp: Any, x: Array, weight: Array = None, bias: Array = None, axes: int = 1,
               eps: float = 1e-5, center: bool = True) -> Any:  # fmt: skip
    """``group_norm`` of the last ``axes`` together, by weights and biases of their shape."""
    given = x.reshape(math.prod(x.shape[:-axes]), math.prod(x.shape[-axes:]))
    vectors = (v if v is None else v.reshape(-1) for v in (weight, bias))
    with switched(watch=None):
        y, mean, r = group_norm(given, *vectors, groups=1, eps=eps, center=center)
    return y.reshape(x.shape), mean, r
