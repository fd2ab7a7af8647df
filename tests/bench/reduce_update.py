"""What it costs to add gradients over replicas and update the parameters, by itself.

    python tests/bench/reduce_update.py [--rounds 15] [--steps 100] [--replicas 2]

The parameters are LeNet's of W2, 1.66 million float32; the update is SGD with momentum 0.9. The
replicas, buckets, sums and the update are the scheduler's own.

Eager: forward and backward are left out; each replica writes its gradients (measured, and
subtracted), then the step is reduced, accepted and updated. Captured: the native tables of a step
of one row per replica, run over and over as the scheduler does; then the same tables up to where
the replicas meet, which is subtracted: their forward, backward and gradients. Where nothing runs
natively, only eager steps are measured. Beside them runs gloo's all_reduce of as many numbers
between two processes, without any update.

Prints milliseconds: medians and best rounds. The goal, for eager steps, is 0.6 ms.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import time
from contextlib import ExitStack
from pathlib import Path
from threading import Barrier, Thread

import numpy as np
from processes import Processes

import minidp as dp
from minidp import nn, optim
from minidp.bench.report import write
from minidp.bench.rounds import settle
from minidp.bench.works import MOMENTUM, RATE, WORKS, model
from minidp.graph.program import native_calls
from minidp.kernels.cpu._native import HEADER
from minidp.parallel.launch import launch_on
from minidp.parallel.native_table import MOST
from minidp.parallel.split import Share

LENET = WORKS[1]
GOAL = 0.6e-3
EAGER, CAPTURED = (f"minidp, reduction and update, {kind}" for kind in ("eager", "captured"))


def scheduler(replicas, capture=False):
    """The scheduler of W2, whose replicas and buckets are used."""
    made = model(LENET)
    optimizer = optim.SGD(made.parameters(), RATE, MOMENTUM)
    return dp.Scheduler(made, nn.CrossEntropyLoss(), optimizer, devices=replicas, capture=capture)


def program(world, train, steps, reduce):
    """A replica: writes its gradients, and reduces and updates if that is asked for; its seconds
    per step."""
    ends = train.ends[world.rank]
    world.adopt(ends)
    given = [{i: np.full(p.shape, 1e-6, "float32") for i, p in enumerate(end.bucket.parameters)}
             for end in ends]  # fmt: skip
    world.comm.barrier("begin")
    began = time.perf_counter()
    for step in range(1, steps + 1):
        world.begin(world.step + 1, Share(world.rank, world.rank + 1, world.size),
                    range(world.size))  # fmt: skip
        for end, cotangents in zip(ends, given, strict=True):
            end.pack(cotangents)
        if reduce:
            world.update(train.optimizer, [0.0])
        else:
            world.comm.barrier(f"step {step}")
    return (time.perf_counter() - began) / steps


class Tables:
    """The tables of a captured step of one row per replica, and what they are run on."""

    def __init__(self, replicas):
        self.train = scheduler(replicas, capture=True)
        self.train.optimizer.param_groups[0]["lr"] = 0.0  # gradients stay: none fades to 1e-40
        self.batch = dp.randn(replicas, 1, 28, 28), dp.randint(0, 10, (replicas,))
        while not self.train.progress.native:
            self.train.run([self.batch] * 64)
        ((_, self.step),) = self.train.replays._native.values()
        self.totals = self.step.take(MOST)
        for update in self.step.updates:
            update.fill(MOST)
        for table in self.step.tables:
            table.give([[id(each.array)] * MOST for each in self.batch], np.ones(MOST))

    def seconds(self, steps):
        """Per step: of whole tables, less what comes before the replicas meet."""
        whole, before = (self._run(steps, met) for met in (True, False))
        return whole - before

    def _run(self, steps, met):
        self.step.meeting.reset()
        barrier = Barrier(len(self.step.tables) + 1)
        threads = [Thread(target=self._table, args=(each, steps, met, barrier))
                   for each in self.step.tables]  # fmt: skip
        for thread in threads:
            thread.start()
        barrier.wait()
        began = time.perf_counter()
        for thread in threads:
            thread.join()
        return (time.perf_counter() - began) / steps

    def _table(self, table, steps, met, barrier):
        bound, count = table.copy.bound, HEADER.index("count")
        header = bound.headers[0][0]
        before = header[count]
        header[count] = before if met else table.meetings[0]
        barrier.wait()
        assert bound.run(rows=table.rows[:steps]) == -1
        header[count] = before


def eager(train, steps):
    """Seconds of reduction and update: with, less without."""
    found = [max(launch_on(program, train.places, (train, steps, reduce), train.store))
             for reduce in (True, False)]  # fmt: skip
    return found[0] - found[1]


def worker(link, rank, size, meeting, numbers):
    """A process of PyTorch: all_reduce as often as it is told, and answers with the seconds."""
    import torch
    from torch import distributed

    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank,
                                   world_size=size)  # fmt: skip
    gradient = torch.full((numbers,), 1e-6)
    link.send(0.0)
    while (steps := link.recv()) is not None:
        began = time.perf_counter()
        for _ in range(steps):
            distributed.all_reduce(gradient)
        link.send((time.perf_counter() - began) / steps)
    distributed.destroy_process_group()


class Gloo(Processes):
    """Processes of PyTorch that add ``numbers`` numbers."""

    def __init__(self, size, numbers):
        super().__init__(worker, size, numbers)
        self.answers()

    def seconds(self, steps):
        """Per all_reduce, of the slower process."""
        self.tell(steps)
        return max(self.answers())


def measure(entrants, steps, rounds):
    """Seconds per step of each entrant, in turn."""
    times = {name: [] for name in entrants}
    for _ in range(rounds + 1):
        for name, seconds in entrants.items():
            settle()
            times[name].append(seconds(steps))
    return {name: found[1:] for name, found in times.items()}  # the first compiles


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--steps", type=int, default=100)
    options.add_argument("--replicas", type=int, default=2)
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    train = scheduler(given.replicas)
    numbers = sum(p.numel() for p in train.model.parameters())
    entrants = {EAGER: lambda steps: eager(train, steps)}
    if native_calls() is not None:
        entrants[CAPTURED] = Tables(given.replicas).seconds
    with ExitStack() as at_end:
        if importlib.util.find_spec("torch") is not None:
            peers = Gloo(given.replicas, numbers)
            at_end.callback(peers.end)
            entrants["gloo, reduction alone"] = peers.seconds
        times = measure(entrants, given.steps, given.rounds)
    result = {name: {"median": 1e3 * statistics.median(found), "best": 1e3 * min(found)}
              for name, found in times.items()}  # fmt: skip
    reached = statistics.median(times[EAGER]) <= GOAL
    found = {"numbers": numbers, "ms": result, "goal": 1e3 * GOAL, "reached": reached}
    print(json.dumps(found))
    if given.json:
        write(given.json, found)


if __name__ == "__main__":
    main()
