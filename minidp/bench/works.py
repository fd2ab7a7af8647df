"""The training steps that are measured, W1 to W4: models, data and what they cost.

A model is built with the names of a library's ``nn``, which minidp and PyTorch share: one text for
both. Steps are float32: forward, loss, backward, and SGD with momentum 0.9.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import minidp as dp
from minidp import nn
from minidp.errors import MinidpError
from minidp.functional import cross_entropy
from minidp.types import Array

RATE, MOMENTUM, CLASSES = 0.01, 0.9, 10
BATCHES = 4
"""Different batches, in turn, so that a model does not learn one by heart."""


@dataclass(frozen=True)
class Work:
    """A model and the shape of its batches. ``make(nn, norm)`` builds it; ``norm`` makes a layer
    of batch normalisation of some channels."""

    name: str
    what: str
    make: Callable[[Any, Callable[[int], Any]], Any]
    shape: tuple[int, ...]
    images: bool = True

    @property
    def rows(self) -> int:
        return self.shape[0]


def mlp(nn: Any, norm: Callable[[int], Any]) -> Any:
    """W1: a perceptron with two hidden layers."""
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(),
                         nn.Linear(256, CLASSES))  # fmt: skip


def lenet(nn: Any, norm: Callable[[int], Any]) -> Any:
    """W2: two convolutions of 5x5, each with a pool of 2x2."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, CLASSES),
    )  # fmt: skip


def vgg(nn: Any, norm: Callable[[int], Any]) -> Any:
    """W3: four convolutions of 3x3, each with batch normalisation, two pools."""

    def block(channels: int, filters: int) -> list[Any]:
        return [nn.Conv2d(channels, filters, 3, padding=1), norm(filters), nn.ReLU()]

    return nn.Sequential(
        *block(3, 64), *block(64, 64), nn.MaxPool2d(2),
        *block(64, 128), *block(128, 128), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(8192, 256), nn.ReLU(), nn.Linear(256, CLASSES),
    )  # fmt: skip


WORKS = (
    Work("W1", "MLP, 128 rows", mlp, (128, 784), images=False),
    Work("W2", "LeNet, 128 rows", lenet, (128, 1, 28, 28)),
    Work("W3", "VGG with batch norm, 64 rows", vgg, (64, 3, 32, 32)),
)


def batches(work: Work, rows: int | None = None) -> list[tuple[Array, Array]]:
    """Some batches of random pictures and labels, always the same; ``rows`` instead of as many as
    the work has."""
    rng = np.random.default_rng(0)
    shape = (rows or work.rows, *work.shape[1:])
    return [
        (rng.standard_normal(shape, "float32"), rng.integers(0, CLASSES, shape[0]))
        for _ in range(BATCHES)
    ]


def model(work: Work, sync: bool = True) -> Any:
    """The model in minidp, with the same weights each time; ``sync=False``: every replica
    normalises by its own rows."""
    dp.manual_seed(0)
    return work.make(nn, normalisation(sync))


def normalisation(sync: bool) -> Callable[[int], Any]:
    """What makes a layer of batch normalisation."""
    return lambda channels: nn.BatchNorm2d(channels, sync=sync)


def weights(made: Any) -> dict[str, Array]:
    """The model's state as arrays."""
    return {name: np.array(value.cpu().numpy()) for name, value in made.state_dict().items()}


def operations(step: Callable[..., Any], *arguments: Any) -> int:
    """The floating-point operations of a step, read off its graph: those of the direct algorithms,
    whatever a kernel does."""
    captured = dp.capture(step)
    captured(*arguments)
    if captured.graph is None:
        raise MinidpError("operations: the step was recorded by another captured step around it")
    return captured.graph.cost().total.flops


def traffic(given: int, made: int, parameters: int) -> int:
    """The bytes that a float32 layer must at least move, forward and backward.

    Forward it reads its input and parameters and writes its output; backward it reads all three
    of them (the output's cotangent, that is) and writes two.
    """
    return 4 * (3 * given + 2 * made + 3 * parameters)


UPDATE = 4 * 5
"""Bytes that SGD moves for each parameter: value, gradient and momentum in, two of them out."""


@dataclass(frozen=True)
class Cost:
    """What a step needs: floating-point operations, and bytes to or from memory."""

    flops: int
    bytes: int


def cost_of(work: Work) -> Cost:
    """What one training step of a work needs."""
    made = model(work)
    x, y = (dp.tensor(array) for array in batches(work)[0])
    moved, value = 0, x
    for layer in made:
        before, value = value, layer(value)
        size = sum(p.numel() for p in layer.parameters())
        moves = type(layer).__name__ != "Flatten"
        moved += moves * traffic(before.numel(), value.numel(), size) + UPDATE * size

    def step(x: Any, y: Any) -> Any:
        loss = cross_entropy(made(x), y)
        loss.backward()
        return loss

    return Cost(operations(step, x, y), moved)


OPS = 100
"""Element-wise ops of W4."""


def chain(
    tensor: Callable[[Any], Any], wrap: Callable[[Callable[[], Any]], Callable[[], Any]]
) -> Callable[[], Any]:
    """One step of W4, for either library: y = tanh(y a + b) 0.9 on 32 floats, 25 times, summed and
    differentiated. ``wrap`` may make something else of it, such as a captured step."""
    rng = np.random.default_rng(0)
    x, a, b = (tensor(rng.standard_normal(32).astype("float32")) for _ in range(3))

    def chained() -> Any:
        y = x
        for _ in range(OPS // 4):
            y = (y * a + b).tanh() * 0.9
        total = y.sum()
        total.backward()
        return total

    wrapped = wrap(chained)

    def step() -> Any:
        total = wrapped()
        x.grad = a.grad = b.grad = None
        return total

    return step


def plainly(step: Callable[[], Any]) -> Callable[[], Any]:
    """Leave a step as it is."""
    return step
