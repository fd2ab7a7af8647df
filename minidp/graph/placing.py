"""Where the values of a noted step lie, and which of its lines run natively, in how many calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from minidp.graph.line import COMPUTED, Line, Value, keys_of
from minidp.graph.noted import Noted, Recording, computed_by


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

    memory: Any
    values: list[Value] = field(default_factory=list)


class Placing:
    """``pieces`` are, in order, Stretches and Python lines; ``notes`` all notes in them.

    ``numbers`` has the memory that each run has anew: arguments, what Python gives, keys, outputs.
    ``spans`` has the first and the last note of all other that is not always the same.
    """

    def __init__(self, recording: Recording, native: Any, drawn: bool = False) -> None:
        """``drawn``: all random keys are known when the step begins, also if it fails."""
        self.recording, self.native, self.drawn = recording, native, drawn
        self.python = {each.line for each in recording.lines if each.notes is None}
        self.outside = dict[Any, None]()
        self.cells: dict[int, Any] = {}
        """What was appended so far knows of arrays that are named for each run."""
        self.possible = True
        """Whether the step can be bound; not where a line gives fresh memory beside such views."""
        self._set_apart()
        self.pieces: list[Stretch | Line] = []
        self.notes: list[Any] = []
        self._cut()
        self.outputs: list[Output] = []
        self.numbers: dict[Any, int] = {}
        self.spans: dict[Any, tuple[int, int]] = {}

    def append(self, noted: Noted) -> None:
        """Let the step do more natively at its end; before it is ``settled``."""
        if not self.pieces or not isinstance(self.pieces[-1], Stretch):
            self.pieces.append(Stretch(first=len(self.notes)))
        stretch = self.stretches()[-1]
        stretch.lines.append(noted)
        self.notes += noted.notes.taken
        stretch.last = len(self.notes)

    def settled(self) -> Placing:
        """Number all memory, and find how long each piece is needed."""
        self.cells.clear()
        self.outputs = self._given_away()
        self.outside |= dict.fromkeys(output.memory for output in self.outputs)
        self.numbers = {memory: number for number, memory in enumerate(self.outside)}
        self._find_spans()
        return self

    def memory(self, value: Value) -> Any:
        return self.recording.layouts[value].memory

    def _set_apart(self) -> None:
        """Say what comes from outside. Views of it that Python sees are Python's, too."""
        makers = computed_by(self.recording)
        self.outside |= dict.fromkeys(self.recording.cells)
        for value in self.recording.layouts:
            maker = makers.get(value)  # None: whoever binds the step has left that line out
            python = value.kind != COMPUTED or maker is None or maker.line in self.python
            if python and self.memory(value).fixed is None:
                self.outside[self.memory(value)] = None
        pending = list(self.seen())
        while pending:
            maker = makers.get(pending.pop())
            if maker is None or maker.line in self.python:
                continue
            known = [self.lasts(self.memory(value)) for value in maker.line.outputs]
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
                if stretch is None or (guarded and drawn > keys and not self.drawn):
                    stretch, guarded = Stretch(first=len(self.notes)), False
                    self.pieces.append(stretch)
                keys = max(keys, drawn)
                guarded = guarded or any(note.guards for note in each.notes.taken)
                stretch.lines.append(each)
                self.notes += each.notes.taken
                stretch.last = len(self.notes)

    def _given_away(self) -> list[Output]:
        makers, found = computed_by(self.recording), dict[Any, Output]()
        for value in self.seen():
            if value.kind == COMPUTED and makers[value].line not in self.python:
                memory = self.memory(value)
                found.setdefault(memory, Output(memory)).values.append(value)
        return list(found.values())

    def _find_spans(self) -> None:
        for number, note in enumerate(self.notes):
            for _, memory, _ in note.slots:
                if isinstance(memory, self.native.Memory) and not self.lasts(memory):
                    first, _ = self.spans.get(memory, (number, number))
                    self.spans[memory] = first, number

    def lasts(self, memory: Any) -> bool:
        """Whether memory is from outside, or always the same."""
        return memory in self.outside or memory.fixed is not None

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
