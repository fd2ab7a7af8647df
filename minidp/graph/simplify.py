"""What a recorded step need not do: compute twice, and compute what nobody asks for."""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any

from minidp.graph.line import COMPUTED, Line, Value, agree
from minidp.types import exactly


def needed(lines: Sequence[Line], results: Sequence[Value]) -> list[Line]:
    """The lines that the results, a gradient or something lasting depend on."""
    wanted: dict[Value, None] = dict.fromkeys(results)
    kept: list[Line] = []
    later: dict[Any, None] = {}  # leaves whose gradient is set again before anyone may look at it
    for line in reversed(lines):
        if line.call is not None:
            later.clear()
        elif line.node is not None:
            if line.node in later:
                continue
            later[line.node] = None
        if line.lasting or any(output in wanted for output in line.outputs):
            wanted |= dict.fromkeys(line.values())
            kept.append(line)
    return kept[::-1]


def merged(lines: Sequence[Line], results: Sequence[Value]) -> tuple[list[Line], list[Value]]:
    """Equal lines once: the same op on the same values with the same constants.

    Where a value, or what it is a view of, may be changed in place, nothing is merged; nor what
    lies before a piece of Python with what lies behind it: it may have changed a parameter.
    """
    changed = changing(lines)
    same: dict[Value, Value] = {}
    known: dict[Any, list[Line]] = {}
    kept: list[Line] = []
    for line in lines:
        line.inputs = _with(line.inputs, same)
        line.constants = {name: _with(value, same) for name, value in line.constants.items()}
        touched = {value.root: None for value in [*line.values(), *line.outputs]}
        if line.op is None or line.lasting or line.op.exchanges or (
            any(root in changed for root in touched)
        ):  # fmt: skip
            kept.append(line)
            known = known if line.call is None else {}
            continue
        like = known.setdefault((line.op, *map(exactly, line.inputs)), [])
        twin = next((each for each in like if agree(each.constants, line.constants, is_)), None)
        if twin is None:
            like.append(line)
            kept.append(line)
        else:
            same |= zip(line.outputs, twin.outputs, strict=True)
    for value in [output for line in kept for output in line.outputs]:
        value.base = same.get(value.base, value.base) if value.base is not None else None
    return kept, _with(list(results), same)


def changing(lines: Sequence[Line]) -> dict[Value, None]:
    """The memory that some line may change: what ops write, and what pieces of Python are given."""
    found = [
        value.root for line in lines if line.lasting and line.node is None
        for value in line.values() if value.kind == COMPUTED or line.call is None
    ]  # fmt: skip
    return dict.fromkeys(found)


def _with(given: Any, same: dict[Value, Value]) -> Any:
    """``given`` with values replaced by those that they equal."""
    if isinstance(given, Value):
        return same.get(given, given)
    if type(given) in (list, tuple):
        return type(given)(_with(each, same) for each in given)
    return given
