"""Lines of a captured step put into others: a pass over memory less for each.

A rule looks at one line, such as ``y = relu(x)``, and says which lines others stand in for (None:
for no line), or nothing where it does not apply. It applies on the CPU, to float32 and float64,
where nothing else sees what is no longer computed, and nothing is changed in place.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

from minidp.graph import Graph
from minidp.line import COMPUTED, Line, Value
from minidp.op import OPS
from minidp.simplify import changing
from minidp.types import float32, float64

Replaced = dict[Line, Line | None]


class Uses:
    """Who makes and who uses each value of a step, while its lines are replaced."""

    def __init__(self, graph: Graph) -> None:
        self.makers: dict[Value, Line] = {}
        self.users: dict[Value, dict[Line, None]] = {}
        self.returned = dict.fromkeys(graph.results)
        self.changing = changing(graph.lines)
        self.replaced: Replaced = {}
        self.count = 1 + max([y.number for line in graph.lines for y in line.outputs], default=0)
        for line in graph.lines:
            self._add(line)

    def _add(self, line: Line) -> None:
        self.makers |= dict.fromkeys(line.outputs, line)
        for value in line.values():
            self.users.setdefault(value, {})[line] = None

    def replace(self, found: Replaced) -> None:
        """Let lines stand in for others."""
        self.replaced |= found
        for old in found:
            for value in line_values(old):
                self.users[value].pop(old, None)
        for new in found.values():
            if new is not None:
                self._add(new)

    def of(self, value: Value) -> list[Line]:
        """The lines that use a value."""
        return list(self.users.get(value, ()))

    def is_inner(self, value: Value) -> bool:
        """Whether lines alone see a value, and none of them changes it."""
        fixed = value.kind == COMPUTED and value.root not in self.changing
        return fixed and value not in self.returned

    def is_between(self, value: Value, line: Line) -> bool:
        """Whether a value is made for ``line`` alone."""
        return self.is_inner(value) and self.of(value) == [line]

    def new(self, like: Value) -> Value:
        """A further value of a line."""
        self.count += 1
        return Value(self.count - 1, like.shape, like.dtype, COMPUTED, strides=like.strides)

    def current(self, line: Line) -> Line | None:
        """What stands for a line now."""
        now: Line | None = line
        while now is not None and now in self.replaced:
            now = self.replaced[now]
        return now


def does(line: Line, name: str) -> bool:
    """Whether a line is this op of the engine's."""
    return line.op is not None and line.op is OPS[name]


def line_values(line: Line) -> list[Value]:
    return list(dict.fromkeys(line.values()))


def folded(graph: Graph) -> Graph:
    """The graph with lines in other lines, where a rule says so."""
    uses = Uses(graph)
    for line in graph.lines:
        rules = RULES.get(line.op.name, ()) if line.op is not None and _is_served(line) else ()
        uses.replace(next(filter(None, (rule(uses, line) for rule in rules)), {}))
    result = copy.copy(graph)
    lines = map(uses.current, graph.lines)
    result.lines = [line for line in lines if line is not None]
    return result


def _is_served(line: Line) -> bool:
    if line.op is None or line.op.name not in RULES or not does(line, line.op.name):
        return False
    x, y = line.inputs[0], line.outputs[0]
    same = isinstance(x, Value) and x.dtype == y.dtype and x.dtype in (float32, float64)
    return same and line.device == "cpu"


def into_max_pool(uses: Uses, line: Line) -> Replaced:
    """relu, max_pool2d: the largest of what is positive, where nothing else needs the rectified.

    Backwards max_pool2d_input, relu_input: the pool's own places say what was cut off, so only the
    first is left. Values and gradients are the same bytes.
    """
    (x,), (y,) = line.inputs, line.outputs
    pools = [user for user in uses.of(y) if does(user, "max_pool2d")]
    if len(pools) != 1 or not uses.is_inner(x) or not uses.is_inner(y):
        return {}
    pool, masks = pools[0], [user for user in uses.of(y) if user is not pools[0]]
    index = pool.outputs[1]
    if not _meets_image(y.shape, **pool.constants) or not uses.is_inner(index):
        return {}
    found: Replaced = {line: None, pool: replace(pool, op=OPS["max_pool2d_relu"], inputs=[x])}
    for back in uses.of(index):
        dx = back.outputs[0] if does(back, "max_pool2d_input") else None
        mask = next((m for m in masks if does(m, "relu_input") and m.inputs == [dx, y]), None)
        if dx is None or mask is None or not uses.is_between(dx, mask):
            return {}
        found |= {back: replace(back, outputs=mask.outputs), mask: None}
    return found if all(mask in found for mask in masks) else {}


