"""Long short-term memory over packed rows, see ``recurrent``."""

from typing import Any

from minidp.errors import ShapeError
from minidp.op import op
from minidp.ops import recurrent as steps
from minidp.ops.adjoint import composite, each, given
from minidp.ops.exponential import sigmoid
from minidp.ops.layout import concat
from minidp.ops.linalg import flipped, matmul
from minidp.ops.recurrent import Sizes
from minidp.ops.trigonometric import tanh
from minidp.types import Array, Shape


@composite(
    "p h, n h, n h, p k, p h, n h, k h -> p k, n h, n h", outputs="da first first_cell",
    check=lambda dy, dh, dc, gates, *_, **how: steps.check_gates("lstm_back", gates, 4, dc),
)  # fmt: skip
def lstm_back(xp: Any, dy: Array, dh: Array, dc: Array, gates: Array, cells: Array, c: Array,
              w: Array, sizes: Sizes, reverse: bool) -> Any:  # fmt: skip
    """An LSTM backwards, from the cotangents of all states, the last ones and the last cells.

    With dh of a state, step by step dc += dh o (1 - tanh^2 c); the gates' arguments get
    da = (dc u i (1 - i), dc c_before f (1 - f), dc i (1 - u^2), dh tanh c o (1 - o)), the state
    before gets da w, and the cell before dc f: at the first step they are the initial ones."""
    return _walk({}, dy, dh, dc, gates, cells, c, w, None, sizes, reverse)[:3]


def lstm_adjoint(g: Any, y: Any, cells: Any, gates: Any, h: Any, c: Any, w: Any, v: Any,
                 sizes: Sizes, reverse: bool) -> Any:  # fmt: skip
    starts, outputs = (given(g, 0, y), given(g, 1, h), given(g, 2, c)), None
    if v is None and not {3, 4} & {*g}:
        da, dh, dc = lstm_back(*starts, gates, cells, c, w, sizes=sizes, reverse=reverse)
    else:
        da, dh, dc, outputs = _walk(g, *starts, gates, cells, c, w, v, sizes, reverse)
    dw = matmul(flipped(da), steps.before(y, h, sizes, reverse))
    if v is None:
        return da, dh, dc, dw, None
    o = steps.columns(gates, c.shape[1])[3]
    return da, dh, dc, dw, matmul(flipped(outputs), o * tanh(cells))


def _walk(g: Any, dy: Any, dh: Any, dc: Any, gates: Any, cells: Any, c: Any, w: Any, v: Any,
          sizes: Sizes, reverse: bool) -> Any:  # fmt: skip
    past, own = steps.before(cells, c, sizes, reverse), None
    i, f, u, o = steps.columns(gates, c.shape[1])
    if 4 in g:  # something used the gates themselves
        own = g[4] * concat(i * (1 - i), f * (1 - f), 1 - u * u, o * (1 - o), dim=1)
    t = tanh(cells)
    slope, to_o = o * (1 - t * t), t * o * (1 - o)
    slopes = concat(u * i * (1 - i), past * f * (1 - f), i * (1 - u * u), dim=1)
    found, outputs = [], []
    for n, at in steps.spans(sizes, not reverse):
        outputs.append(dh[:n] + dy[at])
        dm = outputs[-1] if v is None else matmul(outputs[-1], v)
        d = (dc[:n] + g[3][at] if 3 in g else dc[:n]) + dm * slope[at]
        da = concat(steps.times(d, slopes[at]), dm * to_o[at], dim=1)
        found.append(da if own is None else da + own[at])
        dh, dc = steps.joined([matmul(found[-1], w), dh[n:]]), steps.joined([d * f[at], dc[n:]])
    return steps.in_order(found, reverse), dh, dc, steps.in_order(outputs, reverse)


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
    and Beaufays 2014, arXiv 1402.1128 (v)."""
    width = c.shape[1]
    y, cells = xp.empty((len(x), h.shape[1]), x.dtype), xp.empty((len(x), width), x.dtype)
    gates, h, c, w = xp.empty(x.shape, x.dtype), h.copy(), c.copy(), steps.turned(xp, w, sizes)
    for n, at in steps.spans(sizes, reverse):
        a = xp.matmul(h[:n], w) + x[at]
        gates[at] = sigmoid.body(xp, a)
        i, f, u, o = steps.columns(gates[at], width)
        u[...] = xp.tanh(steps.columns(a, width)[2])
        c[:n] = cells[at] = f * c[:n] + i * u
        m = o * xp.tanh(c[:n])
        h[:n] = y[at] = m if v is None else xp.matmul(m, v.T)
    return y, h, c, cells, gates
