"""One row of a table: everyone who does one piece of work, measured in turn."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from minidp.bench import machine, operations, works
from minidp.bench.rounds import BURST, LEAST, Entrant, Ratio, Times, alternate, ratio
from minidp.bench.trainers import CAPTURED, OURS, chains, repeated, trainers
from minidp.bench.works import Cost, Work

AGREE = 1e-3
"""How far, in parts, results may be apart: float32, and other orders of summation."""


@dataclass(frozen=True)
class Plan:
    """How to measure. ``seconds`` go to each training step, a sixth of that to each op. ``busy``:
    on one thread, the time that other processes had the core is not counted."""

    seconds: float = 12.0
    burst: float = BURST
    least: int = LEAST
    checked: int = 5
    capture: bool = False
    torch: bool = True
    busy: bool = False

    def peer(self) -> Any:
        """The module that runs PyTorch, or None where it is not wanted or not there."""
        wanted = self.torch and find_spec("torch") is not None
        return importlib.import_module("minidp.bench.torch_peer") if wanted else None

    def times(
        self, entrants: Sequence[Entrant], share: float = 1.0, threads: int = 1
    ) -> dict[str, Times]:
        """Measure these in turn."""
        length = max(self.burst * share, 0.03)
        clock = time.process_time if self.busy and threads == 1 else time.perf_counter
        return alternate(entrants, self.seconds * share, length, self.least, clock)


@dataclass(frozen=True)
class Limits:
    """What the machine reached with some threads: operations and bytes per second."""

    flops: float
    bytes: float


@dataclass(frozen=True)
class Row:
    """A piece of work, what it needs, how long everyone took, and how far results were apart."""

    name: str
    what: str
    threads: int
    cost: Cost | None
    times: Mapping[str, Times]
    limits: Limits
    apart: float | None = None

    def best(self, ours: bool) -> Times | None:
        """The times of the fastest of ours or of the others."""
        found = [t for name, t in self.times.items()
                 if (name in (OURS, CAPTURED)) == ours and name != machine.SGEMM]  # fmt: skip
        return min(found, key=lambda times: times.median, default=None)

    @property
    def ratio(self) -> Ratio | None:
        """Our fastest over the fastest of the others."""
        ours, theirs = self.best(True), self.best(False)
        return None if ours is None or theirs is None else ratio(ours, theirs)

    @property
    def bound(self) -> tuple[float, str] | None:
        """The seconds that this machine's limits allow at best, and which of the two it is."""
        if self.cost is None:
            return None
        by = {"arithmetic": self.cost.flops / self.limits.flops,
              "memory": self.cost.bytes / self.limits.bytes}  # fmt: skip
        name = max(by, key=lambda name: by[name])
        return by[name], name

    def share(self, times: Times) -> float | None:
        """What of its bound an entrant reached: 1 is all."""
        return None if self.bound is None else self.bound[0] / times.median

    @property
    def agrees(self) -> bool:
        return self.apart is None or self.apart < AGREE


def limits(threads: int, plan: Plan) -> Limits:
    """What this machine can do with some threads."""
    entrants = [machine.sgemm(threads), machine.sum_of_vectors(threads=threads)]
    found = plan.times(entrants, 0.25, threads)
    flops = machine.flops_of_sgemm(threads) / found[machine.SGEMM].median
    return Limits(flops, machine.bytes_of_sum() / found[machine.SUM].median)


def apart(found: Sequence[Any]) -> float:
    """The largest difference to the first, in parts of its largest value."""
    first, *others = [np.asarray(each, np.float64) for each in found]
    largest = np.abs(first).max()
    return max((float(np.abs(each - first).max() / largest) for each in others), default=0.0)


def measure_work(work: Work, threads: int, plan: Plan, limits: Limits) -> Row:
    """Train with ``threads`` replicas of ours, and with as many threads of PyTorch."""
    everyone: dict[str, Any] = dict(trainers(work, threads, plan.capture))
    if (peer := plan.peer()) is not None:
        everyone |= peer.torch_trainers(work, works.weights(works.model(work)), threads)
    difference = apart([each.losses(plan.checked) for each in everyone.values()])
    entrants = [Entrant(name, each.run) for name, each in everyone.items()]
    times = plan.times([machine.sgemm(threads), *entrants], threads=threads)
    return Row(work.name, work.what, threads, works.cost_of(work), times,
               renewed(limits, times, threads), difference)  # fmt: skip


def renewed(limits: Limits, times: Mapping[str, Times], threads: int) -> Limits:
    """The limits, with the products of matrices that were measured in the same rounds."""
    flops = machine.flops_of_sgemm(threads) / times[machine.SGEMM].median
    return Limits(flops, limits.bytes)


def measure_chain(plan: Plan, limits: Limits) -> Row:
    """W4, what an op costs."""
    entrants, peer = chains(plan.capture), plan.peer()
    if peer is not None:
        entrants.append(peer.torch_chain())
    times = plan.times([machine.sgemm(), *entrants], 0.5)
    return Row("W4", f"{works.OPS} ops on 32 floats", 1, None, times, limits)


def measure_operations(plan: Plan, limits: Limits) -> Iterator[Row]:
    """Each op by itself, then the optimisers' updates; one thread."""
    peer = plan.peer()
    for operation in operations.OPERATIONS:
        steps = {OURS: operations.ours(operation)}
        if peer is not None:
            steps |= peer.torch_operation(operation)
        difference = apart([_array(step()) for step in steps.values()])
        cost = operations.cost_of(operation)
        yield _row(operation.name, cost, steps, plan, limits, difference)
    theirs = {} if peer is None else dict(peer.torch_updates())
    for name, step in operations.our_updates():
        steps = {OURS: step} | ({peer.PLAIN: theirs[name]} if peer is not None else {})
        yield _row(name, operations.COST_OF_UPDATE[name], steps, plan, limits, None)


def _array(value: Any) -> Any:
    return value.detach().numpy()


def _row(
    name: str, cost: Cost, steps: Mapping[str, Callable[[], Any]], plan: Plan, limits: Limits,
    difference: float | None,
) -> Row:  # fmt: skip
    entrants = [Entrant(who, repeated(step)) for who, step in steps.items()]
    times = plan.times([machine.sgemm(), *entrants], 1 / 6)
    return Row(name, "", 1, cost, times, renewed(limits, times, 1), difference)