def _meets_image(shape: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, size: Any,
                 ) -> bool:  # fmt: skip
    """Whether each window has a place in the image, so that its largest is one of the values; and
    whether places and "none" are numbers of the same dtype as places alone."""
    ends = [(size[a] - 1) * stride[a] - padding[a] < shape[2 + a] for a in (0, 1)]
    begins = [padding[a] < kernel[a] for a in (0, 1)]
    return all(ends) and all(begins) and tuple(dilation) == (1, 1) and prod(kernel) != 256


def into_layer(uses: Uses, line: Line) -> Replaced:
    """A layer and relu: the layer cuts off what it writes. Backwards relu_input stays, and reads
    where from the result."""
    (x,) = line.inputs
    layer = uses.makers.get(x)
    if layer is None or not uses.is_between(x, line):
        return {}
    folded_op = next((OPS[whole] for name, whole in LAYERS.items() if does(layer, name)), None)
    if folded_op is None:
        return {}
    return {line: None, layer: replace(layer, op=folded_op, outputs=line.outputs)}


LAYERS = {"conv2d": "conv2d_relu"}
"""Ops that have one with a rectifier behind it."""


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
    affine = norm.inputs[4:]
    if any(isinstance(v, Value) and v.root in uses.changing for v in (y, *affine)):
        return found
    for mask in [user for user in uses.of(y) if does(user, "relu_input") and user.inputs[1] is y]:
        g, dy = mask.inputs[0], mask.outputs[0]
        users = uses.of(dy)
        passes = [does(user, name) for user in users for name in SHARED if user.inputs[0] is dy]
        inner = uses.is_inner(dy) and g.shape == dy.shape
        if inner and sum(passes) == len(users) and all(u.inputs[1] is norm.inputs[0] for u in users):
            found[mask] = None
            for user in users:
                inputs = [g, *user.inputs[1:]]
                found[user] = replace(user, inputs=inputs, constants=user.constants | RECTIFIED)
    return found


RECTIFIED = {"rectify": True}
SHARED = "batch_norm_sums", "batch_norm_back"
"""The passes of batch_norm_shared's way back."""


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
    if any(isinstance(v, Value) and v.root in uses.changing for v in (x, *affine)):
        return {}
    return {norm: moments, pool: replace(
        pool, op=OPS["batch_norm_pool"], inputs=[x, mean, var, *affine],
        outputs=[*pool.outputs, r], constants={"eps": eps, **pool.constants},
    )}  # fmt: skip


def into_pooled_back(uses: Uses, line: Line) -> Replaced:
    """max_pool2d_input and the way back of a batch norm: cotangents are spread an image at a time."""
    spread = uses.current(line)
    if spread is None or not does(spread, "max_pool2d_input"):
        return {}
    (dy,), users = spread.outputs, uses.of(spread.outputs[0])
    if not uses.is_inner(dy) or any(v.root in uses.changing for v in line_values(spread)):
        return {}
    found: Replaced = {spread: None}
    for user in users:
        name = next((name for name in POOLED if does(user, name)), None)
        rectified = name is None or user.constants.get("rectify", False)
        if rectified or user.inputs[0] is not dy or dy in user.inputs[1:]:
            return {}
        inputs = [each for each in user.inputs if each is not dy]
        inputs = inputs if name == "batch_norm_own_back" else inputs[: POOLED_INPUTS[name]]
        constants = {"eps": user.constants["eps"], **spread.constants}
        found[user] = replace(user, op=OPS[POOLED[name]], inputs=[*spread.inputs, *inputs],
                              constants=constants)  # fmt: skip
    return found if users else {}


POOLED = {
    "batch_norm_own_back": "batch_norm_own_pool_back", "batch_norm_sums": "batch_norm_pool_sums",
    "batch_norm_back": "batch_norm_pool_back",
}  # fmt: skip
"""Ops of the way back, and what they are with the pool's way back before them."""

POOLED_INPUTS = {"batch_norm_sums": 3, "batch_norm_back": 6}
"""How many of their arguments behind the cotangent are for more than rectifiers."""

RULES: dict[str, tuple[Callable[[Uses, Line], Replaced], ...]] = {
    "relu": (into_max_pool, into_layer, into_batch_norm, into_shared_norm),
    "sum": (sum_of_centred,),
    "max_pool2d": (into_pooled_norm,),
    "max_pool2d_input": (into_pooled_back,),
}
"""By the line's op. Of several that apply, the first is taken."""
