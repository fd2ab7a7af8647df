"""A captured step of the scheduler as tables that run many steps in one native call per replica.

Behind forward and backward a replica's table has what the scheduler does in Python else: it packs
gradients into buckets, meets the others, adds its slice of all, updates it, and meets them again.
The kernels, and the order of the sums, are those of the eager step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minidp.appended import append, append_note
from minidp.bound import Binding, Copy
from minidp.device import cores
from minidp.errors import GraphError
from minidp.line import InReplica, Line, Value
from minidp.noted import Recording
from minidp.parallel.communicator import bounds
from minidp.parallel.ends import BucketEnd
from minidp.parallel.host import tree_sum
from minidp.parallel.inspections import require_finite_loss
from minidp.parallel.native_update import Update, updates_of
from minidp.placing import Placing
from minidp.program import Program, native_calls
from minidp.tensor import Tensor
from minidp.types import Array

MOST = 256
"""Steps in one native call, at most."""


@dataclass
class Stripped:
    """The lines of a captured step that run natively, and what the others were.

    ``packs`` gave the cotangents of a bucket; ``held`` are arrays that Python found."""

    recording: Recording
    packs: list[Line] = field(default_factory=list)
    held: dict[Value, Array] = field(default_factory=dict)


def stripped(recording: Recording) -> Stripped:
    """A GraphError where a line has to stay Python that is none of the scheduler's."""
    graph = recording.graph
    lines = [each for each in recording.lines if each.notes is not None]
    result = Stripped(Recording(graph, lines, recording.layouts, recording.taken, recording.cells))
    for line in [each.line for each in recording.lines if each.notes is None]:
        function = getattr(line.call, "__func__", line.call)
        if function is BucketEnd._pack:
            result.packs.append(line)
        elif line.op is not None and line.op.name in ("broadcast", "unpack"):
            end = line.constants["bucket"]
            arrays = (end.values,) if line.op.name == "broadcast" else end.views(end.values)
            result.held |= dict(zip(line.outputs, arrays, strict=True))
        elif function not in (BucketEnd._start, require_finite_loss):
            raise GraphError(f"{line} stays Python")
    keys = [key for key in graph.keys if not isinstance(key.generator, InReplica)]
    if keys or graph.gradients() or graph.copied() or len(graph.results) != 1:
        raise GraphError("it has gradients, constants or random numbers that are made in Python")
    return result


