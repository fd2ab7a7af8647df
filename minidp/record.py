"""From arrays to Tensors and back: what happens around an op's computation.

``apply`` unwraps the arguments, lets the op compute, and records a Node when a gradient may be
asked for. A Plan, made once for each set of arguments that need one, says what to keep and how to
call the rules.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from minidp.backend import backend_of
from minidp.mode import mode
from minidp.node import Base, Node, Version, recorded
from minidp.tensor import Tensor, method, wrap
from minidp.types import Array

if TYPE_CHECKING:
    from minidp.op import Op

Rule = Callable[..., Any]
Call = Callable[[Any, Any, Any, int], Any]
Pick = Callable[..., tuple[Any, ...]]


class Plan:
    """For one set of arguments that need a gradient: what to keep, and how to call the rules.

    ``keep`` lists (kind, position) with kind ``input``, ``output``, ``shape`` or ``output_shape``.
    ``calls`` lists (argument, call), where ``call(g, saved, constants, argument)`` gives the
    argument's cotangent; a call is None where that is g itself. ``names`` are those of kept arrays,
    by their places in a tuple of all inputs, then outputs. ``pick`` makes of these what is kept; it
    is None where the op is variadic.
    """

    __slots__ = ("calls", "keep", "names", "pick")
    pick: Any

    def __init__(self, op: Op, needed: list[bool]) -> None:
        self.keep: list[tuple[str, int]] = []
        self.calls: list[tuple[int, Call | None]] = []
        for position in range(len(needed)):
            rule = op.rule_of(position) if needed[position] else None
            if rule is not None:
                sources = [self._source(op, name) for name in op.asks(rule)]
                self.calls.append((position, _caller(rule, sources)))
        inputs = {p: op.arguments[p] for kind, p in self.keep if kind == "input" and p >= 0}
        outputs = {p: op.outputs[p] for kind, p in self.keep if kind == "output"}
        self.names = {**inputs, **{len(needed) + p: name for p, name in outputs.items()}}
        self.pick = None if op.variadic else _picker(self.keep, len(needed), len(op.outputs))

    def _source(self, op: Op, name: str) -> int | str:
        item = op.meaning(name)
        if isinstance(item, str):
            return item
        if item not in self.keep:
            self.keep.append(item)
        return self.keep.index(item)


IDENTITY = (lambda g: g).__code__.co_code
"""What a rule does that hands on the cotangent, as those of a sum do."""


def _caller(rule: Rule, sources: list[int | str]) -> Call | None:
    """How to call ``rule``: a source is an index into what was kept, ``g``, ``i``, a constant or
    ``constants``, all of them. Python made for it: it runs in every backward. None: not at all."""
    if sources == ["g"] and inspect.isfunction(rule) and rule.__code__.co_code == IDENTITY:
        return None
    given = ", ".join(
        f"saved[{s}]" if isinstance(s, int) else s if s in ("g", "i", "constants")
        else f"constants[{s!r}]" for s in sources
    )  # fmt: skip
    call: Call = eval(f"lambda g, saved, constants, i: rule({given})", {"rule": rule})
    return call


def _picker(keep: list[tuple[str, int]], inputs: int, outputs: int) -> Pick:
    """A function that gives what to keep of so many inputs and outputs; likewise."""
    found = ""
    for kind, position in keep:
        value = f"v{position + inputs * kind.startswith('output')}"
        found += f"getattr({value}, 'shape', ()), " if kind.endswith("shape") else f"{value}, "
    names = ", ".join(f"v{i}" for i in range(inputs + outputs))
    pick: Pick = eval(f"lambda {names}: ({found})")
    return pick


def apply(op: Op, inputs: tuple[Any, ...], constants: dict[str, Any]) -> Any:
    """Run ``op``; when an input is a Tensor, wrap the result and record how it was made."""
    arrays: list[Array] = []
    parents: list[Node | None] = []
    versions: list[Version | None] = []
    watch, source, tracked, scalars = mode.watch, None, False, False
    for x in inputs:
        if isinstance(x, Tensor):
            if type(x) is not Tensor:  # a Parameter or Buffer: the running replica's tensor for it
                if watch is not None:
                    watch.met(x)
                x = x if mode.replica is None else mode.replica.local(x)
            if x.base is not None:
                x.fresh()
            if x.node is not None:
                tracked = True
                if watch is not None and x.node.op is None:
                    watch.met(x)
            source = x
            arrays.append(x.array)
            parents.append(x.node)
            versions.append(x.version)
        else:
            scalars = scalars or isinstance(x, np.generic)
            arrays.append(x)
            parents.append(None)
            versions.append(None)
    if scalars:
        arrays = _without_scalars(arrays, source is not None)
    for constant in constants.values():
        if type(constant) is Tensor and op.own:
            constants = {name: _plain(value) for name, value in constants.items()}
            break
    result = op.compute(arrays, constants)
    several = isinstance(result, tuple)
    if source is None:
        if watch is not None:
            results = () if op.writes else result if several else (result,)
            watch.ran(op, arrays, constants, results, ())
        return result
    tensors = [wrap(y) for y in result] if several else [wrap(result)]
    if op.view:
        for tensor in tensors:
            share_version(op, source, constants, tensor)
    if tracked and op.rules and mode.grad:
        _record(op, arrays, parents, versions, constants, tensors)
    if watch is not None:
        watch.ran(op, arrays, constants, [tensor.array for tensor in tensors], tensors)
    return tuple(tensors) if several else tensors[0]


def _plain(constant: Any) -> Any:
    """A tensor in place of a number as that number."""
    return constant.item() if isinstance(constant, Tensor) else constant


def _without_scalars(values: list[Any], tensors: bool) -> list[Any]:
    """NumPy's scalars beside Tensors as Python numbers; in rules on arrays, as arrays."""
    return [
        x if not isinstance(x, np.generic) else x.item() if tensors else np.asarray(x)
        for x in values
    ]


