"""Who trains a work in minidp: a scheduler on some devices."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, islice
from typing import Any

import numpy as np

import minidp as dp
from minidp import nn, optim
from minidp.bench.rounds import Entrant
from minidp.bench.works import MOMENTUM, RATE, Work, batches, chain, model, plainly
from minidp.types import Array

OURS, CAPTURED = "minidp", "captured"
PAST = 1025
"""Calls after which a captured step has been recorded again in calls 16, 32 and so on to 1024."""


class Trainer:
    """Trains a work with ``dp.Scheduler`` on ``replicas`` CPU devices, batch after batch."""

    def __init__(
        self, work: Work, replicas: int, capture: bool = False, sync: bool = True,
        data: list[tuple[Array, Array]] | None = None,
    ) -> None:  # fmt: skip
        made = model(work, sync)
        optimizer = optim.SGD(made.parameters(), RATE, MOMENTUM)
        devices = ",".join(f"cpu:{index}" for index in range(replicas))
        self.train = dp.Scheduler(made, nn.CrossEntropyLoss(), optimizer, devices=devices,
                                  fuse=capture)  # fmt: skip
        given = batches(work) if data is None else data
        self._data = [(dp.tensor(x), dp.tensor(y)) for x, y in given]
        self._steps = (self._data[index % len(self._data)] for index in count())

    def run(self, steps: int) -> None:
        """Some steps, in one run of the scheduler over a list of batches."""
        self.train.run_batches(list(islice(self._steps, steps)))

    def losses(self, steps: int) -> list[float]:
        """The loss of each of some steps."""
        return [float(self.train(*next(self._steps))) for _ in range(steps)]


def trainers(work: Work, replicas: int, capture: bool) -> dict[str, Trainer]:
    """The eager one, and the captured one if that is wanted."""
    found = {OURS: Trainer(work, replicas)}
    return found | {CAPTURED: Trainer(work, replicas, capture=True)} if capture else found


def repeated(step: Callable[[], Any]) -> Callable[[int], None]:
    """``run`` of an entrant that repeats one step."""

    def run(steps: int) -> None:
        for _ in range(steps):
            step()

    return run


def chains(capture: bool) -> list[Entrant]:
    """W4, eager and captured with its ops fused."""

    def tensor(values: Any) -> Any:
        return dp.Tensor(np.array(values), requires_grad=True)

    found = [Entrant(OURS, repeated(chain(tensor, plainly)))]
    if capture:
        captured = repeated(chain(tensor, dp.capture))
        captured(PAST)
        found.append(Entrant(CAPTURED, captured))
    return found
