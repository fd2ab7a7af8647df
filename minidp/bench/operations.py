"""The ops that are measured by themselves, forward and backward, on one thread.

One text for both libraries again: ``make(nn)`` builds a layer, which is called with the inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import minidp as dp
from minidp import nn, optim
from minidp.bench.works import Cost, operations, traffic
from minidp.types import Array


@dataclass(frozen=True)
class Operation:
    """A layer and the shape of its input. ``below`` is what an index must be less than, where the
    input holds indices; ``call`` says how the layer is called, if not plainly."""

    name: str
    make: Callable[[Any], Any]
    shape: tuple[int, ...]
    below: int | None = None
    call: Callable[[Any, Any], Any] = lambda layer, x: layer(x)

    def input(self) -> Array:
        rng = np.random.default_rng(0)
        if self.below is not None:
            return rng.integers(0, self.below, self.shape)
        return rng.standard_normal(self.shape, "float32")


def _attention(nn: Any) -> Any:
    return nn.MultiheadAttention(256, 8, batch_first=True)


def _lstm(nn: Any) -> Any:
    return nn.LSTM(128, 128, batch_first=True)


IMAGES = (16, 64, 32, 32)
OPERATIONS = (
    Operation("linear 512 to 512", lambda nn: nn.Linear(512, 512), (128, 512)),
    Operation("conv 3x3, 64 to 64", lambda nn: nn.Conv2d(64, 64, 3, padding=1), IMAGES),
    Operation("conv 5x5, 32 to 64", lambda nn: nn.Conv2d(32, 64, 5, padding=2), (64, 32, 14, 14)),
    Operation("conv 3x3, stride 2", lambda nn: nn.Conv2d(64, 128, 3, 2, 1), IMAGES),
    Operation("conv 1x1, 64 to 256", lambda nn: nn.Conv2d(64, 256, 1), IMAGES),
    Operation("conv 3x3, depthwise", lambda nn: nn.Conv2d(64, 64, 3, padding=1, groups=64), IMAGES),
    Operation("conv 3x3, 3 to 32", lambda nn: nn.Conv2d(3, 32, 3, padding=1), (16, 3, 64, 64)),
    Operation("batch norm", lambda nn: nn.BatchNorm2d(64), IMAGES),
    Operation("relu", lambda nn: nn.ReLU(), IMAGES),
    Operation("max pool 2x2", lambda nn: nn.MaxPool2d(2), IMAGES),
    Operation("layer norm", lambda nn: nn.LayerNorm(512), (1024, 512)),
    Operation("gelu", lambda nn: nn.GELU(), (1024, 512)),
    Operation("softmax", lambda nn: nn.Softmax(-1), (1024, 512)),
    Operation("embedding", lambda nn: nn.Embedding(10_000, 128), (64, 64), below=10_000),
    Operation("lstm, 32 steps", _lstm, (32, 32, 128), call=lambda layer, x: layer(x)[0]),
    Operation("attention, 8 heads", _attention, (8, 64, 256),
              call=lambda layer, x: layer(x, x, x, need_weights=False)[0]),
)  # fmt: skip
UPDATED = (1000, 1000)
"""The parameters that the optimisers are measured on."""


def layer_of(operation: Operation) -> Any:
    """The layer in minidp, with the same weights each time."""
    dp.manual_seed(0)
    return operation.make(nn)


def step_of(
    operation: Operation, layer: Any, x: Any, like: Callable[[Any], Any]
) -> Callable[[], Any]:
    """Forward, and backward from ones, in either library; ``like(y)`` makes the ones."""
    g = like(operation.call(layer, x))
    held = list(layer.parameters())

    def step() -> Any:
        y = operation.call(layer, x)
        y.backward(g)
        for leaf in (x, *held):
            leaf.grad = None
        return y

    return step


def ours(operation: Operation) -> Callable[[], Any]:
    """The step in minidp."""
    x = dp.tensor(operation.input(), requires_grad=operation.below is None)
    return step_of(operation, layer_of(operation), x, _ones_like)


def _ones_like(y: Any) -> Any:
    """Ones in the memory order of y, as PyTorch's are."""
    return dp.from_numpy(np.ones_like(y.detach().numpy()))


def cost_of(operation: Operation) -> Cost:
    """What forward and backward need."""
    layer, indices = layer_of(operation), operation.below is not None
    x = dp.tensor(operation.input(), requires_grad=not indices)
    made, leaves = operation.call(layer, x).numel(), [*layer.parameters(), *[x] * (not indices)]
    if indices:  # rows are copied: of the weight only those that are asked for
        return Cost(made, traffic(0, made, 0))

    def step() -> Any:
        y = operation.call(layer, x)
        return y, dp.grad(y, leaves, dp.ones_like(y))

    parameters = sum(p.numel() for p in layer.parameters())
    return Cost(operations(step), traffic(x.numel(), made, parameters))


def updates(
    tensor: Callable[[Array], Any], optimizers: Any, **options: Any
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """(name, step) of optimisers in either library: the update of a million parameters."""
    rng = np.random.default_rng(0)
    made: dict[str, Callable[[Any], Any]] = {
        "SGD, momentum": lambda held: optimizers.SGD(held, 1e-3, 0.9, **options),
        "Adam": lambda held: optimizers.Adam(held, 1e-3, **options),
    }
    for name, make in made.items():
        parameter = tensor(rng.standard_normal(UPDATED, "float32"))
        parameter.grad = tensor(rng.standard_normal(UPDATED, "float32")).detach()
        yield name, make([parameter]).step


def our_updates() -> Iterator[tuple[str, Callable[[], Any]]]:
    return updates(lambda array: dp.Parameter(dp.tensor(array)), optim)


SIZE = math.prod(UPDATED)
COST_OF_UPDATE = {"SGD, momentum": Cost(4 * SIZE, 4 * 5 * SIZE), "Adam": Cost(14 * SIZE,
                  4 * 7 * SIZE)}  # fmt: skip
"""Value, gradient and each state in; value and states out."""
