"""Recurrent layers, each one op over all its steps.

Sequences are packed: the rows of step 0, then those of step 1, and so on. ``sizes`` says how many
sequences each step has, never more than the step before; row i of a step is sequence i. Backward
walks the steps the other way with the cotangent of the state alone: what else a step multiplies
it with is computed for all steps at once, and weights get theirs from one product over all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from itertools import pairwise
from typing import Any

import numpy as np

from minidp.errors import ShapeError
from minidp.op import op
from minidp.ops.arithmetic import relu_input
from minidp.ops.comparison import full_like
from minidp.ops.layout import concat
from minidp.ops.linalg import flipped, matmul
from minidp.ops.reduce import sum
from minidp.ops.trigonometric import tanh
from minidp.types import Array, Shape

Sizes = tuple[int, ...]


def spans(sizes: Sizes, reverse: bool) -> list[tuple[int, int]]:
    """(first row, rows) of each step, in the order of computing."""
    starts = np.cumsum((0, *sizes[:-1]), dtype=int).tolist()
    steps = list(zip(starts, sizes, strict=True))
    return steps[::-1] if reverse else steps


def each(adjoint: Callable[..., Any], names: str) -> dict[str, Any]:
    """One rule per argument from a function that gives the cotangents of all.

    It runs once: what it gave waits in ``g``, the table of this node's cotangents by output.
    """

    def rule(place: int) -> Any:
        @wraps(adjoint)
        def chosen(g: Any, *values: Any) -> Any:
            if "all" not in g:
                g["all"] = adjoint(g, *values)
            return g["all"][place]

        return chosen

    return {name: rule(place) for place, name in enumerate(names.split())}


def given(g: Any, output: int, like: Any) -> Any:
    """The cotangent of an output, zeros when nothing used it."""
    return g[output] if output in g else full_like(like, value=0.0)


def backwards(sizes: Sizes, reverse: bool) -> Iterator[tuple[int, slice]]:
    """(rows, where they are) of each step, the last computed first."""
    for start, n in reversed(spans(sizes, reverse)):
        yield n, slice(start, start + n)


def joined(parts: list[Any]) -> Any:
    """End to end, without the empty ones."""
    kept = [part for part in parts if len(part)]
    return concat(*kept, dim=0) if len(kept) > 1 else kept[0] if kept else parts[0]


def in_order(steps: list[Any], reverse: bool) -> Any:
    """What was found for each step, last computed first, as packed rows."""
    return joined(steps if reverse else steps[::-1])


def before(y: Any, initial: Any, sizes: Sizes, reverse: bool) -> Any:
    """The state that each row met: that of its sequence one step before, or the initial one."""
    steps = spans(sizes, reverse)
    found = [[initial[: steps[0][1]]]]
    for (start, last), (_, n) in pairwise(steps):
        found.append([y[start : start + min(n, last)], initial[last:n]])
    ordered = found[::-1] if reverse else found
    return joined([part for step in ordered for part in step])


def times(step: Any, slopes: Any) -> Any:
    """One gate's values (n, h) times the slopes (n, k) of several gates beside each other."""
    n, h = step.shape
    return (step.reshape(n, 1, h) * slopes.reshape(n, -1 if n else 1, h)).reshape(slopes.shape)


def columns(gates: Any, width: int) -> list[Any]:
    """The gates that lie beside each other."""
    return [gates[:, at : at + width] for at in range(0, gates.shape[1], width)]


def rnn_adjoint(g: Any, y: Any, h: Any, w: Any, sizes: Sizes, reverse: bool, relu: bool) -> Any:
    slope = relu_input(full_like(y, value=1.0), y) if relu else 1 - y * y
    into, d, found = given(g, 0, y), given(g, 1, h), []
    for n, at in backwards(sizes, reverse):
        found.append((d[:n] + into[at]) * slope[at])
        d = joined([found[-1] @ w, d[n:]])
    dx = in_order(found, reverse)
    return dx, d, matmul(flipped(dx), before(y, h, sizes, reverse))


@op("p h, n h, h h -> p h, n h", outputs="y last", **each(rnn_adjoint, "x h w"))
def rnn(xp: Any, x: Array, h: Array, w: Array, sizes: Sizes, reverse: bool, relu: bool) -> Any:
    """h = tanh(x + w h), or max(0, x + w h); y: every state, last: that of each sequence's end.

    Source: Elman 1990, "Finding structure in time".
    """
    y, h, w = xp.empty_like(x), h.copy(), turned(xp, w, sizes)
    for start, n in spans(sizes, reverse):
        a = xp.matmul(h[:n], w)
        a += x[start : start + n]
        h[:n] = y[start : start + n] = xp.maximum(a, xp.zeros((), a.dtype)) if relu else xp.tanh(a)
    return y, h


