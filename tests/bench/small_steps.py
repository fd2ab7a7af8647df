"""Steps of a small network per second, of one replica and of two, eager and captured.

    python tests/bench/small_steps.py [--rounds 15] [--width 64] [--rows 32] [--fuse]

An MLP of three layers of 64 units, SGD with momentum, through ``scheduler.run(list of batches)``.
Entrants take turns in one process, in bursts of some tens of milliseconds. Printed are microseconds
of a step (median and best burst, and the processor's time of all threads), and two replicas' speed
over one's: of medians, of best bursts, and the median of the ratios of neighbours in time. "Split"
is a batch of 32 rows, half of it for each replica; "each" a batch of 64 for two replicas, in rows
per second. Then where the time of a captured step goes. Two cores must be free for a fair number.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import minidp as dp
from minidp import nn, optim
from minidp.graph.program import native_calls
from minidp.parallel.native import NativeRuns

ORDERS = native_calls().Orders
PARTS = {"native call": (ORDERS, "lead"), "of the others": (ORDERS, "serve"),
         "before a call": (NativeRuns, "_prepared"),
         "behind a call": (NativeRuns, "_commit")}  # fmt: skip


class Entrant:
    """A scheduler and its batches."""

    def __init__(self, given: argparse.Namespace, replicas: int, rows: int, capture: bool) -> None:
        dp.manual_seed(0)
        n, rng = given.width, np.random.default_rng(0)
        layers = [nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n), nn.ReLU(), nn.Linear(n, 10)]
        model = nn.Sequential(*layers)
        optimizer = optim.SGD(model.parameters(), 0.01, momentum=0.9)
        options = {"capture": capture, "fuse": capture and given.fuse}
        self.train = dp.Scheduler(model, nn.CrossEntropyLoss(), optimizer, replicas, **options)
        self.data = [(dp.tensor(rng.standard_normal((rows, n)).astype("float32")),
                      dp.tensor(rng.integers(0, 10, rows)))
                     for _ in range(1000 if capture else 40)]  # fmt: skip
        self.wall: list[float] = []
        self.processor: list[float] = []
        self.burst()  # compiles, records
        self.burst()
        self.wall.clear()
        self.processor.clear()

    def burst(self) -> None:
        count, processor, began = len(self.data), time.process_time(), time.perf_counter()
        self.train.run(self.data)
        self.wall.append((time.perf_counter() - began) / count * 1e6)
        self.processor.append((time.process_time() - processor) / count * 1e6)

    def found(self) -> dict[str, float]:
        middle, best = statistics.median(self.wall), min(self.wall)
        found = {"median": middle, "best": best, "processor": min(self.processor)}
        return {name: round(each, 1) for name, each in found.items()}


def speed_up(one: Entrant, two: Entrant, rows: float) -> dict[str, float]:
    """Two replicas' rows per second over one's, where a step of two has so many times the rows."""
    pairs = zip(one.wall, two.wall, strict=True)
    found = {
        "medians": statistics.median(one.wall) / statistics.median(two.wall),
        "bests": min(one.wall) / min(two.wall),
        "neighbours": statistics.median([a / b for a, b in pairs]),
    }
    return {name: round(rows * each, 2) for name, each in found.items()}


def parts(entrant: Entrant) -> dict[str, Any]:
    """Microseconds of a step, by what its replicas do: the processor's time of all threads, in the
    burst that took the least."""
    best: dict[str, float] = {}
    for _ in range(10):
        found, undo = dict.fromkeys(PARTS, 0.0), []
        for name, (kind, method) in PARTS.items():
            undo.append((kind, method, getattr(kind, method)))
            setattr(kind, method, timed(getattr(kind, method), found, name))
        entrant.burst()
        for kind, method, plain in undo:
            setattr(kind, method, plain)
        if not best or sum(found.values()) < sum(best.values()):
            best = found
    return {name: round(each / len(entrant.data) * 1e6, 2) for name, each in best.items()}


def timed(function: Callable[..., Any], found: dict[str, float], name: str) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        began = time.thread_time()
        try:
            return function(*arguments)
        finally:
            found[name] += time.thread_time() - began

    return call


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--width", type=int, default=64)
    options.add_argument("--rows", type=int, default=32)
    options.add_argument("--fuse", action="store_true")
    given = options.parse_args()
    made = {}
    for way, capture in (("eager", False), ("captured", True)):
        for replicas, rows in ((1, given.rows), (2, given.rows), (2, 2 * given.rows)):
            name = f"{way}, {replicas} replica(s), {rows} rows"
            made[name] = Entrant(given, replicas, rows, capture)
    for _ in range(given.rounds):
        for entrant in made.values():
            entrant.burst()
    result: dict[str, Any] = {name: entrant.found() for name, entrant in made.items()}
    for name, found in result.items():
        print(f"{name:34}{json.dumps(found)}")
    for way in ("eager", "captured"):
        one, split, each = (entrant for name, entrant in made.items() if name.startswith(way))
        print(f"{way}: two over one, split:", json.dumps(speed_up(one, split, 1)))
        print(f"{way}: two over one, each:", json.dumps(speed_up(one, each, 2)))
    for name, entrant in made.items():
        if name.startswith("captured"):
            steps = entrant.train.progress
            print(f"{name}: {steps.native} of {steps.steps} natively;", json.dumps(parts(entrant)))


if __name__ == "__main__":
    main()
