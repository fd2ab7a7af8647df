"""Losses that ask for a margin between right and wrong, or between near and far."""

from __future__ import annotations

from collections.abc import Callable

from minidp.arguments import expect_tensors
from minidp.create import arange, ones
from minidp.errors import ArgumentError
from minidp.functional.activation import logsigmoid
from minidp.functional.likelihood import check_weight, class_index, classes_of
from minidp.functional.loss import batched, misfit, reduced
from minidp.functions.distance import pairwise_distance
from minidp.functions.join import cat
from minidp.ops.elementwise import log1pexp, relu, where
from minidp.ops.index import take_along_dim
from minidp.ops.softmax import LEAST
from minidp.tensor import Tensor

__all__ = ["cosine_embedding_loss", "hinge_embedding_loss", "margin_ranking_loss",
           "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss",
           "soft_margin_loss", "triplet_margin_loss",
           "triplet_margin_with_distance_loss"]  # fmt: skip


def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, *, reduction: str = "mean"
) -> Tensor:
    """A distance x where t = 1, max(0, margin - x) where t = -1."""
    apart = where(target != 1, (margin - input).clamp(min=0), 0.0)
    return reduced(apart + where(target != -1, input, 0.0), reduction)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, *, reduction: str = "mean"
) -> Tensor:
    """max(0, margin - t (x1 - x2)): t = 1 where x1 should rank higher, -1 where x2 should."""
    if not input1.ndim == input2.ndim == target.ndim:
        raise misfit("margin_ranking_loss", "the same number of axes", input1, input2, target)
    return reduced((-target * (input1 - input2) + margin).clamp(min=0), reduction)


def soft_margin_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """log(1 + e^(-t x)) for t = 1 or -1."""
    return reduced(log1pexp(-target * input), reduction)


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, *, reduction: str = "mean"
) -> Tensor:
    """1 - cos(x1, x2) where t = 1, max(0, cos(x1, x2) - margin) where t = -1.

    Rows (n, c) and t (n), or one pair (c) and t ().
    """
    axis = target.ndim
    if axis > 1 or not input1.ndim == input2.ndim == axis + 1:
        expected = "(n, c), (n, c), (n) or (c), (c), ()"
        raise misfit("cosine_embedding_loss", expected, input1, input2, target)
    squares = [x.square().sum(axis) + LEAST for x in (input1, input2)]
    cosine = (input1 * input2).sum(axis) / (squares[0] * squares[1]).sqrt()
    apart = where(target == -1, (cosine - margin).clamp(min=0), 0.0)
    return reduced(where(target == 1, 1 - cosine, apart), reduction)


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2.0,
    eps: float = 1e-6, swap: bool = False, *, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, margin + d(a, p) - d(a, n)) for d(x, y) = |x - y + eps|_p over the last axis.

    ``swap`` takes d(p, n) for d(a, n) where it is smaller (Balntas et al. 2016).
    """
    return triplet_margin_with_distance_loss(
        anchor, positive, negative, margin=margin, swap=swap, reduction=reduction,
        distance_function=lambda x, y: pairwise_distance(x, y, p, eps),
    )  # fmt: skip


def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0,
    swap: bool = False, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, margin + d(a, p) - d(a, n)) for any distance d (None: the Euclidean one)."""
    check_margin(margin)
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise misfit("triplet loss", "the same number of axes", anchor, positive, negative)
    distance = distance_function or pairwise_distance
    far = distance(anchor, negative)
    far = far.minimum(distance(positive, negative)) if swap else far
    return reduced((margin + distance(anchor, positive) - far).clamp(min=0), reduction)


def check_margin(margin: float) -> None:
    if margin <= 0:
        raise ArgumentError(f"triplet margin loss: margin must be greater than 0, got {margin}")


def check_power(p: int) -> None:
    if p not in (1, 2):
        raise ArgumentError(f"multi_margin_loss: p={p}: only p == 1 and p == 2 are supported")


def multi_margin_loss(
    input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Tensor | None = None,
    *, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """sum over the classes c other than t of w_t max(0, margin - x_t + x_c)^p, / classes."""
    expect_tensors("multi_margin_loss", input, target)
    if input.ndim < 2 and target.numel() == 1:  # one sample
        rows = input.reshape(1, -1), target.reshape(1)
        losses = multi_margin_loss(*rows, p, margin, weight, reduction=reduction)
        return losses if reduction != "none" else losses.reshape(target.shape)
    check_power(p)
    check_weight("multi_margin_loss", weight, input)
    count = input.shape[1]
    target = class_index("multi_margin_loss", classes_of("multi_margin_loss", input, target), count)
    own = take_along_dim(input, target.unsqueeze(1), dim=1)
    excess = relu(input - own + margin)
    others = arange(count, device=input.device) != target.unsqueeze(1)
    losses = where(others, excess if p == 1 else excess * excess, 0.0).sum(1) / count
    return reduced(losses if weight is None else losses * weight[target], reduction)


@batched
def multilabel_margin_loss(input: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    """sum of max(0, 1 - x_t + x_c) over the row's targets t and all other classes c, / classes.

    A row of ``target`` lists class numbers up to its first -1.
    """
    if input.ndim == 0 == target.ndim:
        input, target = input.reshape(1), target.reshape(1)
        return multilabel_margin_loss(input, target, reduction=reduction).reshape(())
    if target.shape != input.shape or input.ndim != 2:
        raise misfit("multilabel_margin_loss", "(n, c), (n, c) or (c), (c)", input, target)
    rows, count = input.shape
    classes = arange(count, device=input.device)
    stop = ones(rows, 1, dtype=bool, device=input.device)
    listed = classes < cat([target < 0, stop], 1).argmax(1, keepdim=True)
    target = where(listed, target, -1)
    targets = where(target.unsqueeze(2) == classes, 1, 0).sum(1, keepdim=True)
    index = class_index("multilabel_margin_loss", target, count, -1)
    named = take_along_dim(input, index, dim=1).unsqueeze(2)
    excess = relu(input.unsqueeze(1) - named + 1)
    losses = where(targets > 0, 0.0, where(listed.unsqueeze(2), excess, 0.0))
    return reduced(losses.sum((1, 2)) / count, reduction)


def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, *, reduction: str = "mean"
) -> Tensor:
    """The mean over classes (the last axis) of w times the binary cross-entropy of logits."""
    losses = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    return reduced((losses if weight is None else losses * weight).mean(-1), reduction)
