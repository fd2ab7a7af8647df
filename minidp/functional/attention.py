"""Attention: values averaged by how well their keys fit a query.

Source: Vaswani et al. 2017, arXiv 1706.03762.
"""

from __future__ import annotations

import math
from typing import Any

from minidp.create import ones
from minidp.errors import ArgumentError, DTypeError, ShapeError
from minidp.functional.activation import softmax
from minidp.functional.dropout import dropout
from minidp.functional.linear import linear
from minidp.functions.join import cat
from minidp.mode import mode
from minidp.ops.attention import attention, thirds
from minidp.ops.comparison import where
from minidp.ops.layout import permute, reshape, triangle
from minidp.tensor import Tensor
from minidp.types import category, float32, float64

__all__ = ["scaled_dot_product_attention"]


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """softmax(scale Q K^T + mask) V: Q (..., l, e), K (..., s, e), V (..., s, v) -> (..., l, v).

    A bool mask says what may be looked at, another is added; what may look at nothing gives 0.
    ``is_causal``: place i looks at 0 .. i. ``scale``: 1 / sqrt(e). ``enable_gqa``: each head
    (axis -3) of K and V serves as many heads of Q as there are for it. ``dropout_p`` acts always.

    >>> q, k, v = dp.rand(1, 4, 8), dp.rand(1, 6, 8), dp.rand(1, 6, 3)
    >>> F.scaled_dot_product_attention(q, k, v).shape
    (1, 4, 3)
    """
    shapes = query.shape, key.shape, value.shape
    fits = min(map(len, shapes)) > 1 and shapes[0][-1] == shapes[1][-1]
    if not fits or shapes[1][-2] != shapes[2][-2]:
        given = ", ".join(map(str, shapes))
        raise ShapeError(f"scaled_dot_product_attention({given}): expected query (..., l, e), key "
                         "(..., s, e), value (..., s, v)")  # fmt: skip
    expect_mask("attn_mask", attn_mask)
    if is_causal and attn_mask is not None:
        raise ArgumentError("scaled_dot_product_attention: Explicit attn_mask should not be set "
                            "when is_causal=True")  # fmt: skip
    if enable_gqa:
        key, value = _shared(key, query), _shared(value, query)
    if _whole(query, key, value, attn_mask, dropout_p):
        scale = 1 / math.sqrt(query.shape[-1] or 1) if scale is None else scale
        if attn_mask is not None and attn_mask.dtype == bool:
            attn_mask = where(attn_mask, 0.0, -math.inf).type(query.dtype)
        return attention.first(query, key, value, attn_mask, scale=float(scale), causal=is_causal)
    if is_causal:
        square = ones(shapes[0][-2], shapes[1][-2], dtype=bool, device=query.device)
        attn_mask = triangle(square, offset=0, upper=False)
    weights = attention_weights(query, key, attn_mask, scale)
    return dropout(weights, dropout_p, batch_dim=0 if weights.ndim > 2 else None) @ value


def expect_mask(name: str, mask: Tensor | None) -> None:
    """A DTypeError for integers, which could mean seen, hidden, or added."""
    if mask is not None and category(mask.dtype) == 1:
        raise DTypeError(f"attention: {name} of {mask.dtype}; only bool and floating types of mask "
                         "are supported: convert with .bool() or .float()")  # fmt: skip


def _whole(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout_p: float) -> bool:
    """Whether the weights are not needed between the two products: then one op does all."""
    alike = q.shape[:-2] == k.shape[:-2] == v.shape[:-2] and q.dtype == k.dtype == v.dtype
    if dropout_p or not alike or q.dtype not in (float32, float64):
        return False
    if mask is None:
        return True
    whole = (*q.shape[:-1], k.shape[-2])
    pairs = zip(mask.shape[::-1], whole[::-1], strict=False)
    fits = 2 <= mask.ndim <= q.ndim and all(a in (1, b) for a, b in pairs)
    return fits and not mask.requires_grad and mask.dtype in (bool, q.dtype)


def attention_weights(query: Tensor, key: Tensor, mask: Tensor | None = None,
                      scale: float | None = None, blind: float = 0.0) -> Tensor:  # fmt: skip
    """softmax(scale Q K^T + mask) (..., l, s); rows in which all is masked: ``blind``, 0 or NaN."""
    scale = 1 / math.sqrt(query.shape[-1] or 1) if scale is None else scale
    scores = (query * scale) @ key.transpose(-2, -1)
    if mask is None:
        return softmax(scores, -1)
    plain = mask.dtype == bool
    unseen = ~(mask if plain else mask.detach() != -math.inf).any(-1, keepdim=True)
    if mode.watch is None and not bool(unseen.any()):  # a captured step reads no values
        return softmax(where(mask, scores, -math.inf) if plain else scores + mask, -1)
    scores = where(mask | unseen, scores, -math.inf) if plain else scores + where(unseen, 0.0, mask)
    scores = scores + where(unseen, blind, 0.0).type(scores.dtype) if blind else scores
    return where(unseen, blind, softmax(scores, -1))


