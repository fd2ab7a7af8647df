"""Recordings without a run: LeNet's steps on some replicas, by a small simulation of them.

Times are drawn from a seed. A replica computes and gives its buckets in order; then it adds its
slice of each that everyone has given, and updates. GPUs reduce beside.
"""

import random

from minidp.parallel.events import Event, Recording

MODULES = [
    ("0", "Conv2d", 900), ("1", "ReLU", 120), ("2", "MaxPool2d", 160), ("3", "Conv2d", 1400),
    ("4", "ReLU", 60), ("5", "MaxPool2d", 80), ("6", "Flatten", 4), ("7.0", "Linear", 260),
    ("7.1", "ReLU", 10), ("7.2", "Linear", 40), ("7.3", "ReLU", 8), ("7.4", "Linear", 20),
]  # fmt: skip
"""Path, type, microseconds of the forward pass."""
BUCKETS = {"7.0": ("bucket 0", 235_000), "0": ("bucket 1", 12_000)}
"""The module whose backward makes a bucket whole."""


def lenet(replicas=2, steps=3, seed=0, device="cpu", slow=None):
    """A recording; ``slow`` is the rank of a replica that takes half as long again."""
    names = [f"{device}:{rank}" for rank in range(replicas)]
    meta = {"model": "LeNet", "batch": 64 * replicas, "replicas": replicas, "store": "local"}
    recording = Recording([], names, meta)
    dice, now = random.Random(seed), 10**12
    for step in range(1, steps + 1):
        now = Simulated(recording, step, dice, slow).run(now) + 15_000
    return recording


class Simulated:
    """One step of all replicas."""

    def __init__(self, recording, step, dice, slow):
        self.recording, self.step, self.dice, self.slow = recording, step, dice, slow
        self.ranks = range(len(recording.replicas))
        self.beside = recording.replicas[0].startswith("cuda")
        self.ready = {}
        self.reduced = {}

    def run(self, now):
        clocks = [self.compute(rank, now + self.dice.randrange(2000)) for rank in self.ranks]
        for name, size in BUCKETS.values():
            whole = max(self.ready[name, rank] for rank in self.ranks)
            clocks = [self.reduce(rank, clocks[rank], name, size, whole) for rank in self.ranks]
            done = max(self.reduced[name, rank] for rank in self.ranks)
            clocks = [self.wait(rank, clocks[rank], name, done) for rank in self.ranks]
        clocks = [self.update(rank, clocks[rank]) for rank in self.ranks]
        end = max(clocks)
        return max(self.wait(rank, clocks[rank], "end of step", end) for rank in self.ranks)

    def add(self, rank, kind, name, began, ended, size=0, detail=""):
        event = Event(rank, self.step, kind, name, began, ended, size, detail)
        self.recording.events.append(event)
        return ended

    def cost(self, rank, microseconds):
        slower = 1.5 if rank == self.slow else 1.0
        return int(1000 * microseconds * slower * self.dice.uniform(0.9, 1.15))

    def compute(self, rank, now):
        now = self.add(rank, "load", "", now, now + self.cost(rank, 60))
        now = self.add(rank, "copy", "", now, now + self.cost(rank, 40), 64 * 784 * 4)
        begun = now
        for path, kind, cost in MODULES:
            now = self.module(rank, "forward", path, kind, cost, now + 3000)
        self.outer(rank, "forward", begun, now)
        now = begun = self.add(rank, "forward", "", begun, now + 4000)
        for path, kind, cost in reversed(MODULES):
            now = self.module(rank, "backward", path, kind, 2 * cost, now + 3000)
            if path in BUCKETS:
                name, size = BUCKETS[path]
                self.ready[name, rank] = self.add(rank, "ready", name, now, now, size)
        self.outer(rank, "backward", begun, now)
        return self.add(rank, "backward", "", begun, now + 5000)

    def module(self, rank, kind, path, detail, cost, now):
        return self.add(rank, kind, path, now, now + self.cost(rank, cost), 0, detail)

    def outer(self, rank, kind, begun, now):
        """The call of module 7, which has modules of its own."""
        inner = [e for e in self.recording.events if e.replica == rank and e.kind == kind
                 and e.step == self.step and e.name.startswith("7.")]  # fmt: skip
        began, ended = min(e.began for e in inner), max(e.ended for e in inner)
        self.add(rank, kind, "7", began - 1500, ended + 1500, 0, "Sequential")

    def reduce(self, rank, now, name, size, whole):
        cost = self.cost(rank, 4 * size / 4000)
        if self.beside:
            self.reduced[name, rank] = self.add(rank, "reduce", name, whole, whole + 3 * cost, size)
            return now
        now = self.wait(rank, now, name, whole)
        self.reduced[name, rank] = self.add(rank, "reduce", name, now, now + cost, size)
        return now + cost

    def wait(self, rank, now, name, until):
        if until <= now:
            return now
        return self.add(rank, "wait", name, now, until + self.dice.randrange(3000))

    def update(self, rank, now):
        for name, size in BUCKETS.values():
            now = self.add(rank, "update", name, now, now + self.cost(rank, size / 3000), size)
        return self.add(rank, "commit", "", now, now + self.cost(rank, 15)) if rank == 0 else now


def recorded(*events, devices=("cpu:0", "cpu:1"), step=1):
    """A recording of (replica, kind, name, began, ended[, size, detail])."""
    made = [Event(replica, step, *rest) for replica, *rest in events]
    return Recording(made, list(devices), {"model": "by hand"})


UNEVEN = [
    (0, "forward", "", 0, 40), (0, "forward", "0", 5, 30), (0, "backward", "", 40, 80),
    (0, "ready", "bucket 0", 70, 70, 100), (0, "wait", "bucket 0", 80, 120),
    (0, "reduce", "bucket 0", 120, 130, 100), (0, "wait", "bucket 0", 130, 140),
    (0, "update", "bucket 0", 140, 170),
    (1, "forward", "", 0, 60), (1, "backward", "", 60, 120),
    (1, "ready", "bucket 0", 120, 120, 100), (1, "reduce", "bucket 0", 120, 140, 100),
    (1, "update", "bucket 0", 140, 160),
]  # fmt: skip
"""Replica 1 is slow; replica 0 waits for it and ends last."""
