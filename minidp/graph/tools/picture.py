"""A picture of a captured step, as SVG text: forward goes down at the left, backward up beside it.

Lines between the columns are what backward keeps of forward. An op whose gradient goes into a
bucket, the packing and the start of the bucket's all-reduce have the bucket's colour. The
background is drawn, so that it can be read on a dark page too.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from minidp.graph.line import ARGUMENT, COMPUTED, Line, Value
from minidp.graph.tools.layout import Band, Spot, bands, spots
from minidp.graph.tools.lifetimes import text
from minidp.graph.tools.text import expression, name, parts_of

if TYPE_CHECKING:
    from minidp.graph.graph import Graph

ROW, BOX, WIDTH = 22, 18, 236
"""Heights of a row and of the box in it, and a column's width, in pixels."""
LEFT, MIDDLE, RIGHT = 150, 150, 70
"""What is left free beside and between the columns, for names of modules and for edges; at the
right names of gradients may need more."""
LETTER, LONGEST = 6.7, 48
"""The width of a letter; how many of a gradient's name are shown."""
TOP = 78
COLOURS = ("#4477aa", "#cc6677", "#228833", "#aa7711", "#8855aa", "#117788")
"""Of buckets 0, 1, ..., over and over."""
INK, FAINT, PAPER = "#222222", "#9a9a9a", "#fcfcfa"
MONO = "font-family='ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace'"


def svg(graph: Graph) -> str:
    """The whole picture."""
    drawing = Drawing(graph)
    body = "\n".join(drawing.parts())
    tags = [len(drawing.tag(line)) for line in drawing.spots]
    height = drawing.height
    width = LEFT + 2 * WIDTH + MIDDLE + RIGHT + int(LETTER * max(tags, default=0))
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height:.0f}' "
        f"width='{width}' height='{height:.0f}' font-size='11' fill='{INK}' {MONO}>\n"
        "<title>A captured step</title>\n"
        f"<rect width='100%' height='100%' rx='8' fill='{PAPER}'/>\n{body}\n</svg>\n"
    )


def bucket_of(line: Line) -> str:
    """The bucket that a line hands out, packs or starts, as it prints; "" without one."""
    owner = line.constants.get("bucket", getattr(line.call, "__self__", None))
    name = str(owner) if type(owner).__module__.startswith("minidp.parallel") else ""
    return name if name.startswith("bucket") else ""


