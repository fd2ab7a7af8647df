"""A captured step bound to memory: native stretches, with Python between them.

What a step gives away, results and gradients, lies in memory that whoever gets it may keep: a run
takes other memory where somebody still does. All else lies in one piece, planned by lifetimes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod
from sys import getrefcount
from typing import Any

import numpy as np

from minidp.graph.calling import callable_of
from minidp.graph.formula import strides_of
from minidp.graph.line import Line, Value
from minidp.graph.noted import Layout, whereabouts, words_of
from minidp.graph.placing import Output, Placing, Stretch
from minidp.tensor import wrap
from minidp.types import Array

NO_SHIFTS: Mapping[Any, int] = {}
KEPT = 3
"""How many pieces of memory are kept for an output, one of which is used at a time."""


class Binding:
    """What all bound copies of a step share; ``take`` gives a copy that nobody runs."""

    def __init__(self, placing: Placing, shifts: Mapping[Any, int] = NO_SHIFTS) -> None:
        """``shifts``: at which byte of the arrays that a run is given some memory begins; and of
        memory that is always the same, how far behind is what takes its place."""
        self._shifts = shifts
        self.placing, self.native = placing.settled(), placing.native
        self.stretches = placing.stretches()
        spans = [(*span, memory.size) for memory, span in placing.spans.items()]
        self.offsets, self.size = self.native.placed(spans)
        self._inside = {memory: number for number, memory in enumerate(placing.spans)}
        self._fixed: dict[Any, int] = {}
        self.plan = self.native.Plan(placing.notes, self._place)
        self.free: list[Copy] = []

    def _place(self, memory: Any, note: int = 0) -> tuple[int, int]:
        """The number of some memory, and how far behind its first element it begins."""
        outside = self.placing.numbers
        if memory in outside:
            return outside[memory], memory.behind + self._shifts.get(memory, 0)
        if memory in self._inside:
            return len(outside) + self._inside[memory], 0
        known = len(outside) + len(self._inside) + len(self._fixed)
        return self._fixed.setdefault(memory, known), self._shifts.get(memory, 0)

    def addresses(self, planned: Array) -> list[int]:
        """Of all memory by its number, with ``planned`` for what is planned."""
        base = self.native.start(planned)
        fixed = [memory.address() for memory in self._fixed]
        outside = [0] * len(self.placing.numbers)
        return [*outside, *[base + offset for offset in self.offsets], *fixed]

    def take(self) -> Copy:
        """A copy that nobody runs."""
        return self.free.pop() if self.free else Copy(self)

    def __str__(self) -> str:
        """What runs natively, and what stays Python, and why."""
        reasons = {each.line: each.reason for each in self.placing.recording.lines}
        text = [f"{len(self.placing.notes)} native calls, {self.size} bytes planned"]
        for piece in self.placing.pieces:
            if isinstance(piece, Stretch):
                calls = Counter(note.text for each in piece.lines for note in each.notes.taken)
                text.append(", ".join(f"{count} {name}" for name, count in calls.most_common()))
            else:
                text.append(f"Python: {piece} ({reasons.get(piece) or 'it sees a view'})")
        return "\n  ".join(text)

    @property
    def whole(self) -> bool:
        """Whether a run is one native call, but for gradients that are set behind it."""
        return len(self.placing.pieces) == 1 and len(self.stretches) == 1

    def rows(self, copy: Copy, batches: Sequence[Sequence[Array]]) -> Array:
        """What ``native.Bound.run`` takes for many runs of a whole step on a copy in one call: for
        each batch, the arguments of the step, a row of addresses of array objects. All must live
        until the call has ended; what the step gives away is that of the last run."""
        rows = np.tile(copy.bound.objects, (len(batches), 1))
        for place, value in enumerate(self.placing.recording.graph.arguments):
            number = self.placing.numbers.get(self.placing.memory(value))
            if number is not None:
                rows[:, number] = [id(batch[place]) for batch in batches]
        return rows

    def where(self, value: Value, copy: Copy) -> Array:
        """A value as an array on the memory of a copy that has run."""
        layout = self.placing.recording.layouts[value]
        memory, start = layout.memory, layout.offset
        if memory.fixed is not None:
            start += memory.address()
        elif memory in self.placing.numbers:
            start += int(copy.bound.bases[self.placing.numbers[memory]]) + memory.behind
        elif memory in self._inside:
            start += copy.addresses[self._place(memory)[0]]
        return self.native.array_at(start, layout.shape, layout.dtype, layout.strides)

    def again(self, copy: Copy, place: int, failed: int) -> None:
        """A note of a stretch has stopped: run its line in Python, which may raise, and go on."""
        stretch = self.stretches[place]
        while failed >= 0:
            line, following = self.placing.line_of(stretch, failed)
            try:
                self._run(line, copy)
            except Exception as error:
                self._set_gradients(stretch, line, copy)
                error.add_note(whereabouts(line))
                raise
            failed = copy.bound.run(place, following)

    def _run(self, line: Line, copy: Copy) -> None:
        function, live = callable_of(line)
        given = [self._given(each, copy) for each in line.inputs]
        y = function(*given, **{name: self._given(each, copy) for name, each in live.items()})
        results = y if len(line.outputs) > 1 or isinstance(y, tuple) else (y,)
        for value, array in zip(line.outputs, results, strict=True):
            self.where(value, copy)[...] = array

    def _given(self, each: Any, copy: Copy) -> Any:
        if isinstance(each, Value):
            return self.where(each, copy)
        if hasattr(each, "next_key"):
            return copy.drawn[each.number]
        return tuple(self._given(e, copy) for e in each) if isinstance(each, tuple) else each

    def _set_gradients(self, stretch: Stretch, line: Line, copy: Copy) -> None:
        """What an eager step would have set before this line."""
        lines = self.placing.recording.graph.lines
        for each in stretch.gradients:
            if lines.index(each) < lines.index(line) and each.node is not None:
                value = each.inputs[0]
                array = None if value is None else np.copy(self.where(value, copy))
                each.node.grad = None if array is None else wrap(array)


class Copy:
    """A step on memory of its own, which one thread runs at a time."""

    def __init__(self, binding: Binding) -> None:
        native, placing = binding.native, binding.placing
        self.memory = native.aligned(binding.size)
        self.addresses = binding.addresses(self.memory)
        groups = [(stretch.first, stretch.last) for stretch in binding.stretches]
        self.bound = native.Bound(binding.plan, self.addresses, len(placing.numbers), groups)
        self.names, self.at = self.bound.names, self.bound.addresses
        self.cells = [np.zeros(4, np.uint64) for _ in placing.recording.cells]
        self.drawn: list[Any] = [None] * len(self.cells)
        for cell, memory in zip(self.cells, placing.recording.cells, strict=True):
            self.names[placing.numbers[memory]] = id(cell)
        self.free, self.arrays = binding.free, list[Array]()
        self.outputs: list[Given] = []
        for output in placing.outputs:
            self._add(output, binding)
        self.nothing = list(self.arrays)

    def _add(self, output: Output, binding: Binding) -> None:
        layouts = [binding.placing.recording.layouts[value] for value in output.values]
        number, first = binding.placing.numbers[output.memory], len(self.arrays)
        self.outputs.append(Given(output.memory.size, layouts, number, first))
        self.arrays += [None] * len(layouts)

    def renew(self) -> None:
        """Let what is given away lie in memory that nobody else has."""
        arrays, names = self.arrays, self.names
        for output in self.outputs:
            for held in output.pool:
                if sum(map(getrefcount, held)) == output.unused:
                    break
            else:
                held = output.made()
            arrays[output.places] = held if output.whole else held[1:]
            names[output.number] = id(held[0])

    def leave(self) -> None:
        """The run is over: forget what was given away."""
        self.arrays[:] = self.nothing
        self.free.append(self)

    def key(self, number: int, key: Any) -> None:
        """Set a random key."""
        self.drawn[number] = key
        self.cells[number][:] = words_of(key)

    def nbytes(self) -> int:
        """The memory for values that it holds, planned or given away and back."""
        pools = [held[0].nbytes for output in self.outputs for held in output.pool]
        return int(self.memory.nbytes + sum(pools))


class Given:
    """An output's memory, and other memory for it while somebody keeps that.

    A piece of memory is a list: of the array itself, or of the owner of the memory and the arrays
    that are views of it. It is unused while nothing but its list, and the views, refer to these.
    """

    def __init__(self, size: int, layouts: Sequence[Layout], number: int, first: int) -> None:
        self.size, self.layouts, self.number = size, layouts, number
        self.places = slice(first, first + len(layouts))
        self.pool: list[list[Array]] = []
        one = layouts[0]
        dense = strides_of(one.shape, (), one.dtype.itemsize)
        full = size == one.dtype.itemsize * prod(one.shape)
        self.whole = len(layouts) == 1 and full and (one.strides, one.offset) == (dense, 0)
        self.unused = sum(map(getrefcount, self.made()))

    def made(self) -> list[Array]:
        """New memory, which takes the place of the oldest if there is enough."""
        if self.whole:
            held = [np.empty(self.layouts[0].shape, self.layouts[0].dtype)]
        else:
            owner = np.empty(self.size, np.uint8)
            placed = [() if 0 in each.shape else (each.offset, each.strides)
                      for each in self.layouts]  # fmt: skip
            held = [owner, *[np.ndarray(each.shape, each.dtype, owner, *where)
                             for each, where in zip(self.layouts, placed, strict=True)]]
            del owner
        self.pool = [*self.pool[1 - KEPT :], held]
        return held
