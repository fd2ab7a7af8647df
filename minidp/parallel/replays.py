"""The captured steps of a scheduler's replicas: in each all of them replay, or all run eagerly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minidp.errors import GraphError
from minidp.graph.captured import SIGNATURES, Captured, Recordings
from minidp.graph.program import Program
from minidp.parallel.chunk import Kind
from minidp.parallel.ends import BucketEnd
from minidp.parallel.native_step import NativeStep, Sums
from minidp.parallel.replica import World
from minidp.parallel.split import Share, leads
from minidp.tensor import Tensor

KINDS = 8
"""For how many kinds of batches steps are kept as native tables."""


class Replays:
    """A captured step of ``gradients`` for each replica, and its native form, by kind of batch."""

    def __init__(
        self, gradients: Callable[..., Tensor], ends: Sequence[Sequence[BucketEnd]], fuse: bool
    ) -> None:  # fmt: skip
        self.ends, size = ends, len(ends)
        self.captured = [Captured(gradients, fuse) for _ in range(size)]
        self._plans: dict[Any, list[Recordings | None]] = {}
        self._all: dict[Any, bool] = {}  # whether all can replay
        self._can = [True] * size
        self._native: dict[Any, tuple[list[Program], NativeStep | None]] = {}
        self._sums: Sums | None = None
        self.reason = ""
        """Why the last step that cannot run natively cannot."""

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
        step = self.captured[world.rank]
        step.allowed = self._all.get(kind, False)
        loss: Tensor = step(given, told, part, world.factor)
        first = part.start == world.now.share.start
        self._can[world.rank] = step.replays and (first or self._can[world.rank])
        self._plans.setdefault(kind, [None] * len(self.ends))[world.rank] = step.last
        return loss

    def agree(self, kind: Any, ranks: Sequence[int]) -> None:
        """A step of this kind is over, and was run by ``ranks``."""
        self._all.pop(kind, None)
        self._all[kind] = all(self._can[rank] for rank in ranks)  # the last used is the last
        if len(self._all) > SIGNATURES:
            oldest = next(iter(self._all))
            del self._all[oldest]
            self._plans.pop(oldest, None)

    def plans(self, kind: Any) -> list[Recordings]:
        """What each replica knows of steps of this kind; nothing unless all replay them."""
        plans = [plan for plan in self._plans.get(kind, ()) if plan is not None]
        ready = self._all.get(kind, False) and len(plans) == len(self.ends)
        return plans if ready else []

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
                self._sums = self._sums or Sums(self.ends)
                step = NativeStep(programs, self.ends, optimizer, starts, leads(split), finite,
                                  deadline, self._sums)  # fmt: skip
            except GraphError as problem:
                self.reason = str(problem)
        self._native[kind.key] = programs, step  # the last used is the last
        while len(self._native) > KINDS:
            del self._native[next(iter(self._native))]
        return step
