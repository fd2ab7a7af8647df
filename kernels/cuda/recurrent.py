"""Recurrent layers over packed rows: a matrix product and a launch a step; see recurrent.cu."""

from itertools import accumulate, pairwise

import numpy as np

from .linalg import multiplied
from .runtime import suffix


def rnn(gpu, x, h, w, *, sizes, reverse, relu):
    """The states, and the last state of each sequence."""
    kind = suffix(x, h, w)
    if kind is None:
        return NotImplemented
    y, x, last, w = gpu.empty(x.shape, x.dtype), gpu.contiguous(x), copied(gpu, h), w.T
    for at, _ in steps(sizes, reverse):
        n, a = at.stop - at.start, product(gpu, last, at, w)
        args = (x[at], a, last[:n], y[at], a.size, np.int32(relu))
        gpu.launch_each("recurrent", f"rnn_{kind}", a.size, args)
    return y, last


def gru(gpu, x, h, w, b=None, *, sizes, reverse):
    """The states, the last state of each sequence, and (r, z, u, a_u) of each row."""
    kind = suffix(x, h, w, b)
    if kind is None:
        return NotImplemented
    width, x, b = h.shape[1], gpu.contiguous(x), b if b is None else gpu.contiguous(b)
    y, gates = (gpu.empty((len(x), n), x.dtype) for n in (width, 4 * width))
    last, w = copied(gpu, h), gpu.contiguous(w.T)
    for at, _ in steps(sizes, reverse):
        n, a = at.stop - at.start, product(gpu, last, at, w)
        args = (x[at], a, b, last[:n], y[at], gates[at], n * width, width)
        gpu.launch_each("recurrent", f"gru_{kind}", n * width, args)
    return y, last, gates


def gru_back(gpu, dy, dh, y, gates, h, w, *, sizes, reverse):
    """The cotangents of x, of w h + b, and of the initial state."""
    kind = suffix(dy, dh, y, gates, h, w)
    if kind is None:
        return NotImplemented
    width, state = h.shape[1], copied(gpu, dh)
    dx, da = (gpu.empty((len(y), 3 * width), y.dtype) for _ in range(2))
    dy, y, gates, h = map(gpu.contiguous, (dy, y, gates, h))
    for at, earlier in reversed(steps(sizes, reverse)):
        n, going = at.stop - at.start, earlier.stop - earlier.start
        arrays = (dy[at], state[:n], gates[at], y[earlier], h, dx[at], da[at])
        numbers = (n * width, going * width, width)
        gpu.launch_each("recurrent", f"gru_back_{kind}", n * width, (*arrays, *numbers))
        state[:n] += multiplied(gpu, da[at], w)
    return dx, da, state


def product(gpu, last, at, w):
    """w h of the sequences that are there in a step, dense."""
    return gpu.contiguous(multiplied(gpu, last[: at.stop - at.start], w))


def lstm(gpu, x, h, c, w, v=None, *, sizes, reverse):
    """The states, the last state and cell, all cells, and the gates; declines projections."""
    kind = suffix(x, h, c, w)
    if v is not None or kind is None:
        return NotImplemented
    width, x = c.shape[1], gpu.contiguous(x)
    y, cells, gates = (gpu.empty((len(x), n), x.dtype) for n in (width, width, 4 * width))
    last, cell, w = copied(gpu, h), copied(gpu, c), gpu.contiguous(w.T)
    for at, _ in steps(sizes, reverse):
        n = at.stop - at.start
        gates[at] = multiplied(gpu, last[:n], w)
        args = (x[at], gates[at], cell[:n], cells[at], y[at], n * width, width)
        gpu.launch_each("recurrent", f"lstm_{kind}", n * width, args)
        last[:n] = y[at]
    return y, last, cell, cells, gates


def lstm_back(gpu, dy, dh, dc, gates, cells, c, w, *, sizes, reverse):
    """The cotangents of the gates' arguments, and those of the initial state and cell."""
    kind = suffix(dy, dh, dc, gates, cells, c, w)
    if kind is None:
        return NotImplemented
    width, da = c.shape[1], gpu.empty(gates.shape, gates.dtype)
    dy, gates, cells, c = map(gpu.contiguous, (dy, gates, cells, c))
    state, cell = copied(gpu, dh), copied(gpu, dc)
    for at, earlier in reversed(steps(sizes, reverse)):
        n, going = at.stop - at.start, earlier.stop - earlier.start
        arrays = (dy[at], state[:n], cell[:n], gates[at], cells[at], cells[earlier], c, da[at])
        numbers = (n * width, going * width, width)
        gpu.launch_each("recurrent", f"lstm_back_{kind}", n * width, (*arrays, *numbers))
        state[:n] = multiplied(gpu, da[at], w)
    return da, state, cell


def copied(gpu, x):
    """A copy, C-contiguous, that a kernel may change."""
    y = gpu.empty(x.shape, x.dtype)
    y[...] = x
    return y


def steps(sizes, reverse):
    """(its rows, the rows of those sequences in the step before) of each step, first to last."""
    rows = [slice(*pair) for pair in pairwise(accumulate(sizes, initial=0))]
    rows = rows[::-1] if reverse else rows
    found = list(zip(rows, [slice(0, 0), *rows[:-1]], strict=True)) if rows else []
    return [(at, slice(before.start, before.start + min(at.stop - at.start,
                                                        before.stop - before.start)))
            for at, before in found]  # fmt: skip
