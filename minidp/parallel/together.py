"""Sums over replicas and updates in one native call.

Done one after the other they read the gradient twice from memory. Here a block is updated as soon
as it is added, while it is in cache, by the same kernels in the same order; and replicas, which
wait for the interpreter behind each call, do so once a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minidp.errors import GraphError
from minidp.graph.program import native_calls
from minidp.parallel.bucket import Bucket
from minidp.parallel.host import tree_sum
from minidp.parallel.native_update import Update
from minidp.types import Array

LARGE = 2**12
"""Elements of a slice from which on that is worth the table that it needs."""
Run = tuple[int, int, Any]
"""Where a stretch of parameters starts and stops; its group, and how often it was updated."""


@dataclass
class Calls:
    """Tables that are to be run together, and the arrays that they are run on."""

    headers: list[int] = field(default_factory=list)
    held: list[list[Array]] = field(default_factory=list)

    def run(self) -> None:
        """Run them."""
        if self.headers:
            native_calls().run_all(self.headers)


class Together:
    """One replica's sums and updates of a bucket: a table of native calls for sums that are to be
    made, and one for those that are there. What it needs is made when the same is asked for the
    second time: an option that moves from step to step, but for numbers such as the learning rate,
    would ask for something else each time."""

    def __init__(self, bucket: Bucket, data: Array, optimizer: Any) -> None:
        self.bucket, self.data, self.optimizer = bucket, data, optimizer
        self._tables: dict[int, _Table] = {}
        """By the number of arrays that are given."""

    def ready(
        self, runs: Sequence[Run], asked: Any, state: dict[str, Array], given: list[Array],
        part: tuple[int, int], calls: Calls,
    ) -> bool:  # fmt: skip
        """Add to ``calls`` what adds a ``part`` of the buckets that replicas have ``given``, and
        updates these elements of each run; ``asked`` is what that depends on. False where it is not
        native."""
        if part[1] - part[0] < LARGE:
            return False
        table = self._tables.get(len(given))
        if table is None or table.asked != asked:
            self._tables[len(given)] = _Table(asked)
            return False
        if table.updates is None:
            table.make(self, runs, state, given, part)
        return table.ready(runs, given, calls)


class _Table:
    """A table for what is ``asked``: of a number of arrays that are given."""

    def __init__(self, asked: Any) -> None:
        self.asked = asked
        self.updates: list[Update] | None = None
        self.bound: Any = None
        """What can be run; None if it cannot be, or was not asked for again."""

    def make(
        self, kept: Together, runs: Sequence[Run], state: dict[str, Array], given: list[Array],
        part: tuple[int, int],
    ) -> None:  # fmt: skip
        optimizer, self.updates = kept.optimizer, []
        own = type(optimizer).__module__.startswith("minidp.optim.")
        if not own or native_calls() is None:
            return
        try:
            updates = [Update(optimizer, kept.bucket, 0, run, 1) for run in runs]
            self._held = [kept.data, *state.values()]  # no other gets their places in memory
            self.bound = _table(updates, self._held, list(state), given, part)
            self.updates = updates
        except GraphError:  # a rule that has no kernel of this kind, or none for the dtype
            return

    def ready(self, runs: Sequence[Run], given: list[Array], calls: Calls) -> bool:
        if self.bound is None:
            return False
        for place, each in enumerate(given):
            self.bound.names[place] = id(each)
        for update, (_, _, (number, taken)) in zip(self.updates or (), runs, strict=True):
            update.group, update.taken = update.optimizer.param_groups[number], taken
            update.fill(1)
        calls.headers.append(self.bound.addresses[0])
        calls.held.append(given)
        return True


def _add(slices: list[Array]) -> None:
    if slices[0].size:
        tree_sum(slices)


def _table(
    updates: Sequence[Update], arrays: Sequence[Array], names: Sequence[str],
    given: Sequence[Array], part: tuple[int, int],
) -> Any:  # fmt: skip
    """The table of native calls: they add a part of what is given, and update that of ``arrays``,
    the parameters and the state ``names``."""
    native, count, (first, last) = native_calls(), len(given), part

    def run(xp: Any, *inputs: Array) -> tuple[()]:
        gradients, (p, *state) = inputs[:count], inputs[count : count + len(arrays)]
        known, end = dict(zip(names, state, strict=True)), first
        for update, numbers in zip(updates, inputs[count + len(arrays) :], strict=True):
            part = slice(max(update.start, first), min(update.stop, last))
            if part.start < part.stop:
                _add([g[end : part.start] for g in gradients])  # what nothing updates
                slots, end = [known[name][part] for name in update.names], part.stop
                parts = tuple([g[part] for g in gradients])
                update.run(xp, p[part], parts if count > 1 else parts[0], *slots, numbers)
        _add([g[end:last] for g in gradients])
        return ()

    fixed = [*arrays, *[update.numbers[0] for update in updates]]
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
