"""The end of a step: gradients are summed and inspected, parameters updated, everything committed.

Until all replicas have agreed nothing changes; from then on nothing stops a replica before its
part is done, so that a step happens whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from minidp.errors import ReplicaError
from minidp.mode import switched
from minidp.parallel.communicator import Communicator
from minidp.parallel.inspections import Inspection, Verdict
from minidp.parallel.together import Calls
from minidp.parallel.update import BucketUpdate
from minidp.random import default_generator
from minidp.tensor import wrap

if TYPE_CHECKING:
    from minidp.parallel.replica import World


class Commit:
    """The end of the running step of one replica.

    To make one is to agree: it gives the last gradients, and ``numbers`` to be added over
    replicas, and waits for the sums. ``whole``: all of each sum is needed, not this replica's slice
    alone.
    """

    def __init__(self, world: World, numbers: Sequence[float], whole: bool) -> None:
        self.world = world
        self._later = self._may_add_later() and not whole
        self.sums = world.reduction.finish(numbers, whole, self._later)
        self.totals = self.sums[-1].riding if self.sums else agree(world.comm, numbers, "loss")
        self.verdict = Verdict(self.totals)

    def _may_add_later(self) -> bool:
        """Whether nobody looks at sums before the update: then both may be done together. A
        timeline is to show them apart."""
        world = self.world
        looked_at = any(each.looks for each in world.inspections)
        return world.in_place and not looked_at and world.exchange.recording is None

    def happen(
        self, optimizer: Any, updates: Sequence[BucketUpdate],
        accepted: Callable[[list[float], str], None] | None,
    ) -> None:  # fmt: skip
        """Agree on what becomes of the step, and do this replica's part of it."""
        self._state = optimizer.state
        if accepted is None:
            self.require_gradients()
        self.gather()
        self.inspect(self.world.inspections)
        self.apply(optimizer, updates, accepted)

    def require_gradients(self) -> None:
        """A ReplicaError when no replica's backward came by since the last step."""
        if not any(any(found.used) for found in self.sums):
            raise ReplicaError(
                "optimizer.step(): backward() has reached no parameter since the last step. A step "
                "uses the gradients up: call backward() before each, and give all parameters that "
                "one backward() reaches to one optimizer, in groups"
            )

    def gather(self) -> None:
        """Add what the replicas with rows have given for the commit."""
        now = self.world.now
        wanted = list(now.sums_at_commit.values())
        if not wanted or self.world.rank not in now.ranks:
            return
        flat = np.concatenate([values for values, _ in wanted])
        total = self.world.comm.all_reduce(flat, "sums at commit", now.ranks).wait()
        start = 0
        for values, action in wanted:
            now.actions.append(partial(action, total[start : start + len(values)]))
            start += len(values)

    def inspect(self, inspections: Sequence[Inspection]) -> None:
        """Let all look at the sums; what each replica finds is added in one exchange."""
        world = self.world
        found = [each.numbers(self.sums, world.rank, world.size) for each in inspections]
        flat = [number for each in found for number in each]
        totals = iter(agree(world.comm, flat, "inspections") if flat else ())
        for inspection, numbers in zip(inspections, found, strict=True):
            inspection.decide([next(totals) for _ in numbers], self.sums, self.verdict)

    def apply(
        self, optimizer: Any, updates: Sequence[BucketUpdate],
        accepted: Callable[[list[float], str], None] | None,
    ) -> None:  # fmt: skip
        """Update this replica's slices; one replica acts for all, another if optimisers differ."""
        world, skip = self.world, self.verdict.skip
        self._scale()
        if not skip:
            self._update(updates)
        if world.rank == world.now.lead:
            with world.span("commit", ""):
                self._act_for_all()
                if accepted is not None:
                    accepted(self.totals, skip)
        if not skip and world.exchange.once(optimizer, lambda: world.rank) == world.rank:
            for update, found in zip(updates, self.sums, strict=True):
                update.advance(found)

    def _update(self, updates: Sequence[BucketUpdate]) -> None:
        world = self.world
        calls, rank = Calls(), world.rank
        try:
            for update, found in zip(updates, self.sums, strict=True):
                if self._later and update.together(found, rank, calls):
                    continue
                with world.span("update", str(found.end), found.bytes):
                    update.run(found, rank)
            calls.run()
        except Exception as error:
            error.add_note(
                "it was raised by the optimizer's rule, after all had agreed to the step: some "
                "parameters may have been updated, so go on from a checkpoint"
            )
            raise

    def end(self, afterwards: Callable[[], None] | None) -> None:
        """Wait until all have done their part; then one calls ``afterwards``, if there is such: or
        the thread that launched the replicas, where something has interrupted them meanwhile."""
        world = self.world
        if world.rank == world.now.lead:
            world.exchange.owed = afterwards
        world.comm.barrier("end of step")
        if afterwards is not None:
            if world.rank == world.now.lead:
                self._call(afterwards)
            world.comm.barrier("after the step")
            for found in self.sums:
                found.end.memory.follow(found.bucket.master)

    def _call(self, afterwards: Callable[[], None]) -> None:
        """Call it as a program without replicas, whose values of parameters may be those before the
        update; and take over what it did to parameters and the optimiser's state."""
        before = [found.bucket.moments(self._state) for found in self.sums]
        self.world.exchange.owed = None
        with switched(replica=None, generator=self.world.generator):
            afterwards()
        for found, moments in zip(self.sums, before, strict=True):
            if found.bucket.moments(self._state) != moments:
                found.bucket.refresh()

    def _scale(self) -> None:
        if self.verdict.scale != 1:
            for found in self.sums:
                found.multiply(self.world.rank, self.verdict.scale)
            self.world.comm.barrier("gradients scaled")

    def _act_for_all(self) -> None:
        """What happens once for all replicas: buffers and gradients are set."""
        default_generator.step = self.world.step
        self.world.now.used()
        for action in self.world.now.actions if not self.verdict.skip else ():
            action()
        for found in self.sums:
            views = found.end.views_in(found.reduced)
            for p, view, used in zip(found.bucket.parameters, views, found.used, strict=True):
                p.grad = wrap(view) if used and p.requires_grad else None
                p.changed()


def agree(comm: Communicator, numbers: Sequence[float], name: str) -> list[float]:
    """The sums of numbers over all replicas."""
    total: list[float] = comm.all_reduce(np.array(numbers, np.float64), name).wait().tolist()
    return total
