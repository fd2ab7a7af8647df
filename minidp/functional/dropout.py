"""Dropout and other noise: it depends on the seed, the count of draws and the global row.

``batch_dim`` is the axis of the rows; with None there are none, and every replica draws alike.
``inplace`` is accepted for PyTorch's sake; nothing is done in place.
"""

from __future__ import annotations

import math
from typing import Any

from minidp import random
from minidp.create import arange, ones
from minidp.errors import ArgumentError
from minidp.functional.activation import SELU_ALPHA, SELU_SCALE, leaky_relu, softmax
from minidp.functional.ranks import batched, each_rank, like
from minidp.mode import mode
from minidp.ops import dropout as ops
from minidp.ops.elementwise import where
from minidp.tensor import Tensor

__all__ = ["alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d",
           "feature_alpha_dropout", "gumbel_softmax", "rrelu"]  # fmt: skip


def check_probability(p: float) -> None:
    if isinstance(p, str) or not 0 <= p <= 1:
        raise ArgumentError(f"dropout probability has to be between 0 and 1, but got {p!r}")


def _place(input: Tensor, batch_dim: int | None) -> dict[str, Any]:
    """Which numbers to draw: the next key, and the global row of the first row here."""
    generator = random.default_generator if mode.replica is None else mode.replica.generator
    axis = batch_dim if input.ndim else None
    row = 0 if mode.replica is None or axis is None else mode.replica.first_row
    return {"key": generator.next_key(), "row": row, "batch_dim": axis}


def dropout(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False, *,
    batch_dim: int | None = 0,
) -> Tensor:  # fmt: skip
    """In training, 0 with probability p and else x / (1 - p); see ``ops.dropout``."""
    check_probability(p)
    if not training or p == 0:
        return input
    return ops.dropout(input, p=p, **_place(input, batch_dim))


def _factors(input: Tensor, p: float, channels: bool) -> Tensor:
    """0 with probability p and else 1 / (1 - p): for each element, or each channel (n, c)."""
    shape = input.shape[:2] + (1,) * (input.ndim - 2) if channels else input.shape
    return dropout(ones(shape, dtype=input.dtype, device=input.device), p)


def _dropout(
    n: int, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Dropout of whole channels of (n, c, ...) or (c, ...) (Tompson et al. 2014, 1411.4280).

    ``dropout2d`` takes (c, h, w) for (n, c, l), as PyTorch does.
    """
    check_probability(p)
    sequence = n == 2 and input.ndim == 3
    x = input if sequence else batched(f"dropout{n}d", input, n)
    if not training or p == 0:
        return input
    y = x * _factors(x, p, channels=True)
    return y if sequence else like(y, input, n)


dropout1d, dropout2d, dropout3d = each_rank(_dropout)


def _alpha_dropout(input: Tensor, p: float, training: bool, channels: bool) -> Tensor:
    check_probability(p)
    if not training or p == 0:
        return input
    if p == 1:
        return input * 0
    lowest = -SELU_ALPHA * SELU_SCALE
    scale = 1 / math.sqrt((1 - p) * (1 + p * lowest**2))
    kept = where(_factors(input, p, channels) > 0, input, lowest)
    return kept * scale - scale * lowest * p


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout to SELU's lowest value, scaled such that mean and variance stay as they are."""
    return _alpha_dropout(input, p, training, channels=False)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Alpha dropout of whole channels (axis 1)."""
    return _alpha_dropout(input, p, training, channels=True)


def rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False,
    inplace: bool = False,
) -> Tensor:  # fmt: skip
    """y = x where x > 0, else a x with random slopes a from lower to upper, or their mean.

    Source: Xu, Wang, Chen and Li 2015, arXiv 1505.00853.
    """
    if lower > upper:
        raise ArgumentError(f"rrelu: lower={lower} is above upper={upper}")
    if not training:
        return leaky_relu(input, (lower + upper) / 2)
    slopes = ops.noise(input.detach(), **_place(input, 0)) * (upper - lower) + lower
    return where(input > 0, input, input * slopes)


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """softmax((x + noise) / tau): a random choice by the probabilities softmax(x), softened.

    ``hard`` gives one-hot vectors that have the gradient of the soft ones. ``eps`` is not used.
    Source: Jang, Gu and Poole 2016, arXiv 1611.01144.
    """
    even = ops.noise(logits.detach(), **_place(logits, 0))
    soft = softmax((logits - (-even.log()).log()) / tau, dim)
    if not hard:
        return soft
    places = arange(logits.shape[dim], device=logits.device)
    chosen = soft.detach().argmax(dim).unsqueeze(-1) == places
    return chosen.type(soft.dtype).movedim(-1, dim) - soft.detach() + soft
