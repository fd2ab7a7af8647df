"""Gated recurrent units over packed rows, see ``recurrent``."""

from __future__ import annotations

from typing import Any

from minidp.errors import ShapeError
from minidp.op import op
from minidp.ops.adjoint import each, given, recorded
from minidp.ops.layout import concat
from minidp.ops.linalg import flipped, matmul
from minidp.ops.recurrent import (
    Sizes,
    backwards,
    before,
    columns,
    in_order,
    joined,
    met,
    sigmoid,
    spans,
    times,
    turned,
)
from minidp.ops.reduce import sum
from minidp.types import Array, Shape


def _check_back(dy: Shape, dh: Shape, y: Shape, gates: Shape, *others: Shape, **_: Any) -> None:
    if gates[1] != 4 * dh[1]:
        raise ShapeError(f"gru_back(dh {dh}, gates {gates}): expected (r, z, u, q) per value")


@op("p h, n h, p h, p m, n h, k h -> p k, p k, n h", outputs="dx da first", check=_check_back)
def gru_back(xp: Any, dy: Array, dh: Array, y: Array, gates: Array, h: Array, w: Array,
             sizes: Sizes, reverse: bool) -> Any:  # fmt: skip
    """A GRU backwards, from the cotangents of all states and the last ones.

    With dh of a state, step by step du = dh (1 - z) (1 - u^2) goes to x_u, and r du to q;
    du q r (1 - r) and dh (h_before - u) z (1 - z) go to the arguments of r and z, and
    dh z + da w to the state before: at the first step it is the initial one.
    """
    width, steps, dh = h.shape[1], spans(sizes, reverse), dh.copy()
    dx, da = (xp.empty((len(y), 3 * width), y.dtype) for _ in range(2))
    for k in reversed(range(len(steps))):
        (start, n), (m, earlier) = steps[k], met(steps, k)
        at, past = slice(start, start + n), xp.concatenate([y[earlier], h[m:n]])
        r, z, u, q = columns(gates[at], width)
        d = dh[:n] + dy[at]
        du = d * (1 - z) * (1 - u * u)
        both = du * q * r * (1 - r), d * (past - u) * z * (1 - z)
        dx[at] = xp.concatenate([*both, du], axis=1)
        da[at] = xp.concatenate([*both, du * r], axis=1)
        dh[:n] = d * z + xp.matmul(da[at], w)
    return dx, da, dh


def gru_adjoint(
    g: Any, y: Any, gates: Any, h: Any, w: Any, b: Any, sizes: Sizes, reverse: bool
) -> Any:
    """``gru_back``; composed of ops where that would not do, or is to be differentiated."""
    if 2 in g or recorded(g, y, gates, h, w):
        return _composed(g, y, gates, h, w, b, sizes, reverse)
    into, d = given(g, 0, y), given(g, 1, h)
    dx, da, d = gru_back(into, d, y, gates, h, w, sizes=sizes, reverse=reverse)
    dw = matmul(flipped(da), before(y, h, sizes, reverse))
    return dx, d, dw, None if b is None else sum(da, dim=0)


def _composed(
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
