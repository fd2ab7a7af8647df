"""Cost per operation over batches and widths: it should stay flat, and have no cliffs.

    python tests/bench/sweep.py [--only linear,conv] [--rounds 5] [--torch] [--plot sweep.png]

Sizes go in triples around round numbers (15, 16, 17; 31, 32, 33; ...), so that tails are met. Each
size of a sweep runs in turn with the others, forward and backward, on one thread, whose own time is
counted; for a size the best round counts, and sizes that seem to make a cliff run more of them. A
cliff is a pair of neighbouring sizes, at most an eighth apart, of which one costs more than 1.5
times as much per operation as the other; or of which the smaller takes 1.5 times as long in all.
With ``--torch`` PyTorch's curve is drawn beside. Prints nanoseconds per thousand operations and the
cliffs; if there are any, the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from pathlib import Path

import numpy as np

import minidp as dp
from minidp import nn
from minidp.backend.cpu import blas_threads, keep_freed_memory
from minidp.bench import works
from minidp.bench.operations import Operation, cost_of, ours
from minidp.bench.picture import COLOURS, FAINT, GRID, plain_numbers
from minidp.bench.report import write
from minidp.bench.rounds import Entrant, burst, steps_for
from minidp.bench.trainers import OURS, repeated

CLIFF, NEAR, BURST, AGAIN = 1.5, 9 / 8, 0.03, 5
SIZES = (1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129)
WIDTHS = (*SIZES, 191, 192, 193, 255, 256, 257)
IMAGES = (6, 7, 8, 9, 13, 14, 15, 16, 17, 27, 28, 29, 31, 32, 33, 47, 48, 49, 55, 56, 57)


@dataclass(frozen=True)
class Sweep:
    """What is swept: ``make(n)`` is the op at size n, or None for LeNet's step; its operations
    grow by n ** power."""

    name: str
    across: str
    sizes: tuple[int, ...]
    make: object
    power: int = 1

    def cliffs(self, result):
        """Where ours has cliffs."""
        return cliffs(result[OURS], self.power)


def linear(n, rows=128):
    return Operation("linear", lambda nn: nn.Linear(n, n), (rows, n))


def conv(channels, rows=8, image=16, kernel=3):
    """A convolution that keeps channels and image."""
    return Operation(
        "conv", lambda nn: nn.Conv2d(channels, channels, kernel, padding=kernel // 2),
        (rows, channels, image, image),
    )  # fmt: skip


def norm(n):
    return Operation("batch norm", lambda nn: nn.BatchNorm2d(n), (16, n, 16, 16))


def layer_norm(n):
    return Operation("layer norm", lambda nn: nn.LayerNorm(n), (512, n))


def lstm(n):
    return Operation("lstm", lambda nn: nn.LSTM(n, n, batch_first=True), (16, 16, n),
                     call=lambda layer, x: layer(x)[0])  # fmt: skip


def attention(n):
    return Operation(
        "attention", lambda nn: nn.MultiheadAttention(64, 4, batch_first=True), (8, n, 64),
        call=lambda layer, x: layer(x, x, x, need_weights=False)[0],
    )  # fmt: skip


SWEEPS = (
    Sweep("linear, batch", "rows of 512 to 512", (*SIZES, 255, 256, 257), lambda n:
          Operation("linear", lambda nn: nn.Linear(512, 512), (n, 512))),
    Sweep("linear, width", "features, 128 rows", WIDTHS, linear, 2),
    Sweep("conv 3x3, batch", "images of 32 x 16 x 16", SIZES[:-3], lambda n: conv(32, n)),
    Sweep("conv 3x3, width", "channels, 8 images of 16 x 16", SIZES, conv, 2),
    Sweep("conv 3x3, image", "side, 4 images, 32 channels", IMAGES, lambda n: conv(32, 4, n), 2),
    Sweep("conv 5x5, width", "channels, 8 images of 14 x 14", SIZES[:-3], lambda n:
          conv(n, 8, 14, 5), 2),
    Sweep("conv 1x1, width", "channels, 8 images of 16 x 16", SIZES, lambda n:
          conv(n, kernel=1), 2),
    Sweep("batch norm, width", "channels, 16 images of 16 x 16", SIZES, norm),
    Sweep("layer norm, width", "features, 512 rows", WIDTHS, layer_norm),
    Sweep("lstm, width", "features, 16 steps of 16 rows", SIZES, lstm, 2),
    Sweep("attention, length", "places, 8 rows of 64 in 4 heads", SIZES, attention),
    Sweep("LeNet step, batch", "rows", SIZES, lambda n: None),
)  # fmt: skip


def lenet(rows):
    """(step, operations) of a training step of W2 on some rows."""
    work = works.WORKS[1]
    made = works.model(work)
    optimizer = dp.optim.SGD(made.parameters(), works.RATE, works.MOMENTUM)
    x, y = (dp.tensor(array) for array in works.batches(work, rows)[0])
    loss = nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad()
        loss(made(x), y).backward()
        optimizer.step()

    return step, works.cost_of(work).flops * rows / work.rows


def entrants(sweep, torch):
    """(name, size, step, operations) of everyone in a sweep."""
    for size in sweep.sizes:
        operation = sweep.make(size)
        if not isinstance(operation, Operation):
            yield OURS, size, *lenet(size)
            continue
        flops = cost_of(operation).flops
        yield OURS, size, ours(operation), flops
        if torch:
            from minidp.bench.torch_peer import torch_operation

            steps = torch_operation(operation)
            for name, step in steps.items():
                yield name, size, step, flops


class Runner:
    """One size of a sweep: its entrant, how many steps a burst has, its best seconds per step."""

    def __init__(self, name, size, step, flops):
        self.who, self.size, self.flops = OURS if name == OURS else "PyTorch", size, flops
        self.entrant = Entrant(name, repeated(step))
        self.steps, self.best = steps_for(self.entrant, BURST), np.inf

    def burst(self):
        self.best = min(self.best, burst(self.entrant, self.steps, time.process_time))


def measure(sweep, rounds, torch):
    """{who: {size: nanoseconds per thousand operations}}, of the best round; all run in turn.

    Neighbours that seem to make a cliff run some more rounds, since a disturbed one looks the same.
    """
    runners = [Runner(*each) for each in entrants(sweep, torch)]
    turns(runners, rounds)
    for _ in range(AGAIN):
        suspects = {size for pair in sweep.cliffs(costs(runners)) for size in pair[:2]}
        turns([each for each in runners if each.who == OURS and each.size in suspects], rounds)
    return costs(runners)


def turns(runners, rounds):
    """A burst of each, round after round."""
    for _ in range(rounds):
        for each in runners:
            each.burst()


def costs(runners):
    """Of PyTorch's variants the better one."""
    found = {}
    for each in runners:
        of = found.setdefault(each.who, {})
        of[each.size] = min(of.get(each.size, np.inf), 1e12 * each.best / each.flops)
    return found


