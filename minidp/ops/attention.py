"""Attention: values averaged by how well their keys fit a query, and the layout that it needs."""

from __future__ import annotations

import math
from typing import Any

from minidp.errors import ShapeError
from minidp.op import op
from minidp.ops.comparison import eq, full_like, where
from minidp.ops.layout import concat, expand, reshape, triangle
from minidp.ops.linalg import flipped, matmul
from minidp.ops.recurrent import each, given
from minidp.ops.reduce import amax, sum
from minidp.ops.softmax import softmax, wide
from minidp.types import Array, Shape


def _check(x: Shape) -> None:
    if not x or x[-1] % 3:
        raise ShapeError(f"thirds({x}): the last axis is not three parts of one size")


@op("... -> ..., ..., ...", outputs="q k v", view=True, check=_check,
    x=lambda g, x_shape: concat(*(g[i] if i in g else full_like(g[min(g)], value=0.0)
                                  for i in range(3)), dim=len(x_shape) - 1))  # fmt: skip
def thirds(xp: Any, x: Array) -> tuple[Array, Array, Array]:
    """The last axis in three equal parts, as views: queries, keys and values of one product."""
    n = x.shape[-1] // 3
    return x[..., :n], x[..., n : 2 * n], x[..., 2 * n :]


def attention_adjoint(
    g: Any, y: Any, total: Any, q: Any, k: Any, v: Any, mask: Any, scale: float, causal: bool
) -> Any:
    dy, dtotal = given(g, 0, y), given(g, 1, total)
    return attention_input(dy, dtotal, q, k, v, y, total, mask, scale=scale, causal=causal)


@op("... l e, ... s e, ... s d, ... l s -> ... l d, ... l", outputs="y total",
    **each(attention_adjoint, "q k v"))  # fmt: skip
def attention(xp: Any, q: Array, k: Array, v: Array, mask: Array = None, *, scale: float,
              causal: bool) -> Any:  # fmt: skip
    """softmax(scale q k^T + mask) v, and the log of the sum of e^score of each query.

    ``causal``: query i sees keys 0 .. i. A query that sees nothing gives 0. The mask, which is
    added, gets no gradient. Source: Vaswani et al. 2017, arXiv 1706.03762.
    """
    p, total = _weights(xp, q, k, mask, scale, causal)
    found = xp.matmul(p, wide(v)), total
    return tuple(x.astype(q.dtype, copy=False) for x in found)


def _weights(xp: Any, q: Array, k: Array, mask: Any, scale: float, causal: bool) -> Any:
    s = xp.matmul(wide(q) * scale, xp.swapaxes(wide(k), -1, -2))
    s = s if mask is None else s + mask
    s = xp.where(xp.tril(xp.ones(s.shape[-2:], bool)), s, -xp.inf) if causal else s
    top = s.max(axis=-1, keepdims=True, initial=-xp.inf)
    top = xp.where(xp.isfinite(top), top, xp.zeros((), top.dtype))
    e = xp.exp(s - top)
    total = e.sum(axis=-1, keepdims=True)
    p = e / xp.where(total == 0, xp.ones((), total.dtype), total)
    return p.astype(wide(q).dtype, copy=False), (xp.log(total) + top)[..., 0]


def attention_bend(
    g: Any, dy: Any, dtotal: Any, q: Any, k: Any, v: Any, mask: Any, scale: float, causal: bool
) -> Any:
    """The product rule for attention_input, with a, b, c the cotangents of dq, dk, dv:

    e = scale (a k^T + q b^T), f = dy c^T, w = p (e - u) with u = sum of p e along a row, and
    h = e (dp - d) - u dp + f is the cotangent of p, z = p (h - sum p h) that of the scores.
    """
    p = _recorded_weights(q, k, mask, scale, causal)
    a, b, c = given(g, 0, q), given(g, 1, k), given(g, 2, v)
    dp = matmul(dy, flipped(v))
    gap = dp - _along(p * dp) + _column(dtotal)  # dp - d
    ds = p * gap
    e = (matmul(a, flipped(k)) + matmul(q, flipped(b))) * scale
    u = _along(p * e)
    h = e * gap - u * dp + matmul(dy, flipped(c))
    w, z = p * (e - u), p * (h - _along(p * h))
    of_q = (matmul(z, k) + matmul(ds, b)) * scale
    of_k = (matmul(flipped(z), q) + matmul(flipped(ds), a)) * scale
    return matmul(w, v) + matmul(p, c), reshape(u, shape=dtotal.shape), of_q, of_k, \
        matmul(flipped(w), dy)  # fmt: skip


def _along(x: Any) -> Any:
    return sum(x, dim=len(x.shape) - 1, keepdim=True)


def _column(x: Any) -> Any:
    return reshape(x, shape=(*x.shape, 1))


def _recorded_weights(q: Any, k: Any, mask: Any, scale: float, causal: bool) -> Any:
    """The weights made of ops, so that they have derivatives of their own."""
    s = matmul(q * scale, flipped(k))
    s = s if mask is None else s + mask
    if causal:
        s = where(eq(triangle(full_like(s, value=1.0), offset=0, upper=False), 1.0), s, -math.inf)
    blind = eq(amax(s, dim=len(s.shape) - 1, keepdim=True), -math.inf)
    blind = expand(blind, shape=s.shape)
    return where(blind, 0.0, softmax(where(blind, 0.0, s), dim=len(s.shape) - 1))


@op("... l d, ... l, ... l e, ... s e, ... s d, ... l d, ... l, ... l s"
    " -> ... l e, ... s e, ... s d",
    outputs="dq dk dv", **each(attention_bend, "dy dtotal q k v"))  # fmt: skip
def attention_input(
    xp: Any, dy: Array, dtotal: Array, q: Array, k: Array, v: Array, y: Array, total: Array,
    mask: Array = None, *, scale: float, causal: bool,
) -> Any:  # fmt: skip
    """The cotangents of attention's q, k and v: with p the weights, dp = dy v^T and
    ds = p (dp - sum of p dp + dtotal), scale ds k, scale ds^T q and p^T dy.

    ``y`` and ``total`` are what attention gave for them: kernels need not compute it again.
    """
    p, _ = _weights(xp, q, k, mask, scale, causal)
    dp = xp.matmul(wide(dy), xp.swapaxes(wide(v), -1, -2))
    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True) + dtotal[..., None])
    found = xp.matmul(ds * scale, wide(k)), xp.matmul(xp.swapaxes(ds * scale, -1, -2), wide(q)), \
        xp.matmul(xp.swapaxes(p, -1, -2), wide(dy))  # fmt: skip
    return tuple(x.astype(q.dtype, copy=False) for x in found)
