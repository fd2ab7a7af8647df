"""Some steps that replicas run in one native call each, and the batches for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from operator import is_
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from minidp.graph.captured import kind_of
from minidp.graph.form import form_of
from minidp.nested import leaves as every_leaf
from minidp.parallel.batch import Batch, Whole
from minidp.parallel.denominator import total_weights
from minidp.parallel.feed import Fed
from minidp.parallel.host import tree_total
from minidp.parallel.native_step import NativeStep
from minidp.parallel.split import Share
from minidp.tensor import Tensor
from minidp.types import Array

if TYPE_CHECKING:
    from minidp.parallel.replica import World


@dataclass
class Batches:
    """Batches of one kind: the arrays of each leaf, one for each batch; what the means divide by,
    where the loss knows it; and what tells the loader that a batch is used."""

    columns: list[list[Array]]
    totals: list[float | None]
    used: list[Callable[[], None]]


class Kind:
    """What batches that are like a first one have in common; ``key`` is None where a batch cannot
    be run natively: each leaf is to be an array of its own that is cut by rows."""

    def __init__(self, first: Any) -> None:
        batch = Batch.of(first)
        self.rows, self.first = batch.rows, first
        key, leaves = _taken_apart(batch)
        self.layouts = [_layout(leaf.array) for leaf in leaves]
        own = len({id(leaf.array) for leaf in leaves}) == len(leaves)
        plain = all(_plain(leaf) and leaf.shape[:1] == (self.rows,) for leaf in leaves)
        self.key = key if self.rows and own and plain else None
        self._flat = _is_flat(first)

    def like(self, batch: Any) -> bool:
        """Whether a batch is plainly of this kind: False where that takes longer to find out."""
        return self.key is not None and self._one(batch) is not None

    def _one(self, batch: Any) -> list[Array] | None:
        """The arrays of a tuple of Tensors that is like the first."""
        if not self._flat or type(batch) is not type(self.first):
            return None
        if len(batch) != len(self.layouts) or not all(map(_plain, batch)):
            return None
        arrays = [leaf.array for leaf in batch]
        same = [*map(_layout, arrays)] == self.layouts
        return arrays if same and len(set(map(id, arrays))) == len(arrays) else None

    def batches(self, fed: Sequence[Fed], loss: Any) -> Batches:
        """The first of these batches of a loader that are of this kind."""
        given = [batch for batch, _ in fed]
        one = self._one(given[0]) if len(given) == 1 else None
        found = self._all(given) if one is None else ([[each] for each in one], [given[0][-1]])
        if found is None:
            found = self._one_by_one(given)
        columns, targets = found
        used = [each for _, each in fed[: len(targets)]]
        try:
            return Batches(columns, total_weights(loss, targets), used)
        except Exception:  # of some batch: Python runs the next one, and will meet that one
            return Batches([], [], [])

    def _all(self, batches: Sequence[Any]) -> tuple[list[list[Array]], Sequence[Tensor]] | None:
        """All at once, which takes a tenth of the time, if all are tuples of Tensors alike."""
        columns, leaves = list[list[Array]](), tuple[Tensor, ...]()
        if not self._flat or set(map(type, batches)) != {type(self.first)}:
            return None
        if set(map(len, batches)) != {len(self.first)}:
            return None
        for leaves, layout in zip(zip(*batches, strict=True), self.layouts, strict=True):
            if set(map(type, leaves)) != {Tensor} or {leaf.node for leaf in leaves} != {None}:
                return None
            arrays = [leaf.array for leaf in leaves]
            if set(map(type, arrays)) != {np.ndarray}:
                return None
            found = {(a.shape, a.strides, a.dtype) for a in arrays}
            if found != {layout}:
                return None
            columns.append(arrays)
        if any(any(map(is_, a, b)) for a, b in combinations(columns, 2)):
            return None
        return columns, leaves

    def _one_by_one(self, batches: Sequence[Any]) -> tuple[list[list[Array]], list[Any]]:
        rows, targets = [], []
        for given in batches:
            kind = kind_at(given)
            if kind is None or kind.key is None or kind.key != self.key:
                break  # if it is none, who runs it in Python will say so
            batch = Batch.of(given)
            rows.append([leaf.array for leaf in _taken_apart(batch)[1]])
            targets.append(batch.targets)
        return [list(column) for column in zip(*rows, strict=True)], targets


def kind_at(batch: Any) -> Kind | None:
    """The kind of batches like this; None where it is no batch: in Python that is an error."""
    try:
        return Kind(batch)
    except Exception:
        return None


def _is_flat(batch: Any) -> bool:
    return type(batch) in (tuple, list) and all(map(_plain, batch))


def _plain(leaf: Any) -> bool:
    """Whether it is a Tensor on the CPU that needs no gradient."""
    return type(leaf) is Tensor and leaf.node is None and type(leaf.array) is np.ndarray


def _layout(array: Array) -> Any:
    return array.shape, array.strides, array.dtype


def _taken_apart(batch: Batch) -> tuple[Any, list[Tensor]]:
    """The kind of a batch, as for captured steps, and what of it is split; None as the kind where
    something is not to be split."""
    leaves: list[Tensor] = []
    parts = batch.inputs, batch.named, batch.targets
    form_of(parts, leaves)
    whole = any(isinstance(leaf, Whole) for leaf in every_leaf(parts))
    return None if whole else kind_of(batch.plain(), 1), leaves


class Chunk:
    """Steps from the number ``first`` on, of one kind of batch, split alike."""

    def __init__(
        self, step: NativeStep, kind: Any, batches: Batches,
        split: Sequence[Share], world: World, first: int,
    ) -> None:  # fmt: skip
        self.step, self.kind, self.batches, self.split = step, kind, batches, split
        self.first, self.count = first, len(batches.used)
        self.done, self.began = 0, perf_counter()
        step.draw(world.generator.seed, first, self.count)
        for update in step.updates:
            update.fill(self.count)
        self._totals = step.take(self.count)
        totals = np.array([total for total in batches.totals if total is not None], np.float64)
        names = [list(map(id, column)) for column in batches.columns]
        for table, share in zip(step.tables, split, strict=True):
            table.give(names, totals * share.fraction)

    def give(self, orders: Any) -> None:
        """Make an order of it for all replicas. Who stops stops all, in the same step."""
        headers = [table.ready(self.count) for table in self.step.tables]
        orders.give(headers, self.step.meeting.stops())

    def end(self, entries: Sequence[int | None]) -> None:
        """Each replica's table has ended, stopped at an entry or, if that is -1, by itself; None:
        it has not run, and the others wait for it in the first step."""
        self.entries, tables = entries, self.step.tables
        done = [0 if entry is None else t.done(entry, self.count)
                for t, entry in zip(tables, entries, strict=True)]  # fmt: skip
        self.done = min(done)
        """How many steps have happened."""

    @property
    def waited_too_long(self) -> bool:
        """Whether nothing has stopped the steps but a meeting that some did not come to."""
        tables = zip(self.step.tables, self.entries, strict=True)
        return self.done < self.count and all(at in table.meetings for table, at in tables)

    def losses(self) -> list[float]:
        """The mean losses of the steps that have happened."""
        tables = zip(self.step.tables, self.split, strict=True)
        found: Array = tree_total([t.found(self.done) * share.fraction for t, share in tables])
        losses: list[float] = found.tolist()
        return losses

    def commit(self) -> None:
        """What the steps leave behind: gradients, the optimiser's state, counters."""
        self.step.seconds = (perf_counter() - self.began) / self.done
        tables = zip(self.step.tables, self.entries, strict=True)
        spoiled = any(table.spoiled(at) for table, at in tables if at is not None)
        self.step.commit(self.done, self._totals, not spoiled)
        self.batches.used[self.done - 1]()
