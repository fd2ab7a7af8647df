"""Running statistics in native steps: they follow those of the batch without Python.

A step that runs in Python lets them follow when it is accepted, once for all replicas; see
``minidp.functional.statistics``, whose arithmetic this is. Natively one replica does it, behind the
meeting from which on a step has happened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from operator import is_
from typing import Any

import numpy as np

from minidp.errors import GraphError
from minidp.functional.statistics import (
    follow,
    follow_layer,
    gather,
    moments_of,
    sums_of,
    toward,
    when_accepted,
)
from minidp.graph.appended import append
from minidp.graph.line import Line, Value
from minidp.graph.placing import Placing
from minidp.parallel.host import tree_total
from minidp.types import Array


@dataclass(eq=False)
class Follower:
    """What follows ``batch``, a mean and a variance: running statistics of a ``layer``, or such
    ``arrays``, by ``share``. ``rows`` is not 0 where the batch is that of so many rows of one
    replica, to be merged with the others'."""

    batch: Sequence[Value | None]
    layer: Any = None
    rows: int = 0
    arrays: Sequence[Array | None] = ()
    share: float | None = None

    def look(self) -> tuple[float | None, list[Array | None]]:
        """By how much the arrays follow, and which: as it is now."""
        if self.layer is None:
            return self.share, [*self.arrays]
        running = self.layer.running_mean, self.layer.running_var
        return self.layer.momentum, [None if each is None else each.array for each in running]


def follower_of(line: Line) -> Follower | None:
    """What a line that stays Python lets follow; None if it is something else.

    A GraphError where it is not known what it does when a step is accepted.
    """
    if line.call is gather:
        layer, rows, *batch, function = line.inputs
        if function is follow_layer:
            return Follower(batch, layer, rows)
    elif line.call is when_accepted:
        function, first, *rest = line.inputs
        if function is follow_layer:
            return Follower(rest, first)
        if function is follow:
            arrays = [None if each is None else each.array for each in rest[::2]]
            return Follower(rest[1::2], arrays=arrays, share=first)
    else:
        return None
    raise GraphError(f"{line} stays Python")


class Merged:
    """A layer's statistics, of which each replica has those of its rows: what all give for them."""

    def __init__(self, own: Sequence[Follower]) -> None:
        mean, _ = own[0].batch
        assert mean is not None
        self.own, self.dtype = own, mean.dtype
        self.sums = [np.zeros((3, *mean.shape)) for _ in own]

    def append_sums(self, placing: Placing, rank: int) -> None:
        """Append what a replica gives."""
        rows, batch = self.own[rank].rows, self.own[rank].batch

        def lay(xp: Any, mean: Array, var: Array, sums: Array) -> None:
            given = sums_of(rows, mean.astype(np.float64), var.astype(np.float64))
            for place, values in zip(sums, given, strict=True):
                place[...] = values

        append(placing, lay, [value for value in batch if value is not None], [self.sums[rank]])

    def append(self, placing: Placing, share: float, running: Sequence[Array]) -> None:
        """Append that the running statistics follow those of all rows."""
        rows = sum(each.rows for each in self.own)

        def move(xp: Any, mean: Array, var: Array, *sums: Array) -> None:
            for old, new in zip((mean, var), moments_of(rows, *tree_total(sums)), strict=True):
                toward(old, new.astype(self.dtype), share)

        append(placing, move, (), [*running, *self.sums])


class Followers:
    """What follows in steps of one kind, by the lines of each replica; the one that ``leads`` lets
    it follow, for all."""

    def __init__(self, found: Sequence[Sequence[Follower]], leads: int) -> None:
        self.leads, self._all = leads, found[leads]
        self._seen = [each.look() for each in self._all]
        if any(share is None for share, _ in self._seen):
            raise GraphError("running statistics are plain averages: each step has another share")
        merged = [[each for each in own if each.rows] for own in found]
        layers = [[each.layer for each in own] for own in merged]
        if any(own != layers[0] for own in layers) or len({*layers[0]}) < len(layers[0]):
            raise GraphError("statistics are gathered of other layers, or twice of one")
        self._merged = {own[leads]: Merged(own) for own in zip(*merged, strict=True)}

    @property
    def meets(self) -> bool:
        """Whether replicas read what others wrote, when a step is accepted."""
        return bool(self._merged)

    def same(self) -> bool:
        """Whether the same arrays follow, by as much."""
        now = [each.look() for each in self._all]
        return all(a == b and all(map(is_, x, y))
                   for (a, x), (b, y) in zip(now, self._seen, strict=True))  # fmt: skip

    def check_unread(self, placing: Placing) -> None:
        """A GraphError if a step reads what follows: another replica may be ahead."""
        used = {memory for note in placing.notes for _, memory, _ in note.slots
                if getattr(memory, "fixed", None) is not None}  # fmt: skip
        changed = [each for _, arrays in self._seen for each in arrays if each is not None]
        if any(np.may_share_memory(memory.fixed, each) for memory in used for each in changed):
            raise GraphError("it reads running statistics, which follow when a step is accepted")

    def append_sums(self, placing: Placing, rank: int) -> None:
        """Append what a replica gives for the statistics of all."""
        for each in self._merged.values():
            each.append_sums(placing, rank)

    def append(self, placing: Placing) -> None:
        """Append that the running statistics follow."""
        for each, (share, arrays) in zip(self._all, self._seen, strict=True):
            assert share is not None
            if each in self._merged:
                running = [array for array in arrays if array is not None]
                self._merged[each].append(placing, share, running)
                continue
            for old, new in zip(arrays, each.batch, strict=True):
                if old is not None and new is not None:
                    append(placing, partial(_move, share), [new], [old])

    def commit(self, steps: int) -> None:
        """Count so many steps."""
        for each in self._all:
            if each.layer is not None:
                each.layer.num_batches_tracked.array += steps
                for buffer in each.layer.buffers(recurse=False):
                    buffer.changed()


def _move(share: float, xp: Any, new: Array, old: Array) -> None:
    toward(old, new, share)
