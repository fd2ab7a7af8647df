"""The update of one bucket by one replica, once its gradient is there."""

from __future__ import annotations

from typing import Any

from minidp.backend import backend_of
from minidp.errors import ReplicaError
from minidp.parallel.bucket import Bucket
from minidp.parallel.communicator import Sum, bounds
from minidp.parallel.ends import BucketEnd
from minidp.parallel.memory import moved
from minidp.tensor import Tensor
from minidp.types import Array


class BucketUpdate:
    """What a replica needs to update its slice of a bucket.

    It is made before anyone can have committed the step: later, the optimiser's state may
    already be that of the next one. Parameters that the optimiser does not have are left alone.
    Replicas that have an optimiser each keep one state, under the optimiser ``lead``.
    """

    reduced: Array

    def __init__(self, optimizer: Any, lead: Any, end: BucketEnd, owner: dict[Tensor, int]) -> None:
        self.optimizer, self.lead, self.end, self.bucket = optimizer, lead, end, end.bucket
        parameters, groups = self.bucket.parameters, optimizer.param_groups
        self.owners = [owner.get(p) for p in parameters]
        present = dict.fromkeys(g for g in self.owners if g is not None)
        self.names = {g: optimizer.slots(groups[g]) for g in present}
        self.taken = [optimizer.steps_taken(p) for p in parameters]
        names = list(dict.fromkeys(n for slots in self.names.values() for n in slots))
        self.slots = end.memory.state(lead, names, parameters, self.bucket.master)
        self.used: list[bool] = []

    def receive(self, work: Sum, store: str) -> Array:
        """Take the bucket's sum, or at least this replica's slice; returns what rode along."""
        self.reduced = work.slice() if store == "local" else work.wait()
        count = len(self.bucket.parameters)
        self.used = [reached > 0 for reached in work.numbers[:count].tolist()]
        return work.numbers[count:]

    def slice(self, rank: int) -> Array:
        """This replica's slice of the sum."""
        cuts, place = bounds(self.bucket.size, len(self.end.peers)), self.end.peers.index(rank)
        return self.reduced[cuts[place] : cuts[place + 1]]

    def run(self, rank: int) -> None:
        """Update this replica's slice of the memory it shares with its peers, in place."""
        kinds = [
            (group, taken) if used and group is not None else None
            for used, group, taken in zip(self.used, self.owners, self.taken, strict=True)
        ]
        cuts, place = bounds(self.bucket.size, len(self.end.peers)), self.end.peers.index(rank)
        data = self.end.memory.data
        gradient = moved(self.reduced, data)
        for start, stop, (group, taken) in self.bucket.runs(kinds):
            part = slice(max(start, cuts[place]), min(stop, cuts[place + 1]))
            if part.start < part.stop:
                state = {name: self.slots[name].flat[part] for name in self.names[group]}
                options = self.optimizer.param_groups[group]
                self.optimizer.update(data[part], gradient[part], state, options, taken)

    def advance(self) -> None:
        """Count the step in the optimiser, once however many replicas share it."""
        slots = self.bucket.master.state(self.lead, (), (), self.bucket.master)
        for i, (used, group) in enumerate(zip(self.used, self.owners, strict=True)):
            if used and group is not None:
                arrays = {name: slots[name].views[i] for name in self.names[group]}
                self.optimizer.advance(self.bucket.parameters[i], arrays)


def finite(array: Array) -> bool:
    """Whether no element is NaN or infinite."""
    return bool(backend_of(array).xp.isfinite(array).all())


def require_finite(gradient: Array, bucket: Bucket) -> None:
    """A ReplicaError that names the first parameter whose gradient is not finite."""
    for name, view in zip(bucket.names, bucket.views(gradient), strict=True):
        if not finite(view):
            raise ReplicaError(f"the gradient of parameter {name} is not finite (nan='raise')")


def groups_of(optimizer: Any) -> dict[Tensor, int]:
    """The number of the group of each of the optimiser's parameters."""
    return {p: g for g, group in enumerate(optimizer.param_groups) for p in group["params"]}
