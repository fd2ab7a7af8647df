"""Losses. ``reduction`` is "mean", "sum" or "none"; the first two are over all replicas' rows.

A mean divides by the weight of all replicas: the number of values, or of class weights and targets
that are not ignored. So any split of a batch gives the same loss and gradients.
"""

from __future__ import annotations

import warnings
from typing import Any

from minidp.backend import backend_of
from minidp.errors import ShapeError
from minidp.nn.functional.activation import log_softmax
from minidp.ops import softmax as ops
from minidp.ops.collective import global_sum, weighted_mean
from minidp.ops.elementwise import log1pexp, where
from minidp.ops.index import take_along_dim
from minidp.tensor import Tensor
from minidp.types import category


def check_reduction(reduction: str) -> str:
    """``reduction``, or a ValueError when it is unknown."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction: mean, sum or none")
    return reduction


def _reduced(values: Tensor, reduction: str, weight: Tensor | None = None) -> Tensor:
    """``values`` reduced; ``weight`` is what the mean divides by (None: their number)."""
    if check_reduction(reduction) == "none":
        return values
    if reduction == "sum":
        return global_sum(values)
    return weighted_mean(values, values.numel() if weight is None else weight)


def cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, ignore_index: int = -100,
    reduction: str = "mean", label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """-w_t log softmax(x)_t for logits x (n, c, ...) or (c).

    ``target`` holds class numbers (n, ...), where ``ignore_index`` is left out, or probabilities
    of the shape of x. Smoothing e makes the target (1 - e) one_hot(t) + e / c. The mean divides by
    the weights of the targets; by the number of rows when those are probabilities.
    """
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    if input.ndim == 1:
        values = cross_entropy(
            input.unsqueeze(0), target.unsqueeze(0), weight, ignore_index=ignore_index,
            reduction=reduction, label_smoothing=label_smoothing,
        )  # fmt: skip
        return values.squeeze(0) if reduction == "none" else values
    _check_weight("cross_entropy", weight, input)
    if target.shape == input.shape and category(target.dtype) == 2:
        return _reduced(_soft(input, target, weight, label_smoothing), reduction)
    target = _classes(target)
    losses: Tensor = ops.cross_entropy(input, target, ignore_index=ignore_index)
    shares = _shares(target, weight, ignore_index)
    if weight is not None:
        losses = losses * shares
    if label_smoothing:
        even = _even(input, weight) * (label_smoothing / input.shape[1])
        losses = losses * (1 - label_smoothing) + where(target != ignore_index, even, 0.0)
    return _reduced(losses, reduction, shares)


def _check_weight(name: str, weight: Tensor | None, input: Tensor) -> None:
    if input.ndim < 2 or (weight is not None and weight.shape != input.shape[1:2]):
        given = None if weight is None else weight.shape
        raise ShapeError(f"{name}(input {input.shape}, weight {given}): expected logits "
                         "(n, c, ...) and one weight for each of the c classes")  # fmt: skip


def _classes(target: Tensor) -> Tensor:
    """Class numbers as int64; anything else as it is, for the op to refuse."""
    result: Tensor = target.long() if category(target.dtype) < 2 else target
    return result


def _shares(target: Tensor, weight: Tensor | None, ignore_index: int) -> Tensor:
    """What each target counts in a mean: 0 if ignored, else its class's weight (1)."""
    kept = target != ignore_index
    if weight is None:
        return kept
    result: Tensor = where(kept, weight[where(kept, target, 0)], 0.0)
    return result


def class_weight(target: Tensor, weight: Tensor | None, ignore_index: int) -> float | None:
    """The sum of what each target in host memory counts; None for probabilities: 1 a row."""
    if category(target.dtype) == 2:
        return None
    kept = target.data[target.data != ignore_index]
    if weight is None:
        return float(kept.size)
    weights = backend_of(weight.data).get(weight.data)
    return float(weights.take(kept, mode="clip").sum(dtype="float64"))


