"""Native runs: many steps of all replicas in one native call each, with no Python between them.

After a step in Python the replicas meet; the first one looks whether the next batches can be run
natively, and prepares them for all. Behind the native call it commits what was done. The others
stay in native code meanwhile: between two calls only one thread needs the interpreter. A step that
stops, such as one with a label out of range, is run again in Python, which says why.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from fractions import Fraction
from time import monotonic, perf_counter_ns, sleep
from typing import TYPE_CHECKING, Any

from minidp.device import cores
from minidp.errors import ReplicaError
from minidp.graph.program import native_calls
from minidp.mode import mode
from minidp.parallel.chunk import Chunk, Kind, kind_at
from minidp.parallel.exchange import Exchange, Stopped, debugged
from minidp.parallel.feed import Feed
from minidp.parallel.inspections import Finite, Inspection, Used
from minidp.parallel.native_table import MOST
from minidp.parallel.progress import Progress
from minidp.parallel.split import Share, shares
from minidp.random import default_generator

if TYPE_CHECKING:
    from minidp.parallel.replays import Replays
    from minidp.parallel.replica import World

SECONDS = 0.05
"""How long one native call should take: between them progress is told, and Python may fail. It
takes Python a third of a millisecond to begin the next: caches hold other things by then."""


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
        self.chunk: Chunk | None = None
        """What runs, or has run last."""
        self._kind: Kind | None = None
        self._split: list[Share] = []

    def possible(self, world: World) -> bool:
        """Whether steps of this pass can run natively at all: on CPU devices of their own, with
        nothing between steps that is Python's."""
        own = type(self.optimizer).__module__.startswith("minidp.optim.")
        places = {place for place in world.places if place.type == "cpu"}
        plain = not mode.faults and world.exchange.recording is None and world.store == "local"
        return (self.simple and own and plain and len(places) == world.size
                and native_calls() is not None)  # fmt: skip

    def run(self, world: World, feed: Feed) -> None:
        """Run natively what can be of the next batches. The first replica leads; the others serve
        until it bids them leave."""
        exchange, rank = world.exchange, world.rank
        orders = exchange.once("orders of native runs", lambda: self._orders(world))
        with exchange.condition:
            self._here.add(rank)
            exchange.condition.notify_all()
        if rank == 0:
            exchange.wait(0, lambda: len(self._here) == world.size, "the next batches",
                          lambda: sorted({*range(world.size)} - self._here))  # fmt: skip
            self._here.clear()
            self._lead(world, feed, orders)
        while rank and not orders.serve(rank):
            exchange.wait(rank, lambda: orders.pending(rank), "the next batches", lambda: [0])

    def _orders(self, world: World) -> Any:
        world.exchange.at_failure.append(self._stop)
        world.exchange.looks.append(Late(self).look)
        few = {} if world.size <= cores() else {"spins": 50}
        return native_calls().Orders(world.size, **few)

    def _lead(self, world: World, feed: Feed, orders: Any) -> None:
        """Run what can be run, then let the others go."""
        chunk = self._prepared(world, feed)
        while chunk is not None:
            self.chunk = chunk
            world.exchange.check()  # a failure from now on stops this chunk
            with world.exchange.whole(0):
                self._run(chunk, world, orders)
                self._commit(chunk, world, feed)
            world.exchange.check()
            whole = chunk.done == chunk.count
            chunk = self._prepared(world, feed) if whole else None
        self.chunk = None
        orders.give([0] * world.size)
        self._wake(world)
        orders.lead()

    def _run(self, chunk: Chunk, world: World, orders: Any) -> None:
        chunk.give(orders)
        self._wake(world)
        if not orders.lead():
            self._wait_for_others(world.exchange, orders)
        chunk.end(orders.entries())
        for rank, waited in enumerate((chunk.step.meeting.waited + orders.waited()).tolist()):
            world.exchange.waited[rank] += waited / 1e9

    def _wake(self, world: World) -> None:
        """Tell those who have waited for long that there is an order."""
        if world.exchange.waiting:
            with world.exchange.condition:
                world.exchange.condition.notify_all()

    def _wait_for_others(self, exchange: Exchange, orders: Any) -> None:
        """Until all have run their tables, or have ended: a failure, also another replica's, is
        raised later, when what has happened is committed."""
        try:
            exchange.wait(0, lambda: not orders.awaited(), "the end of native steps",
                          orders.awaited)  # fmt: skip
        except (Exception, Stopped):
            last, ended = monotonic() + exchange.deadline, exchange.ended
            while monotonic() < last and not all(ended[r].is_set() for r in orders.awaited()):
                sleep(0.001)

    def _prepared(self, world: World, feed: Feed) -> Chunk | None:
        """The next steps, if they can be run natively."""
        began = perf_counter_ns()
        first = feed.ahead(world.rank, 1, began)
        kind = self._kind_of(first[0][0]) if first else None
        found, ahead = self.replays.ahead(kind.key) if kind is not None else ([], 0)
        programs = [each.program for each in found if each.program is not None]
        if kind is None or kind.key is None or not ahead or len(programs) < world.size:
            return None  # a step that is recorded again is Python's, too
        if not self._split or self._split[0].total != kind.rows:
            self._split = shares(kind.rows, self.weights)
        split = self._split
        step = self.replays.native(kind, split, programs, self.optimizer, self.finite,
                                   world.exchange.deadline)  # fmt: skip
        if step is None or not all(share.rows for share in split):
            return None
        most = 1 if not step.seconds else min(MOST, max(1, int(SECONDS / step.seconds)))
        most = min(most, ahead)
        fed = first if most == 1 else feed.ahead(world.rank, most, began)
        batches = kind.batches(fed, self.loss)
        if not batches.used:
            return None
        number = feed.step + feed.places[world.rank] + 1
        return Chunk(step, kind.key, batches, split, world, number)

    def _kind_of(self, batch: Any) -> Kind | None:
        if self._kind is None or not self._kind.like(batch):
            self._kind = kind_at(batch)
        return self._kind

    def _stop(self) -> None:
        """Some replica has failed: end what runs."""
        chunk = self.chunk
        if chunk is not None:
            chunk.step.meeting.ask()

    def _commit(self, chunk: Chunk, world: World, feed: Feed) -> None:
        """What has happened, once for all replicas."""
        done, exchange = chunk.done, world.exchange
        self.progress.count_all(chunk.split[0].total, chunk.losses())
        self.progress.native += done
        feed.skip(done)
        if done:
            default_generator.step = chunk.first + done - 1
            exchange.steps |= dict.fromkeys(range(world.size), default_generator.step + 1)
            chunk.commit()
            self.replays.agree(chunk.kind, range(len(chunk.split)), done)
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
