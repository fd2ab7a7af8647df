"""Recurrent layers over packed rows: step 0 of all sequences, then step 1 of those that have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minidp.create import ones, zeros
from minidp.errors import ShapeError
from minidp.functional.dropout import dropout
from minidp.functional.linear import linear
from minidp.functional.packed import PackedSequence, positions, select
from minidp.functions import cat, stack
from minidp.ops.gru import gru
from minidp.ops.layout import reshape
from minidp.ops.lstm import lstm
from minidp.ops.recurrent import Sizes, rnn
from minidp.tensor import Tensor

GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}
States = Sequence[Tensor]


def recurrent(
    name: str, mode: str, input: Any, hx: Any, weights: Sequence[Any], batch_first: bool = False,
    bidirectional: bool = False, dropped: float = 0.0,
) -> tuple[Any, Any]:  # fmt: skip
    """(every state of the last layer, the last state of every layer), of LSTMs (h, c) of these.

    ``input`` and ``hx`` are those of ``nn.RNN``. ``weights`` (W, U, b, c, and a projection V) are
    those of each direction of each layer; dropout with probability ``dropped`` is between layers.
    """
    (w, u, *_), packed = weights[0], isinstance(input, PackedSequence)
    data, sizes = _rows(name, input, batch_first, w.shape[1])
    single = not packed and input.ndim == 2
    order, back = input[2:] if packed else (None, None)
    if hx is None:
        first: Any = [initial(name, mode, hx, u, sizes[:1], data)] * len(weights)
    else:
        given = initial(name, mode, hx, u, (len(weights), *sizes[: not single]), data)
        states = [_ordered(x.unsqueeze(1) if single else x, order) for x in given]
        first = list(zip(*states, strict=True))
    y, last = _layers(mode, data, sizes, first, weights, bidirectional, dropped, input)
    ends = [_ordered(each, back) for each in last]
    if packed:
        output: Any = input._replace(data=y)
    elif single:
        output, ends = y, [each.squeeze(1) for each in ends]
    else:
        output = reshape(y, shape=(len(sizes), sizes[0], y.shape[-1]))
        output = output.transpose(0, 1) if batch_first else output
    return output, tuple(ends) if mode == "LSTM" else ends[0]


def _rows(name: str, input: Any, batch_first: bool, width: int) -> tuple[Tensor, Sizes]:
    """The input as packed rows, and how many rows each step has."""
    if isinstance(input, PackedSequence):
        x, sizes = input.data, tuple(np.asarray(input.batch_sizes).tolist())
    elif input.ndim not in (2, 3):
        raise ShapeError(f"{name}: Expected input to be 2D or 3D, got {input.ndim}D instead")
    else:
        x = input.transpose(0, 1) if batch_first and input.ndim == 3 else input
        sizes = (1 if x.ndim == 2 else x.shape[1],) * x.shape[0]
    if x.shape[-1] != width or not sizes:
        raise ShapeError(f"{name}({x.shape}): expected at least one step, and input.size(-1) "
                         f"equal to input_size, which is {width}")  # fmt: skip
    return reshape(x, shape=(sum(sizes), width)), sizes


def initial(name: str, mode: str, hx: Any, u: Any, lead: Any, data: Tensor) -> list[Tensor]:
    """The states (*lead, width) to begin with, of LSTMs two: zeros when not given. ``u`` is what
    the first is multiplied by."""
    rows, output = u.shape
    shapes = [(*lead, output), (*lead, rows // GATES[mode])][: 1 + (mode == "LSTM")]
    if hx is None:
        made = {shape: zeros(shape, dtype=data.dtype, device=data.device) for shape in {*shapes}}
        return [made[shape] for shape in shapes]
    states = [hx] if isinstance(hx, Tensor) else hx
    if [each.shape for each in states] != shapes:
        raise ShapeError(f"{name}: Expected hidden size {' and '.join(map(str, shapes))}, got "
                         f"{' and '.join(str(each.shape) for each in states)}")  # fmt: skip
    return list(states)


def _ordered(state: Tensor, order: Tensor | None) -> Tensor:
    return state if order is None else state[:, order.to(state.device)]


def _layers(
    mode: str, data: Tensor, sizes: Sizes, first: Sequence[States], weights: Sequence[Any],
    bidirectional: bool, dropped: float, input: Any,
) -> tuple[Tensor, list[Tensor]]:  # fmt: skip
    """Packed rows through all layers: (all states of the last one, the last states of each);
    ``first`` states and ``weights`` are those of each direction of each layer."""
    ends, halves = [], [data]
    for i, each in enumerate(weights):
        reverse = bool(bidirectional and i % 2)
        if not reverse:
            data, halves = cat(halves, 1) if len(halves) > 1 else halves[0], []
            data = _dropped(data, sizes, dropped, input) if i and dropped else data
        y, last = direction(mode, data, first[i], each, sizes, reverse)
        halves.append(y)
        ends.append(last)
    y = cat(halves, 1) if len(halves) > 1 else halves[0]
    return y, [stack(x) if len(x) > 1 else x[0].unsqueeze(0) for x in zip(*ends, strict=True)]


def direction(
    mode: str, data: Tensor, states: States, weights: Any, sizes: Sizes, reverse: bool
) -> tuple[Tensor, States]:
    """One layer in one direction: (all states, the last ones of the sequences). The inputs of all
    steps are projected in one product."""
    w, u, b, c, *projection = weights
    if mode == "GRU":
        y, last, _ = gru(linear(data, w, b), *states, u, c, sizes=sizes, reverse=reverse)
        return y, (last,)
    x = linear(data, w, b if b is None else b + c)
    if mode == "LSTM":
        v = projection[0] if projection else None
        y, h, cell, _, _ = lstm(x, *states, u, v, sizes=sizes, reverse=reverse)
        return y, (h, cell)
    y, last = rnn(x, *states, u, sizes=sizes, reverse=reverse, relu=mode == "RNN_RELU")
    return y, (last,)


def _dropped(data: Tensor, sizes: Sizes, p: float, input: Any) -> Tensor:
    """Dropout whose mask depends on the row of the batch, wherever packing has put it."""
    shape = (len(sizes), sizes[0], data.shape[1])
    if not isinstance(input, PackedSequence):
        return dropout(data.reshape(shape), p, batch_dim=1).reshape(data.shape)
    mask = dropout(ones(shape, dtype=data.dtype, device=data.device), p, batch_dim=1)
    places = np.argsort(positions(input, len(sizes)), None)[-len(data) :]
    return data * select(mask.reshape(-1, shape[2]), places)
