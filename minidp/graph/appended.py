"""More for a bound step to do natively, mostly at its end: pack gradients, meet others, update.

It is Python over ``xp`` and compiled functions, as bodies and kernels are. It is noted on
stand-ins, so that nothing is changed before the step runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minidp.errors import GraphError
from minidp.graph.line import Line, Value
from minidp.graph.noted import Noted, Recording
from minidp.graph.placing import Placing
from minidp.types import Array


def append(
    placing: Placing, function: Callable[..., Any], values: Sequence[Value] = (),
    arrays: Sequence[Array] = (), cells: Sequence[Array] = (),
) -> list[Any]:  # fmt: skip
    """Append ``function(xp, *values, *arrays, *cells)``, which is given what ``noted`` says, and
    arrays like ``cells`` that are named for each run. Gives the memory that each cell is: the same
    for the same one."""
    known: dict[int, Any] = {}
    changing = [_cell(placing, cell, known) for cell in cells]
    named = [known[id(placing.native.origin_of(cell))] for cell in changing]
    placing.outside |= dict.fromkeys(named)
    placing.append(
        noted(placing.native, placing.recording, function, values, arrays, changing, known)
    )
    return named


def noted(
    native: Any, recording: Recording, function: Callable[..., Any],
    values: Sequence[Value] = (), arrays: Sequence[Array] = (), changing: Sequence[Array] = (),
    known: dict[int, Any] | None = None,
) -> Noted:  # fmt: skip
    """The notes of ``function(xp, *values, *arrays, *changing)``, which is given the arrays of
    values of the step, arrays that are the same in each run, and stand-ins whose memory is
    ``known`` by the ids of their origins; it may change all. What it returns is let go.

    A GraphError where it does what cannot be noted.
    """
    known = {} if known is None else known
    given = [_value(native, recording, value, known) for value in values]
    given += [_array(native, array, known) for array in arrays]
    given += changing
    _, notes = native.note(lambda *inputs: (function(*inputs), ())[1], given)
    name = getattr(function, "__qualname__", repr(function))
    if notes.problem is not None:
        raise GraphError(f"{name} cannot run natively in a captured step: {notes.problem}")
    for note in notes.taken:
        note.slots = [(word, _memory(native, origin, known, notes.fixed), offset)
                      for word, origin, offset in note.slots]  # fmt: skip
    return Noted(Line(None, list(values), {}, [], call=function, text=name), notes)


def append_note(placing: Placing, note: Any) -> None:
    """Append one note that was made otherwise, such as that of a Meeting."""
    notes = placing.native.Notes()
    notes.taken.append(note)
    placing.append(Noted(Line(None, [], {}, [], text=note.text), notes))


def memory_of(placing: Placing, cell: Array) -> Any:
    """The memory that a cell is, which is to be named for each run."""
    known: dict[int, Any] = {}
    memory = known[id(placing.native.origin_of(_cell(placing, cell, known)))]
    placing.outside[memory] = None
    return memory


def _value(
    native: Any, recording: Recording, value: Value, known: dict[int, Any]
) -> Array:  # fmt: skip
    """An array with the layout of a value, in memory that stands for the value's."""
    layout = recording.layouts[value]
    origin = native.origin(np.zeros(max(1, layout.memory.size), np.uint8))
    known[id(origin)] = layout.memory
    return type(origin)(layout.shape, layout.dtype, origin, layout.offset, layout.strides)


def _array(
    native: Any, array: Array, known: dict[int, Any], fixed: bool = True
) -> Array:  # fmt: skip
    """A copy of an array, in memory that stands for the array's."""
    held = np.zeros(max(1, native.extent(array)), np.uint8)
    origin, offset = native.origin(held), native.start(array) - native.low(array)
    known[id(origin)] = native.Memory(array, fixed)
    copy = type(origin)(array.shape, array.dtype, origin, offset, array.strides)
    np.copyto(native.plain(copy), array)
    return copy


def _cell(placing: Placing, cell: Array, known: dict[int, Any]) -> Array:
    """A copy of a cell, which is kept for who is given the cell again."""
    if id(cell) not in placing.cells:
        memory: dict[int, Any] = {}
        copy = _array(placing.native, cell, memory, fixed=False)
        placing.cells[id(cell)] = cell, copy, memory
    _, copy, memory = placing.cells[id(cell)]
    known |= memory
    return copy


def _memory(native: Any, origin: Any, known: dict[int, Any], fixed: dict[int, Array]) -> Any:
    if not isinstance(origin, native.Array):
        return origin
    return known.setdefault(id(origin), native.Memory(origin, id(origin) in fixed))
