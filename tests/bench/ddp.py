"""Two replicas of minidp beside PyTorch's DistributedDataParallel (gloo, a process per replica).

    python tests/bench/ddp.py [--only W1,W2,W3] [--seconds 20] [--replicas 2] [--capture]

Each process of PyTorch has one thread, as a replica has, and the same rows; both start from the
same weights, and batch norm is local on both sides (``sync=False``). Bursts alternate: while one
side runs, the other waits, blocked in a read. The faster of PyTorch's two variants counts (plain;
channels-last memory and fused SGD). Prints milliseconds per step, the ratio of medians with
quartiles over rounds, how far losses are apart.
"""

from __future__ import annotations

import argparse
import importlib
import json
from datetime import date
from pathlib import Path

import numpy as np
from processes import Processes

from minidp.bench import machine
from minidp.bench.measure import AGREE, apart
from minidp.bench.report import NOISY, write
from minidp.bench.rounds import Entrant, alternate, ratio
from minidp.bench.trainers import OURS, Trainer
from minidp.bench.works import WORKS, batches, model, weights

CHECKED = 5
VARIANTS = {"DDP": False, "DDP tuned": True}


def worker(link, rank, size, meeting, work):
    """A process of PyTorch: trains its rows as often as it is told, and answers with the losses."""
    import torch
    from torch import distributed

    from minidp.bench.torch_peer import TorchTrainer

    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank,
                                   world_size=size)  # fmt: skip
    rows, state = work.rows // size, link.recv()
    data = [(x[rank * rows :][:rows], y[rank * rows :][:rows]) for x, y in batches(work)]
    trainers = []
    for better in VARIANTS.values():
        trainer = TorchTrainer(work, state, 1, better, data)
        trainer.model = torch.nn.parallel.DistributedDataParallel(trainer.model)
        trainers.append(trainer)
    link.send("ready")
    while (told := link.recv()) is not None:
        variant, steps = told
        link.send(trainers[variant].losses(steps))
    distributed.destroy_process_group()


class Peers(Processes):
    """The processes of PyTorch, as one entrant per variant."""

    def __init__(self, work, size):
        super().__init__(worker, size, work)
        self.tell(weights(model(work)))
        assert self.answers() == ["ready"] * size

    def losses(self, variant, steps):
        """The mean over all rows of the loss of each step."""
        self.tell((variant, steps))
        return np.mean(self.answers(), axis=0)


def measure(work, options):
    """Both sides of one work, in turn."""
    rows = work.rows // options.replicas * options.replicas
    data = [(x[:rows], y[:rows]) for x, y in batches(work)]
    ours = Trainer(work, options.replicas, options.capture, sync=False, data=data)
    peers = Peers(work, options.replicas)
    try:
        found = [ours.losses(CHECKED), *(peers.losses(i, CHECKED) for i in range(len(VARIANTS)))]
        entrants = [machine.sgemm(options.replicas), Entrant(OURS, ours.run)]
        for i, name in enumerate(VARIANTS):
            entrants.append(Entrant(name, lambda steps, i=i: peers.losses(i, steps)))
        return alternate(entrants, options.seconds), apart(found)
    finally:
        peers.end()


def report(work, times, difference):
    """A line to read and what goes into the JSON."""
    theirs = min((times[name] for name in VARIANTS), key=lambda each: each.median)
    found, noise = ratio(times[OURS], theirs), times[machine.SGEMM].spread
    noisy = f"; NOISY: sgemm varied by {noise:.0%}" if noise > NOISY else ""
    print(f"{work.name} {work.what}: minidp {1e3 * times[OURS].median:.2f} ms, DDP "
          f"{1e3 * theirs.median:.2f} ms, ratio {found}; losses {difference:.1e} apart{noisy}",
          flush=True)  # fmt: skip
    assert difference < AGREE, "the two sides do not do the same work"
    return {"ratio": found.median, "quartiles": [found.low, found.high], "noise": noise,
            "ms": {name: 1e3 * each.median for name, each in times.items()},
            "apart": difference}  # fmt: skip


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="W1,W2,W3")
    options.add_argument("--seconds", type=float, default=20.0)
    options.add_argument("--replicas", type=int, default=2)
    options.add_argument("--capture", action="store_true")
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    importlib.import_module("torch")
    result = {}
    for work in WORKS:
        if work.name in given.only.split(","):
            result[work.name] = report(work, *measure(work, given))
    print(json.dumps(result))
    if given.json:
        write(given.json, {"when": str(date.today()), "works": result})


if __name__ == "__main__":
    main()
