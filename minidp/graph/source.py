"""The Python source of a captured step: a call a line, each value let go after its last use."""

from __future__ import annotations

import linecache
import weakref
from collections.abc import Callable
from typing import Any

from minidp.graph.calling import callable_of
from minidp.graph.graph import Graph
from minidp.graph.line import COMPUTED, GRADIENT, STATE, Key, Line, Value, keys_of
from minidp.op import Op
from minidp.tensor import wrap
from minidp.types import Array


class Source:
    """Writes ``step(arguments)``: ``text``, and the line of the graph that each of its lines is."""

    def __init__(self, graph: Graph, constants: dict[Value, Array]) -> None:
        self.graph, self.constants = graph, constants
        self.names: dict[str, Any] = {}
        self._known: dict[tuple[str, int], str] = {}
        self.copied = dict.fromkeys(graph.copied())
        self.lines: list[str] = []
        self.places: list[Line | None] = []
        self.drawn = 0
        self.replayed: list[Any] = []
        """Its stretches that are CUDA graphs."""

    def write(self, text: str, line: Line | None = None) -> None:
        self.lines.append(text)
        self.places.append(line)

    def compiled(self) -> Callable[..., Any]:
        """The function that was written; tracebacks show its lines."""
        self.text, self.file = "\n".join(self.lines), f"<captured step {id(self):#x}>"
        lines = self.text.splitlines(True)
        linecache.cache[self.file] = (len(self.text), None, lines, self.file)
        weakref.finalize(self, linecache.cache.pop, self.file, None)
        exec(compile(self.text, self.file, "exec"), self.names)
        step: Callable[..., Any] = self.names["step"]
        return step

    def line_at(self, number: int) -> Line | None:
        """The line of the graph that a line of the text is."""
        return self.places[min(number, len(self.places)) - 1]

    def written(self) -> Source:
        """Write the whole step as Python."""
        graph = self.graph
        self.write(f"def step({', '.join(map(self.name, graph.arguments))}):")
        self.begin("    ")
        for line, dead in zip(graph.lines, graph.last_uses(), strict=True):
            self.draw("    ", max([key.number + 1 for key in keys_of(line)], default=0))
            self.write(f"    {self.call(line)}", line)
            if dead:
                self.write(f"    del {', '.join(map(self.name, dead))}", line)
        self.draw("    ", len(graph.keys))
        self.write(f"    return {self.results()}")
        return self

    def begin(self, margin: str) -> None:
        """What a step finds: gradients, and constants that are its own in each run."""
        for value in self.graph.gradients():
            node = self.known("n", value.node)
            self.write(f"{margin}{self.name(value)} = {node}.grad.array")
        for value in self.copied:
            self.write(f"{margin}{self.name(value)} = {self._constant(value)}.copy('K')")

    def draw(self, margin: str, count: int) -> None:
        """The first ``count`` random keys: as in an eager step, what an error leaves undrawn is
        drawn in the next one."""
        for key in self.graph.keys[self.drawn : count]:
            drawn = self.known("d", key.generator.next_key)
            self.write(f"{margin}{key} = {drawn}()")
        self.drawn = max(self.drawn, count)

    def results(self) -> str:
        given = [f"{self.known('w', wrap)}({self.array(value)}), " for value in self.graph.results]
        return f"({''.join(given)})"

    def name(self, value: Value) -> str:
        """The Python name of a value: a local, or a global for what comes from outside."""
        if value.kind == STATE and value not in self.copied:
            return self._constant(value)
        letters = {COMPUTED: "v", GRADIENT: "g", STATE: "c"}
        return f"{letters.get(value.kind, 'x')}{value.number}"

    def array(self, value: Value) -> str:
        """How the array of a value is read."""
        return self.name(value)

    def _constant(self, value: Value) -> str:
        return self.known("s", self.constants.get(value, value.array))

    def known(self, letter: str, thing: Any) -> str:
        """The name of a thing that the program uses, the same each time."""
        key = letter, id(thing)  # self.names keeps the thing alive
        name = self._known.setdefault(key, f"{letter}{len(self._known)}")
        self.names[name] = thing
        return name

    def call(self, line: Line) -> str:
        """A line in Python."""
        if line.node is not None:
            target, value = self.known("n", line.node), line.inputs[0]
            made = "None" if value is None else f"{self.known('w', wrap)}({self.array(value)})"
            return f"{target}.grad = {made}"
        function, live = callable_of(line)
        given = [self._given(each) for each in line.inputs]
        given += [f"{name}={self._given(constant)}" for name, constant in live.items()]
        call = f"{self.known('f', function)}({', '.join(given)})"
        targets = ", ".join(map(self.name, line.outputs))
        tuples = isinstance(line.op, Op) and line.op.line.outputs[0].variadic
        targets += "," * bool(tuples)
        return f"{targets} = {call}" if targets else call

    def _given(self, given: Any) -> str:
        if isinstance(given, Value):
            return self.array(given)
        if isinstance(given, Key):
            return str(given)
        if isinstance(given, tuple):
            return f"({''.join(self._given(each) + ', ' for each in given)})"
        return "None" if given is None else self.known("k", given)
