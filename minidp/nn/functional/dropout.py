"""Dropout."""

from __future__ import annotations

from minidp import random
from minidp.mode import mode
from minidp.ops import dropout as ops
from minidp.tensor import Tensor


def dropout(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False, *,
    batch_dim: int | None = 0,
) -> Tensor:  # fmt: skip
    """In training, 0 with probability p and else x / (1 - p).

    Which elements depends on the seed, the count of draws and the global row along ``batch_dim``
    (None: there is no batch; every replica draws alike). ``inplace`` does nothing.
    """
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0:
        return input
    generator = random.default_generator if mode.replica is None else mode.replica.generator
    axis = batch_dim if input.ndim else None
    row = 0 if mode.replica is None or axis is None else mode.replica.first_row
    result: Tensor = ops.dropout(input, p=p, key=generator.next_key(), row=row, batch_dim=axis)
    return result
