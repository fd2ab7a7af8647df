"""Cache lines of gradients that other replicas have read, taken back while a native step computes."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from minidp.graph.appended import insert_note, memory_of
from minidp.graph.placing import Placing
from minidp.graph.tools.cost import operations
from minidp.parallel.ends import BucketEnd
from minidp.types import Array

LINE = 64
"""Bytes of a cache line."""
AT_ONCE, EACH = 64, 128
"""How many are claimed at once, for a core has room for so many stores; and how many operations
take as long as one."""


def claim(
    placing: Placing, ends: Sequence[BucketEnd], gradients: Sequence[Array],
    computed: Sequence[tuple[Any, int, int]],
) -> dict[Any, Array]:  # fmt: skip
    """Let lines of a step claim cache lines of a replica's ``gradients``, as many as go by while
    they compute, before these are written. ``computed`` says which memory lies in which gradient,
    and of which parameter. Gives the memory that stands for each gradient."""
    memory = {place: memory_of(placing, each) for place, each in enumerate(gradients)}
    left, owner = deque(_blocks(ends)), {of: (place, i) for of, place, i in computed}
    (stretch,), inserted = placing.stretches(), 0
    for turn, each in enumerate([*stretch.lines]):
        written = {owner.get(of) for note in each.notes.taken for _, of, _ in note.slots}
        room = min(AT_ONCE, operations(each.line) // EACH)
        left = deque(one for one in left if one[:2] not in written)
        while room and left:
            place, i, first, last = left.popleft()
            count = min(room, -(-(last - first) // LINE))
            note = placing.native.claimed(memory[place], first, count)
            insert_note(placing, turn + inserted, note)
            room, inserted, first = room - count, inserted + 1, first + count * LINE
            if first < last:
                left.appendleft((place, i, first, last))
    return {of: gradients[place] for place, of in memory.items()}


def _blocks(ends: Sequence[BucketEnd]) -> list[tuple[int, int, int, int]]:
    """Of each parameter's gradient, as they are computed: the bucket, which parameter, the first
    byte and the one behind the last."""
    return [
        (place, i, start * end.bucket.dtype.itemsize, stop * end.bucket.dtype.itemsize)
        for place, end in enumerate(ends)
        for i, (start, stop) in enumerate(pairwise(end.bucket.layout.offsets))
    ]
