"""What it gains that buckets are reduced while backward goes on.

    python tests/bench/overlap.py

The same model with its usual buckets, with one bucket for all (so that nothing can be reduced
before backward is over), and with a bucket per parameter. They take turns in short bursts; printed
are the fastest step, the least exposed communication, and how that compares with one bucket.
"""

import argparse

import minidp as dp
from minidp import nn, optim
from minidp.examples.mnist import MODELS

BUCKETS = {"one": (1e9, 1e9), "usual": (64, 1024), "each": (0.001, 0.001)}


def wide():
    """Much gradient for little work: 5.8 M parameters."""
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 2048), nn.ReLU(), nn.Linear(2048, 2048),
                         nn.ReLU(), nn.Linear(2048, 10))  # fmt: skip


def trainer(make, replicas, sizes, workload):
    dp.manual_seed(0)
    model = make()
    optimizer = optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return dp.Scheduler(model, nn.CrossEntropyLoss(), optimizer, replicas, workload,
                        bucket_kib=sizes)  # fmt: skip


def burst(train, batch, steps):
    """(seconds, exposed seconds) of a step."""
    train.run_batches([batch] * steps)
    stats = train.stats()
    return stats["seconds"] / steps, stats["exposed"] / steps


def measure(make, rows, given, workload=None):
    """Minima over rounds, by the sizes of buckets."""
    batch = dp.randn(rows, 1, 28, 28), dp.randint(0, 10, (rows,))
    trainers = {n: trainer(make, given.replicas, s, workload) for n, s in BUCKETS.items()}
    for train in trainers.values():
        train.run_batches([batch] * 3)
    rounds = [{name: burst(train, batch, given.steps) for name, train in trainers.items()}
              for _ in range(given.rounds)]  # fmt: skip
    least = {name: [1e3 * min(each[name][i] for each in rounds) for i in (0, 1)]
             for name in trainers}  # fmt: skip
    for name, train in trainers.items():
        step, exposed = least[name]
        ratio = least["one"][0] / step
        line = f"{name:5} {len(train.buckets):2} bucket(s), {step:.2f} ms a step"
        print(f"  {line}, {exposed:.2f} exposed; {ratio:.2f} times one bucket's speed", flush=True)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--replicas", type=int, default=2)
    options.add_argument("--steps", type=int, default=4)
    options.add_argument("--rounds", type=int, default=20)
    given = options.parse_args()
    for name, make, rows in (("cnn", MODELS["cnn"], 64), ("mlp", MODELS["mlp"], 64),
                             ("wide", wide, 64)):  # fmt: skip
        for workload in (None, [3] + [1] * (given.replicas - 1)):
            print(f"{name}, {rows} rows, {given.replicas} replicas, workload {workload or 'even'}")
            measure(make, rows, given, workload)


if __name__ == "__main__":
    main()
