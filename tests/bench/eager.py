"""What an op costs in Python: 100 element-wise ops on 32 floats, forward and backward.

    python tests/bench/eager.py [--rounds 15]

Runs minidp and, where it is installed, PyTorch alternately; prints microseconds per op (forward
and backward together): medians and best rounds, and the ratio of the medians.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import minidp as dp

REPEATS, OPS = 20, 100


def chain(tensor: Callable[[Any], Any]) -> Callable[[], None]:
    """One step: y = tanh(y a + b) 0.9, twenty-five times, summed and differentiated."""
    rng = np.random.default_rng(0)
    x, a, b = (tensor(rng.standard_normal(32).astype("float32")) for _ in range(3))

    def step() -> None:
        y = x
        for _ in range(OPS // 4):
            y = (y * a + b).tanh() * 0.9
        y.sum().backward()
        x.grad = a.grad = b.grad = None

    return step


def peers() -> dict[str, Callable[[], None]]:
    found = {"minidp": chain(lambda values: dp.Tensor(values, requires_grad=True))}
    if importlib.util.find_spec("torch") is not None:
        torch = importlib.import_module("torch")
        torch.set_num_threads(1)
        found["torch"] = chain(lambda values: torch.tensor(values, requires_grad=True))
    return found


def seconds(step: Callable[[], None]) -> float:
    began = time.perf_counter()
    for _ in range(REPEATS):
        step()
    return (time.perf_counter() - began) / REPEATS


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=15)
    rounds = options.parse_args().rounds
    steps = peers()
    for step in steps.values():
        seconds(step)
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            times[name].append(seconds(step) / OPS * 1e6)
    median = {name: statistics.median(found) for name, found in times.items()}
    result: dict[str, Any] = {
        name: {"median": round(median[name], 2), "best": round(min(times[name]), 2)}
        for name in steps
    }
    if "torch" in median:
        result["ratio"] = round(median["minidp"] / median["torch"], 3)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