class NativeStep:
    """The tables of all replicas for one kind of batch, and the memory that they share.

    A GraphError if it cannot be made of these programs.
    """

    def __init__(
        self, programs: Sequence[Program], ends: Sequence[Sequence[BucketEnd]], optimizer: Any,
        starts: Sequence[Sequence[int]], finite: bool, deadline: float,
    ) -> None:  # fmt: skip
        self.seconds = 0.0
        """What a step took last; 0: none was made."""
        self.starts = starts
        """For each replica, and array of a batch, at which byte its rows begin."""
        self.programs, self.ends, self.optimizer = list(programs), ends, optimizer
        self.finite, self.native, size = finite, native_calls(), len(ends)
        bindings = [program.binding for program in programs]
        if any(binding is None for binding in bindings):
            raise GraphError("it is not bound")
        found = [stripped(binding.placing.recording) for binding in bindings if binding is not None]
        spins = {} if size <= cores() else {"spins": 50}
        self.meeting = self.native.Meeting(size, deadline, **spins)
        self.gradients = [
            [np.zeros(end.bucket.size, end.bucket.dtype) for end in own] for own in ends
        ]
        first = self.gradients[0]
        self.totals = first if size == 1 else [np.zeros_like(each) for each in first]
        """The sums of the last step that all have given gradients for."""
        packs = [pack for each in found for pack in each.packs]
        reached = {(pack.call.__self__.bucket.index, i)  # type: ignore[union-attr]
                   for pack in packs for i in pack.inputs[0]}  # fmt: skip
        self.used = [[(end.bucket.index, i) in reached for i in range(len(end.bucket.parameters))]
                     for end in ends[0]]  # fmt: skip
        self.updates = updates_of(optimizer, ends[0], self.used, MOST)
        self.keys = [np.zeros((MOST, 4), np.uint64) for _ in found[0].recording.cells]
        self.tables = [Table(self, rank, each) for rank, each in enumerate(found)]

    def fits(self, finite: bool) -> bool:
        """Whether inspections and the update are the same, but for numbers: then it
        knows what the optimiser's state has seen."""
        if finite is not self.finite:
            return False
        now = updates_of(self.optimizer, self.ends[0], self.used, 0)
        if [update.key for update in self.updates] != [update.key for update in now]:
            return False
        for update, found in zip(self.updates, now, strict=True):
            update.taken = found.taken
            update.state(slice(0))  # takes over what the caller has changed
        return True

    def draw(self, seed: int, first: int, count: int) -> None:
        """Set the random keys of steps from the number ``first`` on; see ``noted.words_of``."""
        steps = np.arange(first, first + count) & 0xFFFFFFFF
        for draw, words in enumerate(self.keys):
            words[:count, :3] = seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF, draw
            words[:count, 3] = steps


    def commit(self, steps: int, whole: bool) -> None:
        """What so many steps leave behind: gradients, and the optimiser's state. Gradients are
        forgotten unless the sums are ``whole``: a sum that was not finite came later."""
        for end, reached, total in zip(self.ends[0], self.used, self.totals, strict=True):
            views = end.bucket.views(total.copy())
            for p, view, there in zip(end.bucket.parameters, views, reached, strict=True):
                p.grad = Tensor(view) if there and whole else None
                p.changed()
        for update in self.updates:
            update.advance(steps)


def _add(xp: Any, *arrays: Array) -> None:
    *parts, total = arrays
    tree_sum(parts, total)


