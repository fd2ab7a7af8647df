"""Sums over replicas in the midst of native steps, such as those of batch normalisation.

Each replica lays its array where all see it and meets the others; then each adds all, in the order
of ``all_reduce``. What it laid there stays until the next step: before that one writes to it, all
have met once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minidp.errors import GraphError
from minidp.graph.appended import noted
from minidp.graph.line import Line
from minidp.graph.noted import Noted, Recording
from minidp.parallel.host import tree_total
from minidp.types import Array


def is_exchange(line: Line) -> bool:
    """Whether a line adds an array over replicas."""
    return line.op is not None and line.op.name == "all_reduce" and line.device == "cpu"


class Exchanges:
    """The memory of all sums in a step, from the lines of each replica that make them."""

    def __init__(self, recordings: Sequence[Recording], native: Any, meeting: Any) -> None:
        self.native, self.meeting = native, meeting
        lines = [[each.line for each in one.lines if is_exchange(each.line)] for one in recordings]
        kinds = [[_kind(line) for line in own] for own in lines]
        if any(own != kinds[0] for own in kinds):
            raise GraphError("replicas add other things up in the midst of a step")
        self._laid = [[np.zeros(shape, dtype) for _ in recordings] for _, shape, dtype in kinds[0]]

    def noted(self, recording: Recording, rank: int) -> Recording:
        """The lines of a replica, of which those that are exchanges run natively, too."""
        laid = iter(self._laid)
        lines = [self._noted(recording, each.line, rank, next(laid)) if is_exchange(each.line)
                 else each for each in recording.lines]  # fmt: skip
        return Recording(recording.graph, lines, recording.layouts, recording.taken,
                         recording.cells)  # fmt: skip

    def _noted(
        self, recording: Recording, line: Line, rank: int, laid: list[Array]
    ) -> Noted:  # fmt: skip
        notes = self.native.Notes()
        given = noted(self.native, recording, _lay, line.inputs, [laid[rank]])
        found = noted(self.native, recording, _add, line.outputs, laid)
        notes.taken += [*given.notes.taken, self.meeting.note(rank), *found.notes.taken]
        return Noted(line, notes)


def _kind(line: Line) -> tuple[Any, ...]:
    (value,) = line.inputs
    return line.constants["name"], value.shape, value.dtype


def _lay(xp: Any, x: Array, laid: Array) -> None:
    laid[...] = x


def _add(xp: Any, total: Array, *laid: Array) -> None:
    total[...] = tree_total(laid)
