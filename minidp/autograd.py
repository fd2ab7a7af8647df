"""Reverse mode: walk the nodes from the loss back, without recursion.

First every node that the loss depends on is counted (how many cotangents will arrive), then each
node whose cotangents have all arrived calls its rules. Rules run on arrays; with
``create_graph=True`` they run on Tensors and are themselves recorded.
Source: Speelpenning 1980; the counting is Kahn's topological order (1962).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from minidp.errors import GraphError, ShapeError
from minidp.mode import mode, switched
from minidp.node import Node
from minidp.op import OPS
from minidp.record import apply, pick
from minidp.tensor import Tensor, method
from minidp.types import Shape

Cotangents = dict[Node, Any]


@method()
def backward(
    self: Tensor, gradient: Any = None, retain_graph: bool | None = None,
    create_graph: bool = False, inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:  # fmt: skip
    """Add d self / d leaf to the ``.grad`` of every leaf (or of ``inputs`` only).

    ``gradient`` is the cotangent of ``self``; it may be left out for one element. In a replica it
    is then this replica's share of the rows, so that the sum over replicas is the mean over all.
    """
    if inputs is None:
        run([self], [_seed(self, gradient)], None, retain_graph, create_graph)
        return
    inputs = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    for leaf, g in zip(inputs, grad(self, inputs, gradient, retain_graph, create_graph, True),
                       strict=True):  # fmt: skip
        if g is not None:
            leaf.grad = g if leaf.grad is None else leaf.grad + g


def grad(
    outputs: Tensor | Sequence[Tensor], inputs: Tensor | Sequence[Tensor], grad_outputs: Any = None,
    retain_graph: bool | None = None, create_graph: bool = False, allow_unused: bool = False,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """The gradients of ``outputs`` with respect to ``inputs``, without touching ``.grad``."""
    ends = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    starts = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    given = grad_outputs if isinstance(grad_outputs, (list, tuple)) else [grad_outputs] * len(ends)
    seeds = [_seed(end, g) for end, g in zip(ends, given, strict=True)]
    if any(start.node is None for start in starts):
        raise GraphError("grad: one of the inputs does not require a gradient")
    wanted: Cotangents = {start.node: None for start in starts if start.node is not None}
    run(ends, seeds, wanted, retain_graph, create_graph)
    results = [wanted[start.node] for start in starts if start.node is not None]
    if not allow_unused and any(g is None for g in results):
        place = [g is None for g in results].index(True)
        raise GraphError(
            f"grad: input {place} was not used in the graph of the outputs; "
            "set allow_unused=True to get None for it"
        )
    return tuple(g if g is None or isinstance(g, Tensor) else Tensor(g) for g in results)


def no_grad() -> AbstractContextManager[None]:
    """Do not record, in this thread, for the length of a ``with`` block."""
    return switched(grad=False)


def enable_grad() -> AbstractContextManager[None]:
    """Record again inside ``no_grad()``."""
    return switched(grad=True)


def set_grad_enabled(enabled: bool) -> AbstractContextManager[None]:
    """Record or not, in this thread, for the length of a ``with`` block."""
    return switched(grad=bool(enabled))


def is_grad_enabled() -> bool:
    return mode.grad


def run(
    outputs: Sequence[Tensor], seeds: Sequence[Any], wanted: Cotangents | None,
    retain_graph: bool | None, create_graph: bool,
) -> None:  # fmt: skip
    """Walk back from ``outputs``; leave cotangents in ``wanted``, or in the leaves' grad."""
    keep = create_graph if retain_graph is None else retain_graph
    roots = [output.node for output in outputs]
    if any(root is None for root in roots):
        raise GraphError(
            "backward: the tensor requires no gradient: nothing it was computed from does, "
            "or it was computed under no_grad()"
        )
    starts = [root for root in roots if root is not None]
    waiting = _count(starts)
    pending: Cotangents = {}
    for root, seed in zip(starts, seeds, strict=True):
        seed = seed if create_graph else seed.data
        _add(pending, root, seed if root.op is not None else OPS["copy"](seed))
    with switched(grad=create_graph, quiet=True), np.errstate(all="ignore"):
        _walk(starts, waiting, pending, wanted, keep, create_graph)


def _walk(
    starts: list[Node], waiting: dict[Node, int], pending: Cotangents,
    wanted: Cotangents | None, keep: bool, create_graph: bool,
) -> None:  # fmt: skip
    ready = [root for root in dict.fromkeys(starts) if waiting[root] == 0]
    while ready:
        node = ready.pop()
        g = pending.pop(node, None)
        if g is not None:
            _deliver(node, g, wanted, create_graph)
            if node.op is not None:
                _call_rules(node, g, pending, create_graph)
        if not keep and node.saved:
            node.saved = None
        for parent in node.parents:
            if parent is not None:
                waiting[parent] -= 1
                if waiting[parent] == 0:
                    ready.append(parent)