class Table:
    """One replica's table: its rows have the addresses of the arrays of each step."""

    def __init__(self, step: NativeStep, rank: int, found: Stripped) -> None:
        self.step, self.rank, self.native = step, rank, step.native
        self.ends, graph = step.ends[rank], found.recording.graph
        self.placing = Placing(found.recording, self.native, drawn=True)
        self.meetings: list[int] = []
        """The entries at which replicas meet; at the last one all have updated their slices."""
        if step.finite:
            append(self.placing, self._require_finite, graph.results)
        for pack in found.packs:
            self._append_pack(pack)
        self._append_meeting()
        self.agreed = len(self.placing.notes)
        """The entry from which on the sums of a step change."""
        self._append_sums()
        cells = [(update, memory) for update in step.updates for memory in self._updated(update)]
        self._append_meeting()
        arguments = graph.arguments[: len(step.starts[rank])]
        shifts = {self.placing.memory(value): start for value, start in
                  zip(arguments, step.starts[rank], strict=True)}  # fmt: skip
        self.binding = Binding(self.placing, shifts)
        if not self.binding.whole or not self.placing.possible:
            raise GraphError("it is not one native call")
        self.copy = Copy(self.binding)
        self.copy.renew()
        self._begin_rows(graph.results[0], found, cells)
        self.arguments = [self._column(value) for value in arguments]

    def _append_pack(self, line: Line) -> None:
        end: BucketEnd = line.call.__self__  # type: ignore[union-attr]
        place, (given, *cotangents) = self.ends.index(end), line.inputs

        def pack(xp: Any, *arrays: Array) -> None:
            views = end.bucket.views(arrays[-1])
            for i, view in enumerate(views):
                view[...] = arrays[given.index(i)] if i in given else 0

        append(self.placing, pack, cotangents, [self.step.gradients[self.rank][place]])

    def _require_finite(self, xp: Any, *arrays: Array) -> None:
        for array in arrays:
            self.native.all_finite(array)

    def _append_meeting(self) -> None:
        if len(self.step.ends) > 1:
            self.meetings.append(len(self.placing.notes))
            append_note(self.placing, self.step.meeting.note(self.rank))

    def _append_sums(self) -> None:
        """Add this replica's slices of all gradients."""
        size, own = len(self.step.ends), []
        for place, end in enumerate(self.ends):
            cuts = bounds(end.bucket.size, size)
            part = slice(cuts[self.rank], cuts[self.rank + 1])
            if part.start < part.stop:
                slices = [gradients[place][part] for gradients in self.step.gradients]
                own.append(self.step.totals[place][part])
                append(self.placing, _add, [], [*slices, own[-1]])
        if self.step.finite:
            append(self.placing, self._require_finite, [], own)
            self._append_meeting()

    def _updated(self, update: Update) -> list[Any]:
        """Append the update of what is this replica's of a run of parameters."""
        end = self.ends[update.place]
        cuts = bounds(end.bucket.size, len(self.step.ends))
        first, last = cuts[self.rank], cuts[self.rank + 1]
        part = slice(max(update.start, first), min(update.stop, last))
        if part.start >= part.stop:
            return []
        gradient = self.step.totals[update.place]
        arrays = [end.memory.data[part], gradient[part], *update.state(part)]
        return append(self.placing, update.run, [], arrays, [update.numbers[0]])

    # The rows: for each step, the addresses of array objects

    def _begin_rows(
        self, loss: Value, found: Stripped, cells: Sequence[tuple[Update, Any]]
    ) -> None:
        self.rows = np.tile(self.copy.bound.objects, (MOST, 1))
        self.kept: list[list[Array]] = []
        """What rows name: it must live on."""
        for value, array in found.held.items():
            self._name(self._column(value), [array] * MOST)
        for update, memory in cells:
            self._name(self.placing.numbers[memory], list(update.numbers))
        for memory, words in zip(found.recording.cells, self.step.keys, strict=True):
            self._name(self.placing.numbers[memory], list(words))
        layout, column = found.recording.layouts[loss], self._column(loss)
        if column is None:
            raise GraphError("its loss is a constant")
        size = max(layout.memory.size, layout.dtype.itemsize)
        self.losses = np.zeros((MOST, -(-size // 8) * 8), np.uint8)
        self._name(column, list(self.losses))
        self.loss = layout
        step, graph = self.step, found.recording.graph
        told = graph.arguments[len(step.starts[self.rank]) :]
        self.told = np.zeros((MOST, 1), told[0].dtype if told else np.float32)
        for value in told:
            self._name(self._column(value), list(self.told))

    def _column(self, value: Value) -> int | None:
        layout = self.placing.recording.layouts.get(value)
        return None if layout is None else self.placing.numbers.get(layout.memory)

    def _name(self, column: int | None, arrays: list[Array]) -> None:
        if column is None:
            return
        self.kept.append(arrays)
        self.rows[: len(arrays), column] = [id(array) for array in arrays]

    def give(self, names: Sequence[Array], denominators: Array) -> None:
        """Name the arrays of the steps by the addresses of array objects, which the caller keeps;
        and what their means divide by, where that is told."""
        for column, addresses in zip(self.arguments, names, strict=True):
            if column is not None:
                self.rows[: len(addresses), column] = addresses
        self.told[: len(denominators), 0] = denominators

    def run(self, count: int) -> tuple[int, int]:
        """Run so many steps; how many were made, and at which entry it has stopped, or -1."""
        entry = self.copy.bound.run(rows=self.rows[:count])
        if entry < 0:
            return count, -1
        return self.copy.bound.rounds_done() + (entry in self.meetings[-1:]), entry

    def spoiled(self, entry: int) -> bool:
        """Whether a step that stopped there, undone, had changed the sums of the one before."""
        return self.agreed <= entry and entry not in self.meetings[-1:]

    def found(self, count: int) -> Array:
        """The losses of the steps."""
        first, size = self.loss.offset, self.loss.dtype.itemsize
        held = np.ascontiguousarray(self.losses[:count, first : first + size])
        return held.view(self.loss.dtype).reshape(count).astype(np.float64)
