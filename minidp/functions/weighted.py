"""Sums and means over the rows of all replicas, exact for any split."""

from __future__ import annotations

from typing import Any

from minidp.mode import mode
from minidp.ops.elementwise import full_like
from minidp.ops.layout import stack
from minidp.tensor import Tensor

__all__: list[str] = []


def weighted_mean(values: Tensor, weight: Any) -> Tensor:
    """sum(values) / sum(weight), over the rows of all replicas: the exact mean for any split.

    The denominator is known before backward starts, so gradients are final when they appear. Who
    knows it beforehand, as the scheduler does for the losses of ``minidp.nn``, says so by
    ``mode.denominator``: then nothing is exchanged, and each replica gives its share of the mean.
    """
    total: Tensor = values.sum()
    if mode.denominator is not None:
        divisor = mode.denominator(weight)
        return total / (divisor.type(total.dtype) if isinstance(divisor, Tensor) else divisor)
    below = weight.sum() if isinstance(weight, Tensor) else weight
    if mode.replica is None:
        return total / below
    below = below if isinstance(below, Tensor) else full_like(total, value=below)
    both = everywhere(stack(total, below, dim=0), "weighted mean")
    return both[0] / both[1]


def global_sum(values: Tensor) -> Tensor:
    """The sum of ``values`` over the rows of all replicas."""
    return everywhere(values.sum(), "sum")


def everywhere(here: Tensor, name: str) -> Tensor:
    """``here`` added over all replicas, and over the parts of a step that is run in parts."""
    return here if mode.replica is None else mode.replica.everywhere(here, name)
