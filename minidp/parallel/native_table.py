"""One replica's table of native calls for a step of the scheduler, and its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from minidp.appended import append, append_note
from minidp.bound import Binding, Copy
from minidp.errors import GraphError
from minidp.line import Line, Value
from minidp.parallel.communicator import bounds
from minidp.parallel.ends import BucketEnd
from minidp.parallel.host import tree_sum
from minidp.parallel.native_update import Update
from minidp.placing import Placing
from minidp.types import Array

if TYPE_CHECKING:
    from minidp.parallel.native_step import NativeStep, Stripped

MOST = 1000
"""Steps in one native call, at most."""
BLOCK, BLOCKS = 2**14, 32
"""Elements that are added and updated before others; a large bucket is cut into so many parts."""


def _add(xp: Any, *arrays: Array) -> None:
    *parts, total = arrays
    tree_sum(parts, total)


def _clear(xp: Any, gradient: Array) -> None:
    gradient[...] = 0


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
        self.computed: list[tuple[Any, Array]] = []
        """Memory of cotangents that are computed in a bucket, and where."""
        for pack in found.packs:
            self._append_pack(pack)
        packed = [pack.call.__self__ for pack in found.packs]  # type: ignore[union-attr]
        for end, gradient in zip(self.ends, step.gradients[rank], strict=True):
            if end not in packed:
                append(self.placing, _clear, [], [gradient])
        self._append_meeting()
        self.agreed = len(self.placing.notes)
        """The entry from which on the sums of a step change."""
        cells = self._append_updates()
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
        (places, *cotangents), gradient = line.inputs, self.step.gradients[self.rank]
        flat = gradient[self.ends.index(end)]
        given = dict(zip(places, cotangents, strict=True))
        for i, view in enumerate(end.bucket.views(flat)):
            if i in given and self._computed_in(given[i], view):
                given[i] = None
        copied = [i for i, value in given.items() if value is not None]

        def pack(xp: Any, *arrays: Array) -> None:
            for i, view in enumerate(end.bucket.views(arrays[-1])):
                if i in copied or i not in given:
                    view[...] = arrays[copied.index(i)] if i in given else 0

        append(self.placing, pack, [given[i] for i in copied], [flat])

    def _computed_in(self, value: Value, view: Array) -> bool:
        """Let a cotangent be computed where it is to lie. Not with one replica alone, where the
        last step's sum lies there, which a step that stops must not change."""
        layout = self.placing.recording.layouts[value]
        memory = layout.memory
        if len(self.step.ends) == 1 or self.placing.lasts(memory) or memory.behind:
            return False
        if (memory.size, layout.strides, layout.dtype) != (view.nbytes, view.strides, view.dtype):
            return False
        self.placing.outside[memory] = None
        self.computed.append((memory, view))
        return True

    def _require_finite(self, xp: Any, *arrays: Array) -> None:
        for array in arrays:
            self.native.all_finite(array)

    def _append_meeting(self) -> None:
        self.meetings.append(len(self.placing.notes))
        append_note(self.placing, self.step.meeting.note(self.rank))

    def _append_updates(self) -> list[tuple[Update, Any]]:
        """Add this replica's slices of all gradients and update them; the memory of numbers. Block
        by block, which stay in cache, unless all sums are to be inspected first."""
        finite, cells = self.step.finite, []
        if finite:
            own = [self._append_sum(place, part) for place, part in self._blocks(1)]
            append(self.placing, self._require_finite, [], own)
            self._append_meeting()
        for place, part in self._blocks(1 if finite else BLOCKS):
            if not finite:
                self._append_sum(place, part)
            cells += [(update, memory) for update in self.step.updates if update.place == place
                      for memory in self._append_update(update, part)]  # fmt: skip
        return cells

    def _blocks(self, most: int) -> Iterator[tuple[int, slice]]:
        """This replica's slice of each bucket, in blocks: at most so many of a bucket."""
        for place, end in enumerate(self.ends):
            cuts = bounds(end.bucket.size, len(self.step.ends))
            first, last = cuts[self.rank], cuts[self.rank + 1]
            count = min(most, -(-(last - first) // BLOCK))
            inside = bounds(last - first, count) if count else []
            yield from ((place, slice(first + i, first + j)) for i, j in pairwise(inside))

    def _append_sum(self, place: int, part: slice) -> Array:
        slices = [gradients[place][part] for gradients in self.step.gradients]
        total = self.step.totals[place][part]
        append(self.placing, _add, [], [*slices, total])
        return total

    def _append_update(self, update: Update, block: slice) -> list[Any]:
        """Append the update of what a block has of a run of parameters."""
        part = slice(max(update.start, block.start), min(update.stop, block.stop))
        if part.start >= part.stop:
            return []
        gradient = self.step.totals[update.place]
        arrays = [self.ends[update.place].memory.data[part], gradient[part], *update.state(part)]
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
        for memory, view in self.computed:
            self._name(self.placing.numbers[memory], [view] * MOST)
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
