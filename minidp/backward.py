"""One backward: walk the nodes from the outputs back, without recursion.

Nodes are older than what was computed from them, so they are met from the youngest to the oldest:
when a node's turn comes, all its cotangents have arrived. Rules run on arrays; with
``create_graph`` they run on Tensors and are themselves recorded.
Source: Speelpenning 1980.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from minidp.errors import DTypeError, GraphError
from minidp.fitting import fitted, promoted, wider
from minidp.mode import mode, quietly
from minidp.node import RETAIN, Node, latest
from minidp.op import OPS
from minidp.record import pick
from minidp.tensor import Tensor, wrap

Cotangents = dict[Node, Any]
_moment = attrgetter("moment")


def run(
    outputs: Sequence[Tensor], seeds: Sequence[Any], wanted: Cotangents | None,
    retain_graph: bool | None, create_graph: bool,
) -> None:  # fmt: skip
    """Walk back from ``outputs``; leave cotangents in ``wanted``, or in the leaves' grad.

    Towards ``wanted`` only rules on the way to one of them are called. So a gradient with respect
    to inputs costs none with respect to parameters, and a replica reduces nothing for it.
    """
    keep = create_graph if retain_graph is None else retain_graph
    given = [output.fresh().node for output in outputs]
    roots = [root for root in given if root is not None]
    if len(roots) < len(outputs):
        raise GraphError(
            "backward: the tensor requires no gradient: nothing it was computed from does, "
            "or it was computed under no_grad()"
        )
    if mode.watch is not None:
        mode.watch.begins(outputs)
    found = _collected(roots)
    nodes = sorted(found, key=_moment, reverse=True)
    tensors = create_graph or (mode.watch is not None and mode.watch.tensors)
    walk = Walk(found, wanted, keep, tensors)
    if wanted is not None:
        walk.leading = _leading(nodes, wanted)
        nodes = [node for node in nodes if node in walk.leading]
    for root, seed in zip(roots, seeds, strict=True):
        walk.begin(root, seed if tensors else seed.array)
    before, mode.grad = mode.grad, create_graph
    try:
        quietly(walk.along, nodes)
    finally:
        mode.grad = before


def _collected(roots: list[Node]) -> Cotangents:
    """A place for the cotangent of every node that the roots depend on.

    A GraphError when one was freed, or when what it kept has changed.
    """
    found: Cotangents = dict.fromkeys(roots)
    stack = list(found)
    while stack:
        node = stack.pop()
        if node.saved is None:
            _raise_freed(node)
        if node.versions and node.moment < latest.moment:
            _check_unchanged(node)
        for parent in node.parents:
            if parent is not None and parent not in found:
                found[parent] = None
                stack.append(parent)
    return found


def _leading(nodes: list[Node], wanted: Cotangents) -> dict[Node, None]:
    """The wanted nodes, and those that depend on one of them."""
    found: dict[Node, None] = {}
    for node in reversed(nodes):
        if node in wanted or any(parent in found for parent in node.parents):
            found[node] = None
    return found


def _raise_freed(node: Node) -> None:
    raise GraphError(
        f"backward: the graph was freed by an earlier backward; the first freed op is {node!r}. "
        "Compute the loss again, or call the earlier backward with retain_graph=True"
    )


def _check_unchanged(node: Node) -> None:
    for place, name in node.plan.names.items():
        version = node.versions[place]
        if version is not None and version[0] > node.moment:
            raise GraphError(
                f"backward: {name!r} of {node!r} was changed in place after the op had kept it. "
                "Change a clone(), or change it after backward"
            )


class Walk:
    """The cotangents that have arrived, arrays or ``tensors``, and what to do with them.

    ``handed_on`` are cotangents that a node was given as others have them, so are not its alone;
    ``sums`` are leaves' that were added up here, so are theirs.
    """

    def __init__(
        self, found: Cotangents, wanted: Cotangents | None, keep: bool, tensors: bool
    ) -> None:
        self.arrived, self.wanted, self.keep, self.tensors = found, wanted, keep, tensors
        self.leading: dict[Node, None] | None = None
        """The nodes on the way to what is wanted; None: all."""
        self.handed_on: Cotangents = {}
        self.sums: Cotangents = {}
        self.watch = mode.watch

    def begin(self, root: Node, seed: Any) -> None:
        """Let a cotangent that somebody else has arrive at a root."""
        present = self.arrived[root]
        self.handed_on[root] = self.arrived[root] = seed if present is None else present + seed

    def along(self, nodes: list[Node]) -> None:
        """Give every node its whole cotangent, and its parents theirs, by the rules of its op.

        Every op passes here: so this is one loop, which calls no function it can do without.
        """
        arrived, keep, tensors, leading = self.arrived, self.keep, self.tensors, self.leading
        watch, shows, sums = self.watch, self.wanted is not None, self.sums
        for node in nodes:
            g, plan = arrived[node], node.plan
            if g is None or plan is None:
                self.rest(node, g)
                continue
            arrived[node] = None
            if shows or node.hooks is not None:
                g = self.deliver(node, g)
            saved = node.saved if not tensors else _as_tensors(node)
            parents, constants = node.parents, node.constants
            for position, call in plan.calls:
                parent = parents[position]
                if leading is not None and parent not in leading:
                    continue
                cotangent = g if call is None else call(g, saved, constants, position)
                if cotangent is None:
                    continue
                if watch is not None:
                    watch.gave(node, position, cotangent)
                if cotangent.shape != parent.shape or cotangent.dtype is not parent.dtype:
                    if not tensors and wider(node, cotangent, g):
                        cotangent = promoted(call, g, saved, constants, position)
                    cotangent = fitted(node, parent, cotangent)
                present = arrived[parent]
                if present is None:
                    if parent.plan is None and (cotangent is g or _is_among(cotangent, g)):
                        self.handed_on[parent] = cotangent
                elif parent in sums and type(present) is np.ndarray:
                    present += cotangent
                    continue
                else:
                    cotangent = present = present + cotangent
                    if parent.plan is None:
                        sums[parent] = cotangent
                arrived[parent] = cotangent
            if not keep and saved:
                node.saved = None

    def rest(self, node: Node, g: Any) -> None:
        """What there is to do at a leaf, at one output of several, and where nothing arrived."""
        if g is not None:
            self.arrived[node] = None
            if node.op is None or self.wanted is not None or node.hooks is not None:
                g = self.deliver(node, g)
            if node.slot is not None:
                parent = node.parents[0]
                slots = self.arrived[parent] = self.arrived[parent] or {}
                slots[node.slot] = slots[node.slot] + g if node.slot in slots else g
        if not self.keep and node.saved:
            node.saved = None

    def deliver(self, node: Node, g: Any) -> Any:
        """Show a whole cotangent to the node's hooks, and give a copy to who wants it."""
        own = node.op is None and self.is_own(node, g)
        if node.hooks is not None:
            g = _shown(node.hooks, g)
        if self.wanted is not None:
            if node in self.wanted:
                self.wanted[node] = g if own else _own(g)
        elif node.op is None or RETAIN in (node.hooks or ()):
            g = g if own else _own(g)
            tensor = g if isinstance(g, Tensor) else wrap(g)
            if self.watch is not None:
                self.watch.gathers(node)
            node.grad = tensor if node.grad is None else node.grad + tensor
            if self.watch is not None:
                self.watch.gathered(node)
        return g

    def is_own(self, leaf: Node, g: Any) -> bool:
        """Whether no other has a leaf's cotangent, nor memory that it is a view of."""
        array = g.array if isinstance(g, Tensor) else g
        if self.sums.get(leaf) is g:
            return True
        return _is_alone(array) and self.handed_on.get(leaf) is not g


