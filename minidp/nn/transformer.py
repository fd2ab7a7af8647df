"""The transformer: attention and two affine layers, each with a way around it, in layers.

Sequences are (steps, batch, d_model), (batch, steps, d_model) with ``batch_first``, or without
batch. Masks are those of ``MultiheadAttention``; ``..._is_causal`` only hints at what they are.
Sources: Vaswani et al. 2017, arXiv 1706.03762; Xiong et al. 2020, arXiv 2002.04745 (norm_first).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from minidp import functional as F
from minidp.create import full
from minidp.errors import ArgumentError, ShapeError
from minidp.nn import init
from minidp.nn.attention import MultiheadAttention
from minidp.nn.container import ModuleList
from minidp.nn.dropout import Dropout
from minidp.nn.linear import Linear
from minidp.nn.module import Module
from minidp.nn.normalize import LayerNorm
from minidp.tensor import Tensor

__all__ = ["Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
           "TransformerEncoderLayer"]  # fmt: skip

Mask = Tensor | None
Activation = str | Callable[[Tensor], Tensor]


class Block(Module):
    """What both kinds of layer share: parts, each with dropout, a way around, and a norm."""

    attentions: tuple[str, ...] = ("self_attn",)

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Activation = F.relu, layer_norm_eps: float = 1e-5,
        batch_first: bool = False, norm_first: bool = False, bias: bool = True,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        options: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        rows = 0 if batch_first else 1
        for name in self.attentions:
            one = MultiheadAttention(d_model, nhead, dropout, batch_first=batch_first, **options)
            self.add_module(name, one)
        self.linear1 = Linear(d_model, dim_feedforward, **options)
        self.dropout = Dropout(dropout, batch_dim=rows)
        self.linear2 = Linear(dim_feedforward, d_model, **options)
        self.norm_first = norm_first
        parts = range(1, len(self.attentions) + 2)
        for i in parts:
            self.add_module(f"norm{i}", LayerNorm(d_model, eps=layer_norm_eps, **options))
        for i in parts:
            self.add_module(f"dropout{i}", Dropout(dropout, batch_dim=rows))
        if activation not in ("relu", "gelu") and not callable(activation):
            raise ArgumentError(f"activation should be relu/gelu or a function, not {activation}")
        self.activation: Any = activation if callable(activation) else getattr(F, activation)

    def _part(self, i: int, x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        """x + function(norm(x)), or norm(x + function(x))."""
        norm, dropout = getattr(self, f"norm{i}"), getattr(self, f"dropout{i}")
        if self.norm_first:
            return x + dropout(function(norm(x)))
        return norm(x + dropout(function(x)))

    def _attend(
        self, i: int, x: Tensor, to: Tensor | None, mask: Mask, padding: Mask, is_causal: Any
    ) -> Tensor:
        """Part i: attention to ``to``, or of x to itself."""
        attention = getattr(self, self.attentions[i - 1])

        def attend(x: Tensor) -> Tensor:
            seen = x if to is None else to
            return attention(x, seen, seen, padding, False, mask, is_causal=bool(is_causal))[0]

        return self._part(i, x, attend)

    def _feed(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(Block):
    """Attention of a sequence to itself, then two affine layers."""

    def forward(
        self, src: Tensor, src_mask: Mask = None, src_key_padding_mask: Mask = None,
        is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        x = self._attend(1, src, None, src_mask, src_key_padding_mask, is_causal)
        return self._part(2, x, self._feed)


class TransformerDecoderLayer(Block):
    """Attention of a sequence to itself, then to ``memory``, then two affine layers."""

    attentions = ("self_attn", "multihead_attn")

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Mask = None, memory_mask: Mask = None,
        tgt_key_padding_mask: Mask = None, memory_key_padding_mask: Mask = None,
        tgt_is_causal: bool = False, memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        x = self._attend(1, tgt, None, tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        x = self._attend(2, x, memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        return self._part(3, x, self._feed)


class Stack(Module):
    """Copies of a layer in a row, and a norm behind them."""

    def __init__(self, layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(layer) for _ in range(num_layers))
        self.num_layers, self.norm = num_layers, norm

    def run(self, x: Tensor, *args: Any, **masks: Any) -> Tensor:
        for layer in self.layers:
            x = layer(x, *args, **masks)
        return x if self.norm is None else self.norm(x)


class TransformerEncoder(Stack):
    """``num_layers`` copies of an encoder layer. The last two options are for PyTorch's sake."""

    def __init__(
        self, encoder_layer: Module, num_layers: int, norm: Module | None = None,
        enable_nested_tensor: bool = True, mask_check: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(encoder_layer, num_layers, norm)

    def forward(
        self, src: Tensor, mask: Mask = None, src_key_padding_mask: Mask = None,
        is_causal: bool | None = None,
    ) -> Tensor:  # fmt: skip
        return self.run(src, mask, src_key_padding_mask, is_causal)


class TransformerDecoder(Stack):
    """``num_layers`` copies of a decoder layer."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__(decoder_layer, num_layers, norm)

    def forward(self, tgt: Tensor, memory: Tensor, *args: Any, **masks: Any) -> Tensor:
        """The masks are those of ``TransformerDecoderLayer``."""
        return self.run(tgt, memory, *args, **masks)


class Transformer(Module):
    """An encoder of ``src`` and a decoder of ``tgt`` that looks at what the encoder gives."""

    def __init__(
        self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6,
        num_decoder_layers: int = 6, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Activation = F.relu, custom_encoder: Any = None, custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5, batch_first: bool = False, norm_first: bool = False,
        bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        options: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}

        def made(stack: Any, layer: Any, count: int) -> Module:
            one = layer(d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps,
                        batch_first, norm_first, **options)  # fmt: skip
            return stack(one, count, LayerNorm(d_model, eps=layer_norm_eps, **options))

        self.encoder = custom_encoder or made(
            TransformerEncoder, TransformerEncoderLayer, num_encoder_layers)  # fmt: skip
        self.decoder = custom_decoder or made(
            TransformerDecoder, TransformerDecoderLayer, num_decoder_layers)  # fmt: skip
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Mask = None, tgt_mask: Mask = None,
        memory_mask: Mask = None, src_key_padding_mask: Mask = None,
        tgt_key_padding_mask: Mask = None, memory_key_padding_mask: Mask = None,
        src_is_causal: bool | None = None, tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        batches = [x.shape[0 if self.batch_first else 1] for x in (src, tgt) if x.ndim == 3]
        if src.ndim != tgt.ndim or len({*batches}) > 1:
            raise ShapeError(f"Transformer(src {src.shape}, tgt {tgt.shape}): the batch number of "
                             "src and tgt must be equal")  # fmt: skip
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(
            tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
            tgt_is_causal, memory_is_causal,
        )  # fmt: skip

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """What keeps step i from looking behind itself: -inf above the diagonal, 0 elsewhere."""
        return full((sz, sz), -math.inf, device=device, dtype=dtype).triu(1)
