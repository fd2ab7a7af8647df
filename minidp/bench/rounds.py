"""Measuring in turn: a burst of steps of one entrant, a burst of the next, round after round.

The speed of a machine drifts, by other processes and by its own clock. Entrants that run in turn
drift together, so that ratios hold where times do not. A median over rounds leaves out what
interrupted some of them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

BURST = 0.2
"""Seconds that one burst should last: long against what a scheduler hands out."""
PATIENCE = 0.5
"""Seconds to wait at most for the threads of the entrant before to come to rest."""
LEAST = 3
"""Rounds that are run even when the time is over: a median needs them."""


@dataclass(frozen=True)
class Entrant:
    """Something to measure. ``run(n)`` takes n steps of it."""

    name: str
    run: Callable[[int], object]


@dataclass(frozen=True)
class Times:
    """The seconds that one step of an entrant took, in each round."""

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    @property
    def spread(self) -> float:
        """How far apart the quartiles are, in parts of the median."""
        low, high = quartiles(self.rounds)
        return (high - low) / self.median


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """What a quarter and three quarters of the values are below."""
    if len(values) < 2:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def settle(patience: float = PATIENCE) -> bool:
    """Sleep until no thread of this process computes; False if some still do.

    Threads of OpenMP go on spinning after their work (libgomp some milliseconds, Intel's 0.2 s),
    on the cores that the next entrant is to have.
    """
    ends, quiet = time.perf_counter() + patience, 0
    while quiet < 2 and time.perf_counter() < ends:
        used, began = time.process_time(), time.perf_counter()
        time.sleep(0.003)
        still = time.process_time() - used < 0.1 * (time.perf_counter() - began)
        quiet = quiet + 1 if still else 0
    return quiet == 2


Clock = Callable[[], float]


def seconds(run: Callable[[int], object], steps: int, clock: Clock = time.perf_counter) -> float:
    """The seconds of ``steps`` steps by a clock: the wall's, or ``time.process_time``, which stands
    still while other processes have the core, and counts each thread's time."""
    began = clock()
    run(steps)
    return clock() - began


def burst(entrant: Entrant, steps: int, clock: Clock = time.perf_counter) -> float:
    """Seconds per step of one burst, after a step that brings the data back to the caches."""
    settle()
    entrant.run(1)
    return seconds(entrant.run, steps, clock) / steps


def steps_for(entrant: Entrant, length: float) -> int:
    """How many steps last about ``length`` seconds; a first step, which compiles, not counted."""
    entrant.run(2)
    steps, taken = 1, seconds(entrant.run, 1)
    while taken < length / 4 and steps < 1_000_000:
        steps *= 4
        taken = seconds(entrant.run, steps)
    return max(1, round(steps * length / taken))


def alternate(
    entrants: Sequence[Entrant], lasting: float, length: float = BURST, least: int = LEAST,
    clock: Clock = time.perf_counter,
) -> dict[str, Times]:  # fmt: skip
    """Measure all entrants in turn for about ``lasting`` seconds, each other round backwards."""
    steps = {entrant.name: steps_for(entrant, length) for entrant in entrants}
    found: dict[str, list[float]] = {entrant.name: [] for entrant in entrants}
    order, ends, rounds = list(entrants), time.perf_counter() + lasting, 0
    while rounds < least or time.perf_counter() < ends:
        for entrant in order:
            found[entrant.name].append(burst(entrant, steps[entrant.name], clock))
        order, rounds = order[::-1], rounds + 1
    return {name: Times(tuple(values)) for name, values in found.items()}


@dataclass(frozen=True)
class Ratio:
    """One entrant's time over another's: of the medians, and the quartiles over rounds."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f}-{self.high:.2f})"


def ratio(ours: Times, theirs: Times) -> Ratio:
    """How long ours take in parts of the time of theirs; below 1 ours are faster."""
    pairs = [a / b for a, b in zip(ours.rounds, theirs.rounds, strict=True)]
    return Ratio(ours.median / theirs.median, *quartiles(pairs))
