"""The Python source of a bound step: native stretches in one call each, Python between them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from minidp.graph.bound import Binding
from minidp.graph.graph import Graph
from minidp.graph.line import ARGUMENT, COMPUTED, Line, Value, keys_of
from minidp.graph.placing import Stretch
from minidp.graph.source import Source
from minidp.types import Array


class BoundSource(Source):
    """Writes a step that runs on a ``Copy`` of a ``Binding``."""

    def __init__(self, graph: Graph, constants: dict[Value, Array], binding: Binding) -> None:
        super().__init__(graph, constants)
        self.binding, self.placing = binding, binding.placing
        self.places_of = {value: number for number, value in enumerate(
            value for output in self.placing.outputs for value in output.values)}  # fmt: skip
        self.names |= {"binding": binding, "fitted": fitted, "asarray": np.asarray}
        self.names["run"] = binding.native.drive()
        self.named: dict[Any, str] = {}
        """By their memory, the names of what Python has computed."""
        self.used = {memory for note in self.placing.notes for _, memory, _ in note.slots}

    def written(self) -> Source:
        graph, placing = self.graph, self.placing
        self.write(f"def step({', '.join(map(self.name, graph.arguments))}):")
        self.write("    c = binding.take()")
        self.write("    try:")
        self.write("        c.renew(); n = c.names; o = c.arrays")
        self.begin("        ")
        for value in [*graph.arguments, *graph.gradients(), *self.copied]:
            self._name_outside(value)
        count = 0
        for piece in placing.pieces:
            if isinstance(piece, Stretch):
                self._stretch(piece, count)
                count += 1
            else:
                self._python(piece)
        self.draw("        ", len(graph.keys))
        self.write(f"        return {self.results()}")
        self.write("    finally:")
        self.write("        c.leave()")
        self._let_go()
        return self

    def array(self, value: Value) -> str:
        place = self.places_of.get(value)
        return self.name(value) if place is None else f"o[{place}]"

    def draw(self, margin: str, count: int) -> None:
        first = self.drawn
        super().draw(margin, count)
        for key in self.graph.keys[first:count]:
            self.write(f"{margin}c.key({key.number}, {key})")

    def _name_outside(self, value: Value) -> None:
        """Tell the stretches where an array from outside is."""
        recording = self.placing.recording
        where = recording.layouts.get(value)
        if where is None or where.memory not in self.used or value not in recording.taken:
            return
        name, number = self.name(value), self.placing.numbers[where.memory]
        if where.shape == ():  # Python may give a number
            self.write(f"        {name} = asarray({name})")
        if value.kind != ARGUMENT:
            layout = self.known("l", (where.shape, where.strides, where.dtype))
            unlike = (f"{name}.strides != {layout}[1] or {name}.shape != {layout}[0] "
                      f"or {name}.dtype is not {layout}[2]")  # fmt: skip
            self.write(f"        if {unlike}: {name} = fitted({name}, *{layout})")
        if value.kind == COMPUTED:
            self.named[where.memory] = name
        self.write(f"        n[{number}] = id({name})")

    def _stretch(self, stretch: Stretch, number: int) -> None:
        lines = [each.line for each in stretch.lines]
        keys = [key.number + 1 for line in lines for key in keys_of(line)]
        self.draw("        ", max(keys, default=0))
        needed = [memory for note in self.placing.notes[stretch.first : stretch.last]
                  for _, memory, _ in note.slots]  # fmt: skip
        used = ", ".join(self.named[each] for each in dict.fromkeys(needed) if each in self.named)
        self.write(f"        e = run(c.at[{number}])  # {used}", lines[0])
        self.write(f"        if e >= 0: binding.again(c, {number}, e)", lines[0])
        for line in stretch.gradients:
            self._python(line)

    def _python(self, line: Line) -> None:
        self.draw("        ", max([key.number + 1 for key in keys_of(line)], default=0))
        self.write(f"        {self.call(line)}", line)
        for value in line.outputs:
            self._name_outside(value)

    def _let_go(self) -> None:
        """Drop what Python has computed after its last use."""
        last: dict[str, int] = {}
        for number, text in enumerate(self.lines):
            last |= dict.fromkeys(re.findall(r"\bv\d+\b", text), number)
        ends = {number: [n for n, at in last.items() if at == number] for number in last.values()}
        for number in sorted(ends, reverse=True):
            if self.lines[number].startswith("        return"):
                continue
            text = f"        del {', '.join(ends[number])}"
            self.lines.insert(number + 1, text)
            self.places.insert(number + 1, self.places[number])


def fitted(array: Any, shape: Any, strides: Any, dtype: Any) -> Array:
    """An array that came in another layout than in the run that was noted, in that."""
    given = np.asarray(array)
    if given.shape != shape or given.dtype != dtype:
        raise ValueError(
            f"an array {given.dtype}{list(given.shape)} where the captured step had "
            f"{dtype}{list(shape)}"
        )
    return given if given.strides == strides or given.size < 2 else laid(given, strides)


def laid(array: Array, strides: tuple[int, ...]) -> Array:
    """A copy with other strides."""
    size = array.itemsize + sum(
        (n - 1) * abs(s) for n, s in zip(array.shape, strides, strict=True)
    )
    first = sum((n - 1) * -s for n, s in zip(array.shape, strides, strict=True) if s < 0)
    result = np.ndarray(array.shape, array.dtype, np.empty(size, np.uint8), first, strides)
    result[...] = array
    return result