def _count(roots: list[Node]) -> dict[Node, int]:
    """How many cotangents each node waits for; a GraphError when one was freed or changed."""
    waiting: dict[Node, int] = dict.fromkeys(roots, 0)
    stack = list(waiting)
    while stack:
        node = stack.pop()
        if node.saved is None:
            _raise_freed(node)
        if node.saved:
            _check_versions(node)
        for parent in node.parents:
            if parent is not None:
                if parent not in waiting:
                    waiting[parent] = 0
                    stack.append(parent)
                waiting[parent] += 1
    return waiting


def _raise_freed(node: Node) -> None:
    raise GraphError(
        f"backward: the graph was freed by an earlier backward; the first freed op is {node!r}. "
        "Compute the loss again, or call the earlier backward with retain_graph=True"
    )


def _call_rules(node: Node, g: Any, pending: Cotangents, create_graph: bool) -> None:
    if node.slot is not None:
        parent = node.parents[0]
        assert parent is not None
        _add(pending.setdefault(parent, {}), node.slot, g)
        return
    assert node.op is not None and node.saved is not None
    saved = _as_tensors(node) if create_graph else node.saved
    for position, rule, sources in node.plan.calls:
        parent = node.parents[position]
        assert parent is not None
        values = [
            saved[s] if type(s) is int else g if s == "g" else position if s == "i"
            else node.constants[str(s)]
            for s in sources
        ]  # fmt: skip
        cotangent = rule(*values)
        if cotangent is not None:
            _add(pending, parent, _fitted(node, parent, cotangent, g))


def _fitted(node: Node, parent: Node, cotangent: Any, g: Any) -> Any:
    """The cotangent in its argument's shape and dtype, in memory of its own if for a leaf."""
    if cotangent.shape != parent.shape:
        cotangent = _unbroadcast(node, cotangent, parent.shape)
    if cotangent.dtype != parent.dtype:
        cotangent = OPS["cast"](cotangent, dtype=parent.dtype)
    array = cotangent.data if isinstance(cotangent, Tensor) else cotangent
    if parent.op is None and (cotangent is g or array.base is not None):
        return OPS["copy"](cotangent)
    return cotangent


def _unbroadcast(node: Node, cotangent: Any, shape: Shape) -> Any:
    """Sum over the axes along which an argument of ``shape`` was broadcast."""
    extra = len(cotangent.shape) - len(shape)
    given = cotangent.shape[max(extra, 0) :]
    if extra < 0 or any(n not in (1, m) for n, m in zip(shape, given, strict=True)):
        raise ShapeError(
            f"{node.op.name if node.op else 'leaf'}: a rule gave a cotangent of shape "
            f"{cotangent.shape} for an argument of shape {shape}"
        )
    axes = (*range(extra), *(extra + i for i, n in enumerate(shape) if n == 1 != given[i]))
    result = OPS["sum"](cotangent, dim=axes, keepdim=False) if axes else cotangent
    return OPS["reshape"](result, shape=shape)


def _add(pending: dict[Any, Any], place: Node | int, cotangent: Any) -> None:
    present = pending.get(place)
    pending[place] = cotangent if present is None else present + cotangent


def _deliver(node: Node, g: Any, wanted: Cotangents | None, create_graph: bool) -> None:
    if wanted is not None:
        if node in wanted:
            wanted[node] = g if node.op is None else OPS["copy"](g)
    elif node.op is None or node.retains:
        g = g if node.op is None else OPS["copy"](g)
        tensor = g if isinstance(g, Tensor) else Tensor(g)
        node.grad = tensor if node.grad is None else node.grad + tensor


def _check_versions(node: Node) -> None:
    versions = node.versions
    for k in range(0, len(versions), 3):
        cell, recorded, name = versions[k : k + 3]
        if cell[0] != recorded:
            raise GraphError(
                f"backward: {name!r} of {node!r} was changed in place after the op had kept it "
                f"({cell[0] - recorded} change(s)). Change a clone(), or change it after backward"
            )


def _as_tensors(node: Node) -> list[Any]:
    """What a node kept, as Tensors tied to the graph again, for rules that are recorded."""
    assert node.op is not None and node.saved is not None
    result = []
    for (kind, position), value in zip(node.plan.keep, node.saved, strict=True):
        if kind == "input" and position < 0:
            value = [_tied(v, p) for v, p in zip(value, node.parents, strict=True)]
        elif kind == "input":
            value = _tied(value, node.parents[position])
        elif kind == "output":
            value = _tied(value, node if position in node.op.differentiable else None)
            if node.op.several and isinstance(value, Tensor):
                value.node = pick(node, value, position)
        result.append(value)
    return result


def _tied(value: Any, node: Node | None) -> Any:
    if node is None:
        return value
    tensor = Tensor(value)
    tensor.node = node
    return tensor


def _seed(output: Tensor, gradient: Any) -> Tensor:
    if gradient is not None:
        seed = gradient if isinstance(gradient, Tensor) else Tensor(gradient)
        if seed.shape != output.shape:
            raise ShapeError(f"backward: gradient of shape {seed.shape} for output {output.shape}")
        return seed
    if output.data.size != 1:
        raise ShapeError(
            f"backward: the tensor has shape {output.shape}; give its gradient, "
            "or reduce it to one element first"
        )
    value = mode.replica.seed() if mode.replica is not None else 1.0
    result: Tensor = apply(OPS["full_like"], (output.detach(),), {"value": value})
    return result
