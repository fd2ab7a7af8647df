"""What a captured step costs: operations, bytes, and once it was profiled, milliseconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from minidp.graph.line import Line, Value
from minidp.graph.tools.flops import flops
from minidp.graph.tools.text import parts_of, title

if TYPE_CHECKING:
    from minidp.graph.graph import Graph


@dataclass(frozen=True)
class Row:
    """One line of the step. ``bytes`` are read and written; a view costs none. ``ms`` is None
    where it was not measured."""

    op: str
    module: str
    phase: str
    flops: int
    bytes: int
    ms: float | None = None


@dataclass(frozen=True)
class Sum:
    """The rows that have something in common."""

    name: str
    calls: int
    flops: int
    bytes: int
    ms: float | None


@dataclass(frozen=True)
class Cost:
    """All rows, in the order of the step; ``print`` it for the sums by op, module and phase."""

    rows: tuple[Row, ...]

    @property
    def total(self) -> Sum:
        return _sum("total", self.rows)

    def by(self, what: str) -> list[Sum]:
        """Sums by ``"op"``, ``"module"`` or ``"phase"``; by time, or by flops without, but phases
        in their order."""
        groups: dict[str, list[Row]] = {}
        for row in self.rows:
            groups.setdefault(getattr(row, what) or "-", []).append(row)
        sums = [_sum(name, rows) for name, rows in groups.items()]
        return sums if what == "phase" else sorted(sums, key=_weight)

    def __str__(self) -> str:
        return "\n\n".join(map(self.table, ("op", "module", "phase")))

    __repr__ = __str__

    def table(self, what: str) -> str:
        """The sums ``by`` op, module or phase as text."""
        return _table(what, self.by(what), self.total)


def _weight(each: Sum) -> tuple[float, int, int]:
    return -(each.ms or 0.0), -each.flops, -each.bytes


def _sum(name: str, rows: Sequence[Row]) -> Sum:
    times = [row.ms for row in rows if row.ms is not None]
    total = sum(times) if times else None
    return Sum(name, len(rows), sum(r.flops for r in rows), sum(r.bytes for r in rows), total)


def _table(what: str, sums: Iterable[Sum], total: Sum) -> str:
    timed = total.ms is not None
    units = _unit(total.flops, "flops", "Mflop")[1], _unit(total.bytes, "bytes", "MB")[1]
    head = [what, "calls", *units, *["ms", "share", "Gflop/s", "GB/s"] * timed]
    body = [_cells(each, total) for each in sums]
    foot = _cells(total, total)
    widths = [max(map(len, column)) for column in zip(head, *body, foot, strict=True)]
    lines = [_line(cells, widths) for cells in (head, *body, foot)]
    rule = "-" * len(lines[0])
    return "\n".join([lines[0], rule, *lines[1:-1], rule, lines[-1]])


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first = cells[0].ljust(widths[0])
    rest = [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
    return "  ".join([first, *rest])


def _unit(total: int, small: str, large: str) -> tuple[str, str]:
    """How numbers that add up to ``total`` are written, and the unit."""
    return ("{:,}", small) if total < 1e6 else ("{:,.3f}", large)


def _number(value: int, total: int) -> str:
    layout, unit = _unit(total, "", "million")
    return layout.format(value / 1e6 if unit else value)


def _cells(each: Sum, total: Sum) -> list[str]:
    numbers = _number(each.flops, total.flops), _number(each.bytes, total.bytes)
    cells = [each.name, str(each.calls), *numbers]
    if total.ms is None:
        return cells
    if each.ms is None:
        return [*cells, "-", "-", "-", "-"]
    rates = [f"{n / each.ms / 1e6:.1f}" if each.ms else "-" for n in (each.flops, each.bytes)]
    return [*cells, f"{each.ms:.3f}", f"{100 * each.ms / (total.ms or 1):.1f} %", *rates]


def cost(graph: Graph) -> Cost:
    """A row for each line of the graph."""
    return Cost(tuple(_row(line, graph.seconds.get(line)) for line in graph.lines))


def _row(line: Line, seconds: float | None) -> Row:
    ms = None if seconds is None else 1000 * seconds
    return Row(_name(line), line.path, line.phase, operations(line), traffic(line), ms)


def _name(line: Line) -> str:
    parts = parts_of(line)
    if line.op is not None:
        return line.op.name if len(parts) > 1 or parts[0].op is None else parts[0].op.name
    return "gradient" if line.node is not None else title(line.call).rpartition(": ")[2]


def operations(line: Line) -> int:
    """The floating-point operations of a line."""
    parts = parts_of(line)
    if parts != [line]:
        return sum(map(operations, parts))
    if line.op is None:
        return 0
    shapes = [each.shape if isinstance(each, Value) else None for each in line.inputs]
    return flops(line.op.name, shapes, [y.shape for y in line.outputs], line.constants)


def traffic(line: Line) -> int:
    """The bytes that a line reads and writes, each of its values once; none where it makes a view
    or only names a value."""
    views = bool(line.outputs) and all(y.base is not None for y in line.outputs)
    if views or line.node is not None:
        return 0
    written = sum(y.nbytes for y in line.outputs)
    return written + sum(_size(value) for value in dict.fromkeys(line.values()))


def _size(value: Value) -> int:
    """What there is to read: a value that repeats itself is as large as its memory."""
    return min(value.nbytes, value.root.nbytes)
