"""Random cases of tables, recurrent layers, attention and transformers."""

from __future__ import annotations

from typing import Any

import numpy as np

from differential.drawing import Case, Draw
from differential.layers import layer


@layer("Embedding")
def embedding(d: Draw, name: str) -> Case:
    rows = d.size(1, 5)
    options = d.options(
        padding_idx=(None, 0, -1, rows - 1),
        max_norm=(None, 0.5, 1.0),
        norm_type=(2.0, 1.0, 3.0),
        scale_grad_by_freq=(True, False),
    )
    return Case((rows, d.size(1, 4)), options, (d.integers(0, rows, *d.shape(0, 3)),))


@layer("EmbeddingBag")
def embedding_bag(d: Draw, name: str) -> Case:
    rows, mode = d.size(1, 5), d.pick("sum", "mean", "max")
    options = d.options(
        padding_idx=(None, 0, -1), max_norm=(None, 1.0), include_last_offset=(True, False)
    )
    if mode != "max":
        options.update(d.options(scale_grad_by_freq=(True, False)))
    named = {}
    if d.chance(0.5):
        numbers = d.integers(0, rows, d.size(1, 3), d.size(1, 4))
    else:
        numbers = d.integers(0, rows, d.size(1, 8))
        starts = np.sort(d.integers(0, len(numbers) + 1, d.size(1, 4)))
        starts[0] = 0
        if options.get("include_last_offset"):
            starts = np.append(starts, len(numbers))
        named["offsets"] = starts
    if mode == "sum" and d.chance(0.4) and not options.get("scale_grad_by_freq"):
        named["per_sample_weights"] = d.normal(*numbers.shape)
    return Case((rows, d.size(1, 4)), {**options, "mode": mode}, (numbers,), named)


def recurrent(d: Draw) -> dict[str, Any]:
    return d.options(
        num_layers=(1, 2, 3),
        bias=(True, False),
        batch_first=(True, False),
        bidirectional=(True, False),
        dropout=(0.0,),
    )


@layer("RNN", "LSTM", "GRU")
def rnn(d: Draw, name: str) -> Case:
    width, hidden, options = d.size(1, 4), d.size(1, 4), recurrent(d)
    if name == "RNN":
        options.update(d.options(nonlinearity=("tanh", "relu")))
    if name == "LSTM" and hidden > 1:
        options.update(d.options(proj_size=(0, hidden - 1)))
    steps, batch, single = d.size(1, 5), d.batch(), d.chance(0.2)
    x = d.normal(*((batch, steps) if options.get("batch_first") else (steps, batch)), width)
    x = d.normal(steps, width) if single else x
    count = options.get("num_layers", 1) * (1 + options.get("bidirectional", False))
    inputs: tuple[Any, ...] = (x,)
    if d.chance(0.6):
        state = lambda size: d.normal(count, *(() if single else (batch,)), size)  # noqa: E731
        h = state(options.get("proj_size", 0) or hidden)
        inputs = (x, (h, state(hidden)) if name == "LSTM" else h)
    return Case((width, hidden), options, inputs)


@layer("RNNCell", "LSTMCell", "GRUCell")
def cell(d: Draw, name: str) -> Case:
    width, hidden, rows = d.size(1, 4), d.size(1, 4), d.pick((), (d.batch(),))
    options = d.options(
        bias=(True, False), **({"nonlinearity": ("tanh", "relu")} if name == "RNNCell" else {})
    )
    inputs: tuple[Any, ...] = (d.normal(*rows, width),)
    if d.chance(0.6):
        h, c = d.normal(*rows, hidden), d.normal(*rows, hidden)
        inputs = (*inputs, (h, c) if name == "LSTMCell" else h)
    return Case((width, hidden), options, inputs)


def mask(d: Draw, *shape: int) -> Any:
    """Boolean, with something left in every row; or numbers that are added."""
    if d.chance(0.4):
        return d.normal(*shape)
    value = d.random.random(shape) < 0.4
    value[..., 0] = False
    return value if d.chance(0.5) else np.where(value, -np.inf, 0.0).astype(d.dtype)


@layer("MultiheadAttention")
def attention(d: Draw, name: str) -> Case:
    heads = d.size(1, 3)
    width = heads * d.size(1, 3)
    options = d.options(
        bias=(True, False),
        add_bias_kv=(True, False),
        add_zero_attn=(True, False),
        kdim=(None, width + 1),
        vdim=(None, width + 2),
        batch_first=(True, False),
    )
    rows, n, m, single = d.pick(1, 2, 3), d.size(1, 4), d.size(1, 4), d.chance(0.2)
    kdim, vdim = options.get("kdim") or width, options.get("vdim") or width

    def sequence(steps: int, size: int) -> Any:
        if single:
            return d.normal(steps, size)
        return d.normal(*((rows, steps) if options.get("batch_first") else (steps, rows)), size)

    named: dict[str, Any] = d.options(
        need_weights=(True, False), average_attn_weights=(True, False)
    )
    if d.chance(0.4):
        named["attn_mask"] = mask(
            d, *(() if d.chance(0.5) else ((1 if single else rows) * heads,)), n, m
        )
    if d.chance(0.4):
        named["key_padding_mask"] = mask(d, *(() if single else (rows,)), m)
    return Case(
        (width, heads), options, (sequence(n, width), sequence(m, kdim), sequence(m, vdim)), named
    )


def transformer(d: Draw) -> tuple[int, dict[str, Any]]:
    heads = d.size(1, 2)
    options = d.options(
        dim_feedforward=(1, 5),
        activation=("relu", "gelu"),
        layer_norm_eps=(1e-5, 1e-2),
        batch_first=(True, False),
        norm_first=(True, False),
        bias=(True, False),
    )
    return heads * d.size(1, 3), {"nhead": heads, "dim_feedforward": 4, "dropout": 0.0, **options}


@layer("TransformerEncoderLayer", "TransformerDecoderLayer", "Transformer")
def transformer_layer(d: Draw, name: str) -> Case:
    width, options = transformer(d)
    rows, n, m, single = d.pick(1, 2, 3), d.size(1, 4), d.size(1, 4), d.chance(0.2)

    def sequence(steps: int) -> Any:
        if single:
            return d.normal(steps, width)
        return d.normal(*((rows, steps) if options.get("batch_first") else (steps, rows)), width)

    named: dict[str, Any] = {}
    masks = {"src_mask": (n, n), "src_key_padding_mask": (rows, n)}
    if name != "TransformerEncoderLayer":
        masks = {
            "tgt_mask": (n, n),
            "memory_mask": (n, m),
            "tgt_key_padding_mask": (rows, n),
            "memory_key_padding_mask": (rows, m),
        }
    for key, shape in masks.items():
        if d.chance(0.3):
            named[key] = mask(d, *(shape[1:] if single and "padding" in key else shape))
    if name == "Transformer":
        options.update(num_encoder_layers=d.size(1, 2), num_decoder_layers=d.size(1, 2))
        if d.chance(0.3):
            named["src_mask"] = mask(d, m, m)
        return Case((width,), options, (sequence(m), sequence(n)), named)
    inputs = (sequence(n),) if "Encoder" in name else (sequence(n), sequence(m))
    return Case((width,), options, inputs, named)
