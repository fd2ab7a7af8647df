"""The first run of a captured step's lines on the CPU, in which each is noted if it can be.

What is noted can be repeated without Python: see ``kernels/cpu/native.py``. The other lines stay
Python: collectives, updates, the user's own ops, and what has no notes yet. A note is believed only
if it gives the bytes that the line gives, also on other values and in other memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minidp.backend import CPU
from minidp.calling import callable_of
from minidp.formula import Fused, evaluate
from minidp.graph import Graph
from minidp.line import COMPUTED, GRADIENT, STATE, Key, Line, Value
from minidp.promotion import promoted
from minidp.tensor import wrap
from minidp.types import Array


@dataclass(eq=False)
class Noted:
    """A line, its notes (None: it stays Python), and why."""

    line: Line
    notes: Any = None
    reason: str = ""


@dataclass(eq=False)
class Recording:
    """Lines that were run once; ``arrays`` are traced, and say where each value lies."""

    graph: Graph
    lines: list[Noted] = field(default_factory=list)
    arrays: dict[Value, Array] = field(default_factory=dict)
    cells: list[Array] = field(default_factory=list)
    """For each random key of the step, where kernels find its words."""


class FirstRun:
    """Runs the lines of a graph on real arrays, with all that they do, and takes notes."""

    def __init__(self, graph: Graph, native: Any, constants: dict[Value, Array]) -> None:
        self.graph, self.native, self.constants = graph, native, constants
        self.recording = Recording(graph)
        self.keys: list[Any] = []
        self.recording.cells = [native.origin(np.zeros(4, np.uint64)) for _ in graph.keys]
        self.plain: dict[Value, Array] = {}

    def run(self, arrays: Sequence[Array]) -> tuple[Any, ...]:
        """The results of the step."""
        for value, array in zip(self.graph.arguments, arrays, strict=True):
            self._take(value, array)
        copied = dict.fromkeys(self.graph.copied())
        for value in self.graph.outside():
            if value.kind == GRADIENT:
                assert value.node is not None and value.node.grad is not None
                self._take(value, value.node.grad.array)
            elif value.kind == STATE:
                array = self.constants.get(value, value.array)
                self._take(value, np.array(array) if value in copied else array)
        for line in self.graph.lines:
            self._draw(max([key.number + 1 for key in keys_of(line)], default=0))
            try:
                self.recording.lines.append(self._run(line))
            except Exception as error:
                error.add_note(whereabouts(line))
                raise
        self._draw(len(self.graph.keys))
        return tuple(wrap(self.plain[value]) for value in self.graph.results)

    def _take(self, value: Value, array: Array) -> None:
        """``array`` comes from outside of what is noted."""
        self.plain[value] = array
        if type(array) is np.ndarray:
            self.recording.arrays[value] = self.native.origin(array)

    def _draw(self, count: int) -> None:
        for key in self.graph.keys[len(self.keys) : count]:
            self.keys.append(key.generator.next_key())
            self.recording.cells[key.number][:] = words_of(self.keys[-1])

    def _run(self, line: Line) -> Noted:
        if line.node is not None:
            value = line.inputs[0]
            line.node.grad = None if value is None else wrap(self.plain[value])
            return Noted(line)
        if not may_be_noted(line):
            self._python(line)
            return Noted(line, reason="it is Python")
        notes = self._noted(line)
        if notes.problem is not None:
            self._python(line)
            return Noted(line, reason=notes.problem)
        return Noted(line, notes)

    def _python(self, line: Line) -> None:
        """Run a line as Python does."""
        function, live = callable_of(line)
        named = {name: self._value(each) for name, each in live.items()}
        y = function(*map(self._value, line.inputs), **named)
        results = y if len(line.outputs) > 1 or isinstance(y, tuple) else (y,)
        for value, array in zip(line.outputs, results, strict=False):
            self._take(value, array)

    def _value(self, given: Any) -> Any:
        if isinstance(given, Value):
            return self.plain[given]
        if isinstance(given, Key):
            return self.keys[given.number]
        return tuple(map(self._value, given)) if isinstance(given, tuple) else given

    def _noted(self, line: Line) -> Any:
        """The notes of a line, with a problem where it cannot be repeated; its results."""
        parts: list[Value | Key] = [*dict.fromkeys(line.values()), *dict.fromkeys(keys_of(line))]
        arrays = [self._traced(part) for part in parts]
        function = computed(line, parts)
        results, notes = self.native.note(function, arrays)
        if len(results) != len(line.outputs):
            notes.refuse("it gives another number of results")
        if notes.problem is None and not self.native.verified(
            notes, arrays, results, lambda *given: function(np, *given)
        ):
            notes.refuse("its notes give something else")
        if notes.problem is None:
            for value, y in zip(line.outputs, results, strict=True):
                self.plain[value] = self.native.plain(y)
                self.recording.arrays[value] = self.native.as_traced(y)
        return notes

    def _traced(self, part: Value | Key) -> Array:
        if isinstance(part, Key):
            return self.recording.cells[part.number]
        return self.recording.arrays[part]


def may_be_noted(line: Line) -> bool:
    """Whether a line only computes, on the CPU, by what is minidp's own."""
    op = line.op
    if op is None or line.device != "cpu" or op.writes:
        return False
    return isinstance(op, Fused) or (op.own and not op.exchanges)


def computed(line: Line, parts: Sequence[Value | Key]) -> Callable[..., Any]:
    """What a line does, as a function of an array module and of the arrays of ``parts``."""
    op: Any = line.op

    def compute(xp: Any, *given: Array) -> Any:
        arrays = dict(zip(parts, given, strict=True))
        inputs = [_filled(each, arrays) for each in line.inputs]
        if isinstance(op, Fused):
            y = NotImplemented if op.kernel is None else op.kernel(*inputs, formula=op.formula)
            return evaluate(op.formula, inputs, xp) if y is NotImplemented else y
        constants = {name: _filled(each, arrays) for name, each in line.constants.items()}
        inputs = promoted(op, inputs)
        kernel = CPU.kernel(op.name)
        y = NotImplemented if kernel is None else kernel(*inputs, **constants)
        return op.body(xp, *inputs, **constants) if y is NotImplemented else y

    return compute


def _filled(given: Any, arrays: dict[Any, Array]) -> Any:
    if isinstance(given, (Value, Key)):
        return arrays[given]
    return tuple(_filled(each, arrays) for each in given) if type(given) is tuple else given


def keys_of(line: Line) -> list[Key]:
    """The random keys that a line is given."""
    parts = [part for each in line.constants.values()
             for part in (each if type(each) is tuple else (each,))]  # fmt: skip
    return [part for part in parts if isinstance(part, Key)]


def words_of(key: tuple[int, int, int]) -> list[int]:
    """A random key as four words of 32 bits: of the seed the low and the high one, draw, step."""
    seed, step, draw = key
    return [value & 0xFFFFFFFF for value in (seed, seed >> 32, draw, step)]


def whereabouts(line: Line | None) -> str:
    """What an error is told about where in a captured step it happened."""
    where = f", of module {line.path}" if line is not None and line.path else ""
    return f"in the captured step, at {line}{where}"


def computed_by(recording: Recording) -> dict[Value, Noted]:
    """Which line makes each value."""
    return {y: each for each in recording.lines for y in each.line.outputs if y.kind == COMPUTED}
