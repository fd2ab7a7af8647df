"""Which part of the parameters a replica updates in native steps, and cache lines that go from core
to core there: asked for, or taken over, all at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from minidp.graph.appended import append_note, memory_of
from minidp.graph.line import Value
from minidp.graph.placing import Placing
from minidp.parallel.communicator import bounds
from minidp.parallel.ends import BucketEnd
from minidp.types import Array

ROWS = 2**15
"""Bytes of the next step's rows up to which they are asked for: more would drive out the rest."""
Slices = Sequence[tuple[int, slice]]
"""Which bucket, and which part of it a replica updates."""


def slices_of(
    ends: Sequence[BucketEnd], rank: int, size: int, most: int, block: int
) -> Slices:  # fmt: skip
    """Each bucket's slice of one of ``size`` replicas, in blocks of so many elements or, where
    they would be more than ``most``, larger ones."""
    found = []
    for place, end in enumerate(ends):
        first, last = bounds(end.bucket.size, size)[rank : rank + 2]
        count = min(most, -(-(last - first) // block))
        inside = bounds(last - first, count) if count else []
        found += [(place, slice(first + i, first + j)) for i, j in pairwise(inside)]
    return found


def ask_for_rows(
    placing: Placing, arguments: Sequence[Value], starts: Sequence[int]
) -> list[tuple[Any, int]]:
    """Append that the rows of the next step are asked for, where they are few: they are in no
    cache. Gives memory that is an argument of the next step, and which."""
    known = placing.recording.layouts
    sizes = [placing.memory(value).size if value in known else 0 for value in arguments]
    found = []
    for i, first in enumerate(starts if sum(sizes) <= ROWS else ()):
        if sizes[i]:
            memory = memory_of(placing, np.zeros(sizes[i], np.uint8))
            append_note(placing, placing.native.fetched(memory, first, sizes[i]))
            found.append((memory, i))
    return found


def take_gradients(placing: Placing, cells: Sequence[Array]) -> dict[Any, Array]:
    """Append that another replica's gradients are taken over, which it will write again. Gives the
    memory of each."""
    found = {memory_of(placing, cell): cell for cell in cells}
    for memory, cell in found.items():
        append_note(placing, placing.native.taken(memory, 0, cell.nbytes))
    return found


def take_parameters(placing: Placing, ends: Sequence[BucketEnd], slices: Slices) -> None:
    """Append that the parameters are taken over, which all have read, that this replica is to
    update."""
    for place, part in slices:
        values = ends[place].memory.data
        _append(placing, placing.native.taken, placing.native.Memory(values, True), values, part)


def take_back(
    placing: Placing, ends: Sequence[BucketEnd], cells: Sequence[Array], slices: Slices
) -> dict[Any, Array]:
    """Append, behind an update, that the other parameters are asked for, which others have updated,
    and this replica's gradients of these taken back. Gives the memory of the gradients."""
    found = {memory_of(placing, cells[place]): place for place, _ in slices}
    memories, native = {place: memory for memory, place in found.items()}, placing.native
    for place, part in slices:
        values = ends[place].memory.data
        for others in (slice(0, part.start), slice(part.stop, len(values))):
            _append(placing, native.fetched, native.Memory(values, True), values, others)
            _append(placing, native.taken, memories[place], values, others)
    return {memory: cells[place] for memory, place in found.items()}


def _append(placing: Placing, note_of: Any, memory: Any, array: Array, part: slice) -> None:
    """Append a note on what is the part of an array in some memory."""
    size = (part.stop - part.start) * array.itemsize
    if size:
        append_note(placing, note_of(memory, part.start * array.itemsize, size))
