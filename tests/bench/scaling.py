"""How much faster k CPU replicas train than one: rows per second, alternately in one run.

    python tests/bench/scaling.py [--models cnn] [--batch 256] [--replicas 2] [--rounds 7]
    python tests/bench/scaling.py --models W1,W2,W3,W3-local

Models are the example's and the works of ``python -m minidp.bench``; in W3-local every replica
normalises by its own rows (``sync=False``). Prints the median of the paired ratios; the two run in
turn, so that a machine whose speed drifts does not favour either, in bursts of 0.2 s or of some
steps, whichever is longer.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from pathlib import Path
from typing import Any

import minidp as dp
from minidp import nn
from minidp.bench.report import write
from minidp.bench.rounds import BURST, settle
from minidp.bench.trainers import Trainer
from minidp.bench.works import WORKS, batches
from minidp.examples.mnist import MODELS, make_optimizer

LOCAL = "-local"
BENCH = {work.name: work for work in WORKS}
CHOICES = (*MODELS, *BENCH, "W3" + LOCAL)


def trainer(given: argparse.Namespace, model: str, replicas: int) -> dp.Scheduler:
    name = model.removesuffix(LOCAL)
    if name in BENCH:
        return Trainer(BENCH[name], replicas, given.capture, name == model).train
    dp.manual_seed(0)
    network = MODELS[model]()
    optimizer = make_optimizer("sgd", network, 0.01)
    return dp.Scheduler(network, nn.CrossEntropyLoss(), optimizer, devices=replicas,
                        fuse=given.capture)  # fmt: skip


def data(given: argparse.Namespace, name: str) -> list[Any]:
    """As many batches as one burst has steps at least."""
    if name in BENCH:
        made = [(dp.tensor(x), dp.tensor(y)) for x, y in batches(BENCH[name], given.batch)]
        return [made[i % len(made)] for i in range(given.steps)]
    rows = given.batch or 256
    return [(dp.randn(rows, 1, 28, 28), dp.randint(0, 10, (rows,))) for _ in range(given.steps)]


def burst(train: dp.Scheduler, rows: list[Any]) -> list[Any]:
    """The batches of a burst, after steps that compile and record."""
    for _ in range(3):
        began = time.perf_counter()
        train.run(rows)
    return rows * math.ceil(BURST / (time.perf_counter() - began))


def rows_per_second(train: dp.Scheduler, batches: list[Any]) -> float:
    settle()
    began = time.perf_counter()
    train.run(batches)
    rows = sum(len(x) for x, _ in batches)
    return rows / (time.perf_counter() - began)


def measure(given: argparse.Namespace, model: str) -> dict[str, Any]:
    """One replica and several, in turn."""
    one, many = (trainer(given, model, k) for k in (1, given.replicas))
    rows = data(given, model.removesuffix(LOCAL))
    rows = max((burst(train, rows) for train in (one, many)), key=len)
    pairs = [(rows_per_second(one, rows), rows_per_second(many, rows))
             for _ in range(given.rounds)]  # fmt: skip
    ratios = [after / before for before, after in pairs]
    return {
        "model": model, "capture": given.capture, "batch": len(rows[0][0]),
        "replicas": given.replicas,
        "rows_per_second_1": round(statistics.median(p[0] for p in pairs), 1),
        "rows_per_second_k": round(statistics.median(p[1] for p in pairs), 1),
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(ratio, 3) for ratio in ratios],
    }  # fmt: skip


def models(text: str) -> list[str]:
    names = text.split(",")
    if not set(names) <= set(CHOICES):
        raise argparse.ArgumentTypeError(f"{text!r}: expected some of {','.join(CHOICES)}")
    return names


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--models", type=models, default=["cnn"])
    options.add_argument("--batch", type=int, help="rows (256, or the work's)")
    options.add_argument("--replicas", type=int, default=2)
    options.add_argument("--capture", action="store_true")
    options.add_argument("--steps", type=int, default=12, help="of a burst at least (12)")
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--json", type=Path)
    return options


def main() -> None:
    given = parser().parse_args()
    found = []
    for model in given.models:
        found.append(measure(given, model))
        print(json.dumps(found[-1]), flush=True)
        if given.json:
            write(given.json, {"models": found})


if __name__ == "__main__":
    main()
