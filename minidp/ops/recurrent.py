"""Recurrent layers, each one op over all its steps.

Sequences are packed: the rows of step 0, then those of step 1, and so on. ``sizes`` says how many
sequences each step has, never more than the step before; row i of a step is sequence i. Backward
walks the steps the other way with the cotangent of the state alone: what else a step multiplies
it with is computed for all steps at once, and weights get theirs from one product over all rows.
"""

from itertools import accumulate, pairwise
from typing import Any

from minidp.errors import ShapeError
from minidp.op import op
from minidp.ops.adjoint import each, given
from minidp.ops.arithmetic import relu_input
from minidp.ops.comparison import full_like
from minidp.ops.layout import concat
from minidp.ops.linalg import flipped, matmul
from minidp.types import Array, Shape

Sizes = tuple[int, ...]


def spans(sizes: Sizes, reverse: bool) -> list[tuple[int, slice]]:
    """(rows, where they are) of each step as computed; backward goes the other way."""
    ends = accumulate(sizes)
    steps = [(n, slice(end - n, end)) for n, end in zip(sizes, ends, strict=True)]
    return steps[::-1] if reverse else steps


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
    found = [[initial[: steps[0][0]]]]
    for (last, at), (n, _) in pairwise(steps):
        found.append([y[at.start : at.start + min(n, last)], initial[last:n]])
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
    for n, at in spans(sizes, not reverse):
        found.append((d[:n] + into[at]) * slope[at])
        d = joined([matmul(found[-1], w), d[n:]])
    dx = in_order(found, reverse)
    return dx, d, matmul(flipped(dx), before(y, h, sizes, reverse))


@op("p h, n h, h h -> p h, n h", outputs="y last", **each(rnn_adjoint, "x h w"))
def rnn(xp: Any, x: Array, h: Array, w: Array, sizes: Sizes, reverse: bool, relu: bool) -> Any:
    """h = tanh(x + w h), or max(0, x + w h); y: every state, last: that of each sequence's end.

    Source: Elman 1990, "Finding structure in time"."""
    y, h, w = xp.empty_like(x), h.copy(), turned(xp, w, sizes)
    for n, at in spans(sizes, reverse):
        a = xp.matmul(h[:n], w)
        a += x[at]
        h[:n] = y[at] = xp.maximum(a, xp.zeros((), a.dtype)) if relu else xp.tanh(a)
    return y, h


def check_gates(name: str, x: Shape, count: int, state: Shape) -> None:
    """ShapeError unless x has ``count`` columns for each value of a state."""
    if x[1] != count * state[1]:
        raise ShapeError(f"{name}(gates {x}, state {state}): expected {count} gates per value")


def turned(xp: Any, w: Array, sizes: Sizes) -> Array:
    """w^T, copied for the sake of faster products where there are several."""
    return w.T if len(sizes) < 3 else xp.ascontiguousarray(w.T)
