"""What a replay of a captured step costs, and whether two threads replay twice as much as one.

    python tests/bench/native_step.py [--rounds 40]

A network of layers of 64 units, batch 32; forward, loss and backward, without fusion. Prints
microseconds of a replay as a Python function, a call a line, and bound to memory, alternately in
one process: best and median of many bursts, and their ratio. Then the steps per second of one
thread and of two, each with a bound copy of its own, for replays one by one and for 100 batches in
one native call. The second core must be free for a fair number: bursts are short, the best counts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import minidp as dp
from minidp import nn
from minidp.backend.cpu import blas_threads
from minidp.graph.program import Program

BATCHES = 100


def captured() -> tuple[Program, list[Any]]:
    """The program of the step, bound; and the arrays of a batch."""
    dp.manual_seed(0)
    layers = [nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)]
    model, rng = nn.Sequential(*layers), np.random.default_rng(0)

    def step(x: dp.Tensor, y: dp.Tensor) -> dp.Tensor:
        model.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        return loss

    x = dp.tensor(rng.standard_normal((32, 64)).astype("float32"))
    y = dp.tensor(rng.integers(0, 10, 32))
    replayed = dp.capture(step, fuse=False)
    for _ in range(4):
        replayed(x, y)
    assert replayed.last.program is not None and replayed.last.program.binding is not None
    return replayed.last.program, [x.array, y.array]


def seconds(call: Callable[[], Any], repeats: int) -> float:
    began = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - began) / repeats


def replays(program: Program, arrays: list[Any], rounds: int) -> dict[str, Any]:
    """Microseconds of a replay, both ways."""
    python = Program(program.graph)
    python.bindable = False
    ways = {"python": lambda: python(arrays), "bound": lambda: program(arrays)}
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            found[name].append(seconds(way, 50) * 1e6)
    result: dict[str, Any] = {
        name: {"median": round(statistics.median(times), 1), "best": round(min(times), 1)}
        for name, times in found.items()
    }
    return result | {"ratio": round(min(found["python"]) / min(found["bound"]), 2)}


def rate(count: int, work: Callable[[int], None]) -> float:
    """Calls per second of ``count`` threads that each make ``work(thread)``, 20 ms or so."""
    began, ended = [0.0] * count, [0.0] * count
    start = threading.Barrier(count)

    def run(place: int) -> None:
        start.wait()
        began[place] = time.perf_counter()
        work(place)
        ended[place] = time.perf_counter()

    threads = [threading.Thread(target=run, args=(place,)) for place in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return count / (max(ended) - min(began))


def scaling(program: Program, arrays: list[Any], rounds: int) -> dict[str, Any]:
    """Steps per second of one thread and of two."""
    binding = program.binding
    assert binding is not None and binding.whole
    copies = [binding.take(), binding.take()]
    for copy in copies:
        copy.renew()
    rows = [binding.rows(copy, [arrays] * BATCHES) for copy in copies]

    def one_by_one(place: int) -> None:
        for _ in range(BATCHES):
            program(arrays)

    def in_one_call(place: int) -> None:
        copies[place].bound.run(rows=rows[place])

    result: dict[str, Any] = {}
    for name, work in (("one by one", one_by_one), ("in one call", in_one_call)):
        found = [(rate(1, work), rate(2, work)) for _ in range(rounds)]
        one, two = (BATCHES * max(each) for each in zip(*found, strict=True))
        ratio = round(two / one, 2)
        result[name] = {"1 thread": round(one), "2 threads": round(two), "ratio": ratio}
    return result


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=40)
    rounds = options.parse_args().rounds
    program, arrays = captured()
    with blas_threads(1):
        print(json.dumps(replays(program, arrays, rounds) | scaling(program, arrays, rounds)))


if __name__ == "__main__":
    main()
