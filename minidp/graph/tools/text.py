"""A captured step as a program to read: a line an op, with its type, module and memory."""

from __future__ import annotations

import textwrap
from operator import setitem
from typing import TYPE_CHECKING, Any

from minidp.graph.line import Key, Line, Value, keys_of, values_in
from minidp.graph.tools import lifetimes

if TYPE_CHECKING:
    from minidp.graph.graph import Graph

COLUMNS = {"": 47, "type": 24, "module": 16, "alive": 7, "memory": 16}
"""Titles and largest widths: 120 with what lies between. ``alive`` are the bytes of all values
that are alive while the line runs, without arguments, parameters and buckets."""
USUAL = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "keepdim": False, "dim": None,
         "ignore_index": -100, "count_include_pad": True, "row": 0, "batch_dim": 0}  # fmt: skip
"""Constants that are not shown."""
PAIRS = ("stride", "padding", "dilation", "kernel")
"""Constants that are shown as one number where they are that number twice."""
SHAPES = ("shape", "size")
"""Constants that are not shown where the type of the result tells them."""


def program(graph: Graph) -> str:
    """The whole step."""
    head = ", ".join(f"{value}: {value.type()}" for value in graph.arguments)
    rows: list[tuple[str, ...]] = []
    told = ""
    for line, alive, dead in zip(
        graph.lines, lifetimes.alive(graph), lifetimes.freed(graph), strict=True
    ):
        if line.phase != told:
            told = line.phase
            rows.append((f"# {told}",))
        cells = expression(line), _types(line), line.path, lifetimes.text(alive)
        rows.append((*cells, _memory(line, dead)))
    titles = tuple(COLUMNS)
    widths = [
        min(limit, max(len(row[i]) for row in [titles, *rows] if len(row) > 1))
        for i, limit in enumerate(COLUMNS.values())
    ]
    text = [*_wrapped(f"step({head}):"), *_cells(titles, widths)]
    text += [f"  {key} = next random key" for key in graph.keys]
    for row in rows:
        text += _cells(row, widths) if len(row) > 1 else [f"  {row[0]}"]
    return "\n".join([*text, *_wrapped(f"  return {', '.join(map(str, graph.results))}")])


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(line, 120, subsequent_indent=" " * 6)


