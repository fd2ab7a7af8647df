"""The meeting place of the replicas of one process: who waits for what, and what has failed.

Every wait ends: by what it waits for, by the first failure anywhere, by the discovery that all
others wait too or are gone, or by its deadline.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from minidp.errors import ReplicaError
from minidp.parallel.communicator import Tag
from minidp.parallel.events import TURN, Recording


class Stopped(BaseException):
    """Ends a replica because another one failed; never shown to the user."""


@dataclass
class Round:
    """One collective under way: what each rank gave, and how far it is."""

    tag: Tag
    members: tuple[int, ...]
    given: dict[int, Any] = field(default_factory=dict)
    finished: set[int] = field(default_factory=set)
    left: set[int] = field(default_factory=set)

    @property
    def complete(self) -> bool:
        return len(self.given) == len(self.members)

    def missing(self) -> list[int]:
        done = self.finished if self.complete else set(self.given)
        return [rank for rank in self.members if rank not in done]


def check_seconds(**given: Any) -> None:
    """A ReplicaError unless each is a number of seconds above 0; infinity is one."""
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
            raise ReplicaError(f"{name}={value!r}: expected seconds, more than 0")


class Exchange:
    """Shared by the replicas of one launch. ``warn_after`` and ``deadline`` are seconds."""

    def __init__(self, size: int, warn_after: float = 10.0, deadline: float = 300.0) -> None:
        check_seconds(warn_after=warn_after, deadline=deadline)
        self.size, self.warn_after, self.deadline = size, warn_after, deadline
        self.condition = threading.Condition()
        self.failure: BaseException | None = None
        self.rounds: dict[Hashable, Round] = {}
        self.threads: dict[int, threading.Thread] = {}
        self.waiting: dict[int, tuple[Callable[[], bool], object, Callable[[], list[int]]]] = {}
        self.recording: Recording | None = None
        self.waited = [0.0] * size
        """Seconds that each rank has waited for others."""
        self.queued = [0.0] * size
        """Seconds that each rank has waited for its turn on a device that it shares."""
        self.reducing = [0.0] * size
        """Seconds that each rank has added gradients."""
        self.gone: set[int] = set()
        self.steps: dict[int, int] = {}
        self.ended = [threading.Event() for _ in range(size)]
        self.shared: dict[Hashable, Any] = {}
        self._noted = False
        self.committing: set[int] = set()
        """Ranks whose part in the end of a step is not to be interrupted."""
        self.owed: Callable[[], None] | None = None
        """What is to be called behind a step that has happened, if nobody could any more."""
        self.at_failure: list[Callable[[], None]] = []
        """What wakes those who wait elsewhere."""
        self.looks: list[Callable[[Exchange], None]] = []
        """What the thread that launched the replicas calls often, with this: it may warn."""
        self._once = threading.Lock()
        self.turns: dict[int, threading.Lock] = {}
        self.holding: set[int] = set()

    def give(
        self, rank: int, key: Hashable, tag: Tag, members: tuple[int, ...], what: Any
    ) -> Round:
        """Bring ``rank``'s part to the round ``key``; a ReplicaError when the tags differ."""
        with self.condition:
            self.check()
            current = self.rounds.get(key)
            if current is None:
                current = self.rounds[key] = Round(tag, members)
            elif current.tag != tag:
                first = next(iter(current.given))
                raise ReplicaError(
                    f"replica {rank} called {tag}, replica {first} called {current.tag} at the "
                    "same place; all replicas must go through the same collectives"
                )
            current.given[rank] = what
            if current.complete:
                self.condition.notify_all()
            return current

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What ``make()`` gave the first replica that asked for ``key``."""
        with self._once:
            if key not in self.shared:
                self.shared[key] = make()
            return self.shared[key]

    def finish(self, rank: int, current: Round) -> None:
        """Say that ``rank`` has done its part of the work of a complete round.

        After a failure that does not count: so all see the round finished, or none does.
        """
        with self.condition:
            if self.failure is None:
                current.finished.add(rank)
            if len(current.finished) == len(current.members):
                self.condition.notify_all()

    def leave(self, rank: int, key: Hashable) -> None:
        """Say that ``rank`` needs the round no more; the last one clears it away."""
        with self.condition:
            current = self.rounds[key]
            current.left.add(rank)
            if len(current.left) == len(current.members):
                del self.rounds[key]

    def wait(
        self, rank: int, until: Callable[[], bool], what: object, missing: Callable[[], list[int]]
    ) -> None:
        """Wait for ``until()``, giving the device to another replica meanwhile.

        What is there counts, even after a failure: so all replicas go through a step that was
        agreed on, or none does.
        """
        with self.condition:
            if until():
                return
        began = time.perf_counter_ns()
        self.end_turn(rank)
        try:
            with self.condition:
                self.waiting[rank] = (until, what, missing)
                try:
                    self._wait(rank, until, what, missing)
                except Exception as error:
                    self.fail(error)  # at once: what others give from now on comes too late
                    raise
        finally:
            with self.condition:
                self.waiting.pop(rank, None)
        self.waited[rank] += (time.perf_counter_ns() - began) / 1e9
        self.moment(rank, "wait", what.name if isinstance(what, Tag) else str(what), 0, began)
        self.take_turn(rank)

    def _wait(
        self, rank: int, until: Callable[[], bool], what: object, missing: Callable[[], list[int]]
    ) -> None:
        began, warned = time.monotonic(), debugged()
        while True:
            if until():
                return
            self.check()
            self._check_progress()
            waited = time.monotonic() - began
            if waited > self.warn_after and not warned:
                warned = True
                warnings.warn(self.report(rank, what, missing(), waited), stacklevel=2)
            if waited > self.deadline and not debugged():
                raise ReplicaError(self.report(rank, what, missing(), waited))
            self.condition.wait(min(1.0, self.warn_after, self.deadline))

    def _check_progress(self) -> None:
        """Raise when nobody is left who could end the waits."""
        stuck = [r for r, (until, _, _) in self.waiting.items() if not until()]
        if len(stuck) + len(self.gone) < self.size or not stuck:
            return
        lines = [f"replica {r} waits for {self.waiting[r][1]}" for r in sorted(stuck)]
        lines += [f"replica {r} has ended" for r in sorted(self.gone)]
        raise ReplicaError(
            "no replica can go on: " + "; ".join(lines)
            + ". All replicas must go through the same collectives, in the same order"
        )  # fmt: skip

    def report(self, rank: int, what: object, missing: list[int], waited: float) -> str:
        """What is said of a long wait: of whom for whom, and where those are."""
        frames = sys._current_frames()
        stacks = []
        for each in missing:
            thread = self.threads.get(each)
            frame = frames.get(thread.ident or -1) if thread is not None else None
            stack = "".join(traceback.format_stack(frame)) if frame is not None else "(gone)\n"
            stacks.append(f"replica {each} is at:\n{stack}")
        names = f"replica(s) {', '.join(map(str, missing))} to reach " if missing else ""
        return f"replica {rank} has waited {waited:.1f} s for {names}{what}\n" + "".join(stacks)

    def moment(
        self, rank: int, kind: str, name: str, size: int = 0, began: int | None = None
    ) -> None:
        """Note, where a timeline is recorded, what ``rank`` has done since ``began``, or now."""
        if self.recording is not None and rank in self.steps:
            began = time.perf_counter_ns() if began is None else began
            self.recording.note(rank, self.steps[rank], kind, name, began, size)

    def fail(self, error: BaseException, where: str = "") -> None:
        """Record the first failure, with a note of where it happened, and wake everyone."""
        with self.condition:
            if self.failure is None:
                self.failure = error
            if self.failure is error and where and not self._noted:
                self._noted = True
                error.add_note(where)
            self.condition.notify_all()
        for wake in self.at_failure:
            wake()

    def poison(self) -> BaseException | None:
        """Take the failure out, to be raised; whoever still runs ends at its next wait.

        What stays behind has no traceback, which would keep all its frames alive in a cycle.
        """
        with self.condition:
            failure = self.failure
            if failure is not None:
                self.failure = Stopped()
            return failure

    @contextmanager
    def whole(self, rank: int) -> Iterator[None]:
        """A block that a launch lets ``rank`` end, also after a failure: a step happens whole."""
        self.committing.add(rank)
        try:
            yield
        finally:
            self.committing.discard(rank)

    def depart(self, rank: int) -> None:
        """Say that ``rank`` has ended."""
        self.end_turn(rank)
        with self.condition:
            self.gone.add(rank)
            self.condition.notify_all()

    def check(self) -> None:
        """Raise Stopped when some replica has failed."""
        if self.failure is not None:
            raise Stopped

    def check_lost(self, ranks: Iterable[int]) -> None:
        """Raise Stopped when a failure has ended one of ``ranks``: what all of them have begun may
        never come."""
        if self.failure is None:
            return
        if any(self.ended[rank].is_set() and rank not in self.gone for rank in ranks):
            raise Stopped

    def share_device(self, rank: int, lock: threading.Lock) -> None:
        """Let ``rank`` run only while it holds the lock of its device."""
        self.turns[rank] = lock

    def take_turn(self, rank: int) -> None:
        """Wait until the device of ``rank`` is free, and hold it; after a failure all may run."""
        lock = self.turns.get(rank)
        if lock is None:
            return
        if not lock.acquire(blocking=False):
            began = time.perf_counter_ns()
            while not lock.acquire(timeout=0.2):
                if self.failure is not None:
                    return
            self.queued[rank] += (time.perf_counter_ns() - began) / 1e9
            self.moment(rank, "stall", TURN, 0, began)
        self.holding.add(rank)

    def end_turn(self, rank: int) -> None:
        """Let other replicas have the device of ``rank``."""
        if rank in self.holding:
            self.holding.discard(rank)
            self.turns[rank].release()


def debugged() -> bool:
    """Whether a debugger holds the program, which makes every wait long."""
    return sys.gettrace() is not None
