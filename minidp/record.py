"""From arrays to Tensors and back: what happens around an op's computation.

``apply`` unwraps the arguments, lets the op compute, and records a Node when a gradient may be
asked for. A Plan, made once for each set of arguments that need one, says what to keep.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from minidp.backend import backend_of
from minidp.mode import mode
from minidp.node import Node
from minidp.tensor import Tensor
from minidp.types import Array

if TYPE_CHECKING:
    from minidp.op import Op

Rule = Callable[..., Any]


class Plan:
    """For one set of arguments that need a gradient: what to keep, and how to call the rules.

    ``keep`` lists (kind, position) with kind ``input``, ``output``, ``shape`` or
    ``output_shape``; ``calls`` lists (argument, rule, sources), a source being an index into
    what was kept, or the name ``g``, ``i`` or that of a constant.
    """

    __slots__ = ("calls", "keep", "outputs")

    def __init__(self, op: Op, needed: list[bool]) -> None:
        self.keep: list[tuple[str, int]] = []
        self.calls: list[tuple[int, Rule, tuple[int | str, ...]]] = []
        for position in range(len(needed)):
            rule = op.rule_of(position) if needed[position] else None
            if rule is not None:
                sources = tuple(self._source(op, name) for name in op.asks(rule))
                self.calls.append((position, rule, sources))
        self.outputs = [position for kind, position in self.keep if kind == "output"]

    def _source(self, op: Op, name: str) -> int | str:
        item = op.meaning(name)
        if isinstance(item, str):
            return item
        if item not in self.keep:
            self.keep.append(item)
        return self.keep.index(item)


def apply(op: Op, inputs: tuple[Any, ...], constants: dict[str, Any]) -> Any:
    """Run ``op``; when an input is a Tensor, wrap the result and record how it was made."""
    arrays: list[Array] = []
    sources: list[Tensor | None] = []
    met = tracked = scalars = False
    for x in inputs:
        if isinstance(x, Tensor):
            if type(x) is not Tensor and mode.replica is not None:
                x = mode.replica.local(x)
            met = True
            tracked = tracked or x.node is not None
            arrays.append(x.data)
            sources.append(x)
        else:
            scalars = scalars or isinstance(x, np.generic)
            arrays.append(x)
            sources.append(None)
    if scalars:
        arrays = _without_scalars(arrays, met)
    result = op.compute(arrays, constants)
    if not met:
        return result
    several = isinstance(result, tuple)
    tensors = [Tensor(y) for y in (result if several else (result,))]
    if op.view and sources[0] is not None:
        _share_versions(sources[0], tensors)
    if tracked and op.rules and mode.grad:
        _record(op, arrays, sources, constants, tensors)
    return tuple(tensors) if several else tensors[0]


def _without_scalars(values: list[Any], tensors: bool) -> list[Any]:
    """NumPy's scalars beside Tensors as Python numbers; in rules on arrays, as arrays."""
    return [
        x if not isinstance(x, np.generic) else x.item() if tensors else np.asarray(x)
        for x in values
    ]


def _record(
    op: Op, arrays: list[Array], sources: list[Tensor | None], constants: dict[str, Any],
    tensors: list[Tensor],
) -> None:  # fmt: skip
    """Tie the results to a node that keeps what the rules of this op ask for."""
    parents = tuple([None if s is None else s.node for s in sources])
    plan = op.plan(parents)
    main = tensors[op.differentiable[0]].data
    if not plan.calls or main.dtype.kind != "f":
        return
    node = Node(main.shape, main.dtype)
    node.op, node.plan, node.parents, node.constants = op, plan, parents, constants
    saved: list[Any] = []
    versions: list[Any] = []
    for kind, position in plan.keep:
        if kind == "input" and position >= 0:
            saved.append(arrays[position])
            source = sources[position]
            if source is not None:
                versions += (source.version, source.version[0], op.arguments[position])
        elif kind == "output":
            saved.append(tensors[position].data)
            version = tensors[position].version
            versions += (version, version[0], op.outputs[position])
        else:
            saved.append(_shape_or_all(kind, position, arrays, tensors))
    node.saved, node.versions = tuple(saved), versions
    for i in op.differentiable if not op.several else range(len(tensors)):
        tensors[i].node = pick(node, tensors[i], i) if op.several else node


def _shape_or_all(kind: str, position: int, arrays: list[Array], tensors: list[Tensor]) -> Any:
    """What a rule asks for that is not one array: a shape, or all variadic arguments."""
    if kind == "output_shape":
        return tensors[position].shape
    if position >= 0:
        return np.shape(arrays[position])
    return arrays if kind == "input" else [np.shape(a) for a in arrays]


def _share_versions(source: Tensor, tensors: list[Tensor]) -> None:
    """Views count their changes together with what they are views of."""
    xp = backend_of(source.data).xp
    for tensor in tensors:
        if tensor.data is source.data or xp.may_share_memory(tensor.data, source.data):
            tensor.version = source.version


def pick(node: Node, tensor: Tensor, slot: int) -> Node:
    """The node of one output of several: it hands its cotangent on into a slot."""
    result = Node(tensor.shape, tensor.dtype)
    result.op, result.parents, result.slot, result.constants = node.op, (node,), slot, {}
    return result
