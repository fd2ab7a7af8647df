"""Losses as modules. Each is exact for any split of the batch over replicas."""

from __future__ import annotations

from typing import Any, ClassVar

from minidp import functional as F
from minidp.functional.likelihood import class_weight
from minidp.functional.loss import check_reduction, reduced
from minidp.nn.layer import Stateless
from minidp.nn.linear import PairwiseDistance
from minidp.parameter import Buffer
from minidp.tensor import Tensor

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss", "CrossEntropyLoss",
    "GaussianNLLLoss", "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss", "MSELoss",
    "MarginRankingLoss", "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss",
    "NLLLoss", "PoissonNLLLoss", "SmoothL1Loss", "SoftMarginLoss", "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]  # fmt: skip


class Loss(Stateless, of=reduced, takes="reduction", shows=""):
    """A loss with a ``reduction``: "mean", "sum" or "none"; on its own, of values that it is given.

    ``total_weight`` tells what a mean over targets divides by, and so makes it exact without an
    exchange: see docs/design/denominators-first.md.
    """

    reduction: str
    more_reductions: ClassVar[tuple[str, ...]] = ()

    def _check(self) -> None:
        check_reduction(self.reduction, *self.more_reductions)

    def total_weight(self, target: Tensor) -> float | None:
        """What the mean over ``target`` divides by; None where that is the number of values."""
        return None


class ClassLoss(Loss):
    """A loss whose mean divides by the class weights of the targets that are not ignored."""

    weight: Buffer | None
    ignore_index: int

    def total_weight(self, target: Tensor) -> float | None:
        return class_weight(target, self.weight, self.ignore_index)


class KLDivLoss(Loss, of=F.kl_div):
    more_reductions = ("batchmean",)


# fmt: off
class BCELoss(Loss, of=F.binary_cross_entropy): ...
class BCEWithLogitsLoss(Loss, of=F.binary_cross_entropy_with_logits): ...
class CTCLoss(Loss, of=F.ctc_loss): ...
class CosineEmbeddingLoss(Loss, of=F.cosine_embedding_loss): ...
class CrossEntropyLoss(ClassLoss, of=F.cross_entropy): ...
class GaussianNLLLoss(Loss, of=F.gaussian_nll_loss): ...
class HingeEmbeddingLoss(Loss, of=F.hinge_embedding_loss): ...
class HuberLoss(Loss, of=F.huber_loss, takes="reduction delta"): ...
class L1Loss(Loss, of=F.l1_loss, takes="reduction"): ...
class MSELoss(Loss, of=F.mse_loss, takes="reduction"): ...
class MarginRankingLoss(Loss, of=F.margin_ranking_loss): ...
class MultiLabelMarginLoss(Loss, of=F.multilabel_margin_loss): ...
class MultiLabelSoftMarginLoss(Loss, of=F.multilabel_soft_margin_loss): ...
class NLLLoss(ClassLoss, of=F.nll_loss): ...
class PoissonNLLLoss(Loss, of=F.poisson_nll_loss): ...
class SmoothL1Loss(Loss, of=F.smooth_l1_loss): ...
class SoftMarginLoss(Loss, of=F.soft_margin_loss): ...
# fmt: on


class MultiMarginLoss(Loss, of=F.multi_margin_loss):
    p: int

    def _check(self) -> None:
        super()._check()
        F.margin.check_power(self.p)


class TripletMarginLoss(Loss, of=F.triplet_margin_loss):
    margin: float

    def _check(self) -> None:
        super()._check()
        F.margin.check_margin(self.margin)


class TripletMarginWithDistanceLoss(TripletMarginLoss, of=F.triplet_margin_with_distance_loss):
    distance_function: Any

    def _check(self) -> None:
        super()._check()
        self.distance_function = self.distance_function or PairwiseDistance()
