"""Dropout layers."""

from __future__ import annotations

from minidp.nn import functional as F
from minidp.nn.module import Module
from minidp.tensor import Tensor


class Dropout(Module):
    """In training, sets each element to 0 with probability p and scales the rest by 1 / (1 - p).

    The mask is a function of the seed, the draw and the global row along ``batch_dim``: it does
    not depend on how a batch is split. ``inplace`` is accepted; nothing is done in place.
    """

    def __init__(self, p: float = 0.5, inplace: bool = False, *, batch_dim: int | None = 0) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace, self.batch_dim = p, inplace, batch_dim

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, batch_dim=self.batch_dim)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"
