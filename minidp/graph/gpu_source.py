"""The Python source of a step on a GPU: stretches that become CUDA graphs, Python between them.

A stretch only computes. What a graph cannot repeat stays a call: random keys, updates with their
learning rates and step counts, collectives, and Python of the user's.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from types import CodeType, FunctionType
from typing import Any

from minidp.backend import get_backend
from minidp.graph.formula import Fused
from minidp.graph.graph import Graph
from minidp.graph.line import STATE, Line, Value, keys_of
from minidp.graph.source import Source
from minidp.types import Array

LEAST = 3
"""Lines from which on a stretch is worth a graph."""


def graph_device(graph: Graph) -> str | None:
    """The backend that makes graphs of the step's stretches, or None."""
    devices = {line.device for line in graph.lines if line.op is not None}
    if len(devices) != 1 or any(line.op is not None and line.op.writes for line in graph.lines):
        return None  # what is changed in place may be seen through views: nothing is copied then
    device = devices.pop()
    return device if get_backend(device).captures else None


def may_be_captured(line: Line) -> bool:
    """Whether a line only computes, by what is minidp's own, the same in each step."""
    op = line.op
    if op is None or keys_of(line):
        return False
    if isinstance(op, Fused):
        return True
    if not op.own or op.exchanges or op.writes:
        return False
    return get_backend(line.device).kernel(op.name) is not None or not asks_host(op.body)


def asks_host(function: Any, known: tuple[Any, ...] = ()) -> bool:
    """Whether a body, or what it calls of its module, makes arrays of numbers of the host: a graph
    would read them again from host memory that is no longer theirs."""
    codes, names = [function.__code__], list[str]()
    while codes:
        code = codes.pop()
        names += code.co_names
        codes += [each for each in code.co_consts if isinstance(each, CodeType)]
    helpers = [function.__globals__.get(name) for name in names]
    return "asarray" in names or any(
        asks_host(each, (*known, function)) for each in helpers
        if isinstance(each, FunctionType) and each not in known and each is not function
    )  # fmt: skip


class GraphSource(Source):
    """Writes a step whose stretches are functions: ``replayed``, by their names."""

    def __init__(self, graph: Graph, constants: dict[Value, Array], device: str) -> None:
        super().__init__(graph, constants)
        self.backend = get_backend(device)

    def compiled(self) -> Callable[..., Any]:
        step = super().compiled()
        names = [name for name in self.names if name.startswith("stretch")]
        for name in names:
            self.names[name] = self.backend.captured(self.names[name])
        self.replayed = [self.names[name] for name in names]
        return step

    def written(self) -> Source:
        graph = self.graph
        dead = dict(zip(graph.lines, graph.last_uses(), strict=True))
        groups = [(may, list(lines)) for may, lines in groupby(graph.lines, may_be_captured)]
        calls = [self._stretch(lines, dead) if may and self._worth(lines) else None
                 for may, lines in groups]  # fmt: skip
        self.write(f"def step({', '.join(map(self.name, graph.arguments))}):")
        self.begin("    ")
        for call, (_, lines) in zip(calls, groups, strict=True):
            if call is None:
                self._lines(lines, dead)
            else:
                self.write(f"    {call}", lines[0])
                self._del([v for line in lines for v in dead[line]], self._given_to(lines), lines)
        self.draw("    ", len(graph.keys))
        self.write(f"    return {self.results()}")
        return self

    def _worth(self, lines: list[Line]) -> bool:
        return len(lines) >= LEAST and bool(self._given_to(lines))

    def _lines(self, lines: list[Line], dead: dict[Line, list[Value]]) -> None:
        for line in lines:
            self.draw("    ", max([key.number + 1 for key in keys_of(line)], default=0))
            self.write(f"    {self.call(line)}", line)
            self._del(dead[line], dead[line], [line])

    def _stretch(self, lines: list[Line], dead: dict[Line, list[Value]]) -> str:
        """Write a function of some lines; how it is called."""
        name = f"stretch{len([line for line in self.lines if line.startswith('def')])}"
        gone = {value for line in lines for value in dead[line]}
        made = [value for line in lines for value in line.outputs]
        gives = [self.name(value) for value in made if value not in gone]
        given = ", ".join(map(self.name, self._given_to(lines)))
        self.write(f"def {name}({given}):")
        self._lines(lines, dead)
        self.write(f"    return {', '.join(gives)},")
        return f"{', '.join(gives)}, = {name}({given})"

    def _given_to(self, lines: list[Line]) -> list[Value]:
        """What the lines take that is another array in each step."""
        made = {value for line in lines for value in line.outputs}
        used = dict.fromkeys(value for line in lines for value in line.values())
        return [v for v in used if v not in made and (v.kind != STATE or v in self.copied)]

    def _del(self, dead: list[Value], known: list[Value], lines: list[Line]) -> None:
        gone = [self.name(value) for value in dead if value in known]
        if gone:
            self.write(f"    del {', '.join(gone)}", lines[0])
