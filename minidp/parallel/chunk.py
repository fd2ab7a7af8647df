"""Some steps that replicas run in one native call each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from minidp.captured import Recordings, kind_of
from minidp.form import form_of
from minidp.parallel.batch import Batch
from minidp.parallel.denominator import is_known, total_weight
from minidp.parallel.feed import Fed
from minidp.parallel.host import tree_total
from minidp.parallel.native_step import NativeStep
from minidp.parallel.split import Share
from minidp.tensor import Tensor
from minidp.types import Array

if TYPE_CHECKING:
    from minidp.parallel.replica import World


@dataclass
class Given:
    """A batch as it is run natively: the arrays that are cut, what its mean divides by, and what
    tells the loader that it is used."""

    arrays: list[Array]
    total: float | None
    used: Callable[[], None]


class Kind:
    """What batches that are like a first one have in common; ``key`` is None where a batch cannot
    be run natively: each leaf is to be an array of its own that is cut by rows."""

    def __init__(self, first: Any, loss: Any) -> None:
        batch = Batch.of(first)
        self.rows, self.first = batch.rows, first
        self._loss = loss if is_known(loss) else None
        key, leaves = _taken_apart(batch)
        self._layouts = [(x.array.shape, x.array.strides, x.array.dtype) for x in leaves]
        self.count = len(leaves)
        self.key = key if self.rows and self._arrays(leaves) else None
        flat = type(first) in (tuple, list) and all(type(leaf) is Tensor for leaf in first)
        self._flat = len(first) if flat else 0

    def given(self, fed: Fed) -> Given | None:
        """A batch of the loader, if it is of this kind."""
        batch, used = fed
        if self._flat and type(batch) is type(self.first) and len(batch) == self._flat:
            leaves, targets = batch, batch[-1]
        else:
            other = Batch.of(batch)
            targets, (key, leaves) = other.targets, _taken_apart(other)
            if key != self.key:
                return None
        arrays = self._arrays(leaves)
        if arrays is None:
            return None
        total = None if self._loss is None else total_weight(self._loss, targets)
        return Given(arrays, total, used)

    def _arrays(self, leaves: Sequence[Any]) -> list[Array] | None:
        """The arrays of leaves that are Tensors on the CPU as the first batch's are."""
        arrays = []
        for leaf, (shape, strides, dtype) in zip(leaves, self._layouts, strict=True):
            if type(leaf) is not Tensor or leaf.node is not None:
                return None
            array = leaf.array
            if type(array) is not np.ndarray or array.dtype is not dtype:
                return None
            if array.shape != shape or array.strides != strides or shape[:1] != (self.rows,):
                return None
            arrays.append(array)
        return arrays if len({*map(id, arrays)}) == self.count else None


def _taken_apart(batch: Batch) -> tuple[Any, list[Tensor]]:
    """The kind of a batch, as for captured steps, and its leaves."""
    leaves: list[Tensor] = []
    form_of((batch.inputs, batch.named, batch.targets), leaves)
    return kind_of(batch.inputs, batch.named, batch.targets, 1), leaves


class Chunk:
    """Steps from the number ``first`` on, of one kind of batch, split alike."""

    def __init__(
        self, step: NativeStep, plans: Sequence[Recordings], kind: Kind, batches: Sequence[Given],
        split: Sequence[Share], world: World, first: int,
    ) -> None:  # fmt: skip
        self.step, self.plans, self.batches, self.split = step, plans, batches, split
        self.rows = kind.rows
        self.first, self.count = first, len(batches)
        self.ended = [(0, -1)] * len(split)
        self.began = perf_counter()
        step.draw(world.generator.seed, first, self.count)
        for update in step.updates:
            update.fill(self.count)
        totals = [each.total for each in batches if each.total is not None]
        for table, share in zip(step.tables, split, strict=True):
            rows, fraction = slice(share.start, share.stop), share.fraction
            cut = [[array[rows] for array in each.arrays] for each in batches]
            table.give(cut, [total * fraction for total in totals])

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
        self.step.seconds = (perf_counter() - self.began) / self.done
        tables = zip(self.step.tables, self.ended, strict=True)
        self.step.commit(self.done, not any(table.spoiled(at) for table, (_, at) in tables))
        for plan in self.plans:
            plan.calls += self.done
