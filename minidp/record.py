"""From arrays to Tensors and back: what happens around an op's computation.

``apply`` unwraps the arguments, lets the op compute, and records a Node when a gradient may be
asked for. A Plan, made once for each set of arguments that need one, says what to keep and how to
call the rules.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from minidp.backend import backend_of
from minidp.mode import mode, quiet
from minidp.node import Base, Node, recorded
from minidp.tensor import Tensor, method, wrap
from minidp.types import Array

if TYPE_CHECKING:
    from minidp.op import Op

Rule = Callable[..., Any]
Call = Callable[[Any, Any, Any, int], Any]
Pick = Callable[[Any], tuple[Any, ...]]


class Plan:
    """For one set of arguments that need a gradient: what to keep, and how to call the rules.

    ``keep`` lists (kind, position) with kind ``input``, ``output``, ``shape`` or ``output_shape``.
    ``calls`` lists (argument, call), where ``call(g, saved, constants, argument)`` gives the
    argument's cotangent. ``names`` are those of kept arrays, by their places in a tuple of all
    inputs, then outputs. ``pick`` takes them from it; it is None when more is to be kept.
    """

    __slots__ = ("calls", "keep", "names", "pick")
    pick: Any

    def __init__(self, op: Op, needed: list[bool]) -> None:
        self.keep: list[tuple[str, int]] = []
        self.calls: list[tuple[int, Call]] = []
        for position in range(len(needed)):
            rule = op.rule_of(position) if needed[position] else None
            if rule is not None:
                sources = [self._source(op, name) for name in op.asks(rule)]
                self.calls.append((position, _caller(rule, sources)))
        inputs = {p: op.arguments[p] for kind, p in self.keep if kind == "input" and p >= 0}
        outputs = {p: op.outputs[p] for kind, p in self.keep if kind == "output"}
        self.names = {**inputs, **{len(needed) + p: name for p, name in outputs.items()}}
        places = [p + len(needed) * (kind == "output") for kind, p in self.keep]
        self.pick = _picker(places) if len(places) == len(self.names) else None

    def _source(self, op: Op, name: str) -> int | str:
        item = op.meaning(name)
        if isinstance(item, str):
            return item
        if item not in self.keep:
            self.keep.append(item)
        return self.keep.index(item)


def _caller(rule: Rule, sources: list[int | str]) -> Call:
    """How to call ``rule``: a source is an index into what was kept, ``g``, ``i`` or a constant."""
    match sources:
        case ["g"]:
            return lambda g, saved, constants, i: rule(g)
        case ["g", int(a)]:
            return lambda g, saved, constants, i: rule(g, saved[a])
        case ["g", int(a), int(b)]:
            return lambda g, saved, constants, i: rule(g, saved[a], saved[b])

    def call(g: Any, saved: Any, constants: Any, i: int) -> Any:
        return rule(*[
            saved[s] if type(s) is int else g if s == "g" else i if s == "i" else constants[s]
            for s in sources
        ])  # fmt: skip

    return call


def _picker(places: list[int]) -> Pick:
    """A function that gives the elements of a tuple at ``places``, as a tuple."""
    if len(places) > 1:
        return itemgetter(*places)
    if places:
        (place,) = places
        return lambda values: (values[place],)
    return lambda values: ()


def apply(op: Op, inputs: tuple[Any, ...], constants: dict[str, Any]) -> Any:
    """Run ``op``; when an input is a Tensor, wrap the result and record how it was made."""
    arrays: list[Array] = []
    sources: list[Tensor | None] = []
    met = tracked = scalars = False
    for x in inputs:
        if isinstance(x, Tensor):
            if type(x) is not Tensor:
                x = _own(x)
            if x.base is not None:
                x.fresh()
            met = True
            if x.node is not None:
                tracked = True
                if mode.watch is not None and x.node.op is None:
                    mode.watch.met(x)
            arrays.append(x.array)
            sources.append(x)
        else:
            scalars = scalars or isinstance(x, np.generic)
            arrays.append(x)
            sources.append(None)
    if scalars:
        arrays = _without_scalars(arrays, met)
    result = op.compute(arrays, constants)
    if not met:
        if mode.watch is not None:
            results = () if op.writes else result if isinstance(result, tuple) else (result,)
            mode.watch.ran(op, arrays, constants, results, ())
        return result
    several = isinstance(result, tuple)
    tensors = [wrap(y) for y in (result if several else (result,))]
    if op.view and sources[0] is not None:
        _share_versions(op, sources[0], constants, tensors)
    if tracked and op.rules and mode.grad:
        _record(op, arrays, sources, constants, tensors)
    if mode.watch is not None:
        mode.watch.ran(op, arrays, constants, [tensor.array for tensor in tensors], tensors)
    return tuple(tensors) if several else tensors[0]


def _own(shared: Tensor) -> Tensor:
    """The running replica's tensor for a Parameter or Buffer."""
    if mode.watch is not None:
        mode.watch.met(shared)
    return shared if mode.replica is None else mode.replica.local(shared)


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
    main = tensors[op.differentiable[0]].array
    if not plan.calls or main.dtype.kind != "f":
        return
    if plan.pick is not None:
        saved = plan.pick((*arrays, *[tensor.array for tensor in tensors]))
    else:
        saved = tuple([_kept(kind, position, arrays, tensors) for kind, position in plan.keep])
    versions = [None if source is None else source.version for source in sources]
    versions += [tensor.version for tensor in tensors]
    node = recorded(main, op, plan, parents, saved, versions, constants)
    if not op.several:
        tensors[op.differentiable[0]].node = node
        return
    for i, tensor in enumerate(tensors):
        tensor.node = pick(node, tensor, i)


