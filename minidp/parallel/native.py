"""Native runs: many steps of all replicas in one native call each, with no Python between them.

After a step in Python the replicas meet; the last to come looks whether the next batches can be run
natively, and prepares them for all. Behind the native call the last one commits what was done. A
step that stops, such as one with a label out of range, is run again in Python, which says why.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from fractions import Fraction
from time import monotonic, perf_counter_ns
from typing import TYPE_CHECKING, Any

from minidp.errors import ReplicaError
from minidp.mode import mode
from minidp.parallel.chunk import Chunk, kind_at
from minidp.parallel.exchange import Exchange, debugged
from minidp.parallel.feed import Feed
from minidp.parallel.inspections import Finite, Inspection, Used
from minidp.parallel.native_table import MOST
from minidp.parallel.progress import Progress
from minidp.parallel.split import shares
from minidp.program import native_calls
from minidp.random import default_generator

if TYPE_CHECKING:
    from minidp.parallel.replays import Replays
    from minidp.parallel.replica import World

SECONDS = 0.02
"""How long one native call should take: between them progress is told, and Python may fail."""


class NativeRuns:
    """Lets the replicas of one pass run natively as many steps as they can."""

    def __init__(
        self, replays: Replays, loss: Any, optimizer: Any, weights: Sequence[Fraction],
        inspections: Sequence[Inspection], progress: Progress,
    ) -> None:  # fmt: skip
        self.replays, self.loss, self.optimizer = replays, loss, optimizer
        self.weights, self.progress = weights, progress
        self.finite = any(isinstance(each, Finite) for each in inspections)
        self.simple = all(isinstance(each, (Finite, Used)) for each in inspections)
        self._here: set[int] = set()
        self._turn, self._watched = 0, False
        self.chunk: Chunk | None = None
        """What runs, or has run last."""

    def possible(self, world: World) -> bool:
        """Whether steps of this pass can run natively at all: on CPU devices of their own, with
        nothing between steps that is Python's."""
        own = type(self.optimizer).__module__.startswith("minidp.optim.")
        places = {place for place in world.places if place.type == "cpu"}
        plain = not mode.faults and world.exchange.recording is None and world.store == "local"
        return (self.simple and own and plain and len(places) == world.size
                and native_calls() is not None)  # fmt: skip

    def run(self, world: World, feed: Feed) -> None:
        """Run natively what can be of the next batches."""
        chunk = self._next(world, feed)
        while chunk is not None:
            world.exchange.committing.add(world.rank)  # until its steps are committed
            chunk.run(world.rank)
            chunk = self._next(world, feed)

    def _next(self, world: World, feed: Feed) -> Chunk | None:
        """What all run now. The last replica to come ends what was before, and prepares it."""
        exchange = world.exchange
        with exchange.condition:
            turn = self._turn
            self._here.add(world.rank)
            last = len(self._here) == world.size
        if not last:
            exchange.wait(world.rank, lambda: self._turn != turn, "the next batches",
                          lambda: sorted({*range(world.size)} - self._here))  # fmt: skip
            return self.chunk
        chunk = self._between(world, feed)
        with exchange.condition:
            exchange.check()  # who waits for a chunk gets it, or none does
            self._here.clear()
            self._turn, self.chunk = turn + 1, chunk
            exchange.condition.notify_all()
        return chunk

    def _between(self, world: World, feed: Feed) -> Chunk | None:
        before = self.chunk
        if before is not None:
            self._commit(before, world, feed)
        world.exchange.check()
        if before is not None and before.done < before.count:
            return None
        return self._prepared(world, feed)

    def _prepared(self, world: World, feed: Feed) -> Chunk | None:
        """The next steps, if they can be run natively."""
        began = perf_counter_ns()
        first = feed.ahead(world.rank, 1, began)
        kind = kind_at(first[0][0]) if first else None
        plans = self.replays.plans(kind.key) if kind is not None else []
        programs = [plan.program for plan in plans if plan.program is not None]
        if kind is None or kind.key is None or len(programs) < world.size:
            return None
        split = shares(kind.rows, self.weights)
        step = self.replays.native(kind, split, programs, self.optimizer, self.finite,
                                   world.exchange.deadline)  # fmt: skip
        if step is None or not all(share.rows for share in split):
            return None
        most = 1 if not step.seconds else min(MOST, max(1, int(SECONDS / step.seconds)))
        most = min(plan.ahead(most) for plan in plans)  # a step that is recorded again is Python's
        if not most:
            return None
        batches = kind.batches(feed.ahead(world.rank, most, began), self.loss)
        if not batches.used:
            return None
        if not self._watched:
            world.exchange.at_failure.append(self._stop)
            world.exchange.looks.append(Late(self).look)
            self._watched = True
        number = feed.step + feed.places[world.rank] + 1
        return Chunk(step, plans, batches, split, world, number)

    def _stop(self) -> None:
        """Some replica has failed: end what runs."""
        chunk = self.chunk
        if chunk is not None:
            chunk.step.meeting.ask()

    def _commit(self, chunk: Chunk, world: World, feed: Feed) -> None:
        """What has happened, once for all replicas."""
        done, exchange = chunk.done, world.exchange
        for rank, waited in enumerate(chunk.step.meeting.waited.tolist()):
            exchange.waited[rank] += waited / 1e9
        self.progress.count_all(chunk.split[0].total, chunk.losses())
        self.progress.native += done
        feed.skip(done)
        if done:
            default_generator.step = chunk.first + done - 1
            exchange.steps |= dict.fromkeys(range(world.size), default_generator.step)
            chunk.commit()
        exchange.committing.clear()
        if exchange.failure is None:
            chunk.step.meeting.reset()
            if chunk.waited_too_long:
                raise ReplicaError(
                    f"a replica has waited more than {exchange.deadline} s for another, in step "
                    f"{chunk.first + done}, which all ran natively"
                )


class Late:
    """Looks, in the thread that launched the replicas, whether some wait long for others inside of
    a native call, which itself can warn nobody."""

    def __init__(self, runs: NativeRuns) -> None:
        self.runs = runs
        self._seen: tuple[Chunk | None, list[int]] = None, []
        self._since, self._warned = 0.0, False

    def look(self, exchange: Exchange) -> None:
        """Warn, once for each wait; called often."""
        chunk, now = self.runs.chunk, monotonic()
        came = [] if chunk is None else chunk.step.meeting.came.tolist()
        if (chunk, came) != self._seen:
            self._seen, self._since, self._warned = (chunk, came), now, debugged()
        waited = now - self._since
        if waited > exchange.warn_after and not self._warned and len({*came}) > 1:
            self._warned = True
            first = came.index(max(came))
            missing = [rank for rank, count in enumerate(came) if count < came[first]]
            what = "the next meeting of a native call"
            warnings.warn(exchange.report(first, what, missing, waited), stacklevel=2)
