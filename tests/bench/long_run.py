"""Many steps of a small model: memory and the time of a step must stay as they are.

    python tests/bench/long_run.py [--steps 10000] [--replicas 2] [--capture]

Trains a perceptron with a normalised layer and dropout on batches of three sizes in turn. Steps are
counted in twenty blocks, of which the first four, in which kernels compile and buffers find their
place, are left out. The slope is Theil and Sen's: the median of the slopes of all pairs of blocks,
which a few disturbed ones do not move. Fails if memory grows by more than 1 MiB, or the time of a
step by more than a tenth and more than the machine's own speed changed, over all steps.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from itertools import combinations
from pathlib import Path

import minidp as dp
from minidp import nn, optim
from minidp.bench import machine
from minidp.bench.report import write
from minidp.bench.rounds import burst

BLOCKS, WARM = 20, 4
SIZES = (32, 31, 9)
MOST_MEMORY, MOST_TIME = 2**20, 0.1


def memory():
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def scheduler(replicas, capture):
    """A small model with what has state: batch norm, dropout, Adam."""
    dp.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.2),
                          nn.Linear(64, 5))  # fmt: skip
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    return dp.Scheduler(model, nn.CrossEntropyLoss(), optimizer, devices=replicas, fuse=capture)


def blocks(train, steps):
    """(memory after it, seconds per step, seconds of a product of matrices) for each block."""
    sizes = [SIZES[i % len(SIZES)] for i in range(steps // BLOCKS)]
    data = {rows: (dp.randn(rows, 20), dp.randint(0, 5, (rows,))) for rows in SIZES}
    for _ in range(BLOCKS):
        began = time.perf_counter()
        train.run([data[rows] for rows in sizes])
        taken = (time.perf_counter() - began) / len(sizes)
        yield memory(), taken, burst(machine.sgemm(), 8)


def growth(values):
    """What the values grow by over all blocks, by the median slope of all pairs."""
    pairs = combinations(enumerate(values), 2)
    return BLOCKS * statistics.median((b - a) / (j - i) for (i, a), (j, b) in pairs)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--steps", type=int, default=10_000)
    options.add_argument("--replicas", type=int, default=2)
    options.add_argument("--capture", action="store_true")
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    found = list(blocks(scheduler(given.replicas, given.capture), given.steps))
    bytes_, step, sgemm = ([block[i] for block in found[WARM:]] for i in range(3))
    relative = [growth(each) / statistics.median(each) for each in (step, sgemm)]
    failures = []
    if growth(bytes_) > MOST_MEMORY:
        failures.append("memory grows")
    if relative[0] > MOST_TIME + abs(relative[1]):
        failures.append("steps get slower")
    told = {
        "steps": given.steps, "replicas": given.replicas, "capture": given.capture,
        "memory_mib": round(bytes_[-1] / 2**20, 1),
        "memory_growth_mib": round(growth(bytes_) / 2**20, 3),
        "ms_per_step": round(1e3 * statistics.median(step), 3),
        "step_growth": round(relative[0], 3), "sgemm_growth": round(relative[1], 3),
        "steady": abs(relative[1]) <= MOST_TIME, "failures": failures,
    }  # fmt: skip
    print(json.dumps(told))
    if given.json:
        write(given.json, told)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