def _record(
    op: Op, arrays: list[Array], parents: list[Node | None], versions: list[Version | None],
    constants: dict[str, Any], tensors: list[Tensor],
) -> None:  # fmt: skip
    """Tie the results to a node that keeps what the rules of this op ask for."""
    plan, main = op.plan(parents), tensors[op.differentiable[0]]
    array = main.array
    if not plan.calls or array.dtype.kind != "f":
        return
    if plan.pick is not None and len(tensors) == 1:
        saved = plan.pick(*arrays, array)
    else:
        results = [tensor.array for tensor in tensors]
        saved = (
            plan.pick(*arrays, *results[: len(op.outputs)])
            if plan.pick is not None
            else tuple([_kept(kind, position, arrays, results) for kind, position in plan.keep])
        )
    for tensor in tensors:
        versions.append(tensor.version)
    node = recorded(array, op, plan, tuple(parents), saved, versions, constants)
    if not op.several:
        main.node = node
        return
    for i, tensor in enumerate(tensors):
        tensor.node = pick(node, tensor, i)


def _kept(kind: str, position: int, arrays: list[Array], results: list[Array]) -> Any:
    """What a rule asks for: an array, a shape, or all variadic arguments."""
    values = arrays if kind in ("input", "shape") else results
    if kind in ("input", "output"):
        return values[position] if position >= 0 else values
    return np.shape(values[position]) if position >= 0 else [np.shape(a) for a in values]


def share_version(op: Op, source: Tensor, constants: Any, tensor: Tensor) -> None:
    """A view counts its changes together with what it is a view of, and knows it."""
    if _is_view(tensor.array, source.array):
        tensor.version = source.version
        base = tensor.base = Base()
        base.source, base.op = source if mode.grad else None, op
        base.constants, base.moment = constants, source.version[0]


def _is_view(y: Array, x: Array) -> bool:
    """Whether y lies in the memory of x; what their bases say is quicker to ask."""
    base = y.base
    if y is x or (base is not None and (base is x or base is x.base)):
        return True
    return base is not None and bool(backend_of(x).xp.may_share_memory(y, x))


@method()
def fresh(self: Tensor) -> Tensor:
    """The tensor itself; if it is a view of what was changed in place through another tensor,
    its node is now of what is there."""
    base, leaf = self.base, self.node is not None and self.node.op is None
    if base is None or base.source is None or leaf:
        return self
    if self.version[0] > base.moment and mode.grad:
        base.moment = self.version[0]
        self.node = base.op(base.source.fresh(), **base.constants).node
    return self


def pick(node: Node, tensor: Tensor, slot: int) -> Node:
    """The node of one output of several: it hands its cotangent on into a slot."""
    result = recorded(tensor.array, node.op, None, (node,), (), ())
    result.slot = slot
    return result
