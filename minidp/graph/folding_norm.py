"""What captured steps put together around batch normalisation: relu, max pooling, ways back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from minidp.graph.line import Line, Value
from minidp.graph.uses import Replaced, Uses, does
from minidp.op import OPS


def into_batch_norm(uses: Uses, line: Line) -> Replaced:
    """batch_norm_own, relu: its last pass cuts off. Backwards relu_input, batch_norm_own_back:
    its passes compute the sign again from what they read anyway, so that no masked cotangent is
    written; where something else needs that one, relu_input stays."""
    (x,), (y,) = line.inputs, line.outputs
    norm = uses.makers.get(x)
    if norm is None or not does(norm, "batch_norm_own") or not uses.is_between(x, line):
        return {}
    _, mean, var = norm.outputs
    shift = uses.new(mean)
    whole = replace(norm, op=OPS["batch_norm_own_relu"], outputs=[y, mean, var, shift])
    found: Replaced = {line: None, norm: whole}
    masks = [user for user in uses.of(y) if does(user, "relu_input") and user.inputs[1] is y]
    for mask in masks if y.root not in uses.changing else ():
        backs = uses.of(mask.outputs[0])
        if len(backs) == 1 and uses.is_between(mask.outputs[0], backs[0]):
            found |= _masked_back(norm, mask, backs[0], shift)
    return found


def into_shared_norm(uses: Uses, line: Line) -> Replaced:
    """batch_norm_shared, relu: the same; backwards both of its passes compute the sign again, from
    weight and bias, so only where no line changes these."""
    (x,), (y,) = line.inputs, line.outputs
    norm = uses.makers.get(x)
    if norm is None or not does(norm, "batch_norm_shared") or not uses.is_between(x, line):
        return {}
    whole = replace(norm, outputs=[y, norm.outputs[1]], constants=norm.constants | RECTIFIED)
    found: Replaced = {line: None, norm: whole}
    if _is_changed(uses, y, *norm.inputs[4:]):
        return found
    for mask in [user for user in uses.of(y) if does(user, "relu_input") and user.inputs[1] is y]:
        found |= _rectified_passes(uses, mask)
    return found


RECTIFIED = {"rectify": True}
SHARED = "batch_norm_sums", "batch_norm_back"
"""The passes of batch_norm_shared's way back."""


def _is_changed(uses: Uses, *values: Any) -> bool:
    """Whether some line changes one of these in place."""
    return any(isinstance(value, Value) and value.root in uses.changing for value in values)


def _rectified_passes(uses: Uses, mask: Line) -> Replaced:
    """The passes that use a masked cotangent, with the mask in them; nothing if others use it."""
    g, dy = mask.inputs[0], mask.outputs[0]
    users, found = uses.of(dy), dict[Line, Line | None]({mask: None})
    if not uses.is_inner(dy) or g.shape != dy.shape:
        return {}
    for user in users:
        if not any(does(user, name) for name in SHARED) or user.inputs[0] is not dy:
            return {}
        constants = user.constants | RECTIFIED
        found[user] = replace(user, inputs=[g, *user.inputs[1:]], constants=constants)
    return found


def _masked_back(norm: Line, mask: Line, back: Line, shift: Value) -> Replaced:
    """The way back of ``norm`` with the mask in it, if that is what ``back`` is."""
    g, dy = mask.inputs[0], mask.outputs[0]
    x, weight, _ = norm.inputs
    given = [dy, x, *norm.outputs[1:], weight]
    if not does(back, "batch_norm_own_back") or back.inputs != given or g.shape != dy.shape:
        return {}
    inputs = [g, *given[1:4], shift, weight]
    return {mask: None, back: replace(back, op=OPS["batch_norm_own_relu_back"], inputs=inputs)}