def turned(xp: Any, w: Array, sizes: Sizes) -> Array:
    """w^T, copied for the sake of faster products where there are several."""
    return w.T if len(sizes) < 3 else xp.ascontiguousarray(w.T)


def sigmoid(xp: Any, a: Array) -> Array:
    """1 / (1 + e^-a), in place."""
    xp.negative(a, out=a)
    xp.exp(a, out=a)
    a += 1
    return xp.reciprocal(a, out=a)


def lstm_back_adjoint(
    g: Any, dm: Any, dc: Any, gates: Any, cell: Any, past: Any
) -> tuple[Any, ...]:
    """With d as below and its own cotangent e: the product rule, factor by factor."""
    (i, f, u, o), t = columns(gates, cell.shape[1]), tanh(cell)
    da, g_dc = given(g, 0, gates), given(g, 1, cell)
    (di, df, du, do), s, d = columns(da, cell.shape[1]), 1 - t * t, dc + dm * o * (1 - t * t)
    e = di * u * i * (1 - i) + df * past * f * (1 - f) + du * i * (1 - u * u) + g_dc * f
    of_gates = concat(
        d * (di * u * (1 - 2 * i) + du * (1 - u * u)), d * (df * past * (1 - 2 * f) + g_dc),
        d * i * (di * (1 - i) - 2 * du * u), dm * (e * s + do * t * (1 - 2 * o)), dim=1,
    )  # fmt: skip
    of_cell = dm * o * (do * (1 - o) - 2 * e * t) * s
    return e * o * s + do * t * o * (1 - o), e, of_gates, of_cell, d * df * f * (1 - f)


def _check_back(dm: Shape, dc: Shape, gates: Shape, *others: Shape) -> None:
    if gates[1] != 4 * dm[1]:
        raise ShapeError(f"lstm_back(dm {dm}, gates {gates}): expected four gates per value")


@op("n h, n h, n k, n h, n h -> n k, n h", outputs="da before", check=_check_back,
    **each(lstm_back_adjoint, "dm dc gates cell past"))  # fmt: skip
def lstm_back(xp: Any, dm: Array, dc: Array, gates: Array, cell: Array, past: Array) -> Any:
    """One step of an LSTM backwards, from the cotangents of o tanh c and of c: with
    d = dc + dm o (1 - tanh^2 c), those of the gates' arguments, and d f, that of the old c."""
    (i, f, u, o), t = columns(gates, cell.shape[1]), xp.tanh(cell)
    d = dc + dm * o * (1 - t * t)
    parts = d * u * i * (1 - i), d * past * f * (1 - f), d * i * (1 - u * u), dm * t * o * (1 - o)
    return xp.concatenate(parts, axis=1), d * f


def lstm_adjoint(
    g: Any, y: Any, cells: Any, gates: Any, h: Any, c: Any, w: Any, v: Any, sizes: Sizes,
    reverse: bool,
) -> Any:  # fmt: skip
    """Per step ``lstm_back``, and dh = dgates w."""
    past, own = before(cells, c, sizes, reverse), None
    if 4 in g:  # something used the gates themselves
        i, f, u, o = columns(gates, c.shape[1])
        own = g[4] * concat(i * (1 - i), f * (1 - f), 1 - u * u, o * (1 - o), dim=1)
    into, dh, dc = given(g, 0, y), given(g, 1, h), given(g, 2, c)
    found, outputs = [], []
    for n, at in backwards(sizes, reverse):
        outputs.append(dh[:n] + into[at])
        dm = outputs[-1] if v is None else outputs[-1] @ v
        d = dc[:n] + g[3][at] if 3 in g else dc[:n]
        da, d = lstm_back(dm, d, gates[at], cells[at], past[at])
        found.append(da if own is None else da + own[at])
        dh, dc = joined([found[-1] @ w, dh[n:]]), joined([d, dc[n:]])
    dx = in_order(found, reverse)
    dw = matmul(flipped(dx), before(y, h, sizes, reverse))
    if v is None:
        return dx, dh, dc, dw, None
    m = gates[:, 3 * c.shape[1] :] * tanh(cells)
    return dx, dh, dc, dw, matmul(flipped(in_order(outputs, reverse)), m)


def _check_lstm(x: Shape, h: Shape, c: Shape, w: Shape, v: Shape | None, **constants: Any) -> None:
    if x[1] != 4 * c[1] or (v is None and h[1] != c[1]):
        raise ShapeError(f"lstm(x {x}, h {h}, c {c}): expected four gates for each of the cell's "
                         "values, and as many in h unless it is projected")  # fmt: skip


