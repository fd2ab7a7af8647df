"""Losses: how they are reduced, and those of a difference.

``reduction`` is "mean", "sum" or "none"; the first two are over all replicas' rows. A mean divides
by the weight of all replicas: the number of values, or of class weights and targets that are not
ignored. So any split of a batch gives the same loss and gradients. PyTorch's ``size_average`` and
``reduce``, long deprecated, are refused: what follows them there goes by name here.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from minidp.arguments import expect_tensors
from minidp.errors import ArgumentError, ShapeError
from minidp.functions.weighted import global_sum, weighted_mean
from minidp.tensor import Tensor

__all__ = ["huber_loss", "l1_loss", "mse_loss", "smooth_l1_loss"]


def check_reduction(reduction: str, *more: str) -> str:
    """``reduction``, or an ArgumentError when it is unknown."""
    known = ("mean", "sum", "none", *more)
    if reduction not in known:
        raise ArgumentError(
            f"{reduction} is not a valid value for reduction: expected one of {', '.join(known)}"
        )
    return reduction


def reduced(values: Tensor, reduction: str = "mean", weight: Any = None) -> Tensor:
    """``values`` reduced; ``weight`` is what the mean divides by (None: their number)."""
    if check_reduction(reduction) == "none":
        return values
    if reduction == "sum":
        return global_sum(values)
    return weighted_mean(values, values.numel() if weight is None else weight)


def misfit(name: str, expected: str, *given: Tensor) -> ShapeError:
    """The error for tensors whose shapes do not go together."""
    return ShapeError(f"{name}({', '.join(str(x.shape) for x in given)}): expected {expected}")


def batched(loss: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Let a loss of rows (n, c, ...) take one sample (c) too."""

    @functools.wraps(loss)
    def call(input: Tensor, target: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        expect_tensors(loss.__name__, input, target)
        if input.ndim != 1:
            return loss(input, target, *args, **kwargs)
        values = loss(input.unsqueeze(0), target.unsqueeze(0), *args, **kwargs)
        return values.squeeze(0) if values.ndim else values

    return call


def _difference(name: str, input: Tensor, target: Tensor) -> Tensor:
    expect_tensors(name, input, target)
    if input.shape != target.shape:
        warnings.warn(
            f"{name}: target {target.shape} and input {input.shape} differ in size and are "
            "broadcast, which is seldom what was meant: give them the same size",
            stacklevel=3,
        )
    return input - target


def _weighed(name: str, losses: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    if weight is None:
        return reduced(losses, reduction)
    if weight.shape != losses.shape:
        raise misfit(name, "weights of the same size as the losses", weight, losses)
    return reduced(losses * weight, reduction, weight)


def mse_loss(
    input: Tensor, target: Tensor, *, reduction: str = "mean", weight: Tensor | None = None
) -> Tensor:
    """w (x - t)^2; the mean divides by the sum of the weights w."""
    return _weighed("mse_loss", _difference("mse_loss", input, target).square(), weight, reduction)


def l1_loss(
    input: Tensor, target: Tensor, *, reduction: str = "mean", weight: Tensor | None = None
) -> Tensor:
    """w |x - t|; the mean divides by the sum of the weights w."""
    return _weighed("l1_loss", _difference("l1_loss", input, target).abs(), weight, reduction)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """w d^2 / 2 for d = x - t, w delta (|d| - delta / 2) where |d| > delta (Huber 1964).

    The mean divides by the number of values, whatever the weights, as PyTorch's does.
    """
    if delta <= 0:
        raise ArgumentError(f"huber_loss: delta={delta}: expected a positive number")
    losses = _bent(_difference("huber_loss", input, target), delta)
    return reduced(losses if weight is None else _weighed("huber_loss", losses, weight, "none"),
                   reduction)  # fmt: skip


def smooth_l1_loss(
    input: Tensor, target: Tensor, *, reduction: str = "mean", beta: float = 1.0
) -> Tensor:
    """d^2 / (2 beta) for d = x - t, |d| - beta / 2 where |d| > beta."""
    if beta < 0:
        raise ArgumentError(f"smooth_l1_loss: beta={beta}: expected a number that is not negative")
    difference = _difference("smooth_l1_loss", input, target)
    losses = _bent(difference, beta) if beta else difference.abs()
    return reduced(losses / beta if beta not in (0, 1) else losses, reduction)


def _bent(difference: Tensor, delta: float) -> Tensor:
    """A parabola that goes on as a line beyond +-delta."""
    near = difference.clamp(-delta, delta)
    return near * (difference - near * 0.5)
