"""What a step may change, kept so that it can be put back."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from minidp.backend import backend_of
from minidp.random import default_generator
from minidp.tensor import Tensor


class Snapshot:
    """Parameters, buffers, gradients, the optimiser's state and options, and random counters."""

    def __init__(self, model: Any, optimizer: Any) -> None:
        self.optimizer = optimizer
        self.tensors = [(each, each.array.copy(), each.grad) for each in held(model, optimizer)]
        self.state = {
            parameter: {name: copied(value) for name, value in kept.items()}
            for parameter, kept in optimizer.state.items()
        }
        self.groups = [dict(group) for group in optimizer.param_groups]
        self.random = default_generator.get_state()

    def restore(self) -> None:
        """Put everything back."""
        for tensor, array, grad in self.tensors:
            tensor.array[...] = array
            tensor.grad = grad
            tensor.changed()
        self.optimizer.state.clear()
        for parameter, kept in self.state.items():
            self.optimizer.state[parameter] = {name: copied(each) for name, each in kept.items()}
        for group, options in zip(self.optimizer.param_groups, self.groups, strict=True):
            group.clear()
            group.update(options)
        default_generator.set_state(self.random)


def copied(value: Any) -> Any:
    """A Tensor in memory of its own; anything else as it is."""
    return value.detach().clone() if isinstance(value, Tensor) else value


def held(model: Any, optimizer: Any) -> Iterator[Tensor]:
    """The model's parameters and buffers, then what else the optimiser trains, each once."""
    known: dict[Tensor, None] = {}
    for name in ("parameters", "buffers"):
        known |= dict.fromkeys(getattr(model, name, list)())
    known |= dict.fromkeys(p for group in optimizer.param_groups for p in group["params"])
    yield from known


def fingerprint(model: Any, optimizer: Any) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of all parameters and buffers, in order."""
    digest = hashlib.sha256()
    for tensor in held(model, optimizer):
        digest.update(str((tensor.dtype, tensor.shape)).encode())
        digest.update(backend_of(tensor.array).get(tensor.array).tobytes())
    return digest.hexdigest()[:16]
