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

from minidp.graph.folding_conv import into_convolution_back
from minidp.graph.folding_norm import (
    into_batch_norm,
    into_pooled_back,
    into_pooled_norm,
    into_shared_norm,
    sum_of_centred,
)
from minidp.graph.graph import Graph
from minidp.graph.line import COMPUTED, Line, Value
from minidp.graph.uses import Replaced, Uses, does
from minidp.op import OPS
from minidp.types import float32, float64


def folded(graph: Graph) -> Graph:
    """The graph with lines in other lines, where a rule says so."""
    for rules in (RULES, LATER):
        graph = _folded(graph, rules)
    return graph


def _folded(graph: Graph, known: Rules) -> Graph:
    uses = Uses(graph)
    for line in graph.lines:
        rules = known.get(line.op.name, ()) if line.op is not None else ()
        if rules and _is_served(line):
            uses.replace(next(filter(None, (rule(uses, line) for rule in rules)), {}))
    result = copy.copy(graph)
    lines = map(uses.current, graph.lines)
    result.lines = [line for line in lines if line is not None]
    return result


def _is_served(line: Line) -> bool:
    if line.op is None or not does(line, line.op.name):
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


def into_product(uses: Uses, line: Line) -> Replaced:
    """matmul, relu_input: the product sets to 0 what it would have written for nothing."""
    g, y = line.inputs
    maker = uses.makers.get(g)
    if maker is None or not does(maker, "matmul") or not uses.is_between(g, line):
        return {}
    is_fixed = y.root.kind == COMPUTED and y.root not in uses.changing
    if not is_fixed or y.number > g.number or y.shape != g.shape or len(y.shape) != 2:
        return {}  # a larger number: it is not there yet when the product is computed
    whole = replace(maker, op=OPS["matmul_relu_input"], inputs=[*maker.inputs, y],
                    outputs=line.outputs)  # fmt: skip
    return {line: None, maker: whole}


LAYERS = {"conv2d": "conv2d_relu", "linear": "linear_relu"}
"""Ops that have one with a rectifier behind it."""


Rules = dict[str, tuple[Callable[[Uses, Line], Replaced], ...]]

RULES: Rules = {
    "relu": (into_max_pool, into_layer, into_batch_norm, into_shared_norm),
    "relu_input": (into_product,),
    "sum": (sum_of_centred,),
    "max_pool2d": (into_pooled_norm,),
    "max_pool2d_input": (into_pooled_back,),
}
"""By the line's op. Of several that apply, the first is taken."""

LATER: Rules = {"conv2d_weight": (into_convolution_back,)}
"""Rules about what these give."""
