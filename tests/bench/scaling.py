"""How much faster k CPU replicas train than one: rows per second, alternately in one run.

    python tests/bench/scaling.py [--model cnn] [--batch 256] [--replicas 2] [--rounds 7]

Prints the median of the paired ratios; the two run in turn, so that a machine whose speed drifts
does not favour either.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any

import minidp as dp
from minidp import nn
from minidp.examples.mnist import MODELS, make_optimizer


def trainer(model: str, replicas: int, capture: bool) -> dp.Scheduler:
    dp.manual_seed(0)
    network = MODELS[model]()
    optimizer = make_optimizer("sgd", network, 0.01)
    return dp.Scheduler(network, nn.CrossEntropyLoss(), optimizer, devices=replicas,
                        capture=capture)  # fmt: skip


def rows_per_second(train: dp.Scheduler, batches: list[Any]) -> float:
    began = time.perf_counter()
    train.run(batches)
    rows = sum(len(x) for x, _ in batches)
    return rows / (time.perf_counter() - began)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--model", choices=MODELS, default="cnn")
    options.add_argument("--batch", type=int, default=256)
    options.add_argument("--replicas", type=int, default=2)
    options.add_argument("--capture", action="store_true")
    options.add_argument("--steps", type=int, default=12)
    options.add_argument("--rounds", type=int, default=7)
    given = options.parse_args()
    one, many = (trainer(given.model, k, given.capture) for k in (1, given.replicas))
    size = (given.batch, 1, 28, 28)
    batches = [(dp.randn(*size), dp.randint(0, 10, (given.batch,))) for _ in range(given.steps)]
    for train in (one, many):
        train.run(batches[:2])
    pairs = [(rows_per_second(one, batches), rows_per_second(many, batches))
             for _ in range(given.rounds)]  # fmt: skip
    ratios = [after / before for before, after in pairs]
    print(json.dumps({
        "model": given.model, "capture": given.capture,
        "batch": given.batch, "replicas": given.replicas,
        "rows_per_second_1": round(statistics.median(p[0] for p in pairs), 1),
        "rows_per_second_k": round(statistics.median(p[1] for p in pairs), 1),
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(ratio, 3) for ratio in ratios],
    }))  # fmt: skip


if __name__ == "__main__":
    main()
