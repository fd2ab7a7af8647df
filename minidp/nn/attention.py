"""Attention of several heads."""

from __future__ import annotations

from typing import Any

from minidp.arguments import expect_counts
from minidp.errors import ArgumentError, ShapeError
from minidp.functional.attention import extended, in_heads, merged_mask, projected
from minidp.nn import init
from minidp.nn.layer import Layer
from minidp.nn.linear import NonDynamicallyQuantizableLinear
from minidp.parameter import Parameter
from minidp.tensor import Tensor

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Layer):
    """softmax(Q K^T / sqrt(d)) V in ``num_heads`` heads of d = embed_dim / num_heads values.

    query (l, n, e), key (s, n, kdim), value (s, n, vdim); (n, l, e) ... with ``batch_first``; or
    without n. ``key_padding_mask`` (n, s) and ``attn_mask`` (l, s) or (n heads, l, s): True hides,
    floats are added. Source: Vaswani et al. 2017, arXiv 1706.03762.

    >>> x = dp.rand(2, 5, 8)
    >>> nn.MultiheadAttention(8, 2, batch_first=True)(x, x, x)[0].shape
    (2, 5, 8)
    """

    in_proj_weight: Parameter | None
    q_proj_weight: Parameter | None
    k_proj_weight: Parameter | None
    v_proj_weight: Parameter | None
    in_proj_bias: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True,
        add_bias_kv: bool = False, add_zero_attn: bool = False, kdim: int | None = None,
        vdim: int | None = None, batch_first: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        expect_counts("MultiheadAttention", 1, embed_dim=embed_dim, num_heads=num_heads)
        if embed_dim % num_heads:
            raise ArgumentError(f"embed_dim={embed_dim} is not divisible by num_heads={num_heads}")
        super().__init__()
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        self.kdim, self.vdim, self.batch_first = kdim or embed_dim, vdim or embed_dim, batch_first
        self.head_dim, self.add_zero_attn = embed_dim // num_heads, add_zero_attn
        alike, extra = self.kdim == self.vdim == embed_dim, (1, 1, embed_dim)
        each = [None if alike else (embed_dim, n) for n in (embed_dim, self.kdim, self.vdim)]
        self._make(
            device, dtype, in_proj_weight=(3 * embed_dim, embed_dim) if alike else None,
            q_proj_weight=each[0], k_proj_weight=each[1], v_proj_weight=each[2],
            in_proj_bias=(3 * embed_dim,) if bias else None,
            bias_k=extra if add_bias_kv else None, bias_v=extra if add_bias_kv else None,
        )  # fmt: skip
        self.out_proj = NonDynamicallyQuantizableLinear(
            embed_dim, embed_dim, bias=bias, device=device, dtype=dtype
        )
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        """Weights uniform, and biases of keys and values normal, by Glorot; other biases 0."""
        for name, parameter in self.named_parameters():
            if name.endswith("proj_weight"):
                init.xavier_uniform_(parameter)
            elif name in ("bias_k", "bias_v"):
                init.xavier_normal_(parameter)
            elif name.endswith("bias"):
                init.zeros_(parameter)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
        need_weights: bool = True, attn_mask: Tensor | None = None,
        average_attn_weights: bool = True, is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """(output like query, weights (n, l, s) or None); not averaged they are (n, heads, l, s).

        ``is_causal`` only hints at what attn_mask is. What may look at nothing gives NaN with
        ``need_weights``, without them 0 before ``out_proj``.
        """
        if is_causal and attn_mask is None:
            raise ArgumentError("MultiheadAttention: Need attn_mask when giving the is_causal hint")
        weights: Any = self.in_proj_weight
        if weights is None:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        q, k, v = projected((query, key, value), weights, self.in_proj_bias)
        single = query.ndim == 2
        if single:
            q, k, v = (x.unsqueeze(0) for x in (q, k, v))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            q, k, v = (x.transpose(0, 1) for x in (q, k, v))
        fits = query.ndim == key.ndim == value.ndim and q.ndim == 3
        if not fits or q.shape[0] != k.shape[0] or k.shape != v.shape:
            raise ShapeError(f"MultiheadAttention(query {query.shape}, key {key.shape}, value "
                             f"{value.shape}): expected three of 2-D or of 3-D, of one batch, key "
                             "and value of one length")  # fmt: skip
        more = (self.bias_k is not None) + self.add_zero_attn
        mask = merged_mask(attn_mask, key_padding_mask, q, k, self.num_heads, more)
        if more:
            k, v = (extended(x, learnt, self.add_zero_attn)
                    for x, learnt in ((k, self.bias_k), (v, self.bias_v)))  # fmt: skip
        dropped = self.dropout if self.training else 0.0
        y, weights = in_heads(q, k, v, self.num_heads, mask, dropped, need_weights)
        if weights is not None and average_attn_weights:
            weights = weights.mean(1)
        y = self.out_proj(y)
        if single:
            return y.squeeze(0), None if weights is None else weights.squeeze(0)
        return y if self.batch_first else y.transpose(0, 1), weights
