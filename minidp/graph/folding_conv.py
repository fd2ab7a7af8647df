"""What captured steps put together around convolution: the ways back of it and of its norm."""

from __future__ import annotations

from typing import Any

from minidp.backend import CPU
from minidp.graph.fusion import FusedLine
from minidp.graph.joined import Joined
from minidp.graph.line import COMPUTED, Line, Value
from minidp.graph.uses import Replaced, Uses, does
from minidp.types import Shape

BACKS = ("batch_norm_own_back", "batch_norm_own_relu_back", "batch_norm_own_pool_back",
         "batch_norm_back", "batch_norm_pool_back")  # fmt: skip
"""Ops whose first result is the cotangent of what a layer has given."""

LAYER = "stride", "padding", "dilation", "groups"


def into_convolution_back(uses: Uses, line: Line) -> Replaced:
    """The way back of a batch norm, conv2d_input, conv2d_weight: both gradients are made of a few
    images' cotangents at a time, which stay in cache. A first layer has no conv2d_input."""
    dx, x = line.inputs
    norm, users = uses.makers.get(dx), uses.of(dx)
    others = [user for user in users if user is not line]
    if norm is None or not any(does(norm, name) for name in BACKS) or dx is not norm.outputs[0]:
        return {}
    if not uses.is_inner(dx) or line not in users or len(others) > 1:
        return {}
    if not all(_is_same_layer(line, other, dx) for other in others):
        return {}
    weights, serves = [other.inputs[1] for other in others], CPU.kernel("serves_norm_back")
    layer, shape = tuple(line.constants[name] for name in LAYER), line.constants["shape"]
    if serves is None or not serves(x, dx.shape[2:], shape, layer, not others):
        return {}
    if any(_comes_later(uses, value, dx) for value in (x, *weights)):
        return {}
    given = [x, *(weights or [None]), *norm.inputs]
    return {norm: _joined(norm, others, line, given, layer, shape), line: None,
            **dict.fromkeys(others)}  # fmt: skip


def _is_same_layer(line: Line, other: Line, dx: Value) -> bool:
    """Whether another line is the input gradient of the layer of which this one is the weights'."""
    same = does(other, "conv2d_input") and other.inputs[0] is dx and other.inputs[1] is not dx
    return same and all(other.constants[name] == line.constants[name] for name in LAYER)


def _comes_later(uses: Uses, value: Any, dx: Value) -> bool:
    """Whether a value may not yet be there, or be another one, where ``dx`` is made."""
    if not isinstance(value, Value) or value.root in uses.changing:
        return True
    return value.kind == COMPUTED and value.number > dx.number


def _joined(norm: Line, others: list[Line], line: Line, inputs: list[Any], layer: Any, shape: Shape
            ) -> Line:  # fmt: skip
    outputs = [*norm.outputs[1:], *(other.outputs[0] for other in others), line.outputs[0]]
    lines = [norm, *others, line]
    assert norm.op is not None
    constants = {"norm": norm.op.name, "options": norm.constants, "layer": layer, "shape": shape}
    op: Any = Joined("conv2d_norm_back", lines, inputs, outputs)
    return FusedLine(op, inputs, constants, outputs, line.path, line.phase, line.device,
                     lines=lines)  # fmt: skip
