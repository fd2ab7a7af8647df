"""A Node remembers one application of an op: the graph that backward walks is made of these."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from minidp.types import Array, DType, Shape

if TYPE_CHECKING:
    from minidp.op import Op
    from minidp.record import Plan
    from minidp.tensor import Tensor

Version = list[int]
"""One number, shared by all views of a memory: the moment of its last change in place."""

clock = itertools.count(1)
"""Numbers the moments at which nodes are made and arrays change in place, in all threads."""


class Latest:
    """The moment of the last change in place, of any array in any thread: what is younger need not
    be looked at again."""

    def __init__(self) -> None:
        self.moment, self._lock = 0, threading.RLock()  # a signal may come in between
        self.exposed = 0
        """Another number when memory was given away by ``.data``, where changes are not noticed."""

    def change(self) -> int:
        """Something changes: the moment that it is now."""
        with self._lock:
            moment = next(clock)
            if moment > self.moment:
                self.moment = moment
        return moment


latest = Latest()


class Base:
    """What a view is of: it was ``op`` of the Tensor ``source`` at ``moment``. One that was made
    under ``no_grad()`` does not know its source, which may hold a graph."""

    __slots__ = ("constants", "moment", "op", "source")

    source: Any
    op: Any
    constants: Any
    moment: int


RETAIN = "retain"
"""The key, among a computed node's hooks, that says to keep its gradient in ``grad``."""


class Node:
    """One application of an op, or a leaf (``op`` is None) that collects a gradient.

    ``parents`` are the nodes of the arguments (None where no gradient flows), ``saved`` what the
    rules asked for, ``versions`` are those of all arguments, then results: what was kept must not
    have changed since ``moment``. Parents are older than their children, so backward goes by
    falling moments. ``slot`` says which output of the only parent a node picks, for ops with
    several differentiable outputs.
    """

    __slots__ = (
        "__weakref__",
        "constants",
        "dtype",
        "grad",
        "hooks",
        "moment",
        "op",
        "parents",
        "plan",
        "saved",
        "shape",
        "slot",
        "versions",
    )  # fmt: skip

    shape: Shape
    dtype: DType
    op: Op | None
    plan: Any
    parents: Sequence[Any]
    constants: Any
    saved: tuple[Any, ...] | None
    versions: Sequence[Version | None]
    grad: Tensor | None
    hooks: dict[Any, Any] | None
    slot: int | None
    moment: int

    def name(self) -> str:
        """What the op is called; "leaf" of a leaf."""
        return self.op.name if self.op else "leaf"

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The nodes of the arguments, None where no gradient flows, and which of their results each
        argument is."""
        picked = [node.parents[0] if node and node.slot is not None else node
                  for node in self.parents]  # fmt: skip
        slots = [(node and node.slot) or 0 for node in self.parents]
        return tuple(zip(picked, slots, strict=True))

    def __repr__(self) -> str:
        return f"<{self.op.name if self.op else 'leaf'} -> {self.dtype}{list(self.shape)}>"


def recorded(
    array: Array, op: Op | None, plan: Plan | None, parents: Sequence[Node | None],
    saved: tuple[Any, ...], versions: Sequence[Version | None], constants: Any = None,
) -> Node:  # fmt: skip
    """The node of an ``array`` that an op computed. (Node has no ``__init__``: to call one takes
    as long again.)"""
    node = Node()
    node.shape, node.dtype, node.op, node.plan = array.shape, array.dtype, op, plan
    node.parents, node.saved, node.versions, node.constants = parents, saved, versions, constants
    node.moment = next(clock)
    node.grad = node.hooks = node.slot = None
    return node


def leaf(array: Array) -> Node:
    """The node of an ``array`` that is to collect a gradient."""
    return recorded(array, None, None, (), (), (), {})


class Handle:
    """A registration, such as that of a hook: ``remove()`` ends it."""

    def __init__(self, registry: dict[Any, Any], hook: Any, first: bool = False) -> None:
        self.registry = registry
        later = dict(registry) if first else {}
        for each in later:
            del registry[each]
        registry[self] = hook
        registry.update(later)

    def remove(self) -> None:
        self.registry.pop(self, None)
