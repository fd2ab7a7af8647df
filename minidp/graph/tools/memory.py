"""The memory of a captured step: what its values need at least, and what a replay takes."""

from __future__ import annotations

import copy
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from minidp.graph.line import Line
from minidp.graph.program import Program
from minidp.graph.tools import lifetimes
from minidp.graph.tools.profile import arrays
from minidp.graph.tools.text import expression
from minidp.types import Array

if TYPE_CHECKING:
    from minidp.graph.graph import Graph


@dataclass(frozen=True)
class Memory:
    """Bytes, arguments, parameters and buckets apart.

    ``bound`` is the largest sum of all values that are alive at once; ``peak`` what NumPy had at
    most in a replay, kernels' own scratch included (None on other devices); ``place`` the line at
    which the bound is reached.
    """

    bound: int
    peak: int | None
    place: str

    @property
    def ratio(self) -> float | None:
        """peak / bound."""
        return None if self.peak is None else self.peak / max(1, self.bound)

    def __str__(self) -> str:
        bound = f"lower bound {lifetimes.text(self.bound)}, at {self.place}"
        if self.peak is None:
            return f"{bound}; the peak is measured on the CPU only"
        return f"{bound}; peak {lifetimes.text(self.peak)}; ratio {self.ratio:.2f}"

    __repr__ = __str__


def memory(graph: Graph, arguments: Sequence[Any]) -> Memory:
    """The bound, and the peak of one replay without effects."""
    alive = lifetimes.alive(graph)
    bound = max(alive, default=0)
    place = expression(graph.lines[alive.index(bound)]) if alive else "no line"
    here = all(line.device == "cpu" for line in graph.lines)
    return Memory(bound, peak(graph, arrays(graph, arguments)) if here else None, place)


def peak(graph: Graph, given: Sequence[Array]) -> int:
    """The most that a replay takes above what was there before."""
    held: list[Array] = []
    program = Program(harmless(graph, held))
    for _ in range(2):  # kernels make their scratch memory; then the step is bound to memory
        program(given)
        held.clear()
    ours = not tracemalloc.is_tracing()
    if ours:
        tracemalloc.start(1)
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        program(given)
        return tracemalloc.get_traced_memory()[1] - before + program.nbytes()
    finally:
        held.clear()
        if ours:
            tracemalloc.stop()


def harmless(graph: Graph, held: list[Array]) -> Graph:
    """The graph with lines that only compute: gradients are ``held`` instead of set, what other
    pieces of Python give is a stand-in made now, random keys are made up."""
    changed = copy.copy(graph)
    changed.lines = [_harmless(line, held) for line in graph.lines]
    changed.keys = [replace(key, generator=Fixed(key.number)) for key in graph.keys]
    return changed


@dataclass(frozen=True)
class Fixed:
    """Stands for a random generator: always gives the same key."""

    number: int

    def next_key(self) -> tuple[int, int, int]:
        """(seed, step, draw)."""
        return 0, 0, self.number


def _harmless(line: Line, held: list[Array]) -> Line:
    if line.node is not None:
        return replace(line, node=None, call=held.append, tensors=[False])
    if line.op is not None:
        return line
    given = [np.zeros(output.shape, output.dtype) for output in line.outputs]
    call = _giving(given[0] if given else None)
    return replace(line, call=call, tensors=[False] * len(line.inputs))


def _giving(result: Any) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        return result

    return call
