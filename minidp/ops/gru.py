"""Gated recurrent units over packed rows, see ``recurrent``."""

from typing import Any

from minidp.errors import ShapeError
from minidp.op import op
from minidp.ops.adjoint import composite, each, given
from minidp.ops.layout import concat
from minidp.ops.linalg import flipped, matmul
from minidp.ops.recurrent import (
    Sizes,
    backwards,
    before,
    columns,
    in_order,
    joined,
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


@composite("p h, n h, p h, p m, n h, k h -> p k, p k, n h", outputs="dx da first",
           check=_check_back)  # fmt: skip
def gru_back(xp: Any, dy: Array, dh: Array, y: Array, gates: Array, h: Array, w: Array,
             sizes: Sizes, reverse: bool) -> Any:  # fmt: skip
    """A GRU backwards, from the cotangents of all states and the last ones.

    With dh of a state, step by step du = dh (1 - z) (1 - u^2) goes to x_u, and r du to q;
    du q r (1 - r) and dh (h_before - u) z (1 - z) go to the arguments of r and z, and
    dh z + da w to the state before: at the first step it is the initial one."""
    return _walk(None, dy, dh, y, gates, h, w, sizes, reverse)


def gru_adjoint(
    g: Any, y: Any, gates: Any, h: Any, w: Any, b: Any, sizes: Sizes, reverse: bool
) -> Any:
    rest = given(g, 0, y), given(g, 1, h), y, gates, h, w
    if 2 in g:
        dx, da, d = _walk(g[2], *rest, sizes, reverse)
    else:
        dx, da, d = gru_back(*rest, sizes=sizes, reverse=reverse)
    dw = matmul(flipped(da), before(y, h, sizes, reverse))
    return dx, d, dw, None if b is None else sum(da, dim=0)


def _walk(
    dgates: Any, dy: Any, d: Any, y: Any, gates: Any, h: Any, w: Any, sizes: Sizes, reverse: bool
) -> Any:
    """Per step: the cotangents of w h are dh times the gates' slopes; dh = those w + dh z."""
    r, z, u, q = columns(gates, h.shape[1])
    past, new, extra, du = before(y, h, sizes, reverse), (1 - z) * (1 - u * u), None, 0.0
    slopes = concat(new * q * r * (1 - r), (past - u) * z * (1 - z), new * r, dim=1)
    if dgates is not None:  # something used the gates themselves
        dr, dz, du, dq = columns(dgates, h.shape[1])
        du = du * (1 - u * u)
        extra = concat((dr + du * q) * r * (1 - r), dz * z * (1 - z), du * r + dq, dim=1)
    found, states = [], []
    for n, at in backwards(sizes, reverse):
        states.append(d[:n] + dy[at])
        da = times(states[-1], slopes[at])
        found.append(da if extra is None else da + extra[at])
        d = joined([found[-1] @ w + states[-1] * z[at], d[n:]])
    da, dn = in_order(found, reverse), in_order(states, reverse) * new
    return concat(da[:, : 2 * h.shape[1]], dn if extra is None else dn + du, dim=1), da, d


def _check_gru(x: Shape, h: Shape, *others: Any, **constants: Any) -> None:
    if x[1] != 3 * h[1]:
        raise ShapeError(f"gru(x {x}, h {h}): expected three gates for each value of the state")


@op("p k, n h, k h, k -> p h, n h, p m", outputs="y last gates", check=_check_gru,
    **each(gru_adjoint, "x h w b"))  # fmt: skip
def gru(xp: Any, x: Array, h: Array, w: Array, b: Array = None, *, sizes: Sizes,
        reverse: bool) -> Any:  # fmt: skip
    """With a = w h + b: r = sigmoid(x_r + a_r), z = sigmoid(x_z + a_z), u = tanh(x_u + r a_u);
    h = (1 - z) u + z h. The states, the last ones, and (r, z, u, a_u).

    Source: Cho et al. 2014, arXiv 1406.1078."""
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
