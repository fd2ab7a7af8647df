"""Losses as modules. Each is exact for any split of the batch over replicas."""

from __future__ import annotations

from typing import Any

from minidp.nn import functional as F
from minidp.nn.module import Module
from minidp.parameter import Buffer
from minidp.tensor import Tensor


class Loss(Module):
    """A loss with a ``reduction``: "mean", "sum" or "none"."""

    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = F.check_reduction(reduction)

    def total_weight(self, target: Tensor) -> float | None:
        """What the mean over ``target`` divides by; None where that is the number of values."""
        return None


class MSELoss(Loss):
    """The square of the difference."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class L1Loss(Loss):
    """The absolute value of the difference."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class CrossEntropyLoss(Loss):
    """-log softmax(logits)[target]; see ``functional.cross_entropy``.

    Logits (n, c, ...), targets (n, ...) of class numbers or (n, c, ...) of probabilities;
    ``weight`` (c) weighs the classes.
    """

    weight: Buffer | None

    def __init__(
        self, weight: Any = None, *, ignore_index: int = -100, reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(reduction=reduction)
        self.register_buffer("weight", weight)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )  # fmt: skip


    def total_weight(self, target: Tensor) -> float | None:
        return F.class_weight(target, self.weight, self.ignore_index)


class NLLLoss(Loss):
    """-x[target] of log-probabilities (n, c, ...); ``weight`` (c) weighs the classes."""

    weight: Buffer | None

    def __init__(
        self, weight: Any = None, *, ignore_index: int = -100, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction=reduction)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(
            input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction
        )

    def total_weight(self, target: Tensor) -> float | None:
        return F.class_weight(target, self.weight, self.ignore_index)


class BCEWithLogitsLoss(Loss):
    """Binary cross-entropy of logits; see ``functional.binary_cross_entropy_with_logits``."""

    weight: Buffer | None
    pos_weight: Buffer | None

    def __init__(
        self, weight: Any = None, *, reduction: str = "mean", pos_weight: Any = None
    ) -> None:
        super().__init__(reduction=reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )
