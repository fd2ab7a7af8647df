"""Some steps that replicas run in one native call each."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from minidp.captured import Recordings, kind_of
from minidp.form import form_of
from minidp.parallel.batch import Batch
from minidp.parallel.denominator import share_of, total_weight
from minidp.parallel.feed import Fed
from minidp.parallel.host import tree_total
from minidp.parallel.native_step import NativeStep
from minidp.parallel.split import Share
from minidp.tensor import Tensor
from minidp.types import Array

if TYPE_CHECKING:
    from minidp.parallel.replica import World


class Given:
    """A batch as it is run natively: the arrays that are cut, and what its mean divides by."""

    def __init__(self, fed: Fed, loss: Any) -> None:
        batch, self.used = Batch.of(fed[0]), fed[1]
        self.rows = batch.rows
        self.kind = kind_of(batch.inputs, batch.named, batch.targets, 1)
        tensors: list[Tensor] = []
        form_of((batch.inputs, batch.named, batch.targets), tensors)
        self.arrays = [tensor.array for tensor in tensors]
        self.plain = len({*map(id, self.arrays)}) == len(self.arrays) and all(
            type(each.array) is np.ndarray and each.node is None and each.shape[:1] == (self.rows,)
            for each in tensors
        )
        """Whether each leaf is an array of its own that has the batch's rows."""
        self.total = total_weight(loss, batch.targets)

    def cut(self, share: Share) -> list[Array]:
        """The rows of a share."""
        return [array[share.start : share.stop] for array in self.arrays]


class Chunk:
    """Steps from the number ``first`` on, of one kind of batch, split alike."""

    def __init__(
        self, step: NativeStep, plans: Sequence[Recordings], batches: Sequence[Given],
        split: Sequence[Share], world: World, first: int,
    ) -> None:  # fmt: skip
        self.step, self.plans, self.batches, self.split = step, plans, batches, split
        self.first, self.count = first, len(batches)
        self.ended = [(0, -1)] * len(split)
        self.began = perf_counter()
        step.draw(world.generator.seed, first, self.count)
        for update in step.updates:
            update.fill(self.count)
        for table, share in zip(step.tables, split, strict=True):
            totals = [share_of(each.total, share) for each in batches]
            told = [total for total in totals if total is not None]
            table.give([each.cut(share) for each in batches], told)

    def run(self, rank: int) -> None:
        """Run the steps of one replica. Who stops stops all, in the same step."""
        self.ended[rank] = self.step.tables[rank].run(self.count)
        if self.ended[rank][1] >= 0:
            self.step.meeting.stop()

    @property
    def done(self) -> int:
        """How many steps have happened."""
        return min(done for done, _ in self.ended)

    @property
    def waited_too_long(self) -> bool:
        """Whether nothing has stopped the steps but a meeting that some did not come to."""
        tables = zip(self.step.tables, self.ended, strict=True)
        return self.done < self.count and all(at in table.meetings for table, (_, at) in tables)

    def losses(self) -> list[float]:
        """The mean losses of the steps that have happened."""
        tables = zip(self.step.tables, self.split, strict=True)
        found: Array = tree_total([t.found(self.done) * share.fraction for t, share in tables])
        losses: list[float] = found.tolist()
        return losses

    def commit(self) -> None:
        """What the steps leave behind: gradients, the optimiser's state, counters."""
        inspected = any(at > table.meetings[0] for table, (_, at) in
                        zip(self.step.tables, self.ended, strict=True) if table.meetings)  # fmt: skip
        self.step.commit(self.done, self.done == self.count or not inspected)
        for plan in self.plans:
            plan.calls += self.done
