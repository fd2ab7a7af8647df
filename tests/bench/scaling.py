"""How much faster k CPU replicas train than one: rows per second, alternately in one run.

    python tests/bench/scaling.py [--model cnn] [--batch 256] [--replicas 2] [--rounds 7]
    python tests/bench/scaling.py --model W3 --local

A model is one of the example's or a work of ``python -m minidp.bench``. With ``--local`` every
replica normalises by its own rows (``sync=False``). Prints the median of the paired ratios; the two
run in turn, so that a machine whose speed drifts does not favour either.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any

import minidp as dp
from minidp import nn
from minidp.bench.rounds import settle
from minidp.bench.trainers import Trainer
from minidp.bench.works import WORKS, batches
from minidp.examples.mnist import MODELS, make_optimizer

BENCH = {work.name: work for work in WORKS}


def trainer(given: argparse.Namespace, replicas: int) -> dp.Scheduler:
    if given.model in BENCH:
        return Trainer(BENCH[given.model], replicas, given.capture, not given.local).train
    dp.manual_seed(0)
    network = MODELS[given.model]()
    optimizer = make_optimizer("sgd", network, 0.01)
    return dp.Scheduler(network, nn.CrossEntropyLoss(), optimizer, devices=replicas,
                        fuse=given.capture)  # fmt: skip


def data(given: argparse.Namespace) -> list[Any]:
    """As many batches as one burst has steps."""
    if given.model in BENCH:
        made = [(dp.tensor(x), dp.tensor(y)) for x, y in batches(BENCH[given.model], given.batch)]
        return [made[i % len(made)] for i in range(given.steps)]
    rows = given.batch or 256
    return [(dp.randn(rows, 1, 28, 28), dp.randint(0, 10, (rows,))) for _ in range(given.steps)]


def rows_per_second(train: dp.Scheduler, batches: list[Any]) -> float:
    settle()
    began = time.perf_counter()
    train.run(batches)
    rows = sum(len(x) for x, _ in batches)
    return rows / (time.perf_counter() - began)


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--model", choices=[*MODELS, *BENCH], default="cnn")
    options.add_argument("--batch", type=int, help="rows (256, or the work's)")
    options.add_argument("--replicas", type=int, default=2)
    options.add_argument("--capture", action="store_true")
    options.add_argument("--local", action="store_true")
    options.add_argument("--steps", type=int, default=12)
    options.add_argument("--rounds", type=int, default=7)
    return options


def main() -> None:
    given = parser().parse_args()
    one, many = (trainer(given, k) for k in (1, given.replicas))
    batches = data(given)
    for train in (one, many):
        train.run(batches[:2])
    pairs = [(rows_per_second(one, batches), rows_per_second(many, batches))
             for _ in range(given.rounds)]  # fmt: skip
    ratios = [after / before for before, after in pairs]
    print(json.dumps({
        "model": given.model, "capture": given.capture, "local": given.local,
        "batch": len(batches[0][0]), "replicas": given.replicas,
        "rows_per_second_1": round(statistics.median(p[0] for p in pairs), 1),
        "rows_per_second_k": round(statistics.median(p[1] for p in pairs), 1),
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(ratio, 3) for ratio in ratios],
    }))  # fmt: skip


if __name__ == "__main__":
    main()
