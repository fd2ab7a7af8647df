"""What an op costs in a captured step: the work of eager.py, replayed, fused and op by op.

    python tests/bench/captured.py [--rounds 15]

Runs minidp and, where it is installed, PyTorch (eager) alternately; prints microseconds per op
(forward and backward together): medians and best rounds, the ratio of the medians of the fused
step and PyTorch, and what a replay of a step of one op costs beside the op alone.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from eager import OPS, peers

import minidp as dp

REPEATS = {"fused": 1000, "captured": 50, "torch": 20}  # bursts of about as long


def chain(fuse: bool) -> Callable[[], None]:
    """The step of eager.py, captured."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(32).astype("float32") for _ in range(3)]
    x, a, b = (dp.Tensor(array, requires_grad=True) for array in arrays)

    def chained() -> None:
        y = x
        for _ in range(OPS // 4):
            y = (y * a + b).tanh() * 0.9
        y.sum().backward()

    captured = dp.capture(chained, fuse=fuse)

    def step() -> None:
        captured()
        x.grad = a.grad = b.grad = None

    return step


def seconds(step: Callable[[], Any], repeats: int = 100) -> float:
    began = time.perf_counter()
    for _ in range(repeats):
        step()
    return (time.perf_counter() - began) / repeats


def replay() -> dict[str, float]:
    """Microseconds of a captured step of one op, and of the op in NumPy: best of many."""
    x = dp.ones(32)
    step = dp.capture(lambda x: x * 2.0)
    steps = {"one op captured": lambda: step(x), "one op in NumPy": lambda: x.array * 2.0}
    seconds(steps["one op captured"])
    best = {name: min(seconds(each) for _ in range(50)) for name, each in steps.items()}
    return {name: round(taken * 1e6, 2) for name, taken in best.items()}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=15)
    rounds = options.parse_args().rounds
    steps = {"fused": chain(True), "captured": chain(False), **peers()}
    del steps["minidp"]
    for step in steps.values():
        seconds(step, 1030)  # past the recordings in calls 16, 32, 64 and so on to 1024
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            times[name].append(seconds(step, REPEATS[name]) / OPS * 1e6)
    result: dict[str, Any] = {
        name: {"median": round(statistics.median(found), 3), "best": round(min(found), 3)}
        for name, found in times.items()
    }
    if "torch" in times:
        found = [statistics.median(times[name]) for name in ("fused", "torch")]
        result["ratio"] = round(found[0] / found[1], 4)
    print(json.dumps(result | replay()))


if __name__ == "__main__":
    main()