def _shared(x: Tensor, query: Tensor) -> Tensor:
    """The heads (axis -3) of keys or values, each repeated for its group of the query's heads."""
    if min(x.ndim, query.ndim) < 3 or not x.shape[-3] or query.shape[-3] % x.shape[-3]:
        raise ShapeError(f"scaled_dot_product_attention(query {query.shape}, ... {x.shape}): the "
                         "heads of key and value must divide those of query")  # fmt: skip
    groups: Any = (*x.shape[:-2], query.shape[-3] // x.shape[-3], *x.shape[-2:])
    return x.unsqueeze(-3).expand(groups).reshape(*query.shape[:-2], *x.shape[-2:])


def projected(inputs: tuple[Tensor, Tensor, Tensor], weights: Any, bias: Tensor | None) -> Any:
    """Queries, keys and values by three weights, or by one that holds them below one another: in
    one product when all are made of the same."""
    whole = isinstance(weights, Tensor)
    if whole and inputs[0] is inputs[1] is inputs[2]:
        return thirds(linear(inputs[0], weights, bias))
    biases: Any = (None,) * 3 if bias is None else bias.chunk(3)
    return map(linear, inputs, weights.chunk(3) if whole else weights, biases)


def extended(x: Tensor, learnt: Tensor | None, zero: bool) -> Tensor:
    """Keys or values and a learnt one, if there is one, and one of zeros behind them."""
    shape = (x.shape[0], 1, x.shape[2])
    more = [] if learnt is None else [learnt.expand(shape)]
    return cat([x, *more, *[x.new_zeros(shape)] * zero], 1)


def in_heads(
    query: Tensor, key: Tensor, value: Tensor, heads: int, mask: Tensor | None, dropout_p: float,
    need_weights: bool,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Attention of (n, l, e) to (n, s, e) in parts of e: (n, l, e), weights (n, heads, l, s)."""
    q, k, v = (permute(reshape(x, shape=(*x.shape[:2], heads, x.shape[2] // heads)),
                       axes=(0, 2, 1, 3)) for x in (query, key, value))  # fmt: skip
    weights = None
    if need_weights:
        weights = dropout(attention_weights(q, k, mask, blind=math.nan), dropout_p)
    y = scaled_dot_product_attention(q, k, v, mask, dropout_p) if weights is None else weights @ v
    return reshape(permute(y, axes=(0, 2, 1, 3)), shape=query.shape), weights


def merged_mask(
    attn_mask: Tensor | None, padding: Tensor | None, q: Tensor, k: Tensor, heads: int, more: int
) -> Tensor | None:
    """A mask (l, s) or (n heads, l, s) and one (n, s), where True hides, as one that broadcasts to
    (n, heads, l, s + more): what may be looked at when both are bool, else what is added."""
    n, steps, keys = len(q), q.shape[1], k.shape[1]
    plain: Any = {(steps, keys): (steps, keys), (n * heads, steps, keys): (n, heads, steps, keys)}
    padded: Any = {(n, keys): (n, 1, 1, keys)}
    masks: list[Tensor] = []
    for name, mask, shapes in (("attn_mask", attn_mask, plain),
                               ("key_padding_mask", padding, padded)):  # fmt: skip
        expect_mask(name, mask)
        if mask is not None and mask.shape not in shapes:
            raise ShapeError(f"MultiheadAttention: The shape of the {name} is {mask.shape}, "
                             f"but should be {next(iter(shapes))}")  # fmt: skip
        masks += [] if mask is None else [mask.reshape(shapes[mask.shape])]
    if not masks:
        return None
    if all(mask.dtype == bool for mask in masks):
        mask = ~(masks[0] | masks[-1])
    else:
        numbers = [where(m, -math.inf, 0.0) if m.dtype == bool else m for m in masks]
        mask = sum(numbers[1:], numbers[0]).to(q.dtype)
    seen = mask.new_full((*mask.shape[:-1], more), mask.dtype == bool)
    return cat([mask, seen], -1) if more else mask