def cliffs(found, power=1):
    """(size, next size, how many times as much) of neighbours that are too far apart: per
    operation if they are near, and in all if the smaller takes longer. Operations grow by
    size ** power."""
    pairs = []
    for a, b in pairwise(sorted(found)):
        factor = max(found[a], found[b]) / min(found[a], found[b])
        longer = found[a] / found[b] * (a / b) ** power
        pairs.append((a, b, max(longer, factor if b <= a * NEAR else 0)))
    return [pair for pair in pairs if pair[2] > CLIFF]


def report(sweep, result):
    """A line for each side, and one for each cliff of ours."""
    for who, found in result.items():
        listed = " ".join(f"{size}:{cost:.1f}" for size, cost in found.items())
        print(f"{sweep.name:<18} {who:<8} {listed}", flush=True)
    for a, b, factor in sweep.cliffs(result):
        print(f"{sweep.name:<18} CLIFF between {a} and {b}: {factor:.2f} times")


def draw(path, results):
    """A panel for each sweep: cost per operation over the size."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    columns = min(3, len(results))
    rows = -(-len(results) // columns)
    figure, panels = plt.subplots(rows, columns, figsize=(4.3 * columns, 2.9 * rows), squeeze=False,
                                  layout="constrained", facecolor="white")  # fmt: skip
    for axes, (sweep, result) in zip(panels.flat, results, strict=False):
        draw_sweep(axes, sweep, result)
    for axes in panels.flat[len(results) :]:
        axes.axis("off")
    panels[0][0].legend(frameon=False, fontsize=9)
    figure.supylabel("ns per thousand operations, forward and backward, one thread", fontsize=9)
    figure.savefig(path, dpi=85)
    plt.close(figure)


def draw_sweep(axes, sweep, result):
    """The curves, and a band between neighbours that make a cliff."""
    for who, found in result.items():
        sizes = sorted(found)
        axes.plot(sizes, [found[size] for size in sizes], "o-", ms=3, lw=1, color=COLOURS[who],
                  label=who)  # fmt: skip
    for a, b, _ in sweep.cliffs(result):
        axes.axvspan(a, b, color="#f4a582", alpha=0.6, lw=0)
    ticks = [size for size in (1, 2, 4, 8, 16, 32, 64, 128, 256)
             if sweep.sizes[0] <= size <= sweep.sizes[-1]]  # fmt: skip
    axes.set(xscale="log", yscale="log")
    axes.set_title(sweep.name, fontsize=10)
    axes.set_xlabel(sweep.across, fontsize=8.5, color=FAINT)
    axes.set_xticks(ticks, [str(size) for size in ticks])
    axes.minorticks_off()
    plain_numbers(axes.yaxis)
    axes.grid(color=GRID, lw=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def known(found):
    """(sweep, costs, cliffs) of what ``write`` wrote."""
    for sweep in SWEEPS:
        if sweep.name in found:
            result = {who: {int(size): cost for size, cost in each.items()}
                      for who, each in found[sweep.name].items()}  # fmt: skip
            yield sweep, result, sweep.cliffs(result)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="", help="the beginnings of names, with commas")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--torch", action="store_true")
    options.add_argument("--plot", type=Path)
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    keep_freed_memory()
    wanted = tuple(given.only.split(","))
    results = []
    with blas_threads(1):
        for sweep in SWEEPS:
            if sweep.name.startswith(wanted):
                results.append((sweep, measure(sweep, given.rounds, given.torch)))
                report(*results[-1])
    if given.json:
        found = {sweep.name: result for sweep, result in results}
        write(given.json, {"when": str(date.today()), "costs": found})
    if given.plot:
        draw(given.plot, results)
    sys.exit(any(sweep.cliffs(result) for sweep, result in results))


if __name__ == "__main__":
    main()