class Drawing:
    """The parts of a picture, each SVG text."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.bands = graph, bands(graph)
        first = len(graph.arguments) + 0.6
        self.spots, self.tops = spots(self.bands, first)
        arguments = [Spot(number, 0) for number in range(len(graph.arguments))]
        self._taken = [*arguments, *self.spots.values()]
        self.height = TOP + ROW * self.tops[-1] + 16
        self.maker = {value: line for line in graph.lines for value in line.outputs}
        buckets = sorted({b for line in graph.lines if (b := bucket_of(line))}, key=_natural)
        self.colours = {b: COLOURS[i % len(COLOURS)] for i, b in enumerate(buckets)}
        self.gradients = {line.inputs[0]: line.text.removeprefix("gradient of ")
                          for line in graph.lines if line.node is not None}  # fmt: skip
        self.slowest = max(graph.seconds.values(), default=0.0)

    def parts(self) -> Iterator[str]:
        """Headings, modules, edges, boxes: later ones lie over earlier ones."""
        yield from self._headings()
        for band, top in zip(self.bands, self.tops, strict=False):
            yield from self._module(band, top)
        for line in self.spots:
            yield from self._edges(line)
        for number, value in enumerate(self.graph.arguments):
            yield self._argument(number, value)
        for band, top in zip(self.bands, self.tops, strict=False):
            yield self._name(band, top)
        for line, spot in self.spots.items():
            yield from self._box(line, spot)

    def _headings(self) -> Iterator[str]:
        style = "text-anchor='middle' font-size='15' font-weight='bold'"
        for column, heading in enumerate(("forward ↓", "backward ↑")):
            yield _text(_x(column) + WIDTH / 2, 30, heading, style)
        x = _x(0)
        middle = f"text-anchor='middle' fill='{FAINT}'"
        yield _text(_x(0) + WIDTH + MIDDLE / 2, 30, f"{text(self._kept())} kept", middle)
        for bucket, colour in self.colours.items():
            yield _rect(x, 44, 11, 11, f"rx='2' fill='{colour}'")
            yield _text(x + 16, 53.5, bucket)
            x += 90
        if self.slowest:
            yield _text(_x(1), 53.5, f"orange: time, up to {1000 * self.slowest:.2f} ms",
                        "fill='#b35900'")  # fmt: skip

    def _kept(self) -> int:
        """The bytes that forward makes for backward."""
        made = {v for line, spot in self.spots.items() if not spot.column for v in line.outputs}
        used = [v for line, spot in self.spots.items() if spot.column for v in line.values()]
        roots = dict.fromkeys(v.root for v in used if v in made and v.root.kind == COMPUTED)
        return sum(value.nbytes for value in roots)

    def _module(self, band: Band, top: float) -> Iterator[str]:
        """A box around the module's ops in each column."""
        rows = {0: (top, len(band.forward)),
                1: (top + band.rows - len(band.backward), len(band.backward))}  # fmt: skip
        for column, (row, count) in rows.items():
            if count and band.path:
                style = "rx='6' fill='#eeeee8' stroke='#cfcfc6'"
                yield _rect(_x(column) - 7, _y(row) - 5, WIDTH + 14, count * ROW + 6, style)

    def _name(self, band: Band, top: float) -> str:
        """The module's name, over the edges that pass there."""
        column = 0 if band.forward else 1
        row = top + column * (band.rows - len(band.backward))
        style = f"stroke='{PAPER}' stroke-width='4' paint-order='stroke'"
        return _text(_x(column) - 16, _y(row) + 13, _short(band.path, 19),
                     f"text-anchor='end' font-weight='bold' {style}")  # fmt: skip

    def _edges(self, line: Line) -> Iterator[str]:
        """From where its values were made to the line."""
        here = self.spots[line]
        for value in dict.fromkeys(line.values()):
            maker = self.maker.get(value)
            if value.kind == ARGUMENT:
                start = Spot(self.graph.arguments.index(value), 0)
            elif maker in self.spots and bucket_of(maker) == "":
                start = self.spots[maker]
            else:
                continue
            colour = self.colours.get(bucket_of(line), "")
            if start.column != here.column:
                yield _across(start, here, colour or "#8fa3b5")
            else:
                between = any(spot.column == here.column and
                              min(start.row, here.row) < spot.row < max(start.row, here.row)
                              for spot in self._taken)  # fmt: skip
                yield (_around if between else _straight)(start, here, colour or FAINT)

    def _argument(self, number: int, value: Value) -> str:
        y = _y(number)
        style = f"rx='9' fill='#ffffff' stroke='{FAINT}' stroke-dasharray='3 2'"
        box = _rect(_x(0), y, WIDTH, BOX, style)
        shape = _text(_x(0) + WIDTH - 8, y + 13, _shape(value), "text-anchor='end' fill='#666666'")
        return box + _text(_x(0) + 8, y + 13, f"{value} {value.dtype}") + shape

    def _box(self, line: Line, spot: Spot) -> Iterator[str]:
        x, y = _x(spot.column), _y(spot.row)
        colour = self.colours.get(bucket_of(line))
        goes = self.colours.get(self._goes_to(line), "")
        full = colour if line.op is None and colour else "#ffffff"
        yield f"<g><title>{escape(expression(line))}  {escape(line.type())}</title>"
        edge = f"stroke='{colour or goes or '#777777'}' stroke-width='{2 if goes else 1}'"
        yield _rect(x, y, WIDTH, BOX, f"rx='4' fill='{full}' {edge}")
        if self.graph.seconds.get(line):
            share = (WIDTH - 4) * self.graph.seconds[line] / self.slowest
            yield _rect(x + 2, y + BOX - 3, share, 3, "fill='#e08214'")
        ink = "#ffffff" if full != "#ffffff" else INK
        shape = _shape(line.outputs[0]) if len(line.outputs) in (1, 2) else ""
        yield _text(x + 8, y + 13, _head(_label(line), 33 - len(shape)), f"fill='{ink}'")
        faint = "#ffffff" if ink == "#ffffff" else "#666666"
        yield _text(x + WIDTH - 8, y + 13, shape, f"text-anchor='end' fill='{faint}'") + "</g>"
        if tag := self.tag(line):
            yield _text(x + WIDTH + 58, y + 13, tag, f"fill='{COLOURS[0]}'")
        if any(value in self.graph.results for value in line.outputs):
            yield _text(_x(0) - 16, y + 13, "returned", f"text-anchor='end' fill='{COLOURS[1]}'")

    def tag(self, line: Line) -> str:
        """Whose gradients the line gives: a module that several are of is named once."""
        found: list[str] = []
        module = ""
        for value in line.outputs:
            before, (module, dot, own) = module, self.gradients.get(value, "").rpartition(".")
            if own:
                found.append(own if module == before else f"{module}{dot}{own}")
        return _short(f"grad {', '.join(found)}", LONGEST) if found else ""

    def _goes_to(self, line: Line) -> str:
        """The bucket that packs what the line gives."""
        return next((bucket_of(user) for user in self.spots if user.op is None and bucket_of(user)
                     and any(value in line.outputs for value in user.values())), "")  # fmt: skip


