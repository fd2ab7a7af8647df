"""What a Python thread that computes costs replicas, and what turns at the interpreter change.

    python tests/bench/busy_interpreter.py

Replicas need the interpreter's lock between kernels. A thread of pure Python (a callback, a slow
loader) gives it back only when it is asked to, after the switch interval: 5 ms unless told
otherwise, which is longer than a kernel runs. A run of replicas therefore sets a shorter interval
(``minidp.parallel.launch.SWITCH``). Settings take turns in short bursts; each counts with its
fastest burst, which others on the machine disturbed least.
"""

import argparse
import threading
import time

import minidp as dp
from minidp import nn, optim
from minidp.examples.mnist import MODELS
from minidp.parallel import launch

INTERVALS = (5e-3, 2e-3, 1e-3, 5e-4, 2e-4, 1e-4)


class Busy:
    """``count`` threads that only count, and how often they did."""

    def __init__(self, count):
        self.ending, self.turns = False, [0] * count
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(count)]

    def run(self, index):
        while not self.ending:
            for _ in range(1000):
                pass
            self.turns[index] += 1

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *failure):
        self.ending = True
        for thread in self.threads:
            thread.join()


def trainer(model, replicas, rows, steps):
    """A function that trains for some steps and gives the seconds of one."""
    dp.manual_seed(0)
    network = MODELS[model]()
    optimizer = optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    train = dp.Scheduler(network, nn.CrossEntropyLoss(), optimizer, replicas)
    batch = dp.randn(rows, 1, 28, 28), dp.randint(0, 10, (rows,))
    train.run_batches([batch] * 3)

    def burst():
        began = time.perf_counter()
        train.run_batches([batch] * steps)
        return (time.perf_counter() - began) / steps

    return burst


def timed(burst, interval, threads):
    """Seconds of a step, and thousands of loops a second of the busy threads."""
    launch.SWITCH = interval
    with Busy(threads) as busy:
        began = time.perf_counter()
        step = burst()
        return step, sum(busy.turns) / (time.perf_counter() - began)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--replicas", type=int, default=2)
    options.add_argument("--rows", type=int, default=64)
    options.add_argument("--steps", type=int, default=5)
    options.add_argument("--rounds", type=int, default=20)
    given = options.parse_args()
    for model in MODELS:
        burst = trainer(model, given.replicas, given.rows, given.steps)
        settings = [(interval, threads) for interval in INTERVALS for threads in (0, 1)]
        found = {setting: [] for setting in settings}
        for _ in range(given.rounds):
            for setting in settings:
                found[setting].append(timed(burst, *setting))
        print(f"{model}, {given.replicas} replicas, {given.rows} rows: ms a step")
        print("interval ms   alone   with a busy thread   loops of that thread (1000/s)")
        for interval in INTERVALS:
            (alone, _), (busy, loops) = (min(found[interval, n]) for n in (0, 1))
            print(f"{1e3 * interval:11.1f}  {1e3 * alone:6.2f}   {1e3 * busy:18.2f}"
                  f"   {loops:17,.0f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
