"""The update of one bucket by one replica, once its gradient is there."""

from __future__ import annotations

from typing import Any

from minidp.optim.optimizer import Optimizer
from minidp.parallel.ends import BucketEnd
from minidp.parallel.memory import Slot, moved
from minidp.parallel.reduction import BucketSum, slice_of
from minidp.parallel.together import Together
from minidp.tensor import Tensor
from minidp.types import Array


class BucketUpdate:
    """What a replica needs to update its slice of a bucket.

    It is made before anyone can have committed the step: later, the optimiser's state may
    already be that of the next one. Parameters that the optimiser does not have are left alone.
    Replicas that have an optimiser each keep one state, under the optimiser ``lead``.
    """

    def __init__(self, optimizer: Any, lead: Any, end: BucketEnd, owner: dict[Tensor, int]) -> None:
        self.optimizer, self.lead, self.end, self.bucket = optimizer, lead, end, end.bucket
        parameters, groups = self.bucket.parameters, optimizer.param_groups
        self.owners = [owner.get(p) if p.requires_grad else None for p in parameters]
        present = dict.fromkeys(g for g in self.owners if g is not None)
        self.names = {g: optimizer.slots(groups[g]) for g in present}
        self.taken = [optimizer.steps_taken(p) for p in parameters]
        names = list(dict.fromkeys(n for slots in self.names.values() for n in slots))
        self.slots = end.memory.state(lead, names, parameters, self.bucket.master)
        self._settled = self._is_settled(names)
        """Whether the optimiser's state is these arrays already, and no count moves."""

    def run(self, found: BucketSum, rank: int) -> None:
        """Update this replica's slice of the memory it shares with its peers, in place."""
        kinds = [
            (group, taken) if used and group is not None else None
            for used, group, taken in zip(found.used, self.owners, self.taken, strict=True)
        ]
        first, last = slice_of(self.bucket, self.end.peers, rank)
        runs, given = self.bucket.runs(kinds), found.work.parts()
        if given and self._together(runs, given, first):
            return
        found.work.advance()
        data = self.end.memory.data
        gradient = moved(found.reduced, data)
        for start, stop, (group, taken) in runs:
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
        held = self.slots if self.end.memory is self.bucket.master else self._masters()
        if not all(held[name].kept for name in names):
            return False
        groups, after = self.optimizer.param_groups, self.optimizer.after
        kinds = dict.fromkeys(zip(self.owners, self.taken, strict=True))
        return all(group is None or after(groups[group], taken) == taken for group, taken in kinds)

    def _together(
        self, runs: list[tuple[int, int, Any]], given: list[Array], first: int
    ) -> bool:  # fmt: skip
        """Add what replicas have given, and update it, in one native call, if that can be."""
        kept = self.end.together
        if kept is None or kept.optimizer is not self.optimizer:
            kept = self.end.together = Together(self.bucket, self.end.memory.data, self.optimizer)
        state = {name: slot.flat for name, slot in self.slots.items()}
        return kept.run(runs, state, given, first)

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
