"""Losses that are the negative logarithm of a probability."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minidp.arguments import expect_tensors, refuse
from minidp.backend import backend_of
from minidp.errors import ArgumentError, DTypeError
from minidp.functional.activation import log_softmax
from minidp.functional.loss import batched, check_reduction, misfit, reduced
from minidp.functional.ranks import alike
from minidp.functions.index import in_range
from minidp.mode import aside, mode
from minidp.ops import softmax as ops
from minidp.ops.elementwise import full_like, log1pexp, where
from minidp.ops.index import take_along_dim
from minidp.tensor import Tensor
from minidp.types import category

__all__ = ["binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy",
           "gaussian_nll_loss", "kl_div", "nll_loss", "poisson_nll_loss"]  # fmt: skip


@batched
def cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, ignore_index: int = -100,
    reduction: str = "mean", label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """-w_t log softmax(x)_t for logits x (n, c, ...) or (c).

    ``target`` holds class numbers (n, ...), where ``ignore_index`` is left out, or probabilities
    of the shape of x. Smoothing e makes the target (1 - e) one_hot(t) + e / c. The mean divides by
    the weights of the targets; by the number of rows when those are probabilities.

    >>> F.cross_entropy(dp.tensor([[0.0, 0.0], [9.0, -9.0]]), dp.tensor([1, 0]))
    tensor(0.3466)
    """
    target = target if isinstance(target, Tensor) else Tensor(target)
    if not 0 <= label_smoothing <= 1:
        raise ArgumentError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    check_weight("cross_entropy", weight, input)
    if target.shape == input.shape and category(target.dtype) == 2:
        if ignore_index >= 0:
            raise ArgumentError("cross_entropy: ignore_index is for class numbers, not for floats")
        if label_smoothing:
            target = target * (1 - label_smoothing) + label_smoothing / input.shape[1]
        return reduced(_dense(input, weight, target), reduction)
    target = classes_of("cross_entropy", input, target)
    here = mode.replica is None and mode.denominator is None  # then the mean is one op
    if here and reduction == "mean" and weight is None and not label_smoothing:
        return ops.cross_entropy_mean(input, target, ignore_index=ignore_index)
    losses = ops.cross_entropy(input, target, ignore_index=ignore_index)
    shares = _shares(target, weight, ignore_index)
    losses = losses if weight is None else losses * shares
    if label_smoothing:
        even = _dense(input, weight, 1.0) * (label_smoothing / input.shape[1])
        losses = losses * (1 - label_smoothing) + where(target != ignore_index, even, 0.0)
    return reduced(losses, reduction, shares)


@batched
def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """-w_t x_t for log-probabilities x (n, c, ...) or (c) and class numbers (n, ...)."""
    check_weight("nll_loss", weight, input)
    target = classes_of("nll_loss", input, target)
    if target.shape != (input.shape[0], *input.shape[2:]):
        raise misfit("nll_loss", "n c ..., n ...", input, target)
    index = class_index("nll_loss", target, input.shape[1], ignore_index).unsqueeze(1)
    chosen = take_along_dim(input, index, dim=1).squeeze(1)
    losses = where(target != ignore_index, -chosen, 0.0)
    shares = _shares(target, weight, ignore_index)
    return reduced(losses if weight is None else losses * shares, reduction, shares)


def check_weight(name: str, weight: Tensor | None, input: Tensor) -> None:
    if input.ndim < 2 or (weight is not None and weight.shape != input.shape[1:2]):
        given = [input] if weight is None else [input, weight]
        raise misfit(name, "logits (n, c, ...) and one weight for each of the c classes", *given)
    alike(name, input, weight)


def classes_of(name: str, input: Tensor, target: Tensor) -> Tensor:
    """Class numbers as int64."""
    if category(input.dtype) < 2:
        raise DTypeError(f"{name}(input {input.dtype}, target {target.dtype}): expected logits of "
                         "floating point first, then the target")  # fmt: skip
    if category(target.dtype) == 2:
        raise DTypeError(f"{name}: a target of {target.dtype} and shape {target.shape}: expected "
                         "class numbers, which are integers (.long()), or probabilities in the "
                         f"input's shape {input.shape}")  # fmt: skip
    return target.long()


def class_index(name: str, target: Tensor, count: int, ignore_index: int | None = None) -> Tensor:
    """The targets, seen to be classes 0 .. count - 1, with 0 for those that are ignored."""
    ops.check_classes(backend_of(target.array).xp, target.array, count, ignore_index, name)
    index = target if ignore_index is None else where(target != ignore_index, target, 0)
    return index if mode.watch is None else in_range(name, index, count)  # in each replay, too


def _shares(target: Tensor, weight: Tensor | None, ignore_index: int) -> Tensor:
    """What each target counts in a mean: 0 if ignored, else its class's weight (1)."""
    kept = target != ignore_index
    if weight is None:
        return kept
    index = where(kept, target, 0).reshape(-1)
    return where(kept, take_along_dim(weight, index, dim=0).reshape(target.shape), 0.0)


