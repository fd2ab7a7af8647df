"""An LSTM over packed rows: a matrix product and one launch for each step; see recurrent.cu."""

from itertools import accumulate, pairwise

from .runtime import suffix


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
        gates[at] = gpu.xp.matmul(last[:n], w)
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
        state[:n] = gpu.xp.matmul(da[at], w)
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
