"""The update of buckets by one replica, once their gradients are there."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any

from minidp.optim.optimizer import Optimizer
from minidp.parallel.bucket import Bucket
from minidp.parallel.communicator import slice_of
from minidp.parallel.ends import BucketEnd
from minidp.parallel.exchange import Exchange
from minidp.parallel.groups import Groups
from minidp.parallel.memory import Memory, Slot, moved
from minidp.parallel.reduction import BucketSum
from minidp.parallel.together import Calls, Run, Together


class Updates:
    """What replicas that have an optimiser and update one memory need to know of it in a step.

    The first of them that comes to the step's end looks, before anyone can have committed the step:
    later, the optimiser's state may already be that of the next one.
    """

    def __init__(self, optimizer: Any, lead: Any, ends: Sequence[BucketEnd]) -> None:
        self._groups, self._lock, self._step = Groups(optimizer), Lock(), 0
        self._buckets = [BucketUpdate(optimizer, lead, e.bucket, e.memory) for e in ends]

    def of(self, step: int) -> list[BucketUpdate]:
        """The updates of the buckets in the step that each replica counts as this one; an error
        where options are wrong."""
        with self._lock:
            if self._step != step:
                self._groups.look()
                for each in self._buckets:
                    each.look(self._groups)
                self._step = step
        return self._buckets


class Optimizers:
    """The optimisers of one replica, in the order in which they come, which is that of all."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange, self._steps = exchange, 0
        self._known: list[Any] = []
        self._updates: dict[Any, tuple[list[BucketEnd], Updates]] = {}

    def updates(self, optimizer: Any, ends: list[BucketEnd]) -> list[BucketUpdate]:
        """The updates of these buckets in the next step; an error where options are wrong."""
        self._steps += 1
        given, updates = self._updates.get(optimizer, (None, None))
        if updates is None or given is not ends:
            updates = self._shared(optimizer, ends)
            self._updates[optimizer] = ends, updates
        return updates.of(self._steps)

    def _shared(self, optimizer: Any, ends: list[BucketEnd]) -> Updates:
        key = "updates", optimizer, *[end.memory for end in ends]
        lead = self._lead(optimizer)
        updates: Updates = self.exchange.once(key, lambda: Updates(optimizer, lead, ends))
        return updates

    def _lead(self, optimizer: Any) -> Any:
        """The first of the optimisers that replicas have in this place."""
        if optimizer not in self._known:
            self._known.append(optimizer)
        place = self._known.index(optimizer)
        return self.exchange.once(("optimizer", place), lambda: optimizer)


class BucketUpdate:
    """What is needed to update a bucket in ``memory``.

    Parameters that the optimiser does not have are left alone. Replicas that have an optimiser each
    keep one state, under the optimiser ``lead``.
    """

    def __init__(self, optimizer: Any, lead: Any, bucket: Bucket, memory: Memory) -> None:
        self.optimizer, self.lead, self.bucket, self.memory = optimizer, lead, bucket, memory
        self._seen: Any = None
        self._used: list[bool] | None = None
        self._changes: list[int] = []
        self._settled = False
        """Whether the optimiser's state is these arrays already, and no count moves."""

    def look(self, groups: Groups) -> None:
        """See how things stand before a step."""
        parameters, owner, optimizer = self.bucket.parameters, groups.owner, self.optimizer
        owners = [owner.get(p) if p.requires_grad else None for p in parameters]
        seen = owners, [optimizer.steps_taken(p) for p in parameters], groups.options
        if seen != self._seen:
            self._seen, self._used, self._settled = seen, None, False
            self.owners, self.taken, self._options = seen
            present = dict.fromkeys(g for g in owners if g is not None)
            self.names = {g: optimizer.slots(optimizer.param_groups[g]) for g in present}
            self._kept = list(dict.fromkeys(n for slots in self.names.values() for n in slots))
        state = self.memory.state(self.lead, self._kept, parameters, self.bucket.master)
        self.slots = {name: state[name] for name in self._kept}
        changes = [slot.changes for slot in self.slots.values()]
        if not self._settled or changes != self._changes:
            self._settled, self._changes = self._is_settled(self._kept), changes

    def runs(self, used: list[bool]) -> list[Run]:
        """The stretches that one update may treat alike, of the parameters that were used."""
        if self._used != used:
            kinds = [
                (group, taken) if there and group is not None else None
                for there, group, taken in zip(used, self.owners, self.taken, strict=True)
            ]
            self._runs = self.bucket.runs(kinds)
            self._state = {name: slot.flat for name, slot in self.slots.items()}
            what = [(start, stop, g, self._options[g]) for start, stop, (g, _) in self._runs]
            self._asked = what, [*map(id, self._state.values())]
            self._used = used
        return self._runs

    def together(self, found: BucketSum, rank: int, calls: Calls) -> bool:
        """Add to ``calls`` what adds this replica's slice, where that is still to be done, and
        updates it; False if there is none."""
        end, runs = found.end, self.runs(found.used)
        if end.together is None or end.together.optimizer is not self.optimizer:
            end.together = Together(self.bucket, self.memory.data, self.optimizer)
        given = found.work.parts() or [found.reduced]
        part = slice_of(self.bucket.size, end.peers, rank)
        return end.together.ready(runs, self._asked, self._state, given, part, calls)

    def run(self, found: BucketSum, rank: int) -> None:
        """Update this replica's slice of the memory it shares with its peers, in place."""
        found.work.advance()
        data = self.memory.data
        gradient = moved(found.reduced, data)
        first, last = slice_of(self.bucket.size, found.end.peers, rank)
        for start, stop, (group, taken) in self.runs(found.used):
            part = slice(max(start, first), min(stop, last))
            if part.start < part.stop:
                state = {name: self.slots[name].flat[part] for name in self.names[group]}
                options = self.optimizer.param_groups[group]
                self.optimizer.update(data[part], gradient[part], state, options, taken)

    def _masters(self) -> dict[str, Slot]:
        """The optimiser's state beside the master copy."""
        return self.bucket.master.state(self.lead, (), (), self.bucket.master)

    def _is_settled(self, names: list[str]) -> bool:
        plain = type(self.optimizer).advance is Optimizer.advance
        if not plain or not names or self.optimizer is not self.lead:
            return False
        held = self.slots if self.memory is self.bucket.master else self._masters()
        if not all(held[name].kept for name in names):
            return False
        groups, after = self.optimizer.param_groups, self.optimizer.after
        kinds = dict.fromkeys(zip(self.owners, self.taken, strict=True))
        return all(group is None or after(groups[group], taken) == taken for group, taken in kinds)

    def advance(self, found: BucketSum) -> None:
        """Count the step in the optimiser, once however many replicas share it."""
        if self._settled:
            return
        slots = self._masters()
        for i, (used, group) in enumerate(zip(found.used, self.owners, strict=True)):
            if used and group is not None:
                arrays = {name: slots[name].views[i] for name in self.names[group]}
                options = self.optimizer.param_groups[group]
                self.optimizer.advance(self.bucket.parameters[i], arrays, options)
