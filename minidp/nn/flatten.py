"""Layers that only change the shape."""

from __future__ import annotations

from collections.abc import Sequence

from minidp.nn.module import Module
from minidp.shapes import axis_of
from minidp.tensor import Tensor


class Flatten(Module):
    """The axes from ``start_dim`` to ``end_dim`` as one; by default all but the batch."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        result: Tensor = input.flatten(self.start_dim, self.end_dim)
        return result

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Axis ``dim`` as several axes of sizes ``unflattened_size``, of which one may be -1."""

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, input: Tensor) -> Tensor:
        axis = axis_of("Unflatten", self.dim, input.ndim)
        before, after = input.shape[:axis], input.shape[axis + 1 :]
        result: Tensor = input.reshape(*before, *self.unflattened_size, *after)
        return result

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
