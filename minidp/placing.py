"""Where the values of a noted step lie, and which of its lines run natively, in how many calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from minidp.line import COMPUTED, STATE, Line, Value
from minidp.noted import Noted, Recording, computed_by, keys_of
from minidp.types import Array


@dataclass(eq=False)
class Stretch:
    """Lines that run natively in one call; gradients that they make are set behind it."""

    lines: list[Noted] = field(default_factory=list)
    gradients: list[Line] = field(default_factory=list)
    first: int = 0
    last: int = 0
    """Its notes: from the first to before the last."""


@dataclass(eq=False)
class Output:
    """Memory that is given away: who has it may keep it, so it is new where somebody does."""

    origin: Array
    values: list[Value] = field(default_factory=list)


class Placing:
    """``pieces`` are, in order, Stretches and Python lines; ``notes`` all notes in them.

    An origin is an array that stands for some memory. ``outside`` are those that each run has
    anew: arguments, what Python gives, keys, outputs. ``spans`` are those of the memory between.
    """

    def __init__(self, recording: Recording, native: Any) -> None:
        self.recording, self.native = recording, native
        self.python = {each.line for each in recording.lines if each.notes is None}
        self.outside: dict[int, Array] = {}
        self._fixed: dict[int, Array] = {}
        self.possible = True
        """Whether the step can be bound; not where a line gives fresh memory beside such views."""
        self._set_apart()
        self.pieces: list[Stretch | Line] = []
        self.notes: list[Any] = []
        self._cut()
        self.outputs = self._given_away()
        for output in self.outputs:
            self.outside[id(output.origin)] = output.origin
        self.numbers = {key: number for number, key in enumerate(self.outside)}
        self.spans: dict[tuple[int, int], tuple[int, int, Array]] = {}
        self._lines = [n for n, each in enumerate(self._natively()) for _ in each.notes.taken]
        self._held = {id(self.origin(value)) for value in recording.arrays}
        self._find_spans()

    def origin(self, value: Value) -> Array:
        return self.native.origin_of(self.recording.arrays[value])

    def _set_apart(self) -> None:
        """Say what comes from outside. Views of it that Python sees are Python's, too."""
        makers = computed_by(self.recording)
        for cell in self.recording.cells:
            self.outside[id(cell)] = cell
        for value in self.recording.arrays:
            if value.kind == STATE and value not in self.recording.graph.copied():
                self._fixed[id(self.origin(value))] = self.origin(value)
            elif value.kind != COMPUTED or makers[value].line in self.python:
                self.outside[id(self.origin(value))] = self.origin(value)
        pending = list(self.seen())
        while pending:
            maker = makers.get(pending.pop())
            if maker is None or maker.line in self.python:
                continue
            origins = [self.origin(value) for value in maker.line.outputs]
            known = [id(origin) in {**self.outside, **self._fixed} for origin in origins]
            if any(known):
                self.python.add(maker.line)
                pending += maker.line.values()
                self.possible = self.possible and all(known)

    def seen(self) -> dict[Value, None]:
        """The values that Python is given."""
        lines = [line for line in self.recording.graph.lines
                 if line in self.python or line.node is not None]  # fmt: skip
        used = [value for line in lines for value in line.values()]
        return dict.fromkeys([*used, *self.recording.graph.results])

    def _cut(self) -> None:
        """Random keys are drawn before a stretch; nothing in it that may fail is before them."""
        stretch, keys, guarded = None, 0, False
        for each in self.recording.lines:
            if each.line in self.python and each.line.node is None:
                self.pieces.append(each.line)
                stretch = None
            elif each.line.node is not None:
                (stretch.gradients if stretch is not None else self.pieces).append(each.line)
            elif each.notes.taken:
                drawn = max([key.number + 1 for key in keys_of(each.line)], default=0)
                if stretch is None or (guarded and drawn > keys):
                    stretch, guarded = Stretch(first=len(self.notes)), False
                    self.pieces.append(stretch)
                keys = max(keys, drawn)
                guarded = guarded or any(note.guards for note in each.notes.taken)
                stretch.lines.append(each)
                self.notes += each.notes.taken
                stretch.last = len(self.notes)
                self._fixed |= each.notes.fixed

    def _given_away(self) -> list[Output]:
        makers, found = computed_by(self.recording), dict[int, Output]()
        for value in self.seen():
            if value.kind == COMPUTED and makers[value].line not in self.python:
                origin = self.origin(value)
                found.setdefault(id(origin), Output(origin)).values.append(value)
        return list(found.values())

    def _natively(self) -> list[Noted]:
        return [each for stretch in self.stretches() for each in stretch.lines]

    def key(self, origin: Array, note: int) -> tuple[int, int]:
        """What memory is told by: that of a value, or that in which one line works."""
        return id(origin), -1 if id(origin) in self._held else self._lines[note]

    def _find_spans(self) -> None:
        for number, note in enumerate(self.notes):
            for _, origin, _ in note.slots:
                if isinstance(origin, self.native.Array) and not self.lasts(origin):
                    key = self.key(origin, number)
                    first = self.spans.get(key, (number,))[0]
                    self.spans[key] = first, number, origin

    def lasts(self, origin: Array) -> bool:
        """Whether memory is from outside, or always the same."""
        return id(origin) in self.outside or id(origin) in self._fixed

    def stretches(self) -> list[Stretch]:
        return [piece for piece in self.pieces if isinstance(piece, Stretch)]

    def line_of(self, stretch: Stretch, entry: int) -> tuple[Line, int]:
        """The line whose note has this number in a stretch, and that of the next line's first."""
        end = 0
        for each in stretch.lines:
            end += len(each.notes.taken)
            if entry < end:
                return each.line, end
        raise IndexError(entry)
