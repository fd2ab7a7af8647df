"""A bucket's sum over replicas and its update in one native call.

Done one after the other they read the gradient twice from memory. Here a block is updated as soon as
it is added, while it is in cache, by the same kernels in the same order; and replicas, which
need the interpreter between two calls, need it once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from minidp.errors import GraphError
from minidp.graph.program import native_calls
from minidp.parallel.communicator import bounds
from minidp.parallel.host import tree_sum
from minidp.parallel.native_update import Update
from minidp.types import Array

if TYPE_CHECKING:
    from minidp.parallel.ends import BucketEnd

LARGE = 2**16
"""Elements of a slice from which on it is worth while: smaller ones stay in cache anyway."""
BLOCK = 2**14
"""Elements that are added and updated before others."""


class Together:
    """What one replica's last update of a bucket needed: it serves as long as the same arrays are
    updated in the same way, but for numbers."""

    def __init__(self, end: BucketEnd, optimizer: Any) -> None:
        self.end, self.optimizer = end, optimizer
        self._updates: list[Update] = []
        self._arrays: list[Array] = []
        self._made_for: list[tuple[int, int]] = []
        self._bound: Any = None

    def run(
        self, runs: Sequence[tuple[int, int, Any]], state: dict[str, Array], given: list[Array],
        first: int,
    ) -> bool:  # fmt: skip
        """Add the slices that replicas have ``given``, which begin at ``first`` in the bucket, and
        update these elements of each run. False, and nothing done, where that cannot be native."""
        if len(given) < 2 or given[0].size < LARGE:
            return False
        arrays = [self.end.memory.data, *state.values()]
        if not self._serves(runs, arrays, len(given)):
            self._make(runs, arrays, list(state), given, first)
        if self._bound is None:
            return False
        for place, each in enumerate(given):
            self._bound.names[place] = id(each)
        for update in self._updates:
            update.fill(1)
        self._bound.run()
        return True

    def _serves(
        self, runs: Sequence[tuple[int, int, Any]], arrays: list[Array], replicas: int
    ) -> bool:  # fmt: skip
        made_for = [(start, stop) for start, stop, _ in runs]
        same = made_for == self._made_for and len(arrays) == len(self._arrays)
        if not same or not all(a is b for a, b in zip(arrays, self._arrays, strict=True)):
            return False
        found = zip(self._updates, runs, strict=False)  # none where nothing could be made
        return all([update.takes((0, run)) for update, run in found])

    def _make(
        self, runs: Sequence[tuple[int, int, Any]], arrays: list[Array], names: list[str],
        given: list[Array], first: int,
    ) -> None:  # fmt: skip
        self._arrays, self._made_for = arrays, [(start, stop) for start, stop, _ in runs]
        self._updates, self._bound = [], None
        own = type(self.optimizer).__module__.startswith("minidp.optim.")
        if not own or native_calls() is None:
            return
        try:
            updates = [Update(self.optimizer, self.end, 0, run, 1) for run in runs]
            self._bound = _table(updates, arrays, names, given, first)
            self._updates = updates
        except GraphError:  # a rule that has no kernel of this kind, or none for the dtype
            return


def _table(
    updates: Sequence[Update], arrays: Sequence[Array], names: Sequence[str],
    given: Sequence[Array], first: int,
) -> Any:  # fmt: skip
    """The table of native calls: block by block they add what is given and update ``arrays``, the
    parameters and the state ``names``, of which they take the slice from ``first`` on."""
    native, size, count = native_calls(), given[0].size, len(given)

    def run(xp: Any, *inputs: Array) -> None:
        gradients, (p, *state) = inputs[:count], inputs[count : count + len(arrays)]
        known = dict(zip(names, state, strict=True))
        for start, stop in pairwise(bounds(size, -(-size // BLOCK))):
            tree_sum([g[start:stop] for g in gradients])
            for update, numbers in zip(updates, inputs[count + len(arrays) :], strict=True):
                part = slice(max(update.start - first, start), min(update.stop - first, stop))
                if part.start < part.stop:
                    slots = [known[name][part] for name in update.names]
                    update.run(xp, p[part], gradients[0][part], *slots, numbers)

    fixed = [each[first : first + size] for each in arrays]
    fixed += [update.numbers[0] for update in updates]
    stand_ins = [native.origin(np.zeros_like(each)) for each in (*given, *fixed)]
    _, notes = native.note(lambda *inputs: (run(*inputs), ())[1], stand_ins)
    if notes.problem is not None:
        raise GraphError(f"the update cannot run natively: {notes.problem}")
    places = {id(each): place for place, each in enumerate(stand_ins)}
    for note in notes.taken:
        note.slots = [(word, places.get(id(origin), origin), offset)
                      for word, origin, offset in note.slots]  # fmt: skip
    plan = native.Plan(notes.taken, lambda place, turn: (place, 0))
    addresses = [0] * count + [native.start(each) for each in fixed]
    return native.Bound(plan, addresses, count, [(0, len(plan.entries))])
