"""The same work in PyTorch. Import this only where PyTorch is installed."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any

from minidp.bench.operations import Operation, layer_of, step_of, updates
from minidp.bench.rounds import Entrant
from minidp.bench.works import MOMENTUM, RATE, Work, batches, chain, plainly, weights
from minidp.types import Array

torch: Any = importlib.import_module("torch")

PLAIN, BETTER = "PyTorch", "PyTorch tuned"
"""Its two variants: as one writes it, and with images in channels-last memory and the optimiser's
fused kernel."""


class TorchTrainer:
    """Trains a work in PyTorch, with a number of threads, from given weights."""

    def __init__(
        self, work: Work, state: Mapping[str, Array], threads: int, better: bool,
        data: list[tuple[Array, Array]] | None = None,
    ) -> None:  # fmt: skip
        self.threads = threads
        self.model = loaded(work, state)
        given = batches(work) if data is None else data
        self._data = [tuple(map(torch.from_numpy, batch)) for batch in given]
        if better and work.images:
            last = {"memory_format": torch.channels_last}
            self.model = self.model.to(**last)
            self._data = [(x.to(**last), y) for x, y in self._data]
        self.optimizer = torch.optim.SGD(self.model.parameters(), RATE, MOMENTUM,
                                         fused=better or None)  # fmt: skip
        self._steps = (self._data[index % len(self._data)] for index in count())

    def step(self) -> float:
        self.optimizer.zero_grad()
        x, y = next(self._steps)
        loss = torch.nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return float(loss.item())

    def run(self, steps: int) -> None:
        """Some steps, with this trainer's number of threads."""
        torch.set_num_threads(self.threads)
        for _ in range(steps):
            self.step()

    def losses(self, steps: int) -> list[float]:
        """The loss of each of some steps."""
        torch.set_num_threads(self.threads)
        return [self.step() for _ in range(steps)]


def loaded(work: Work, state: Mapping[str, Array]) -> Any:
    """The work's model in PyTorch, with these weights."""
    made = work.make(torch.nn, torch.nn.BatchNorm2d)
    made.load_state_dict({name: torch.tensor(value) for name, value in state.items()})
    return made


def torch_trainers(work: Work, state: Mapping[str, Array], threads: int) -> dict[str, TorchTrainer]:
    """Both variants."""
    variants = {PLAIN: False, BETTER: True}
    return {name: TorchTrainer(work, state, threads, better)
            for name, better in variants.items()}  # fmt: skip


def torch_chain() -> Entrant:
    """W4 in PyTorch."""
    step = chain(lambda values: torch.tensor(values, requires_grad=True), plainly)

    def run(steps: int) -> None:
        torch.set_num_threads(1)
        for _ in range(steps):
            step()

    return Entrant(PLAIN, run)


def torch_operation(operation: Operation) -> dict[str, Callable[[], Any]]:
    """Forward and backward of an op, with our weights; images in both layouts of memory."""
    torch.set_num_threads(1)
    state = {name: torch.tensor(value) for name, value in weights(layer_of(operation)).items()}
    images = len(operation.shape) == 4
    return {name: _operation(operation, state, name == BETTER)
            for name in (PLAIN, BETTER)[: 1 + images]}  # fmt: skip


def _operation(operation: Operation, state: Mapping[str, Any], better: bool) -> Callable[[], Any]:
    layer, x = operation.make(torch.nn), torch.from_numpy(operation.input())
    layer.load_state_dict(state)
    if better:
        last = {"memory_format": torch.channels_last}
        layer, x = layer.to(**last), x.to(**last)
    x.requires_grad_(operation.below is None)
    return step_of(operation, layer, x, torch.ones_like)


def torch_updates() -> Iterator[tuple[str, Callable[[], Any]]]:
    """The optimisers' updates, by their fused kernels."""
    torch.set_num_threads(1)
    return updates(lambda array: torch.nn.Parameter(torch.from_numpy(array)), torch.optim,
                   fused=True)  # fmt: skip
