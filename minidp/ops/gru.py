"""Gated recurrent units over packed rows, see ``recurrent``."""

from typing import Any

from minidp.op import op
from minidp.ops import recurrent as steps
from minidp.ops.adjoint import composite, each, given
from minidp.ops.exponential import sigmoid
from minidp.ops.layout import concat
from minidp.ops.linalg import flipped, matmul
from minidp.ops.recurrent import Sizes
from minidp.ops.reduce import sum
from minidp.types import Array


@composite(
    "p h, n h, p h, p m, n h, k h -> p k, p k, n h", outputs="dx da first",
    check=lambda dy, dh, y, gates, *_, **how: steps.check_gates("gru_back", gates, 4, dh),
)  # fmt: skip
def gru_back(xp: Any, dy: Array, dh: Array, y: Array, gates: Array, h: Array, w: Array,
             sizes: Sizes, reverse: bool) -> Any:  # fmt: skip
    """A GRU backwards, from the cotangents of all states and the last ones.

    With dh of a state, step by step du = dh (1 - z) (1 - u^2) goes to x_u, and r du to q;
    du q r (1 - r) and dh (h_before - u) z (1 - z) go to the arguments of r and z, and
    dh z + da w to the state before: at the first step it is the initial one."""
    return _walk(None, dy, dh, y, gates, h, w, sizes, reverse)


def gru_adjoint(g: Any, y: Any, gates: Any, h: Any, w: Any, b: Any, sizes: Sizes, reverse: bool
                ) -> Any:  # fmt: skip
    rest = given(g, 0, y), given(g, 1, h), y, gates, h, w
    if 2 in g:
        dx, da, d = _walk(g[2], *rest, sizes, reverse)
    else:
        dx, da, d = gru_back(*rest, sizes=sizes, reverse=reverse)
    dw = matmul(flipped(da), steps.before(y, h, sizes, reverse))
    return dx, d, dw, None if b is None else sum(da, dim=0, keepdim=False)


def _walk(dgates: Any, dy: Any, d: Any, y: Any, gates: Any, h: Any, w: Any, sizes: Sizes,
          reverse: bool) -> Any:  # fmt: skip
    """Per step: the cotangents of w h are dh times the gates' slopes; dh = those w + dh z."""
    r, z, u, q = steps.columns(gates, h.shape[1])
    past, new, extra, du = steps.before(y, h, sizes, reverse), (1 - z) * (1 - u * u), None, 0.0
    slopes = concat(new * q * r * (1 - r), (past - u) * z * (1 - z), new * r, dim=1)
    if dgates is not None:  # something used the gates themselves
        dr, dz, du, dq = steps.columns(dgates, h.shape[1])
        du = du * (1 - u * u)
        extra = concat((dr + du * q) * r * (1 - r), dz * z * (1 - z), du * r + dq, dim=1)
    found, states = [], []
    for n, at in steps.spans(sizes, not reverse):
        states.append(d[:n] + dy[at])
        da = steps.times(states[-1], slopes[at])
        found.append(da if extra is None else da + extra[at])
        d = steps.joined([matmul(found[-1], w) + states[-1] * z[at], d[n:]])
    da, dn = steps.in_order(found, reverse), steps.in_order(states, reverse) * new
    return concat(da[:, : 2 * h.shape[1]], dn if extra is None else dn + du, dim=1), da, d


@op("p k, n h, k h, k -> p h, n h, p m", outputs="y last gates",
    check=lambda x, h, *_, **how: steps.check_gates("gru", x, 3, h),
    **each(gru_adjoint, "x h w b"))  # fmt: skip
def gru(xp: Any, x: Array, h: Array, w: Array, b: Array = None, *, sizes: Sizes,
        reverse: bool) -> Any:  # fmt: skip
    """With a = w h + b: r = sigmoid(x_r + a_r), z = sigmoid(x_z + a_z), u = tanh(x_u + r a_u);
    h = (1 - z) u + z h. The states, the last ones, and (r, z, u, a_u).

    Source: Cho et al. 2014, arXiv 1406.1078."""
    width = h.shape[1]
    y, h = xp.empty((len(x), width), x.dtype), h.copy()
    gates, w = xp.empty((len(x), 4 * width), x.dtype), steps.turned(xp, w, sizes)
    for n, at in steps.spans(sizes, reverse):
        a = xp.matmul(h[:n], w)
        a = a if b is None else a + b
        r, z = steps.columns(sigmoid.body(xp, a[:, : 2 * width] + x[at, : 2 * width]), width)
        q = a[:, 2 * width :]
        u = xp.tanh(x[at, 2 * width :] + r * q)
        gates[at] = xp.concatenate([r, z, u, q], axis=1)
        h[:n] = y[at] = u + z * (h[:n] - u)
    return y, h, gates
