"""How long the values of a step live, and what memory that takes at least.

A view counts as the value whose memory it lies in. Arguments, parameters and other memory from
outside (that of buckets too) are apart. A gradient lives on after the step, and so does a result.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from minidp.graph.line import ARGUMENT, COMPUTED, Value

if TYPE_CHECKING:
    from minidp.graph.graph import Graph


def ends(graph: Graph) -> dict[Value, int]:
    """For each value with memory of its own, arguments included, the number of the line after
    which no one needs that memory; the number of lines for what outlives the step."""
    last: dict[Value, int] = {}
    for number, line in enumerate(graph.lines):
        for value in [*line.values(), *line.outputs]:
            if value.root.kind in (ARGUMENT, COMPUTED):
                last[value.root] = number
    for value in _kept(graph):
        if value.root in last:
            last[value.root] = len(graph.lines)
    return last


def _kept(graph: Graph) -> Iterable[Value]:
    yield from graph.results
    for line in graph.lines:
        if line.node is not None:
            yield from line.values()


def starts(graph: Graph) -> dict[Value, int]:
    """For each value that takes memory of its own in the step, the line that makes it."""
    return {
        value: number
        for number, line in enumerate(graph.lines) if line.call is None
        for value in line.outputs if value.root is value
    }  # fmt: skip


def freed(graph: Graph) -> list[list[Value]]:
    """For each line, the values whose memory nobody needs after it."""
    found: list[list[Value]] = [[] for _ in graph.lines]
    made = starts(graph)
    for value, number in ends(graph).items():
        if number < len(found) and value in made:
            found[number].append(value)
    return found


def alive(graph: Graph) -> list[int]:
    """For each line, the bytes of all values that are alive while it runs: what it is given, what
    it gives, and what later lines need. The largest is a lower bound of the step's memory."""
    last, change = ends(graph), [0] * (len(graph.lines) + 1)
    for value, number in starts(graph).items():
        change[number] += value.nbytes
        if last[value] < len(graph.lines):
            change[last[value] + 1] -= value.nbytes
    totals: list[int] = []
    for each in change[:-1]:
        totals.append(each + (totals[-1] if totals else 0))
    return totals


def text(size: float) -> str:
    """A number of bytes, ``1.2 MB``."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:,.2f} GB"
