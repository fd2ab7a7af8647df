"""From arrays to Tensors and back: what happens around an op's computation.

``apply`` unwraps the arguments, lets the op compute, and records a Node when a gradient may be
asked for. A Plan, made once for each set of arguments that need one, says what to keep and how to
call the rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from minidp.backend import backend_of
from minidp.mode import mode, quiet
from minidp.node import Base, Node, Version, recorded
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
    inputs, then outputs. ``pick`` makes of it what is kept; it is None where the op is variadic.
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
        self.pick = None if op.variadic else _picker(self.keep, len(needed))

    def _source(self, op: Op, name: str) -> int | str:
        item = op.meaning(name)
        if isinstance(item, str):
            return item
        if item not in self.keep:
            self.keep.append(item)
        return self.keep.index(item)


def _caller(rule: Rule, sources: list[int | str]) -> Call:
    """How to call ``rule``: a source is an index into what was kept, ``g``, ``i``, a constant or
    ``constants``, all of them. Python made for it: it runs in every backward."""
    given = ", ".join(
        f"saved[{s}]" if isinstance(s, int) else s if s in ("g", "i", "constants")
        else f"constants[{s!r}]" for s in sources
    )  # fmt: skip
    call: Call = eval(f"lambda g, saved, constants, i: rule({given})", {"rule": rule})
    return call


def _picker(keep: list[tuple[str, int]], inputs: int) -> Pick:
    """A function that gives what to keep of a tuple of so many inputs, then outputs; likewise."""
    found = ""
    for kind, position in keep:
        value = f"values[{position + inputs * kind.startswith('output')}]"
        found += f"shape({value}), " if kind.endswith("shape") else f"{value}, "
    pick: Pick = eval(f"lambda values: ({found})", {"shape": np.shape})
    return pick


def apply(op: Op, inputs: tuple[Any, ...], constants: dict[str, Any]) -> Any:
    """Run ``op``; when an input is a Tensor, wrap the result and record how it was made."""
    arrays: list[Array] = []
    parents: list[Node | None] = []
    versions: list[Version | None] = []
    watch, source, tracked, scalars = mode.watch, None, False, False
    for x in inputs:
        if isinstance(x, Tensor):
            if type(x) is not Tensor:
                x = _own(x)
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
    result = op.compute(arrays, constants)
    several = isinstance(result, tuple)
    if source is None:
        if watch is not None:
            results = () if op.writes else result if several else (result,)
            watch.ran(op, arrays, constants, results, ())
        return result
    tensors = [wrap(y) for y in result] if several else [wrap(result)]
    if op.view:
        _share_versions(op, source, constants, tensors)
    if tracked and op.rules and mode.grad:
        _record(op, arrays, parents, versions, constants, tensors)
    if watch is not None:
        watch.ran(op, arrays, constants, [tensor.array for tensor in tensors], tensors)
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
    op: Op, arrays: list[Array], parents: list[Node | None], versions: list[Version | None],
    constants: dict[str, Any], tensors: list[Tensor],
) -> None:  # fmt: skip
    """Tie the results to a node that keeps what the rules of this op ask for."""
    plan, main = op.plan(parents), tensors[op.differentiable[0]]
    if not plan.calls or main.array.dtype.kind != "f":
        return
    results = [tensor.array for tensor in tensors]
    if plan.pick is not None:
        saved = plan.pick((*arrays, *results))
    else:
        saved = tuple([_kept(kind, position, arrays, results) for kind, position in plan.keep])
    for tensor in tensors:
        versions.append(tensor.version)
    node = recorded(main.array, op, plan, tuple(parents), saved, versions, constants)
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


def _share_versions(op: Op, source: Tensor, constants: Any, tensors: list[Tensor]) -> None:
    """Views count their changes together with what they are views of, and know it."""
    for tensor in tensors:
        if _is_view(tensor.array, source.array):
            tensor.version = source.version
            tensor.base = Base(source if mode.grad else None, op, constants, source.version[0])


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


def view(op: Op, x: Any, constants: dict[str, Any]) -> Any:
    """What ``op`` gives of a Tensor or array, where that is a view of it, likewise."""
    array = x.array if type(x) is Tensor else x
    if not op.bare or type(array) is not np.ndarray or mode.watch is not None:
        return apply(op, (x,), constants)
    try:
        if "dtype" in constants and not quiet.get():  # a cast may overflow; other views only look
            y = mode.run(op.body, np, array, **constants)
        else:
            y = op.body(np, array, **constants)
    except ValueError:
        return apply(op, (x,), constants)  # which says what does not fit
    if x is array:
        return y
    parent, tensor = x.node if x.base is None else x.fresh().node, wrap(y)
    _share_versions(op, x, constants, [tensor])
    if parent is not None and op.rules and mode.grad and y.dtype.kind == "f":
        plan, versions = op.plans.get(3) or op.plan((parent,)), (x.version, tensor.version)
        saved = plan.pick((array, y))
        tensor.node = recorded(y, op, plan, (parent,), saved, versions, constants)
    return tensor


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
            fits = (type(b) is float or type(b) is int) and type(x) is np.ndarray
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