@op("p k, n r, n h, k r, r h -> p r, n r, n h, p h, p k",
    outputs="y last last_cell cells gates", check=_check_lstm,
    **each(lstm_adjoint, "x h c w v"))  # fmt: skip
def lstm(xp: Any, x: Array, h: Array, c: Array, w: Array, v: Array = None, *, sizes: Sizes,
         reverse: bool) -> Any:  # fmt: skip
    """(i, f, u, o) = (sigmoid, sigmoid, tanh, sigmoid)(x + w h); c = f c + i u; h = o tanh c, or
    v o tanh c. The states, the last ones, and what the gates were.

    Sources: Hochreiter and Schmidhuber 1997; Gers, Schmidhuber and Cummins 2000 (f); Sak, Senior
    and Beaufays 2014, arXiv 1402.1128 (v).
    """
    width = c.shape[1]
    y, cells = xp.empty((len(x), h.shape[1]), x.dtype), xp.empty((len(x), width), x.dtype)
    gates, h, c, w = xp.empty(x.shape, x.dtype), h.copy(), c.copy(), turned(xp, w, sizes)
    for start, n in spans(sizes, reverse):
        at = slice(start, start + n)
        a = xp.add(xp.matmul(h[:n], w), x[at], out=gates[at])
        u = xp.tanh(a[:, 2 * width : 3 * width])
        sigmoid(xp, a)[:, 2 * width : 3 * width] = u
        i, f, u, o = columns(a, width)
        c[:n] = cells[at] = f * c[:n] + i * u
        m = o * xp.tanh(c[:n])
        h[:n] = y[at] = m if v is None else xp.matmul(m, v.T)
    return y, h, c, cells, gates


def gru_adjoint(
    g: Any, y: Any, gates: Any, h: Any, w: Any, b: Any, sizes: Sizes, reverse: bool
) -> Any:
    """Per step: the cotangents of w h are dh times the gates' slopes; dh = those w + dh z."""
    width = h.shape[1]
    r, z, u, q = columns(gates, width)
    past, new = before(y, h, sizes, reverse), (1 - z) * (1 - u * u)
    slopes = concat(new * q * r * (1 - r), (past - u) * z * (1 - z), new * r, dim=1)
    extra = None
    if 2 in g:  # something used the gates themselves
        dr, dz, du, dq = columns(g[2], width)
        du = du * (1 - u * u)
        extra = concat((dr + du * q) * r * (1 - r), dz * z * (1 - z), du * r + dq, dim=1)
    into, d, found, states = given(g, 0, y), given(g, 1, h), [], []
    for n, at in backwards(sizes, reverse):
        states.append(d[:n] + into[at])
        da = times(states[-1], slopes[at])
        found.append(da if extra is None else da + extra[at])
        d = joined([found[-1] @ w + states[-1] * z[at], d[n:]])
    da, dn = in_order(found, reverse), in_order(states, reverse) * new
    dx = concat(da[:, : 2 * width], dn if extra is None else dn + du, dim=1)
    return dx, d, matmul(flipped(da), past), None if b is None else sum(da, dim=0)


def _check_gru(x: Shape, h: Shape, *others: Any, **constants: Any) -> None:
    if x[1] != 3 * h[1]:
        raise ShapeError(f"gru(x {x}, h {h}): expected three gates for each value of the state")


@op("p k, n h, k h, k -> p h, n h, p m", outputs="y last gates", check=_check_gru,
    **each(gru_adjoint, "x h w b"))  # fmt: skip
def gru(xp: Any, x: Array, h: Array, w: Array, b: Array = None, *, sizes: Sizes,
        reverse: bool) -> Any:  # fmt: skip
    """With a = w h + b: r = sigmoid(x_r + a_r), z = sigmoid(x_z + a_z), u = tanh(x_u + r a_u);
    h = (1 - z) u + z h. The states, the last ones, and (r, z, u, a_u).

    Source: Cho et al. 2014, arXiv 1406.1078.
    """
    width = h.shape[1]
    y, h = xp.empty((len(x), width), x.dtype), h.copy()
    gates, w = xp.empty((len(x), 4 * width), x.dtype), turned(xp, w, sizes)
    for start, n in spans(sizes, reverse):
        at = slice(start, start + n)
        a = xp.matmul(h[:n], w)
        a = a if b is None else a + b
        both = xp.add(a[:, : 2 * width], x[at, : 2 * width], out=gates[at, : 2 * width])
        r, z = columns(sigmoid(xp, both), width)
        u, q = gates[at, 2 * width : 3 * width], gates[at, 3 * width :]
        q[...] = a[:, 2 * width :]
        xp.tanh(x[at, 2 * width :] + r * q, out=u)
        h[:n] = y[at] = u + z * (h[:n] - u)
    return y, h, gates
