"""Recurrent layers. ONNX orders the gates in its own way, and counts directions before batches."""

import minidp as dp
from minidp import nn
from minidp.nn import functional as F

ORDER = {"RNN": (0,), "GRU": (1, 0, 2), "LSTM": (0, 2, 3, 1)}
"""Where each of PyTorch's gates stands in ONNX's order."""


def ordered(weight, order):
    """The blocks of rows that belong to the gates, in another order."""
    blocks = dp.chunk(weight, len(order), 0)
    return dp.cat([blocks[i] for i in order], 0)


def layer(kind, x, w, r, bias):
    """The module of this kind with ONNX's weights; a reversed direction counts as the second.

    The weights take the parameters' places as they are, so that gradients reach them.
    """
    directions, rows, size = r.shape
    module = getattr(nn, kind)(x.shape[-1], size, bidirectional=directions == 2)
    zeros = dp.zeros(rows, dtype=x.dtype)
    for i, ending in zip(range(directions), ("", "_reverse")):
        b = (zeros, zeros) if bias is None else dp.chunk(bias[i], 2, 0)
        for name, value in zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh"), (w[i], r[i], *b)):
            delattr(module, f"{name}_l0{ending}")
            setattr(module, f"{name}_l0{ending}", ordered(value, ORDER[kind]))
    return module


def recurrent(kind):
    """The operator by the module of the same name."""
    def run(x, w, r, bias=None, lengths=None, *states, direction="forward", hidden_size,
            layout=0):  # fmt: skip
        x = x.transpose(0, 1) if layout else x
        x = dp.flip(x, (0,)) if direction == "reverse" else x
        given = tuple(s for s in states if s is not None)
        y, ends = layer(kind, x, w, r, bias)(x, *(given[:1] if kind != "LSTM" else [given or None]))
        return outputs(x, y, ends, direction, layout)
    return run


def outputs(x, y, ends, direction, layout):
    """(steps, directions, n, h) and the last states, or batch first."""
    y = dp.flip(y, (0,)) if direction == "reverse" else y
    directions = 2 if direction == "bidirectional" else 1
    y = dp.reshape(y, (*y.shape[:2], directions, -1)).transpose(1, 2)
    ends = ends if isinstance(ends, tuple) else (ends,)
    if layout:
        y, ends = dp.permute(y, (2, 0, 1, 3)), [e.transpose(0, 1) for e in ends]
    return y, *ends


def unrolled(cell, states):
    """A layer written as a loop over steps, for cells that no module has."""
    def run(x, w, r, bias=None, lengths=None, h=None, c=None, peep=None, *, direction="forward",
            hidden_size, layout=0):  # fmt: skip
        x = x.transpose(0, 1) if layout else x
        bias = dp.zeros(w.shape[0], 2 * w.shape[1], dtype=x.dtype) if bias is None else bias
        peep = dp.zeros(w.shape[0], 3 * hidden_size, dtype=x.dtype) if peep is None else peep
        found = []
        for i in range(w.shape[0]):
            back = direction == "reverse" or i == 1
            zeros = dp.zeros(x.shape[1], hidden_size, dtype=x.dtype)
            state = tuple(zeros if s is None else s[i] for s in (h, c)[:states])
            steps = []
            for step in dp.unbind(dp.flip(x, (0,)) if back else x, 0):
                state = cell(step, state, w[i], r[i], bias[i], peep[i])
                steps.append(state[0])
            found.append((dp.stack(steps[::-1] if back else steps), *state))
        y, *ends = (dp.stack(parts, 1 if n == 0 else 0) for n, parts in enumerate(zip(*found)))
        if layout:
            y, ends = dp.permute(y, (2, 0, 1, 3)), [e.transpose(0, 1) for e in ends]
        return y, *ends
    return run


def gru_cell(x, state, w, r, bias, peep):
    """The reset gate works on the state before the matrix; nn.GRU's on the product."""
    (h,), (bw, br) = state, dp.chunk(bias, 2)
    size = h.shape[1]
    (wz, wr, wn), (rz, rr, rn) = dp.chunk(F.linear(x, w, bw), 3, 1), dp.split(r, size, 0)
    bz, bs, bn = dp.split(br, size, 0)
    z, reset = dp.sigmoid(wz + F.linear(h, rz, bz)), dp.sigmoid(wr + F.linear(h, rr, bs))
    new = dp.tanh(wn + F.linear(reset * h, rn, bn))
    return ((1 - z) * new + z * h,)


def lstm_cell(x, state, w, r, bias, peep):
    """Gates that also look at the cell."""
    (h, c), (bw, br), (pi, po, pf) = state, dp.chunk(bias, 2), dp.chunk(peep, 3)
    i, o, f, g = dp.chunk(F.linear(x, w, bw) + F.linear(h, r, br), 4, 1)
    c = dp.sigmoid(f + pf * c) * c + dp.sigmoid(i + pi * c) * dp.tanh(g)
    return dp.sigmoid(o + po * c) * dp.tanh(c), c


def gru(x, w, r, bias=None, lengths=None, h=None, *, linear_before_reset=0, **named):
    """With one step from zero, both kinds of GRU are the same but for a bias that is zero here."""
    steps = x.shape[1 if named.get("layout") else 0]
    if linear_before_reset or (steps == 1 and h is None):
        return recurrent("GRU")(x, w, r, bias, lengths, h, **named)
    return unrolled(gru_cell, 1)(x, w, r, bias, lengths, h, **named)


def lstm(x, w, r, bias=None, lengths=None, h=None, c=None, peep=None, **named):
    if peep is not None:
        return unrolled(lstm_cell, 2)(x, w, r, bias, lengths, h, c, peep, **named)
    return recurrent("LSTM")(x, w, r, bias, lengths, h, c, **named)


OPERATORS = {"RNN": recurrent("RNN"), "GRU": gru, "LSTM": lstm}