def _kept(kind: str, position: int, arrays: list[Array], tensors: list[Tensor]) -> Any:
    """What a rule asks for: an array, a shape, or all variadic arguments."""
    values = arrays if kind in ("input", "shape") else [tensor.array for tensor in tensors]
    if kind in ("input", "output"):
        return values[position] if position >= 0 else values
    return np.shape(values[position]) if position >= 0 else [np.shape(a) for a in values]


def _share_versions(op: Op, source: Tensor, constants: Any, tensors: list[Tensor]) -> None:
    """Views count their changes together with what they are views of, and know it."""
    xp = backend_of(source.array).xp
    for tensor in tensors:
        if tensor.array is source.array or xp.may_share_memory(tensor.array, source.array):
            tensor.version = source.version
            tensor.base = Base(source if mode.grad else None, op, constants, source.version[0])


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
    result = Node(tensor.shape, tensor.dtype, node.op, None, (node,))
    result.slot = slot
    return result


# The short way: one or two arrays of the CPU that need no check, no conversion and no kernel


def unary(op: Op) -> Callable[[Any], Any]:
    """``op`` as a function of one Tensor, less what need not be asked for a plain one."""
    body, plans = op.body, op.plans

    def call(x: Any, *surplus: Any) -> Any:
        if surplus or not (op.bare and type(x) is Tensor and type(x.array) is np.ndarray
                and x.array.dtype.kind == "f" and mode.watch is None):  # fmt: skip
            return op(x, *surplus)
        array, parent = x.array, x.node if x.base is None else x.fresh().node
        y = wrap(body(np, array) if quiet.get() else mode.run(body, np, array))
        if parent is not None and op.rules and mode.grad:
            plan = plans.get(3) or op.plan((parent,))
            saved = plan.pick((array, y.array))
            y.node = recorded(y.array, op, plan, (parent,), saved, (x.version, y.version))
        return y

    return call


def binary(op: Op) -> Callable[[Any, Any], Any]:
    """``op`` as a function of a Tensor and a Tensor or number, likewise."""
    body, plans = op.body, op.plans

    def call(a: Any, b: Any) -> Any:
        if type(a) is not Tensor or not op.bare or mode.watch is not None:
            return op(a, b)
        x, left = a.array, a.node if a.base is None else a.fresh().node
        if type(b) is Tensor:
            z, right, version = b.array, b.node if b.base is None else b.fresh().node, b.version
            fits = z.dtype is x.dtype and type(z) is type(x) is np.ndarray
        else:
            z, right, version = b, None, None
            fits = type(b) is float and type(x) is np.ndarray
        if not fits or x.dtype.kind != "f":
            return op(a, b)
        try:
            y = wrap(body(np, x, z) if quiet.get() else mode.run(body, np, x, z))
        except ValueError:
            return op(a, b)  # which says what does not fit
        if (left is not None or right is not None) and op.rules and mode.grad:
            plan = plans.get(4 + 2 * (left is not None) + (right is not None))
            plan = plan or op.plan((left, right))
            saved, versions = plan.pick((x, z, y.array)), (a.version, version, y.version)
            y.node = recorded(y.array, op, plan, (left, right), saved, versions)
        return y

    return call
