"""Backward that computes a part of forward again."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

from minidp import random
from minidp.arguments import refuse
from minidp.errors import GraphError
from minidp.graph.watch import Relay, Watch
from minidp.mode import mode, switched
from minidp.node import Node
from minidp.op import Op
from minidp.tensor import Tensor

__all__ = ["checkpoint", "checkpoint_sequential"]


def checkpoint(
    function: Any, *args: Any, use_reentrant: bool | None = None,
    preserve_rng_state: bool = True, **kwargs: Any,
) -> Any:  # fmt: skip
    """``function(*args, **kwargs)`` whose intermediate values are not kept, but computed again
    when backward comes by: memory for time. Source: Chen et al. 2016, arXiv 1604.06174.

    The function must compute the same again; random numbers are drawn again as they were. What
    counts calls, such as running statistics, counts both, as in PyTorch. ``use_reentrant`` is
    taken and means nothing.
    """
    again = _Again(function, args, kwargs, preserve_rng_state)
    result, nodes = again.run()
    again.forget(nodes)
    return result


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
) -> Any:  # fmt: skip
    """A Sequential, or a list of functions, in ``segments`` parts, all but the last of them by
    ``checkpoint``."""
    each = list(functions.children() if hasattr(functions, "children") else functions)
    known = 1 <= segments <= len(each)
    refuse(not known, f"checkpoint_sequential: {segments} segments of {len(each)} functions")
    size = len(each) // segments

    def part(x: Any, layers: list[Any]) -> Any:
        return reduce(lambda value, layer: layer(value), layers, x)

    last = size * (segments - 1)
    for start in range(0, last, size):
        input = checkpoint(part, input, each[start : start + size],
                           preserve_rng_state=preserve_rng_state)  # fmt: skip
    return part(input, each[last:])


class _Again:
    """One call of a function, to be repeated for what its nodes would have kept."""

    def __init__(self, function: Any, args: Any, kwargs: Any, preserve: bool) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs
        self.state = _generator().get_state() if preserve else None
        self.names: list[str] = []
        self.places: list[Any] = []

    def run(self) -> tuple[Any, list[Node]]:
        """The result, and the nodes that were recorded for it, in order."""
        with switched(watch=_Recorder(mode.watch)):
            return self.function(*self.args, **self.kwargs), mode.watch.nodes  # type: ignore[union-attr]

    def forget(self, nodes: list[Node]) -> None:
        """Let go of what the nodes keep."""
        self.names = _names(nodes)
        for node in nodes:
            later = _Later(self)
            self.places.append(weakref.ref(later))
            node.saved = later if node.saved else node.saved  # type: ignore[assignment]

    def remember(self) -> None:
        """Compute once more, and give those that are still waiting what they asked for."""
        generator = _generator()
        now = generator.get_state()
        try:
            generator.set_state(self.state or now)
            with switched(grad=True):
                nodes = self.run()[1]
        finally:
            generator.set_state(now if self.state else generator.get_state())
        names = _names(nodes)
        if names != self.names:
            raise GraphError(
                f"checkpoint: the function recorded {len(names)} ops in backward and "
                f"{len(self.names)} in forward, or others; it must compute the same both times"
            )
        for place, node in zip(self.places, nodes, strict=True):
            later = place()
            if later is not None:
                later.values, later.again = node.saved, None


class _Recorder(Relay):
    """Lists the nodes that are recorded."""

    def __init__(self, outer: Watch | None) -> None:
        super().__init__(outer)
        self.nodes: list[Node] = []

    def ran(
        self, op: Op, inputs: Sequence[Any], constants: dict[str, Any], results: Sequence[Any],
        tensors: Sequence[Tensor],
    ) -> None:  # fmt: skip
        """Ops by which a parameter enters a replica's graph are its own, whoever meets it first."""
        node = tensors[op.differentiable[0]].node if op.differentiable and tensors else None
        if node is not None and op.name not in ("broadcast", "unpack"):
            self.nodes.append(node if node.slot is None else node.parents[0])
        super().ran(op, inputs, constants, results, tensors)


class _Later:
    """What a node will have kept, once it is asked for."""

    def __init__(self, again: _Again) -> None:
        self.again: _Again | None = again
        self.values: Any = None

    def _found(self) -> Any:
        if self.again is not None:
            self.again.remember()
        return self.values

    def __getitem__(self, i: int) -> Any:
        return self._found()[i]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._found())


def _names(nodes: list[Node]) -> list[str]:
    return [node.op.name for node in nodes if node.op is not None]


def _generator() -> random.Generator:
    return random.default_generator if mode.replica is None else mode.replica.generator
