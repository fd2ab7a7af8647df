"""Attention: values averaged by how well their keys fit a query."""

from typing import Any

import numpy as np

from minidp.errors import ShapeError
from minidp.op import op
from minidp.ops.adjoint import composite, each, given
from minidp.ops.comparison import full_like, where
from minidp.ops.exponential import exp
from minidp.ops.layout import concat, triangle, unsqueeze_all
from minidp.ops.linalg import flipped, matmul
from minidp.ops.reduce import sum
from minidp.types import Array, Shape


def _check(x: Shape) -> None:
    if not x or x[-1] % 3:
        raise ShapeError(f"thirds({x}): the last axis is not three parts of one size")


@op("... -> ..., ..., ...", outputs="q k v", view=True, check=_check,
    x=lambda g, x_shape: concat(
        *(given(g, i, g[min(g)]) for i in range(3)), dim=len(x_shape) - 1))  # fmt: skip
def thirds(xp: Any, x: Array) -> tuple[Array, Array, Array]:
    """The last axis in three equal parts, as views: queries, keys and values of one product."""
    n = x.shape[-1] // 3
    return x[..., :n], x[..., n : 2 * n], x[..., 2 * n :]


def attention_adjoint(g: Any, q: Any, k: Any, v: Any, y: Any, rest: Any, mask: Any, scale: float,
                      causal: bool) -> Any:  # fmt: skip
    if set(g) == {0}:
        return attention_back(g[0], q, k, v, y, rest, mask, scale=scale, causal=causal)
    return _walk(given(g, 0, y), given(g, 1, rest), q, k, v, y, rest, mask, scale, causal)


def _walk(dy: Any, drest: Any, q: Any, k: Any, v: Any, y: Any, rest: Any, mask: Any, scale: float,
          causal: bool) -> Any:  # fmt: skip
    scores, ndim = matmul(q * scale, flipped(k)), len(q.shape)
    scores = scores if mask is None else scores + mask
    if causal:
        seen = triangle(full_like(scores, value=1.0), offset=0, upper=False) > 0
        scores = where(seen, scores, -np.inf)
    p, level = exp(scores - unsqueeze_all(rest, (ndim - 1,), ndim)), sum(dy * y, -1, True)
    level = level if drest is None else level - unsqueeze_all(drest, (ndim - 1,), ndim)
    ds = p * (matmul(dy, flipped(v)) - level) * scale
    return matmul(ds, k), matmul(flipped(ds), q), matmul(flipped(p), dy)


def _check_attention(q: Shape, k: Shape, v: Shape, mask: Any, **constants: Any) -> None:
    whole, fits = (*q[:-1], k[-2]), q[:-2] == k[:-2] == v[:-2]
    if mask is not None:
        pairs = zip(mask[::-1], whole[::-1], strict=False)
        fits &= len(mask) <= len(whole) and all(a in (1, b) for a, b in pairs)
    if not fits:
        raise ShapeError(f"attention(q {q}, k {k}, v {v}, mask {mask}): expected q, k and v of "
                         f"one batch, and a mask that broadcasts to {whole}")  # fmt: skip


@op("f:... l e, f:... s e, f:... s v, f:... p r -> ... l v, ... l",
    outputs="y rest", check=_check_attention, **each(attention_adjoint, "q k v"))  # fmt: skip
def attention(xp: Any, q: Array, k: Array, v: Array, mask: Array = None, *, scale: float,
              causal: bool) -> Any:  # fmt: skip
    """softmax(scale q k^T + mask) v, and the logarithm of the softmax's denominator for each q.

    ``causal``: query i looks at keys 0 .. i. A query that may look at nothing (all is -inf) gives
    0, and infinity as its logarithm. The mask gets no gradient.
    Source: Vaswani et al. 2017, arXiv 1706.03762."""
    scores = xp.matmul(q * xp.asarray(scale, q.dtype), xp.swapaxes(k, -1, -2))
    scores = scores if mask is None else scores + mask
    if causal:
        seen = xp.tril(xp.ones(scores.shape[-2:], bool))
        scores = xp.where(seen, scores, xp.asarray(-xp.inf, q.dtype))
    top = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    e = xp.exp(scores - xp.where(xp.isinf(top), xp.zeros((), q.dtype), top))
    total = e.sum(axis=-1, keepdims=True)
    blind = total == 0
    y = xp.matmul(e / xp.where(blind, xp.ones((), q.dtype), total), v)
    rest = xp.where(blind, -top, top + xp.log(xp.where(blind, xp.ones((), q.dtype), total)))
    return y, rest[..., 0]


@composite("f:... l v, f:... l e, f:... s e, f:... s v, f:... l v, f:... l, f:... p r "
           "-> ... l e, ... s e, ... s v", outputs="dq dk dv")  # fmt: skip
def attention_back(xp: Any, dy: Array, q: Array, k: Array, v: Array, y: Array, rest: Array,
                   mask: Array = None, *, scale: float, causal: bool) -> Any:  # fmt: skip
    """The cotangents of attention's q, k and v, from that of y and from what it found.

    With p the softmax: dv = p^T dy, and ds = p (dy v^T - sum dy y), dq = scale ds k,
    dk = scale ds^T q."""
    return _walk(dy, None, q, k, v, y, rest, mask, scale, causal)
