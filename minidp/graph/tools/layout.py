"""Where the lines of a captured step stand in its picture.

Two columns: forward at the left going down, backward at the right going up. What the rules of a
module's ops computed stands beside the module's forward, so both share a *band* of rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from minidp.graph.line import Line

if TYPE_CHECKING:
    from minidp.graph.graph import Graph


@dataclass
class Band:
    """The rows of one module: its forward lines and, in the order they run, its backward ones."""

    path: str
    forward: list[Line] = field(default_factory=list)
    backward: list[Line] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """How many rows it needs."""
        return max(len(self.forward), len(self.backward), 1)


def bands(graph: Graph) -> list[Band]:
    """All bands from top to bottom. Lines that set gradients are not among them."""
    shown = [line for line in graph.lines if line.node is None]
    ahead = [line for line in shown if line.phase == "forward"]
    result = [Band(path, list(lines)) for path, lines in groupby(ahead, lambda line: line.path)]
    result = result or [Band("")]
    at = len(result) - 1
    for line in (line for line in shown if line.phase == "backward"):
        at = _band(result, line.path, at)
        result[at].backward.append(line)
    after = [line for line in shown if line.phase == "update"]
    return [Band("update", [], after), *result] if after else result


def _band(bands: list[Band], path: str, at: int) -> int:
    """Which band backward lines of ``path`` belong to, when those before went to band ``at``."""
    upwards = list(range(at, -1, -1)) + list(range(len(bands) - 1, at, -1))
    return next((i for i in upwards if bands[i].path == path), at) if path else at


@dataclass
class Spot:
    """Row (from the top, band headings counted) and column (0 forward, 1 backward) of a line."""

    row: float
    column: int


GAP = 0.55
"""Rows between two bands."""


def spots(found: list[Band], first: float) -> tuple[dict[Line, Spot], list[float]]:
    """The place of each line, and the row at which each band begins, then the last one's end."""
    places: dict[Line, Spot] = {}
    tops, row = [], first
    for band in found:
        tops.append(row)
        places |= {line: Spot(row + i, 0) for i, line in enumerate(band.forward)}
        bottom = row + band.rows - 1
        places |= {line: Spot(bottom - i, 1) for i, line in enumerate(band.backward)}
        row += band.rows + GAP
    return places, [*tops, row]
