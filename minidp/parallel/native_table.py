"""One replica's table of native calls for a step of the scheduler, and its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minidp.errors import GraphError
from minidp.graph.appended import append, append_note
from minidp.graph.bound import Binding, Copy
from minidp.graph.line import Line, Value
from minidp.graph.placing import Placing
from minidp.parallel import native_lines as lines
from minidp.parallel.ends import BucketEnd
from minidp.parallel.host import tree_sum
from minidp.parallel.native_copies import near
from minidp.parallel.native_update import Update
from minidp.types import Array

if TYPE_CHECKING:
    from minidp.parallel.native_step import NativeStep, Stripped

MOST = 1000
"""Steps in one native call, at most."""
BLOCK, SMALL, BLOCKS = 2**14, 2**11, 32
"""Elements that are added and updated before others, and how many of small models, all of which is
in the second cache; a large bucket is cut into so many parts."""


def _clear(xp: Any, gradient: Array) -> None:
    gradient[...] = 0


def _copy(xp: Any, total: Array, gradient: Array) -> None:
    total[...] = gradient


class Table:
    """One replica's table: its rows have the addresses of the arrays of each step."""

    updated: int | None = None
    """The entry at which all have done what belongs to a step, if they need to know."""

    def __init__(self, step: NativeStep, rank: int, found: Stripped) -> None:
        self.step, self.rank, self.native = step, rank, step.native
        self.ends, graph = step.ends[rank], found.recording.graph
        self.placing = Placing(found.recording, self.native, drawn=True)
        self.own = step.copies[rank].of
        """Gives the copy of an array that this replica updates."""
        step.followers.check_unread(self.placing)
        if step.finite:
            append(self.placing, self._require_finite, graph.results)
        self.computed: list[tuple[Any, int, int]] = []
        """Memory of cotangents that are computed in a bucket: which, and of which parameter."""
        self.cells: dict[Any, Array] = {}
        """Memory that is named for each step, and the array that was given for it."""
        for pack in found.packs:
            self._append_pack(pack)
        packed = [pack.call.__self__ for pack in found.packs]  # type: ignore[union-attr]
        for place, end in enumerate(self.ends):
            if end not in packed:
                self._append(_clear, gradient=place)
        starts = step.starts[rank]
        arguments = graph.arguments[: len(starts)]
        self.following = lines.ask_for_rows(self.placing, arguments, starts)
        """Memory that is an argument of the next step, and which."""
        for place, total in enumerate(step.cells if step.apart else ()):
            self._append(_copy, cells=[total], gradient=place)
        step.followers.append_sums(self.placing, rank)
        self._append_meeting()
        slices = self._blocks(1) if step.gradients and near(self.ends) else []
        if step.apart:
            self.cells |= lines.take_gradients(self.placing, step.given[1 - rank])
        else:
            lines.take_parameters(self.placing, self.ends, slices)
        self._append_updates()
        if rank == step.followers.leads:
            step.followers.append(self.placing)
        if not step.apart or step.followers.meets:
            self._append_meeting()
            self.updated = len(self.placing.notes) - 1
        if not step.apart:
            self.cells |= lines.take_back(self.placing, self.ends, step.given[rank], slices)
        shifts = dict(zip(map(self.placing.memory, arguments), starts, strict=True))
        shifts |= {memory: step.copies[rank].behind(memory.fixed) for memory in
                   [each.memory for each in found.recording.layouts.values()]
                   if memory.fixed is not None}  # fmt: skip
        self.binding = Binding(self.placing, shifts)
        if not self.binding.whole or not self.placing.possible:
            raise GraphError("it is not one native call")
        self.copy = Copy(self.binding)
        self._begin_rows(graph.results[0], found)
        self.arguments = [self._column(value) for value in arguments]
        self.meetings = [number for number, note in enumerate(self.placing.notes)
                         if note.keeps is step.meeting]  # fmt: skip
        """The entries at which replicas meet."""
        self.agreed = len(self.placing.notes) if step.apart else self._first_change()
        """The entry from which on a step changes the totals of the one before."""

    def _append(
        self, function: Callable[..., Any], values: Sequence[Value] = (),
        arrays: Sequence[Array] = (), cells: Sequence[Array] = (), gradient: int | None = None,
    ) -> None:  # fmt: skip
        """Append a function, which is given this replica's ``gradient`` of a bucket last."""
        cells = [*cells]
        if gradient is not None:
            cells.append(self.step.given[self.rank][gradient])
        named = append(self.placing, function, values, arrays, cells)
        self.cells |= dict(zip(named, cells, strict=True))

    def _append_pack(self, line: Line) -> None:
        end: BucketEnd = line.call.__self__  # type: ignore[union-attr]
        (numbers, *cotangents), place = line.inputs, self.ends.index(end)
        given = dict(zip(numbers, cotangents, strict=True))
        done = [i for i, value in given.items() if self._computed_in(value, place, i)]
        copied = [i for i in given if i not in done]

        def pack(xp: Any, *arrays: Array) -> None:
            for i, view in enumerate(end.bucket.views(arrays[-1])):
                if i not in done:
                    view[...] = arrays[copied.index(i)] if i in given else 0

        self._append(pack, [given[i] for i in copied], gradient=place)

    def _computed_in(self, value: Value, place: int, number: int) -> bool:
        """Let a cotangent be computed where it is to lie."""
        layout = self.placing.recording.layouts[value]
        memory, views = layout.memory, self.ends[place].bucket.views(self.step.cells[place])
        if self.placing.lasts(memory) or memory.behind:
            return False
        view = views[number]
        if (memory.size, layout.strides, layout.dtype) != (view.nbytes, view.strides, view.dtype):
            return False
        self.placing.outside[memory] = None
        self.computed.append((memory, place, number))
        return True

    def _require_finite(self, xp: Any, *arrays: Array) -> None:
        for array in arrays:
            self.native.all_finite(array)

    def _append_meeting(self) -> None:
        append_note(self.placing, self.step.meeting.note(self.rank))

    def _append_updates(self) -> None:
        """Add this replica's slices of all gradients and update them. Block by block, which stay in
        cache, unless all sums are to be inspected first. The last block first: of its gradients,
        which were computed last, most is in cache."""
        finite = self.step.finite
        for place, part in self._blocks(1) if finite else ():
            self._append_sum(place, part)
            self._append(lambda xp, total, part=part: self._require_finite(xp, total[part]),
                         cells=[self.step.cells[place]])  # fmt: skip
        if finite and not self.step.apart:
            self._append_meeting()
        for place, part in reversed(self._blocks(1 if finite else BLOCKS)):
            if not finite:
                self._append_sum(place, part)
            for update in self.step.updates:
                if update.place == place:
                    self._append_update(update, part)

    def _blocks(self, most: int) -> lines.Slices:
        """This replica's slice of each bucket, in at most so many blocks of a bucket."""
        if self.step.apart:
            return lines.slices_of(self.ends, 0, 1, most, SMALL)
        return lines.slices_of(self.ends, self.rank, len(self.step.ends), most, BLOCK)

    def _append_sum(self, place: int, part: slice) -> None:
        def add(xp: Any, *arrays: Array) -> None:
            *slices, total = [array[part] for array in arrays]
            tree_sum(slices, total)

        if self.step.gradients:
            given, total = [cells[place] for cells in self.step.given], self.step.cells[place]
            if self.step.apart:
                given[self.rank] = total
            self._append(add, cells=[*given, total])

    def _append_update(self, update: Update, block: slice) -> None:
        """Append the update of what a block has of a run of parameters."""
        part = slice(max(update.start, block.start), min(update.stop, block.stop))

        def run(xp: Any, p: Array, *rest: Array) -> None:
            *state, total, numbers = rest
            update.run(xp, p, total[part], *state, numbers)

        if part.start < part.stop:
            arrays = [self.ends[update.place].memory.data, *update.state(slice(None))]
            arrays = [self.own(each)[part] for each in arrays]
            self._append(run, arrays=arrays, cells=[self.step.cells[update.place], update.cell])

    # The rows: for each step, the addresses of array objects

    def _begin_rows(self, loss: Value, found: Stripped) -> None:
        self.copy.renew()
        self.rows = np.tile(self.copy.bound.objects, (MOST, 1))
        self._first_row = self.native.start(self.rows)
        self.kept: list[list[Array]] = []
        """What rows name: it must live on."""
        for value, (place, i) in found.held.items():
            array = self.own(self.ends[place].memory.data)
            views = [*self.ends[place].bucket.views(array), array]
            self._name(self._column(value), [views[i]])
        self._name_cells()
        for memory, words in zip(found.recording.cells, self.step.keys, strict=True):
            self._name(self.placing.numbers[memory], [*words])
        layout, column = found.recording.layouts[loss], self._column(loss)
        if column is None:
            raise GraphError("its loss is a constant")
        size = max(layout.memory.size, layout.dtype.itemsize)
        held = np.zeros((MOST, -(-size // 8) * 8), np.uint8)
        self._name(column, list(held))
        self.losses = np.ndarray(MOST, layout.dtype, held, layout.offset, held.strides[:1])
        told = found.recording.graph.arguments[len(self.step.starts[self.rank]) :]
        self.told = np.zeros((MOST, 1), told[0].dtype if told else np.float32)
        for value in told:
            self._name(self._column(value), list(self.told))

    def _name_cells(self) -> None:
        """Name gradients and the numbers of updates; find the columns of totals."""
        columns, step = self.placing.numbers, self.step
        self.totals: list[tuple[int, int, int]] = []
        """Columns that each call names: of a bucket's total, or of one parameter's part of it."""
        for memory, place, i in self.computed:
            if step.gradients:
                turns = step.gradients[self.rank][place]
                views = [self.ends[place].bucket.views(turn)[i] for turn in turns]
                self._name(columns[memory], views)
            else:
                self.totals.append((columns[memory], place, 1 + i))
        known: dict[int, list[Array]] = {}
        for cells, turns in zip(step.given, step.gradients, strict=False):  # one replica has none
            known |= zip(map(id, cells), turns, strict=True)
        known |= {id(update.cell): [*update.numbers] for update in step.updates}
        places = {id(cell): place for place, cell in enumerate(step.cells)}
        for memory, cell in self.cells.items():
            if id(cell) in known:
                self._name(columns[memory], known[id(cell)])
            elif self.rank and step.apart:
                self._name(columns[memory], [cell])
            else:
                self.totals.append((columns[memory], places[id(cell)], 0))

    def _first_change(self) -> int:
        columns, numbers = {column for column, _, _ in self.totals}, self.placing.numbers
        notes = enumerate(self.placing.notes)
        return next((number for number, note in notes
                     if any(numbers.get(memory) in columns for _, memory, _ in note.slots)),
                    len(self.placing.notes))  # fmt: skip

    def _column(self, value: Value) -> int | None:
        layout = self.placing.recording.layouts.get(value)
        return None if layout is None else self.placing.numbers.get(layout.memory)

    def _name(self, column: int | None, arrays: list[Array]) -> None:
        """Name arrays for the steps, over and over in turn."""
        if column is not None:
            self.kept.append(arrays)
            self.rows[:, column] = np.resize([id(array) for array in arrays], MOST)

    def give(self, names: Sequence[Array], denominators: Array) -> None:
        """Name the arrays of the steps by the addresses of array objects, which the caller keeps;
        and what their means divide by, where that is told."""
        for column, addresses in zip(self.arguments, names, strict=True):
            if column is not None:
                self.rows[: len(addresses), column] = addresses
        for memory, i in self.following:
            self.rows[: len(names[i]), self.placing.numbers[memory]] = names[i][1:] + names[i][-1:]
        self.told[: len(denominators), 0] = denominators

    def name_totals(self, taken: Sequence[Sequence[list[Array]]], count: int) -> None:
        """Name the memory of totals for so many steps, of each bucket some in turn; the caller
        keeps it."""
        for column, place, number in self.totals:
            names = [id(piece[number]) for piece in taken[place]]
            self.rows[:count, column] = np.resize(names, count) if len(names) > 1 else names[0]

    def ready(self, count: int) -> int:
        """Make ready so many steps; the address of the header of what is to be run."""
        address: int = self.copy.bound.ready(self._first_row, count)
        return address

    def done(self, entry: int, count: int) -> int:
        """How many of so many steps were made, where the entry has stopped, or -1."""
        if entry < 0:
            return count
        return int(self.copy.bound.rounds_done()) + (entry == self.updated)

    def spoiled(self, entry: int) -> bool:
        """Whether a step that stopped there, undone, had changed the sums of the one before."""
        return self.agreed <= entry != self.updated

    def found(self, count: int) -> Array:
        """The losses of the steps."""
        found: Array = self.losses[:count].astype(np.float64)
        return found
