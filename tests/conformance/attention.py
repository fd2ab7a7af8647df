"""Attention with its masks and caches, attention without softmax, and rotary positions."""

import math

import minidp as dp
from conformance.cases import DTYPES
from minidp.nn import functional as F


def heads(x, count):
    """(n, steps, heads * size) as (n, heads, steps, size); tensors of four axes as they are."""
    if x.ndim == 4:
        return x
    return dp.reshape(x, (x.shape[0], x.shape[1], count, -1)).transpose(1, 2)


def joined(x):
    return x.transpose(1, 2).flatten(2)


def allowed(q, k, past, lengths, is_causal, left, right):
    """Which key each query may see, or None: by cause, by window, by the length of the cache."""
    if not (is_causal or left >= 0 or right >= 0 or lengths is not None):
        return None
    keys = dp.arange(k.shape[2])
    start = 0 if past is None else past.shape[2]
    if lengths is not None:
        lengths = lengths.reshape(-1, 1, 1, 1)
        start = lengths - q.shape[2]
    distance = dp.arange(q.shape[2]).reshape(-1, 1) + start - keys
    seen = dp.ones_like(distance, dtype=dp.bool)
    if lengths is not None:
        seen = dp.logical_and(seen, keys < lengths)
    if is_causal:
        seen = dp.logical_and(seen, distance >= 0)
    if left >= 0:
        seen = dp.logical_and(seen, distance <= left)
    return dp.logical_and(seen, distance >= -right) if right >= 0 else seen


def added(mask, seen, k, dtype):
    """One mask to add to the scores, minus infinity where a key is not seen; None without any."""
    if mask is not None:
        missing = k.shape[2] - mask.shape[-1]
        nothing = False if mask.dtype == dp.bool else -math.inf
        mask = F.pad(mask, (0, missing), value=nothing) if missing else mask
    if mask is not None and mask.dtype == dp.bool:
        seen = mask if seen is None else dp.logical_and(seen, mask)
        mask = None
    if seen is None:
        return mask
    zero = dp.zeros((), dtype=dtype) if mask is None else mask
    return dp.where(seen, zero, dp.full((), -math.inf, dtype=dtype))


def attention(q, k, v, mask=None, past_key=None, past_value=None, lengths=None, *, is_causal=0,
              kv_num_heads=None, left_window_size=-1, q_num_heads=None, qk_matmul_output_mode=0,
              right_window_size=-1, scale=None, softcap=0.0, softmax_precision=None, outputs=1,
              ):  # fmt: skip
    flat = q.ndim == 3
    q, k, v = heads(q, q_num_heads), heads(k, kv_num_heads), heads(v, kv_num_heads)
    k = k if past_key is None else dp.cat([past_key, k], 2)
    v = v if past_value is None else dp.cat([past_value, v], 2)
    seen = allowed(q, k, past_key, lengths, is_causal, left_window_size, right_window_size)
    bias = added(mask, seen, k, q.dtype)
    if softcap or outputs == 4:
        y, scores = by_hand(q, k, v, bias, scale, softcap, qk_matmul_output_mode,
                            softmax_precision)  # fmt: skip
    else:
        scores = None
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=scale, enable_gqa=True)
    return joined(y) if flat else y, k, v, scores


def by_hand(q, k, v, bias, scale, softcap, mode, precision):
    """What scaled_dot_product_attention does, where scores are capped or asked for."""
    group = q.shape[1] // k.shape[1]
    k, v = dp.repeat_interleave(k, group, 1), dp.repeat_interleave(v, group, 1)
    root = math.sqrt(scale or 1 / math.sqrt(q.shape[-1]))
    scores = dp.matmul(q * root, (k * root).transpose(-1, -2))
    capped = softcap * dp.tanh(scores / softcap) if softcap else scores
    biased = capped if bias is None else capped + bias
    if bias is not None:
        blind = dp.isneginf(dp.amax(bias, -1, True))
        biased = dp.where(blind, dp.zeros_like(biased), biased)
    exact = biased.to(getattr(dp, DTYPES[precision])) if precision else biased
    weights = dp.softmax(exact, -1).to(q.dtype)
    if bias is not None:
        weights = dp.where(blind, dp.zeros_like(weights), weights)
    return dp.matmul(weights, v), (scores, capped, biased, weights)[mode]


def flex_attention(q, k, v, *, scale=None, softmax_precision=None):
    return F.scaled_dot_product_attention(q, k, v, scale=scale, enable_gqa=True)


def linear_attention(q, k, v, state=None, decay=None, beta=None, *, chunk_size=64, kv_num_heads,
                     q_num_heads, scale=0.0, update_rule="gated_delta"):  # fmt: skip
    """One step after the other: forget, write the key's value (or what of it is new), read."""
    wide = dp.float64 if q.dtype == dp.float64 else dp.float32
    dtype, group = q.dtype, q_num_heads // kv_num_heads
    q = heads(q, q_num_heads).to(wide)
    k, v = heads(k, kv_num_heads).to(wide), heads(v, kv_num_heads).to(wide)
    decay = None if decay is None else dp.exp(heads(decay, kv_num_heads).to(wide))
    beta = None if beta is None else heads(beta, beta.shape[-1]).to(wide)
    size = (q.shape[0], kv_num_heads, k.shape[-1], v.shape[-1])
    state = dp.zeros(size, dtype=wide) if state is None else state.to(wide)
    read = []
    for i in range(q.shape[2]):
        key, value = dp.unsqueeze(k[:, :, i], -1), v[:, :, i : i + 1]
        if decay is not None:
            state = state * dp.unsqueeze(decay[:, :, i], -1)
        if beta is not None:
            value = beta[:, :, i : i + 1] * (value - dp.matmul(key.transpose(-1, -2), state))
        state = state + key * value
        read.append(dp.matmul(q[:, :, i : i + 1], dp.repeat_interleave(state, group, 1)))
    y = dp.cat(read, 2) * (scale or 1 / math.sqrt(q.shape[-1]))
    return joined(y).to(dtype), state.to(dtype)


def rotary_embedding(x, cos, sin, places=None, *, interleaved=0, num_heads=0,
                     rotary_embedding_dim=0):  # fmt: skip
    flat = x.ndim == 3
    x = heads(x, num_heads)
    if places is not None:
        cos, sin = F.embedding(places, cos), F.embedding(places, sin)
    cos, sin = dp.unsqueeze(cos, 1), dp.unsqueeze(sin, 1)
    size = rotary_embedding_dim or x.shape[-1]
    turned, rest = dp.narrow(x, -1, 0, size), dp.narrow(x, -1, size, x.shape[-1] - size)
    a, b = (turned[..., 0::2], turned[..., 1::2]) if interleaved else dp.chunk(turned, 2, -1)
    pair = (cos * a - sin * b, sin * a + cos * b)
    turned = dp.stack(pair, -1).flatten(-2) if interleaved else dp.cat(pair, -1)
    y = dp.cat([turned, rest], -1)
    return joined(y) if flat else y


OPERATORS = {
    "Attention": attention,
    "FlexAttention": flex_attention,
    "LinearAttention": linear_attention,
    "RotaryEmbedding": rotary_embedding,
}