def sum_of_centred(uses: Uses, line: Line) -> Replaced:
    """batch_norm_own_back, sum over all but channels: the gradient of a bias before the batch
    norm, which takes the mean off; so it is 0, but for rounding. NaN stays NaN."""
    (dx,) = line.inputs
    back = uses.makers.get(dx)
    if back is None or not any(does(back, name) for name in CENTRED) or dx is not back.outputs[0]:
        return {}
    if line.constants["dim"] != (0, *range(2, len(dx.shape))) or line.constants["keepdim"]:
        return {}
    total = back.outputs[1] if len(back.outputs) > 1 else _total(uses, back)
    if total is None:
        return {}
    return {line: replace(line, op=OPS["mul"], inputs=[total, 0.0], constants={})}


CENTRED = ("batch_norm_own_back", "batch_norm_own_relu_back", "batch_norm_own_pool_back",
           "batch_norm_back", "batch_norm_pool_back")  # fmt: skip
"""Ops whose first result has no mean."""


def _total(uses: Uses, back: Line) -> Value | None:
    """What batch_norm_back's sums have of this replica: one value a channel."""
    sums = back.inputs[5 if does(back, "batch_norm_pool_back") else 4]
    everywhere = uses.makers.get(sums)
    if everywhere is None or not does(everywhere, "all_reduce"):
        return None
    both = uses.makers.get(everywhere.inputs[0])
    known = both is not None and does(both, "concat") and isinstance(both.inputs[0], Value)
    return both.inputs[0] if both is not None and known else None


def into_pooled_norm(uses: Uses, line: Line) -> Replaced:
    """batch_norm_own or batch_norm_shared, max_pool2d_relu: images are pooled as soon as they are
    normalised. The same bytes."""
    pool = uses.current(line)
    if pool is None or not does(pool, "max_pool2d_relu"):
        return {}
    (x,) = pool.inputs
    norm = uses.makers.get(x)
    if norm is None or not uses.is_between(x, pool):
        return {}
    if does(norm, "batch_norm_own"):
        (x, *affine), (mean, var), eps = norm.inputs, norm.outputs[1:], norm.constants["eps"]
        r, moments = uses.new(mean), replace(norm, op=OPS["batch_moments"], inputs=[x],
                                             outputs=[mean, var], constants={})  # fmt: skip
    elif does(norm, "batch_norm_shared") and not norm.constants["rectify"]:
        x, mean, var, _, *affine = norm.inputs
        r, moments, eps = norm.outputs[1], None, norm.constants["eps"]
    else:
        return {}
    if _is_changed(uses, x, *affine):
        return {}
    return {norm: moments, pool: replace(
        pool, op=OPS["batch_norm_pool"], inputs=[x, mean, var, *affine],
        outputs=[*pool.outputs, r], constants={"eps": eps, **pool.constants},
    )}  # fmt: skip


def into_pooled_back(uses: Uses, line: Line) -> Replaced:
    """max_pool2d_input, the way back of a batch norm: cotangents are spread piece by piece."""
    spread = uses.current(line)
    if spread is None or not does(spread, "max_pool2d_input"):
        return {}
    (dy,), users = spread.outputs, uses.of(spread.outputs[0])
    if not uses.is_inner(dy) or _is_changed(uses, *spread.inputs):
        return {}
    found: Replaced = {spread: None}
    for user in users:
        name = next((name for name in POOLED if does(user, name)), "")
        if not name or user.inputs[0] is not dy or user.constants.get("rectify", False):
            return {}
        whole, count = POOLED[name]
        constants = {"eps": user.constants["eps"], **spread.constants}
        found[user] = replace(user, op=OPS[whole], constants=constants,
                              inputs=[*spread.inputs, *user.inputs[1 : 1 + count]])  # fmt: skip
    return found if users else {}


POOLED = {
    "batch_norm_own_back": ("batch_norm_own_pool_back", 4),
    "batch_norm_sums": ("batch_norm_pool_sums", 3),
    "batch_norm_back": ("batch_norm_pool_back", 6),
}
"""Ops of the way back, what they are with the pool's way back before them, and how many of their
arguments behind the cotangent that needs: others are for rectifiers."""