def _label(line: Line) -> str:
    """The op, and the parameters that it is given, without the module's name before theirs."""
    if line.op is None or len(parts_of(line)) > 1:
        return name(line)
    bucket = bucket_of(line)
    if bucket:
        return f"{line.op.name} {bucket}"
    named = [value.name.rpartition(".")[2] for value in line.values()
             if value.name and value.kind != ARGUMENT]  # fmt: skip
    return f"{name(line)} {', '.join(named)}".rstrip()


def _shape(value: Value) -> str:
    return "×".join(map(str, value.shape)) or "1"


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else f"…{text[1 - length :]}"


def _head(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _natural(bucket: str) -> tuple[int, str]:
    return len(bucket), bucket


def _x(column: int) -> int:
    return LEFT + column * (WIDTH + MIDDLE)


def _y(row: float) -> float:
    return TOP + ROW * row


def _across(start: Spot, end: Spot, colour: str) -> str:
    """From the forward column to the backward one."""
    x, y = _x(0) + WIDTH, _y(start.row) + BOX / 2
    to, at = _x(1), _y(end.row) + BOX / 2
    half = (x + to) / 2
    shape = f"M{x},{y:.1f} C{half},{y:.1f} {half},{at:.1f} {to - 3},{at:.1f}"
    return _arrow(shape, colour, f"M{to},{at:.1f} l-6,-3 v6 z")


def _straight(start: Spot, end: Spot, colour: str) -> str:
    """Down or up a column to the next box."""
    x, down = _x(start.column) + WIDTH / 2, end.row > start.row
    near, far = (BOX, 0) if down else (0, BOX)
    at, away = _y(end.row) + far, -4 if down else 4
    shape = f"M{x},{_y(start.row) + near:.1f} V{at:.1f}"
    return _arrow(shape, colour, f"M{x},{at:.1f} l-3,{away} h6 z")


def _around(start: Spot, end: Spot, colour: str) -> str:
    """Outside, round the boxes between."""
    out = 1 if start.column else -1
    x = _x(start.column) + (WIDTH if start.column else 0)
    bend = x + out * min(14 + 2.2 * abs(end.row - start.row), 52)
    y, at = _y(start.row) + BOX / 2, _y(end.row) + BOX / 2
    shape = f"M{x},{y:.1f} C{bend:.1f},{y:.1f} {bend:.1f},{at:.1f} {x + 3 * out},{at:.1f}"
    return _arrow(shape, colour, f"M{x},{at:.1f} l{6 * out},-3 v6 z")


def _arrow(shape: str, colour: str, tip: str) -> str:
    line = f"<path d='{shape}' fill='none' stroke='{colour}' stroke-width='1.1'/>"
    return f"{line}<path d='{tip}' fill='{colour}'/>"


def _rect(x: float, y: float, width: float, height: float, style: str) -> str:
    return f"<rect x='{x:.1f}' y='{y:.1f}' width='{width:.1f}' height='{height:.1f}' {style}/>"


def _text(x: float, y: float, text: str, style: str = "") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' {style}>{escape(text)}</text>"
