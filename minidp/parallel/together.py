"""A bucket's sum over replicas and its update in one native call.

Done one after the other they read the gradient twice from memory. Here a block is updated as soon
as it is added, while it is in cache, by the same kernels in the same order; and replicas, which
wait for the interpreter behind each call, do so once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from minidp.errors import GraphError
from minidp.graph.program import native_calls
from minidp.parallel.bucket import Bucket
from minidp.parallel.communicator import bounds
from minidp.parallel.host import tree_sum
from minidp.parallel.native_update import NUMBERS, Update
from minidp.types import Array

LARGE = 2**12
"""Elements of a slice from which on that is worth the table that it needs."""
BLOCK = 2**14
"""Elements that are added and updated before others."""


class Together:
    """One replica's sums and updates of a bucket. What they need is made when the same is asked for
    the second time: an option that moves from step to step, but for numbers such as the learning
    rate, would ask for something else each time."""

    def __init__(self, bucket: Bucket, data: Array, optimizer: Any) -> None:
        self.bucket, self.data, self.optimizer = bucket, data, optimizer
        self._asked: Any = None
        self._made_for: Any = None
        self._updates: list[Update] = []
        self._bound: Any = None
        self._held: list[Array] = []
        """The arrays whose addresses are in the table, so that no other gets their places."""

    def run(
        self, runs: Sequence[tuple[int, int, Any]], state: dict[str, Array], given: list[Array],
        first: int,
    ) -> bool:  # fmt: skip
        """Add the slices that replicas have ``given``, which begin at ``first`` in the bucket, and
        update these elements of each run. False, and nothing done, where that is not native."""
        if len(given) < 2 or given[0].size < LARGE:
            return False
        asked = [self._look(*run) for run in runs], [*map(id, state.values())], len(given)
        if asked != self._made_for:
            before, self._asked = self._asked, asked
            if asked != before:
                return False
            self._make(runs, state, given, first)
            self._made_for = asked
        if self._bound is None:
            return False
        for place, each in enumerate(given):
            self._bound.names[place] = id(each)
        for update, (_, _, (number, taken)) in zip(self._updates, runs, strict=True):
            update.group, update.taken = self.optimizer.param_groups[number], taken
            update.fill(1)
        self._bound.run()
        return True

    def _look(self, start: int, stop: int, kind: tuple[int, Any]) -> Any:
        """What else than numbers an update depends on."""
        group = self.optimizer.param_groups[kind[0]]
        return start, stop, kind[0], [each for each in group.items() if each[0] not in NUMBERS]

    def _make(
        self, runs: Sequence[tuple[int, int, Any]], state: dict[str, Array], given: list[Array],
        first: int,
    ) -> None:  # fmt: skip
        self._updates, self._bound = [], None
        own = type(self.optimizer).__module__.startswith("minidp.optim.")
        if not own or native_calls() is None:
            return
        try:
            updates = [Update(self.optimizer, self.bucket, 0, run, 1) for run in runs]
            self._held = [self.data, *state.values()]
            self._bound = _table(updates, self._held, list(state), given, first)
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

    def run(xp: Any, *inputs: Array) -> tuple[()]:
        gradients, (p, *state) = inputs[:count], inputs[count : count + len(arrays)]
        known = dict(zip(names, state, strict=True))
        for start, stop in pairwise(bounds(size, -(-size // BLOCK))):
            tree_sum([g[start:stop] for g in gradients])
            for update, numbers in zip(updates, inputs[count + len(arrays) :], strict=True):
                part = slice(max(update.start - first, start), min(update.stop - first, stop))
                if part.start < part.stop:
                    slots = [known[name][part] for name in update.names]
                    update.run(xp, p[part], gradients[0][part], *slots, numbers)
        return ()

    fixed = [each[first : first + size] for each in arrays]
    fixed += [update.numbers[0] for update in updates]
    stand_ins = [native.origin(np.zeros_like(each)) for each in (*given, *fixed)]
    _, notes = native.note(run, stand_ins)
    if notes.problem is not None:
        raise GraphError(f"the update cannot run natively: {notes.problem}")
    places = {id(each): place for place, each in enumerate(stand_ins)}
    for note in notes.taken:
        note.slots = [(word, places.get(id(origin), origin), offset)
                      for word, origin, offset in note.slots]  # fmt: skip
    plan = native.Plan(notes.taken, lambda place, turn: (place, 0))
    addresses = [0] * count + [native.start(each) for each in fixed]
    return native.Bound(plan, addresses, count, [(0, len(plan.entries))])
