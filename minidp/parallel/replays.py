"""The captured steps of a scheduler's replicas: in each all of them replay, or all run eagerly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from minidp.errors import GraphError
from minidp.graph.captured import SIGNATURES, Captured, Checks, Recordings
from minidp.graph.program import Program
from minidp.parallel.chunk import Kind
from minidp.parallel.ends import BucketEnd
from minidp.parallel.native_step import GradientMemory, NativeStep
from minidp.parallel.replica import World
from minidp.parallel.split import Share, leads
from minidp.tensor import Tensor

KINDS = 8
"""For how many kinds of batches steps are kept as native tables."""


class Steps:
    """The captured steps of one kind of batch, one of each replica. Whether the next one is
    replayed is decided for all of them, when the last one is over: also a step that failed in some
    replica, and was not run by others, makes no difference."""

    def __init__(self, gradients: Callable[..., Tensor], fuse: bool, size: int) -> None:
        self.captured = [Captured(gradients, fuse) for _ in range(size)]
        self.can = [False] * size
        """Whether each can replay all parts of its step."""
        self.allowed = False
        """Whether the next step is to be a replay."""
        self._checks = Checks()
        self._checks.count()  # the step that they are made for

    def over(self, ranks: Sequence[int], steps: int = 1) -> None:
        """So many steps are over, the last of which these ranks have run."""
        due = self._checks.count(steps)
        self.allowed = not due and all(self.can[rank] for rank in ranks)

    @property
    def ahead(self) -> int:
        """How many of the next steps are to be replays, as things are now."""
        holds = self.allowed and all(step.last.holds for step in self.captured)
        return 1 + self._checks.left if holds else 0


class Replays:
    """A captured step of ``gradients`` for each replica, and its native form, by kind of batch."""

    def __init__(
        self, gradients: Callable[..., Tensor], ends: Sequence[Sequence[BucketEnd]], fuse: bool
    ) -> None:  # fmt: skip
        self.ends = ends
        self._make = partial(Steps, gradients, fuse, len(ends))
        self._steps: dict[Any, Steps] = {}
        self._latest = self._make()
        self._native: dict[Any, tuple[list[Program], NativeStep | None]] = {}
        self._memory: GradientMemory | None = None
        self.reason = ""
        """Why the last step that cannot run natively cannot."""

    @property
    def captured(self) -> list[Captured]:
        """The steps of the kind that was run last, one of each replica."""
        return self._latest.captured

    def __repr__(self) -> str:
        eager = [step.last.reason for step in self.captured if not step.replays]
        return f"captured, runs eagerly, because {eager[0]}" if eager else "captured, replays"

    def __call__(
        self, world: World, kind: Any, given: Any, denominator: Any, part: Share
    ) -> Tensor:
        """Run a part of a step of this ``kind``."""
        told: Any = None
        if denominator is not None:  # it depends on the targets: an argument of the step
            told = Tensor(np.array(denominator)).to(world.device)
        steps = self._steps.get(kind) or self._steps.setdefault(kind, self._make())
        step, rank = steps.captured[world.rank], world.rank
        step.allowed = steps.allowed
        loss: Tensor = step(given, told, part, world.factor)
        first = part.start == world.now.share.start
        steps.can[rank] = step.replays and (first or steps.can[rank])
        return loss

    def agree(self, kind: Any, ranks: Sequence[int], steps: int = 1) -> None:
        """So many steps of this kind are over, and were run by ``ranks``."""
        before, found = self._latest, self._steps.pop(kind)
        self._steps[kind] = self._latest = found  # the last used is the last
        found.over(ranks, steps)
        if before is not found:
            for step in before.captured:
                step.last.rest()
        if len(self._steps) > SIGNATURES:
            del self._steps[next(iter(self._steps))]

    def ahead(self, kind: Any) -> tuple[list[Recordings], int]:
        """What each replica knows of steps of this kind, and how many of the next ones are to be
        replays of that."""
        steps = self._steps.get(kind)
        if steps is None:
            return [], 0
        return [step.last for step in steps.captured], steps.ahead

    def native(
        self, kind: Kind, split: Sequence[Share], programs: list[Program], optimizer: Any,
        finite: bool, deadline: float,
    ) -> NativeStep | None:  # fmt: skip
        """The native form of steps of this kind, if they have one, made when it is needed first."""
        if any(program.bindable for program in programs):
            return None  # their first run is still to come
        known, step = self._native.pop(kind.key, ([], None))
        same = len(known) == len(programs) and all(map(lambda a, b: a is b, known, programs))
        if not same or (step is not None and not step.fits(finite)):
            step = None
            try:
                starts = [[share.start * strides[0] for _, strides, _ in kind.layouts]
                          for share in split]  # fmt: skip
                self._memory = self._memory or GradientMemory(self.ends)
                step = NativeStep(programs, self.ends, optimizer, starts, leads(split), finite,
                                  deadline, self._memory)  # fmt: skip
            except GraphError as problem:
                self.reason = str(problem)
        self._native[kind.key] = programs, step  # the last used is the last
        while len(self._native) > KINDS:
            del self._native[next(iter(self._native))]
        return step
