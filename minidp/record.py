"""From arrays to Tensors and back: what happens around an op's computation.

``apply`` unwraps the arguments, lets the op compute, and records a Node when a gradient may be
asked for. A Plan, made once for each set of arguments that need one, says what to keep.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

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

    def __init__(self, op: Op, needed: tuple[bool, ...]) -> None:
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
    met = scalars = False
    arrays: list[Array] = []
    sources: list[Tensor | None] = []
    for x in inputs:
        if isinstance(x, Tensor):
            met = True
            if type(x) is not Tensor and mode.replica is not None:
                x = mode.replica.local(x)
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
    record = mode.grad and any(s is not None and s.node is not None for s in sources)
    node = _record(op, arrays, sources, constants, result) if record and op.rules else None
    several = isinstance(result, tuple)
    tensors = [_wrapped(y, arrays, sources) for y in (result if several else (result,))]
    if node is not None:
        _attach(op, node, tensors)
    return tuple(tensors) if several else tensors[0]


def _without_scalars(values: list[Any], tensors: bool) -> list[Any]:
    """NumPy's scalars beside Tensors as Python numbers; in rules on arrays, as arrays."""
    return [
        x if not isinstance(x, np.generic) else x.item() if tensors else np.asarray(x)
        for x in values
    ]


def _record(
    op: Op, arrays: list[Array], sources: list[Tensor | None], constants: dict[str, Any],
    result: Any,
) -> Node | None:  # fmt: skip
    parents = tuple([s.node if s is not None else None for s in sources])
    needed = tuple([p is not None for p in parents])
    plan = op.plans.get(needed)
    if plan is None:
        plan = op.plans[needed] = Plan(op, needed)
    if not plan.calls:
        return None
    main = result[op.differentiable[0]] if isinstance(result, tuple) else result
    if main.dtype.kind != "f":
        return None
    node = Node(np.shape(main), main.dtype)
    node.op, node.plan, node.parents, node.constants = op, plan, parents, constants
    saved, versions = [], []
    for kind, position in plan.keep:
        saved.append(_kept(kind, position, arrays, result, op))
        source = sources[position] if kind == "input" and position >= 0 else None
        if source is not None:
            versions += [source.version, source.version[0], op.arguments[position]]
    node.saved, node.versions = tuple(saved), tuple(versions)
    return node


def _kept(kind: str, position: int, arrays: list[Array], result: Any, op: Op) -> Any:
    if kind == "input":
        return arrays if position < 0 else arrays[position]
    if kind == "shape":
        return [np.shape(a) for a in arrays] if position < 0 else np.shape(arrays[position])
    output = result[position] if len(op.outputs) > 1 else result
    return output if kind == "output" else np.shape(output)


def _wrapped(result: Any, arrays: list[Array], sources: list[Tensor | None]) -> Tensor:
    """A Tensor of the result; a view counts its changes together with what it is a view of."""
    tensor, base = Tensor(result), result.base
    for array, source in zip(arrays, sources):
        if source is not None and (result is array or (
                base is not None and (base is array or base is array.base))):  # fmt: skip
            tensor.version = source.version
    return tensor


def _attach(op: Op, node: Node, tensors: list[Tensor]) -> None:
    """Tie the outputs to their node, and watch those that its rules keep."""
    for i in op.differentiable if not op.several else range(len(tensors)):
        tensors[i].node = pick(node, tensors[i], i) if op.several else node
    for position in node.plan.outputs:
        version = tensors[position].version
        node.versions += (version, version[0], op.outputs[position])


def pick(node: Node, tensor: Tensor, slot: int) -> Node:
    """The node of one output of several: it hands its cotangent on into a slot."""
    result = Node(tensor.shape, tensor.dtype)
    result.op, result.parents, result.slot, result.constants = node.op, (node,), slot, {}
    return result
