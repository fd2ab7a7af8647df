"""More for a bound step to do natively at its end: pack gradients, meet other replicas, update.

What is appended is Python over ``xp`` and compiled functions, as bodies and kernels are. It is
noted on stand-ins, so that nothing is changed before the step runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minidp.errors import GraphError
from minidp.graph.line import Line, Value
from minidp.graph.noted import Noted
from minidp.graph.placing import Placing
from minidp.types import Array


def append(
    placing: Placing, function: Callable[..., Any], values: Sequence[Value] = (),
    arrays: Sequence[Array] = (), cells: Sequence[Array] = (),
) -> list[Any]:  # fmt: skip
    """Append ``function(xp, *values, *arrays, *cells)``, which is given the arrays of values of the
    step, arrays that are the same in each run, and ones like ``cells`` that are named for each run;
    it may change all. What it returns is let go. Gives the memory that each cell is: the same for
    the same one.

    A GraphError where it does what cannot be noted.
    """
    known: dict[int, Any] = {}
    given = [_value(placing, value, known) for value in values]
    given += [_array(placing, array, known) for array in arrays]
    changing = [_cell(placing, cell, known) for cell in cells]
    named = [known[id(placing.native.origin_of(cell))] for cell in changing]
    placing.outside |= dict.fromkeys(named)
    given += changing
    _, notes = placing.native.note(lambda *inputs: (function(*inputs), ())[1], given)
    name = getattr(function, "__qualname__", repr(function))
    if notes.problem is not None:
        raise GraphError(f"{name} cannot run natively in a captured step: {notes.problem}")
    for note in notes.taken:
        note.slots = [(word, _memory(placing, origin, known, notes.fixed), offset)
                      for word, origin, offset in note.slots]  # fmt: skip
    placing.append(Noted(Line(None, list(values), {}, [], call=function, text=name), notes))
    return named


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


def _value(placing: Placing, value: Value, known: dict[int, Any]) -> Array:
    """An array with the layout of a value, in memory that stands for the value's."""
    layout = placing.recording.layouts[value]
    origin = placing.native.origin(np.zeros(max(1, layout.memory.size), np.uint8))
    known[id(origin)] = layout.memory
    return type(origin)(layout.shape, layout.dtype, origin, layout.offset, layout.strides)


def _array(
    placing: Placing, array: Array, known: dict[int, Any], fixed: bool = True
) -> Array:  # fmt: skip
    """A copy of an array, in memory that stands for the array's."""
    native = placing.native
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
        copy = _array(placing, cell, memory, fixed=False)
        placing.cells[id(cell)] = cell, copy, memory
    _, copy, memory = placing.cells[id(cell)]
    known |= memory
    return copy


def _memory(placing: Placing, origin: Any, known: dict[int, Any], fixed: dict[int, Array]) -> Any:
    native = placing.native
    if not isinstance(origin, native.Array):
        return origin
    return known.setdefault(id(origin), native.Memory(origin, id(origin) in fixed))
