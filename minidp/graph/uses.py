"""Who makes and who uses each value of a captured step, while lines are put into other lines."""

from __future__ import annotations

from minidp.graph.graph import Graph
from minidp.graph.line import COMPUTED, Line, Value
from minidp.graph.simplify import changing
from minidp.op import OPS

Replaced = dict[Line, Line | None]


class Uses:
    """Who makes and who uses each value of a step, while its lines are replaced."""

    def __init__(self, graph: Graph) -> None:
        self.makers: dict[Value, Line] = {}
        self.users: dict[Value, dict[Line, None]] = {}
        self.returned = dict.fromkeys(graph.results)
        self.changing = changing(graph.lines)
        self.replaced: Replaced = {}
        self.count = 1 + max([y.number for line in graph.lines for y in line.outputs], default=0)
        for line in graph.lines:
            self._add(line)

    def _add(self, line: Line) -> None:
        self.makers |= dict.fromkeys(line.outputs, line)
        for value in line.values():
            self.users.setdefault(value, {})[line] = None

    def replace(self, found: Replaced) -> None:
        """Let lines stand in for others."""
        self.replaced |= found
        for old in found:
            for value in line_values(old):
                self.users[value].pop(old, None)
        for new in found.values():
            if new is not None:
                self._add(new)

    def of(self, value: Value) -> list[Line]:
        """The lines that use a value."""
        return list(self.users.get(value, ()))

    def is_inner(self, value: Value) -> bool:
        """Whether lines alone see a value, and none of them changes it."""
        fixed = value.kind == COMPUTED and value.root not in self.changing
        return fixed and value not in self.returned

    def is_between(self, value: Value, line: Line) -> bool:
        """Whether a value is made for ``line`` alone."""
        return self.is_inner(value) and self.of(value) == [line]

    def new(self, like: Value) -> Value:
        """A further value of a line."""
        self.count += 1
        return Value(self.count - 1, like.shape, like.dtype, COMPUTED, strides=like.strides)

    def current(self, line: Line) -> Line | None:
        """What stands for a line now."""
        now: Line | None = line
        while now is not None and now in self.replaced:
            now = self.replaced[now]
        return now


def does(line: Line, name: str) -> bool:
    """Whether a line is this op of the engine's."""
    return line.op is not None and line.op is OPS[name]


def line_values(line: Line) -> list[Value]:
    return list(dict.fromkeys(line.values()))
