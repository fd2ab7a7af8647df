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
from minidp.graph.calling import callable_of
from minidp.graph.formula import Fused, evaluate
from minidp.graph.graph import Graph
from minidp.graph.line import COMPUTED, GRADIENT, STATE, Key, Line, Value, keys_of
from minidp.promotion import promoted
from minidp.tensor import wrap
from minidp.types import Array, DType, Shape


@dataclass(eq=False)
class Noted:
    """A line, its notes (None: it stays Python), and why."""

    line: Line
    notes: Any = None
    reason: str = ""


@dataclass(eq=False)
class Layout:
    """Where a value lies: in some memory, from a byte on."""

    memory: Any
    offset: int
    shape: Shape
    dtype: DType
    strides: tuple[int, ...]


@dataclass(eq=False)
class Recording:
    """Lines that were run once, and where each value lies."""

    graph: Graph
    lines: list[Noted] = field(default_factory=list)
    layouts: dict[Value, Layout] = field(default_factory=dict)
    taken: dict[Value, None] = field(default_factory=dict)
    """The values whose array is found anew in each run."""
    cells: list[Any] = field(default_factory=list)
    """For each random key of the step, the memory in which kernels find its words."""


class FirstRun:
    """Runs the lines of a graph on real arrays, with all that they do, and takes notes.

    Arrays are let go after their last use, as in every run: notes are about memory, not arrays.
    """

    def __init__(self, graph: Graph, native: Any, constants: dict[Value, Array]) -> None:
        self.graph, self.native, self.constants = graph, native, constants
        self.recording = Recording(graph)
        self.keys: list[Any] = []
        self.plain: dict[Value, Array] = {}
        self.traced: dict[Value | int, Array] = {}
        """Values, and by their numbers the words of random keys."""
        self._memory: dict[int, tuple[Array, Any]] = {}
        """By the ids of their origins, which it keeps alive, the memory of traced arrays."""
        for number in range(len(graph.keys)):
            self.traced[number] = native.origin(np.zeros(4, np.uint64))
            self.recording.cells.append(self._memory_of(self.traced[number]))

    def run(self, arrays: Sequence[Array]) -> tuple[Any, ...]:
        """The results of the step."""
        self._begin(arrays)
        for line, dead in zip(self.graph.lines, self.graph.last_uses(), strict=True):
            self._draw(max([key.number + 1 for key in keys_of(line)], default=0))
            try:
                self.recording.lines.append(self._run(line))
            except Exception as error:
                error.add_note(whereabouts(line))
                raise
            self._let_go(dead)
        self._draw(len(self.graph.keys))
        return tuple(wrap(self.plain[value]) for value in self.graph.results)

    def _begin(self, arrays: Sequence[Array]) -> None:
        for value, array in zip(self.graph.arguments, arrays, strict=True):
            self._take(value, array)
        copied = dict.fromkeys(self.graph.copied())
        for value in self.graph.outside():
            if value.kind == GRADIENT:
                assert value.node is not None and value.node.grad is not None
                self._take(value, value.node.grad.array)
            elif value.kind == STATE:
                array = self.constants.get(value, value.array)
                self._take(value, np.array(array) if value in copied else array,
                           fixed=value not in copied)  # fmt: skip

    def _take(self, value: Value, array: Array, fixed: bool = False) -> None:
        """``array`` comes from outside of what is noted."""
        self.plain[value] = array
        if type(array) is np.ndarray:
            self._place(value, self.native.origin(array), fixed)
            self.recording.taken |= {} if fixed else {value: None}

    def _place(self, value: Value, array: Array, fixed: bool = False) -> None:
        """Write down where a value lies."""
        self.traced[value] = array
        origin = self.native.origin_of(array)
        offset = self.native.start(array) - self.native.low(origin)
        self.recording.layouts[value] = Layout(
            self._memory_of(origin, fixed), offset, array.shape, array.dtype, array.strides
        )

    def _memory_of(self, origin: Array, fixed: bool = False) -> Any:
        if id(origin) not in self._memory:
            self._memory[id(origin)] = origin, self.native.Memory(origin, fixed)
        return self._memory[id(origin)][1]

    def _let_go(self, dead: Sequence[Value]) -> None:
        """Forget values, and the memory that no other one is in."""
        for value in dead:
            self.plain.pop(value, None)
            self.traced.pop(value, None)
        alive = {id(self.native.origin_of(array)) for array in self.traced.values()}
        self._memory = {key: known for key, known in self._memory.items() if key in alive}

    def _draw(self, count: int) -> None:
        for key in self.graph.keys[len(self.keys) : count]:
            self.keys.append(key.generator.next_key())
            self.native.plain(self.traced[key.number])[:] = words_of(self.keys[-1])

    def _run(self, line: Line) -> Noted:
        if line.node is not None:
            value = line.inputs[0]
            line.node.grad = None if value is None else wrap(self.plain[value])
            return Noted(line)
        parts: list[Value | Key] = [*dict.fromkeys(line.values()), *dict.fromkeys(keys_of(line))]
        keys = [part.number if isinstance(part, Key) else part for part in parts]
        if not may_be_noted(line) or any(key not in self.traced for key in keys):
            self._python(line)
            return Noted(line, reason="it is Python")
        notes = self._noted(line, parts, [self.traced[key] for key in keys])
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
            self._take(value, np.asarray(array) if isinstance(array, np.generic) else array)

    def _value(self, given: Any) -> Any:
        if isinstance(given, Value):
            return self.plain[given]
        if isinstance(given, Key):
            return self.keys[given.number]
        return tuple(map(self._value, given)) if isinstance(given, tuple) else given

    def _noted(self, line: Line, parts: Sequence[Value | Key], arrays: list[Array]) -> Any:
        """The notes of a line, with a problem where it cannot be repeated; its results."""
        function = computed(line, parts)
        results, notes = self.native.note(function, arrays)
        if len(results) != len(line.outputs):
            notes.refuse("it gives another number of results")
        self._verify(notes, arrays, results, lambda *given: function(np, *given))
        if notes.problem is None:
            for value, y in zip(line.outputs, results, strict=True):
                self.plain[value] = self.native.plain(y)
                self._place(value, self.native.as_traced(y))
            for note in notes.taken:
                note.slots = [(word, self._settled(origin, notes.fixed), offset)
                              for word, origin, offset in note.slots]  # fmt: skip
            notes.fresh, notes.fixed = {}, {}
        return notes

    def _verify(
        self, notes: Any, arrays: list[Array], results: list[Array], function: Callable[..., Any]
    ) -> None:
        """Refuse notes that do not do what the line does; then it stays Python, and right."""
        try:
            if not self.native.verified(notes, arrays, results, function):
                notes.refuse("its notes give something else")
        except Exception as problem:
            notes.refuse(f"its notes cannot be tried: {problem!r}")

    def _settled(self, origin: Any, fixed: dict[int, Array]) -> Any:
        """The memory that an origin is; what is no array stays as it is."""
        if not isinstance(origin, self.native.Array):
            return origin
        return self._memory_of(origin, id(origin) in fixed)


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