def _is_alone(array: Any) -> bool:
    """Whether no other array has its memory: it is no view, or the only one of what a kernel made
    in another order of axes."""
    base = array.base
    if base is None:
        return True
    is_owner = type(base) is type(array) and base.base is None and base.flags.owndata
    del base
    return is_owner and _holders(array) == ALONE


def _holders(view: Any) -> int:
    return sys.getrefcount(view.base)


ALONE = _holders(np.empty(2)[:1])
"""How often what a view is of is referred to, if by that view alone."""


def _is_among(cotangent: Any, g: Any) -> bool:
    """Whether it is one of the cotangents, by output, of an op with several outputs."""
    return type(g) is dict and id(cotangent) in map(id, g.values())


def _shown(hooks: dict[Any, Any], g: Any) -> Any:
    """The cotangent, or what the last hook that replaced it gave."""
    for hook in [hook for hook in hooks.values() if hook is not None]:
        changed = hook(g if isinstance(g, Tensor) else Tensor(g))
        if changed is not None:
            if not isinstance(changed, Tensor) or changed.shape != g.shape:
                raise DTypeError(f"a hook of a gradient of shape {g.shape} gave {changed!r}; "
                                 "expected a tensor of that shape, or None")  # fmt: skip
            g = changed if isinstance(g, Tensor) else changed.array
    return g


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
    told = mode.watch is not None and mode.watch.tensors and hasattr(value, "strides")
    if node is None and not told:
        return value
    tensor = Tensor(value)  # told, also what needs no gradient: x - mean of arrays is no op
    tensor.node = node
    return tensor


def _own(g: Any) -> Any:
    """A copy of a cotangent, in the order that its memory has."""
    array = g.array if isinstance(g, Tensor) else g
    order: Any = "C" if array.flags.c_contiguous else "K"
    if type(g) is np.ndarray and mode.watch is None:  # a third of the time
        return np.array(g, order=order)
    return OPS["copy"](g, order=order)
