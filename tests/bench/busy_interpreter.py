"""What a Python thread that computes costs replicas, and what turns at the interpreter change.

    python tests/bench/busy_interpreter.py

Replicas need the interpreter's lock between kernels. A thread of pure Python (a callback, a slow
loader) gives it back only when it is asked to, after the switch interval: 5 ms unless told
otherwise, which is longer than a kernel runs. A run of replicas therefore sets a shorter interval
(``minidp.parallel.launch.SWITCH``).

Settings take turns in short bursts. Other programs on the machine disturb some of them: of each
setting's bursts the quarter counts whose threads waited least for a processor (which Linux tells),
with its median. With one replica on two idle cores, what remains is the wait for the lock.
"""

import argparse
import threading
import time
from importlib import import_module
from itertools import chain
from pathlib import Path
from statistics import median

import minidp as dp
from minidp import nn, optim
from minidp.examples.mnist import MODELS

LAUNCH = import_module("minidp.parallel.launch")
INTERVALS = (5e-3, 2e-3, 1e-3, 5e-4, 2e-4, 1e-4)


def delayed():
    """Seconds that the running thread has been ready to run, without a processor."""
    found = Path("/proc/thread-self/schedstat")
    return int(found.read_text().split()[1]) / 1e9 if found.exists() else 0.0


class Busy:
    """``count`` threads that only count, how often they did, and for how long they could not."""

    def __init__(self, count):
        self.ending, self.turns, self.delay = False, [0] * count, 0.0
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(count)]

    def run(self, index):
        while not self.ending:
            for _ in range(1000):
                pass
            self.turns[index] += 1
        self.delay += delayed()

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *failure):
        self.ending = True
        for thread in self.threads:
            thread.join()


def trainer(model, replicas, rows, steps):
    """A function that trains for some steps and gives the seconds of one, and of delay."""
    dp.manual_seed(0)
    network = MODELS[model]()
    optimizer = optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    train = dp.Scheduler(network, nn.CrossEntropyLoss(), optimizer, replicas)
    batch = dp.randn(rows, 1, 28, 28), dp.randint(0, 10, (rows,))
    train.run_batches([batch] * 3)

    def burst():
        delays, began = [], time.perf_counter()
        end = (delays.append(delayed()) for _ in range(1))  # asked for by a replica, at the end
        train.run_batches(chain([batch] * steps, filter(None, end)))
        return (time.perf_counter() - began) / steps, delays[0]

    return burst


def timed(burst, interval, threads):
    """(delay, seconds of a step, thousands of loops a second of the busy threads)."""
    LAUNCH.SWITCH = interval
    with Busy(threads) as busy:
        began = time.perf_counter()
        step, delay = burst()
        loops = sum(busy.turns) / (time.perf_counter() - began)
    return (delay + busy.delay) / step, step, loops


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--replicas", type=int, default=1)
    options.add_argument("--rows", type=int, default=64)
    options.add_argument("--steps", type=int, default=5)
    options.add_argument("--rounds", type=int, default=40)
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
            quiet = [sorted(found[interval, n])[: -(-given.rounds // 4)] for n in (0, 1)]
            alone, busy = (median(step for _, step, _ in each) for each in quiet)
            loops = median(each[2] for each in quiet[1])
            print(f"{1e3 * interval:11.1f}  {1e3 * alone:6.2f}   {1e3 * busy:18.2f}"
                  f"   {loops:17,.0f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