def _cells(row: tuple[str, ...], widths: list[int]) -> list[str]:
    """A row, on as many lines as its longest cell needs."""
    row = (*row[:2], _tail(row[2], widths[2]), *row[3:])
    columns = [
        textwrap.wrap(cell, max(width, 1), subsequent_indent="    " * (i == 0)) or [""]
        for i, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    height = max(map(len, columns))
    padded = [column + [""] * (height - len(column)) for column in columns]
    lines = zip(*padded, strict=True)
    return ["  " + "  ".join(_place(c, w, i) for i, (c, w) in enumerate(zip(cells, widths,
            strict=True))).rstrip() for cells in lines]  # fmt: skip


def _place(cell: str, width: int, column: int) -> str:
    return cell.rjust(width) if column == 3 else cell.ljust(width)


def _tail(path: str, width: int) -> str:
    """The end of a long path of modules."""
    return path if len(path) <= width else "…" + path[1 - width :]


def _types(line: Line) -> str:
    outputs = line.outputs
    if len(outputs) > 2:
        return f"{len(outputs)} of {outputs[0].dtype}"
    return ", ".join(output.type() for output in outputs)


def _memory(line: Line, dead: list[Value]) -> str:
    notes = ["view"] if line.outputs and line.outputs[0].base else []
    if line.call is setitem or (line.op is not None and line.op.writes):
        notes.append("in place")
    return "; ".join(notes + ([f"frees {', '.join(map(str, dead))}"] if dead else []))


def expression(line: Line) -> str:
    """A line as it would be written: ``v2 = conv2d(v1, 0.weight, 0.bias, padding=2)``."""
    if line.node is not None:
        return f"{line.text} = {line.inputs[0]}"
    if line.op is None:
        return _call(line)
    names = [str(output) for output in line.outputs]
    targets = ", ".join(names) if len(names) < 4 else f"{names[0]}, ..., {names[-1]}"
    return f"{targets}{' = ' * bool(names)}{_op(line)}"


def _op(line: Line) -> str:
    assert line.op is not None
    if len(parts_of(line)) > 1:
        return f"{name(line)} ({', '.join(map(str, line.inputs))})"
    (line,) = parts_of(line)
    assert line.op is not None
    if line.op.name == "get":
        return f"{line.inputs[0]}[{_index(line.constants['key'])}]"
    given = [str(each) for each in line.inputs if each is not None]
    given += [_constant(name, value) for name, value in constants(line).items()]
    return f"{line.op.name}({', '.join(given)})"


def parts_of(line: Line) -> list[Line]:
    """The lines that a line stands for: those of a fused group, else itself."""
    parts: list[Line] = getattr(line, "lines", [line])
    return parts


def name(line: Line) -> str:
    """What a line is called: by its op, by the ops of its group, by the piece of Python."""
    names = [part.op.name for part in parts_of(line) if part.op is not None]
    if len(names) < 2:
        return names[0] if names else title(line.call)
    shown = names if len(names) < 4 else [*names[:2], f"{len(names) - 3} more", names[-1]]
    return f"fused {', '.join(shown)}"


def constants(line: Line) -> dict[str, Any]:
    """The constants of a line that tell something."""
    assert line.op is not None
    shapes = [output.shape for output in line.outputs]
    return {
        name: value for name, value in line.constants.items()
        if not (name in SHAPES and any(value == shape[-len(value) :] for shape in shapes if value))
        and not (name in USUAL and _single(name, value) == USUAL[name])
        and not (name in line.op.defaults and value == line.op.defaults[name])
    }  # fmt: skip


def _single(name: str, value: Any) -> Any:
    """The number that a pair is twice."""
    pair = name in PAIRS and isinstance(value, tuple) and len(set(value)) == 1
    return value[0] if pair else value


def _constant(name: str, value: Any) -> str:
    if name == "key" and not isinstance(value, Key):
        return f"at=[{_index(value)}]"
    if isinstance(value, (int, float, tuple)):
        value = _single(name, value)
    text = repr(value) if isinstance(value, str) else str(value)
    text = text if len(text) <= 40 else f"{text[:39]}…"
    return text if text.startswith(name) else f"{name}={text}"


def _index(key: Any) -> str:
    """What stands between the brackets."""
    parts = list(key) if isinstance(key, tuple) else [key]
    if len(parts) > 1 and parts[-1] is Ellipsis:
        del parts[-1]
    return ", ".join(map(_part, parts))


def _part(part: Any) -> str:
    if isinstance(part, slice):
        ends = ["" if end is None else str(end) for end in (part.start, part.stop, part.step)]
        return ":".join(ends if ends[2] else ends[:2])
    return "..." if part is Ellipsis else str(part)


def _call(line: Line) -> str:
    """A piece of Python: ``bucket 0: pack v3, v4``, ``SGD: update``."""
    if line.call is setitem:
        target, key, value = line.inputs
        return f"{target}[{_index(key)}] = {value}"
    names = [title(line.call), *(title(each) for each in line.inputs if callable(each))]
    given = ", ".join(map(str, [*values_in(line.inputs), *keys_of(line)]))
    targets = "".join(f"{output} = " for output in line.outputs)
    return f"{targets}{': '.join(names)} {given}".rstrip()


def title(function: Any) -> str:
    """What a function is called: by whose it is, and what it told of itself."""
    told = getattr(function, "told_as", None)
    if told is None:
        return getattr(function, "__qualname__", type(function).__name__) + "()"
    owner = getattr(function, "__self__", None)
    if owner is None:
        return str(told)
    name = str(owner)
    return f"{name if len(name) < 20 else type(owner).__name__}: {told}"