def class_weight(target: Tensor, weight: Tensor | None, ignore_index: int) -> float | None:
    """The sum of what each target in host memory counts; None for probabilities: 1 a row."""
    if category(target.dtype) == 2:
        return None
    counts = target.array != ignore_index
    if weight is None:
        return float(np.count_nonzero(counts))
    kept = target.array[counts]
    weights = backend_of(weight.array).get(weight.array)
    return float(weights.take(kept, mode="clip").sum(dtype="float64"))


def _dense(input: Tensor, weight: Tensor | None, target: Any) -> Tensor:
    """-sum_c w_c t_c log softmax(x)_c for target probabilities t, or 1 for every class."""
    if weight is not None:
        target = target * weight.reshape(1, -1, *(1,) * (input.ndim - 2))
    return -(log_softmax(input, 1) * target).sum(1)


def _check_alike(name: str, input: Tensor, target: Tensor) -> None:
    expect_tensors(name, input, target)
    if target.shape != input.shape:
        raise misfit(name, "a target of the same size as the input", input, target)


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean"
) -> Tensor:
    """-w (t log x + (1 - t) log(1 - x)) for probabilities x; logarithms are at least -100."""
    _check_alike("binary_cross_entropy", input, target)
    alike("binary_cross_entropy", input, target)
    losses = ops.binary_cross_entropy(input, target)
    return reduced(losses if weight is None else losses * weight, reduction)


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """-w (q t log s + (1 - t) log(1 - s)) for s = sigmoid(x), q = pos_weight (1).

    Written as (1 - t) x + (1 + (q - 1) t) log(1 + e^-x), which never overflows.
    """
    _check_alike("binary_cross_entropy_with_logits", input, target)
    below = log1pexp(-input)
    below = below if pos_weight is None else ((pos_weight - 1) * target + 1) * below
    losses = (1 - target) * input + below
    return reduced(losses if weight is None else losses * weight, reduction)


def kl_div(
    input: Tensor, target: Tensor, *, reduction: str = "mean", log_target: bool = False
) -> Tensor:
    """t (log t - x) for log-probabilities x, 0 where t = 0; e^t (t - x) if ``log_target``.

    "mean" divides by the number of values, "batchmean", as the mathematics have it, by the rows.
    """
    check_reduction(reduction, "batchmean")
    if log_target:
        losses = target.exp() * (target - input)
    else:
        losses = target * where(target == 0, 1.0, target).log() - target * input
    if reduction == "batchmean":
        return reduced(losses, "mean", input.shape[0] if input.ndim else 1)
    return reduced(losses, reduction)


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool = True, full: bool = False, *,
    eps: float = 1e-8, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """e^x - t x for the logarithm x of a Poisson rate; x - t log(x + eps) for the rate itself.

    ``full`` adds Stirling's approximation of log t!, t log t - t + log(2 pi t) / 2, where t > 1.
    """
    losses = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        t = where(target > 1, target, 1.0)
        stirling = t * t.log() - t + (t * (2 * math.pi)).log() * 0.5
        losses = losses + where(target > 1, stirling, 0.0)
    return reduced(losses, reduction)


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor, full: bool = False, eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """(log v + (x - t)^2 / v) / 2 for v = max(var, eps), a constant where eps is the larger.

    ``var`` has the shape of x, or lacks its last axis, or has 1 along one axis. ``full`` adds
    log(2 pi) / 2. Source: Nix and Weigend 1994.
    """
    v = var if isinstance(var, Tensor) else full_like(input.detach(), value=float(var))
    if v.shape != input.shape and v.shape == input.shape[:-1]:
        v = v.unsqueeze(-1)
    ones = [m for n, m in zip(input.shape, v.shape, strict=False) if n != m]
    if v.ndim != input.ndim or ones not in ([], [1]):
        raise misfit("gaussian_nll_loss", "var of the size of the input", input, target, v)
    aside(refuse, (v.detach() < 0).any(), "gaussian_nll_loss: var has negative entries")
    v = v + (eps - v).clamp(min=0.0).detach()  # the gradient passes, as PyTorch's does
    losses = (v.log() + (input - target).square() / v) * 0.5
    return reduced(losses + 0.5 * math.log(2 * math.pi) if full else losses, reduction)
