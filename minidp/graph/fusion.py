"""Element-wise lines of a captured step put together: one pass over memory for many ops.

Lines of one size, dtype, layout and device make a group, as long as nothing outside it is needed
between them; the formulas of their bodies become one, and a group is one line of the new graph.
What only the group needs never reaches memory. Lines that change something keep their order, and
nothing crosses a line that writes or calls. So do exchanges, which all replicas meet in one order.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from minidp.backend import get_backend
from minidp.graph.formula import (
    Formula,
    Fused,
    kind_of,
    layout,
    misfit,
    pruned,
    strides_of,
    written,
)
from minidp.graph.graph import Graph
from minidp.graph.line import GRADIENT, STATE, Line, Value
from minidp.graph.symbolic import BOOL, NoFormulaError, Sheet, Symbol
from minidp.types import float32, float64

ROUNDED = frozenset({"activation", "activation_input", "erf"})
"""Ops whose kernels for the CPU round otherwise than their bodies: they keep them."""

OPEN = 8
"""How many groups of one kind a line may still join."""


@dataclass(eq=False)
class FusedLine(Line):
    """A group as one line; ``lines`` are the ones it stands for."""

    lines: list[Line] = field(default_factory=list)

    def __str__(self) -> str:
        given, targets = (", ".join(map(str, values)) for values in (self.inputs, self.outputs))
        return f"{targets} = fused({given}): {'; '.join(map(str, self.lines))}"


@dataclass(eq=False)
class Unit:
    """A line, or a group of lines with one ``kind``; ``reach`` has a bit for each unit that it
    depends on; ``place`` is that of its last line."""

    lines: list[Line]
    kind: Any
    bit: int
    place: int
    reach: int = 0
    gradients: bool = False

    def values(self) -> list[Value]:
        return [value for line in self.lines for value in line.values()]


def fused(graph: Graph) -> Graph:
    """The graph with its element-wise lines in groups."""
    grouping = Grouping()
    for line in graph.lines:
        grouping.add(line)
    ordered = grouping.ordered()
    kept, wanted = [], dict.fromkeys(graph.results)
    for unit in reversed(ordered):
        made = [v for line in unit.lines for v in line.outputs if v in wanted]
        if made or any(line.lasting for line in unit.lines):
            lines, used = grouping.final(unit, made)
            wanted |= dict.fromkeys(used)
            kept += lines[::-1]
    result = copy.copy(graph)
    result.lines = kept[::-1]
    return result


class Grouping:
    """Puts the lines of a graph into units, one after the other."""

    def __init__(self) -> None:
        self.stretches: list[list[Unit]] = [[]]
        """Units between lines that nothing may cross."""
        self.known: dict[Value, float] = {}
        self.aliases: set[Line] = set()
        self.producer: dict[Value, Unit] = {}
        self._open: dict[Any, list[Unit]] = {}
        self._after: dict[Line, list[Unit]] = {}  # the exchange before each
        self._exchange: list[Unit] = []
        self._count = self._lines = 0

    def add(self, line: Line) -> None:
        kind = self.kind(line)
        unit = self._group(line, kind) if kind is not None else None
        if unit is None:
            unit = self._new(line, kind)
        else:
            unit.lines.append(line)
        unit.place = self._lines = self._lines + 1
        unit.gradients |= any(v.kind == GRADIENT for v in line.values())
        if line.op is not None and line.op.exchanges:
            self._after[line], self._exchange = self._exchange, [unit]
        self._reach(unit, line)
        self.producer |= dict.fromkeys(line.outputs, unit)
        if line.node is not None:  # a gradient that a group has yet to read is about to change
            for units in self._open.values():
                units[:] = [unit for unit in units if not unit.gradients]
        elif line.lasting:
            self._open.clear()
            self.stretches += [[]]

    def _new(self, line: Line, kind: Any) -> Unit:
        if line.lasting and line.node is None:
            self.stretches += [[]]
        unit = Unit([line], kind, self._count, 0)
        self._count += 1
        self.stretches[-1].append(unit)
        if kind is not None:
            self._open[kind] = [unit, *self._open.get(kind, [])[: OPEN - 1]]
        return unit

    def _before(self, kind: Any, line: Line) -> list[Unit]:
        """The units that a line of this kind needs: in a group, what is known is a number."""
        needed = [v for v in line.values() if kind is None or v not in self.known]
        return [self.producer[v] for v in needed if v in self.producer] + self._after.get(line, [])

    def _group(self, line: Line, kind: Any) -> Unit | None:
        """An open group that the line may join: nothing that it needs needs the group."""
        before = self._before(kind, line)
        found = [
            unit for unit in self._open.get(kind, ())
            if not any(b.reach >> unit.bit & 1 for b in before if b is not unit)
        ]  # fmt: skip
        near = [unit for unit in found if unit in before]
        if line.device != "cpu":  # what is on one of several devices stays there
            found = [unit for unit in found if not {*line.values()}.isdisjoint(unit.values())]
        return next(iter([*near, *found]), None)

    def _reach(self, unit: Unit, line: Line) -> None:
        more = unit.reach
        for before in self._before(unit.kind, line):
            if before is not unit:
                more |= before.reach | 1 << before.bit
        if more != unit.reach:
            unit.reach = more
            for later in self.stretches[-1]:
                if later.reach >> unit.bit & 1:
                    later.reach |= more

    def kind(self, line: Line) -> Any:
        """What lines of a group share: size, dtype, layout, device; None for a line of its own.

        A line whose value is known beforehand is one of its own: only who needs its array runs it.
        """
        op = line.op
        if op is None or op.writes or len(line.outputs) != 1 or not op.line.elementwise:
            return None
        if line.device == "cpu" and op.name in ROUNDED:
            return None
        output, values = line.outputs[0], [v for v in line.inputs if isinstance(v, Value)]
        size = prod(output.shape)
        whole = [v for v in values if prod(v.shape) == size]
        if size == 0 or any(misfit(v, size) for v in values):
            return None
        dtypes = {v.dtype for v in (output, *values) if v.dtype.kind == "f"}
        if {v.dtype for v in (output, *values)} == {BOOL}:  # then their makers say
            kinds = {kind for v in values if (kind := self._source(v)) is not None}
            dtypes = {kind[1] for kind in kinds}
        if len(dtypes) != 1 or not dtypes <= {float32, float64}:
            return None
        sheet = Sheet(dtype := dtypes.pop())
        try:
            y = written(sheet, line, lambda v: self._trial(sheet, v))
        except (NoFormulaError, AttributeError, TypeError, ValueError):
            return None
        if y.dtype != output.dtype:
            return None
        if type(y.source) is float:
            self.known[output] = y.source
            return None
        layouts = {layout(v) for v in [*whole, *([output] if whole else [])] if v not in self.known}
        layouts -= {None}
        if any(sheet.steps[int(y.source)] == ("input", v.number, v.kind) for v in whole):
            self.aliases.add(line)
            if all(self._source(v) is None for v in whole):
                return None
        if len(layouts) > 1 or "gaps" in layouts:
            return None
        return size, dtype, layouts.pop() if layouts else (), line.device

    def _source(self, value: Value) -> Any:
        """The kind of the group that a value is from, if it is from one."""
        unit = self.producer.get(value)
        return None if unit is None else unit.kind

    def _trial(self, sheet: Sheet, value: Value) -> Symbol:
        if value in self.known:
            return Symbol(sheet, self.known[value], value.dtype)
        return Symbol(sheet, sheet.step("input", value.number, value.kind), value.dtype)

    def ordered(self) -> list[Unit]:
        """The units, each where its last line was, or before the first that needs it."""
        done: dict[Unit, None] = {}

        def put(unit: Unit) -> None:
            pending = [unit]
            while pending:
                top = pending[-1]
                before = [p for line in top.lines for p in self._before(top.kind, line)]
                missing = [p for p in before if p is not top and p not in done]
                if missing:
                    pending += missing[::-1]
                else:
                    done[pending.pop()] = None

        for stretch in self.stretches:
            self._eject(stretch)
            for unit in sorted(stretch, key=lambda unit: unit.place):
                put(unit)
        return list(done)

    def _eject(self, stretch: list[Unit]) -> None:
        """Views of a group's values that the group itself does not use stay views."""
        for unit in [unit for unit in stretch if unit.kind is not None]:
            uses = Counter(unit.values())
            for line in [line for line in reversed(unit.lines) if line in self.aliases]:
                if not uses[line.outputs[0]] and len(unit.lines) > 1:
                    uses.subtract(line.values())
                    unit.lines.remove(line)
                    apart = Unit([line], None, self._count, unit.place)
                    self._count += 1
                    stretch.append(apart)
                    self.producer[line.outputs[0]] = apart

    def final(self, unit: Unit, made: Sequence[Value]) -> tuple[list[Line], list[Value]]:
        """The lines of a unit, and what they need, when ``made`` is what others need of it."""
        if unit.kind is None:
            return unit.lines, unit.values()
        known = any(v in self.known for v in unit.values())  # whose arrays may come too late
        alone: Any = unit.lines[0] if len(unit.lines) == 1 and not known else None
        if alone is not None and get_backend(alone.device).kernel(alone.op.name) is not None:
            return [alone], alone.values()  # its own loop is faster than a formula's
        line = self._fused(unit, made)
        assert isinstance(line.op, Fused)
        leaves = [step for step in line.op.formula.steps if step[0] != "input"]
        if (len(leaves) > 1 or known) and line.inputs:
            return [line], line.inputs
        lines, wanted = [], dict.fromkeys(made)
        for each in reversed(unit.lines):
            if each.outputs[0] in wanted:
                wanted |= dict.fromkeys(each.values())
                lines.append(each)
        return lines[::-1], list(wanted)

    def _fused(self, unit: Unit, made: Sequence[Value]) -> FusedLine:
        size, dtype, order, device = unit.kind
        sheet, symbols = Sheet(dtype), dict[Value, Symbol]()
        given: list[Value] = []

        def symbol(value: Value) -> Symbol:
            if value in self.known:
                return Symbol(sheet, self.known[value], value.dtype)
            if value not in symbols:
                given.append(value)
                number = sheet.step("input", len(given) - 1)
                symbols[value] = Symbol(sheet, number, value.dtype)
            return symbols[value]

        for line in unit.lines:
            symbols[line.outputs[0]] = written(sheet, line, symbol)
        steps, numbers, places = pruned(sheet.steps, [symbols[v].source for v in made])
        inputs = [given[place] for place in places]
        axes = order[1] if order else ()
        formula = Formula(
            size, dtype, axes,
            tuple(kind_of(v, size) for v in inputs),
            tuple(self._layout(v, axes) for v in inputs), tuple(steps),
            tuple((n, v.dtype, v.shape) for n, v in zip(numbers, made, strict=True)),
        )  # fmt: skip
        first = unit.lines[0]
        op: Any = Fused(formula, get_backend(device))
        return FusedLine(
            op, inputs, {}, list(made), first.path, first.phase, device, lines=unit.lines
        )  # fmt: skip

    def _layout(self, value: Value, axes: tuple[int, ...]) -> Any:
        """Shape and strides that the array of a value must have; None if it always has them."""
        if value.kind == STATE:
            return None
        if self._source(value) is None or prod(value.shape) == 1:
            return value.shape, value.strides
        return value.shape, strides_of(value.shape, axes, value.dtype.itemsize)