def _columns(weight: Tensor | None, input: Tensor) -> Any:
    """Class weights shaped to broadcast over (n, c, ...); 1 without."""
    return 1.0 if weight is None else weight.reshape(1, -1, *(1,) * (input.ndim - 2))


def _even(input: Tensor, weight: Tensor | None) -> Tensor:
    """-sum_c w_c log softmax(x)_c: the loss of a target that is every class."""
    result: Tensor = -(log_softmax(input, 1) * _columns(weight, input)).sum(1)
    return result


def _soft(input: Tensor, target: Tensor, weight: Tensor | None, smoothing: float) -> Tensor:
    """-sum_c w_c t_c log softmax(x)_c for target probabilities t."""
    if smoothing:
        target = target * (1 - smoothing) + smoothing / input.shape[1]
    result: Tensor = -(log_softmax(input, 1) * target * _columns(weight, input)).sum(1)
    return result


def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """-w_t x_t for log-probabilities x (n, c, ...) or (c) and class numbers (n, ...)."""
    if input.ndim == 1:
        values = nll_loss(input.unsqueeze(0), target.unsqueeze(0), weight,
                          ignore_index=ignore_index, reduction=reduction)  # fmt: skip
        return values.squeeze(0) if reduction == "none" else values
    _check_weight("nll_loss", weight, input)
    target = _classes(target)
    if target.shape != (input.shape[0], *input.shape[2:]):
        raise ShapeError(f"nll_loss(input {input.shape}, target {target.shape}): expected "
                         "n c ..., n ...")  # fmt: skip
    ops.check_classes(backend_of(target.data).xp, target.data, input.shape[1], ignore_index)
    shares = _shares(target, weight, ignore_index)
    index = where(target != ignore_index, target, 0).unsqueeze(1)
    chosen = take_along_dim(input, index, dim=1).squeeze(1)
    losses: Tensor = where(target != ignore_index, -chosen, 0.0)
    return _reduced(losses if weight is None else losses * shares, reduction, shares)


def _difference(name: str, input: Tensor, target: Tensor) -> Tensor:
    if input.shape != target.shape:
        warnings.warn(
            f"{name}: target size {target.shape} is different from the input size {input.shape}; "
            "they are broadcast, which is seldom meant",
            stacklevel=3,
        )
    return input - target


def _weighed(name: str, losses: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    if weight is None:
        return _reduced(losses, reduction)
    if weight.shape != losses.shape:
        raise ShapeError(f"{name}: weights {weight.shape} and input {losses.shape} must have the "
                         "same size")  # fmt: skip
    return _reduced(losses * weight, reduction, weight)


def mse_loss(
    input: Tensor, target: Tensor, *, reduction: str = "mean", weight: Tensor | None = None
) -> Tensor:
    """w (x - t)^2; the mean divides by the sum of the weights w."""
    losses = _difference("mse_loss", input, target).square()
    return _weighed("mse_loss", losses, weight, reduction)


def l1_loss(
    input: Tensor, target: Tensor, *, reduction: str = "mean", weight: Tensor | None = None
) -> Tensor:
    """w |x - t|; the mean divides by the sum of the weights w."""
    losses = _difference("l1_loss", input, target).abs()
    return _weighed("l1_loss", losses, weight, reduction)


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """-w (q t log s + (1 - t) log(1 - s)) for s = sigmoid(x), q = pos_weight (1).

    Written as (1 - t) x + (1 + (q - 1) t) log(1 + e^-x), which never overflows.
    """
    if target.shape != input.shape:
        raise ShapeError(f"binary_cross_entropy_with_logits: target size ({target.shape}) must be "
                         f"the same as input size ({input.shape})")  # fmt: skip
    factor = 1.0 if pos_weight is None else (pos_weight - 1) * target + 1
    losses: Tensor = (1 - target) * input + factor * log1pexp(-input)
    return _reduced(losses if weight is None else losses * weight, reduction)
