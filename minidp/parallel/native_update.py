"""The update of native steps: the rules' own kernels, whose numbers come from memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minidp.backend import CPU
from minidp.errors import GraphError
from minidp.graph.program import native_calls
from minidp.parallel.bucket import Bucket
from minidp.parallel.ends import BucketEnd
from minidp.parallel.groups import NUMBERS, groups_of
from minidp.types import Array

Found = tuple[int, tuple[int, int, Any]]


class Update:
    """The update of a run of parameters of one bucket, which share a group and a count of steps.

    ``numbers`` has a row for each step of a call: what the rule is given by name then.
    """

    def __init__(
        self, optimizer: Any, bucket: Bucket, place: int, run: tuple[int, int, Any], rows: int
    ) -> None:  # fmt: skip
        self.optimizer, self.bucket, self.place = optimizer, bucket, place
        self.start, self.stop, (self.number, self.taken) = run
        self._made_for = self._look()
        self.constants = optimizer.constants(self.group, self.taken)
        kernel = CPU.kernel(optimizer.rule.name)
        self.numbers_of = native_calls().numbers_of(optimizer.rule.name)
        if kernel is None or self.numbers_of is None:
            raise GraphError(f"{optimizer.rule.name} has no numbers in memory")
        self.kernel = kernel
        first = self.numbers_of(**self.constants)
        self.numbers = np.tile(np.array(first, bucket.dtype), (rows, 1))
        self.cell = self.numbers[0]
        self._filled: tuple[Any, int] = None, 0
        """What some rows of numbers are for: while no step changes that, they are right."""
        self._kept = False
        """Whether the optimiser's state is the arrays that are updated here."""

    def _look(self) -> tuple[Any, ...]:
        """What it was made for, as it is now; all else may change from step to step."""
        self.group = self.optimizer.param_groups[self.number]
        self.names = self.optimizer.slots(self.group)
        options = {name: each for name, each in self.group.items() if name not in NUMBERS}
        return self.names, options

    def follows(self, found: Found) -> bool:
        """Take over what has changed since the last steps, in the optimiser's state as well; False
        if that cannot be."""
        place, (start, stop, (number, taken)) = found
        where = self.place, self.start, self.stop, self.number
        if where != (place, start, stop, number) or self._look() != self._made_for:
            return False
        self.taken = taken
        self.state(slice(0))
        return True

    def state(self, part: slice) -> list[Array]:
        """What the optimiser keeps of some elements, by the order of names."""
        bucket = self.bucket
        slots = bucket.master.state(self.optimizer, self.names, bucket.parameters, bucket.master)
        self._slots = [slots[name] for name in self.names]
        self._kept = all(slot.kept for slot in self._slots)
        return [slot.flat[part] for slot in self._slots]

    def run(self, xp: Any, p: Array, g: Array | tuple[Array, ...], *rest: Array) -> None:
        """Update p, on arrays of the same elements; the numbers come last. Several gradients are
        added into the first of them."""
        *state, numbers = rest
        given = self.optimizer.given(dict(zip(self.names, state, strict=True)))
        if self.kernel(p, g, *given, numbers=numbers, **self.constants) is NotImplemented:
            raise GraphError(f"{self.optimizer.rule.name} does not serve {p.dtype}")

    def fill(self, count: int) -> None:
        """Set the numbers of the next steps."""
        taken, key = self.taken, (float(self.group["lr"]), self.taken)
        if self._filled[0] == key and self._filled[1] >= count:
            return
        for row in range(count):
            constants = self.optimizer.constants(self.group, taken)
            self.numbers[row] = self.numbers_of(**constants)
            before, taken = taken, self.optimizer.after(self.group, taken)
            if before == taken:  # nothing else changes them
                self.numbers[row + 1 : count] = self.numbers[row]
                self._filled = (key, count) if row == 0 else (None, 0)
                return
        self._filled = None, 0

    def advance(self, steps: int) -> None:
        """Count the steps in the optimiser, and let it keep its state."""
        if self._kept and self.optimizer.after(self.group, self.taken) == self.taken:
            return
        bucket = self.bucket
        for i, parameter in enumerate(bucket.parameters):
            if self.start <= bucket.layout.offsets[i] < self.stop:
                views = [slot.views[i] for slot in self._slots]
                arrays = dict(zip(self.names, views, strict=True))
                self.optimizer.advance(parameter, arrays, self.group, steps)


def updates_of(
    optimizer: Any, ends: Sequence[BucketEnd], used: Sequence[Sequence[bool]], rows: int
) -> list[Update]:
    """The updates of all buckets, in order."""
    return [Update(optimizer, ends[place].bucket, place, run, rows)
            for place, run in runs_of(optimizer, ends, used)]  # fmt: skip


def runs_of(
    optimizer: Any, ends: Sequence[BucketEnd], used: Sequence[Sequence[bool]]
) -> list[Found]:
    """The place of a bucket, and a run of it, for each update. Parameters that are not used, or
    that the optimiser does not have, are left alone."""
    owner, result = groups_of(optimizer), list[Found]()
    for place, (end, reached) in enumerate(zip(ends, used, strict=True)):
        kinds = [
            (owner[p], optimizer.steps_taken(p)) if there and p in owner else None
            for p, there in zip(end.bucket.parameters, reached, strict=True)
        ]
        result += [(place, run) for run in end.bucket.runs(kinds)]
    return result
