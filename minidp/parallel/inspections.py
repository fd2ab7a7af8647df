"""Looks at the sums of a step's gradients before anything is updated; replicas decide alike."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from minidp.backend import backend_of
from minidp.errors import ReplicaError
from minidp.mode import told_as
from minidp.tensor import Tensor
from minidp.types import Array

if TYPE_CHECKING:
    from minidp.parallel.bucket import Bucket
    from minidp.parallel.ends import BucketEnd
    from minidp.parallel.reduction import BucketSum

BLOCK = 2**14
"""Elements whose squares are added together; a norm does not depend on who added which block."""

LEAST_SCALE = 2.0**-24
"""The smallest number in float16; a gradient that overflows at such a scale is not finite."""


class Verdict:
    """What becomes of a step: gradients are to be multiplied by ``scale``; or it is skipped, and
    they are to be seen, without the loss scale, but not used.
    ``totals`` are the sums of what replicas gave beside them, such as the loss."""

    def __init__(self, totals: Sequence[float]) -> None:
        self.totals, self.scale = totals, 1.0
        self.skip = ""
        """Why it is skipped, if it is."""


class Inspection:
    """One look at a step. ``looks``: it looks at sums; ``whole``: it needs all of each, not this
    replica's slice alone."""

    looks, whole = True, False

    def numbers(self, sums: Sequence[BucketSum], rank: int, size: int) -> list[float]:
        """What this replica finds; the numbers of all replicas are added."""
        return []

    def decide(self, found: list[float], sums: Sequence[BucketSum], verdict: Verdict) -> None:
        """Change the verdict by the added numbers; raise what ends the step."""


class Finite(Inspection):
    """Neither loss nor gradient may be NaN or infinite: else the step raises, or is skipped.

    ``gradients``: whether they are looked at; a dynamic loss scale does that itself.
    """

    def __init__(self, policy: str, gradients: bool = True) -> None:
        self.policy, self.gradients = policy, gradients

    def numbers(self, sums: Sequence[BucketSum], rank: int, size: int) -> list[float]:
        looked_at = sums if self.gradients else ()
        return [float(sum(not finite(each.slice(rank)) for each in looked_at))]

    def decide(self, found: list[float], sums: Sequence[BucketSum], verdict: Verdict) -> None:
        if found[0]:
            what = f"the gradient of {suspect(sums)}"
        elif not all(map(math.isfinite, verdict.totals)):
            what = "the loss"
        else:
            return
        if self.policy == "raise":
            raise ReplicaError(f"{what} is not finite (nan='raise')")
        verdict.skip = verdict.skip or f"{what} is not finite"


class Used(Inspection):
    """Every parameter should be reached by backward: else a warning, once for each, or an error."""

    looks = False

    def __init__(self, policy: str) -> None:
        self.policy = policy
        self._told: set[str] = set()
        self._lock = threading.Lock()

    def decide(self, found: list[float], sums: Sequence[BucketSum], verdict: Verdict) -> None:
        names = [name for each in sums if not all(each.used) for name in each.unused()]
        if not names:
            return
        text = (
            f"backward reached no replica's parameter(s) {', '.join(names)}: they stay as they are,"
            " without decay or momentum"
        )
        if self.policy == "error":
            raise ReplicaError(text + " (unused='error')")
        with self._lock:
            new = not self._told.issuperset(names)
            self._told.update(names)
        if new:
            warnings.warn(text + "; freeze them with requires_grad_(False) if that is meant, or "
                          "say unused='ignore'", stacklevel=2)  # fmt: skip


class Scale(Inspection):
    """Gradients were multiplied by ``factor`` to keep small ones in float16; it is divided out.

    A step that overflows is skipped and the factor halved; after ``patience`` good ones in a row it
    is doubled. When no factor down to LEAST_SCALE helps, the step raises.
    Source: Micikevicius et al. 2018, arXiv 1710.03740.
    """

    def __init__(self, factor: float, dynamic: bool, patience: int = 2000) -> None:
        self.factor, self.dynamic, self.patience, self.good = factor, dynamic, patience, 0
        self._applied = factor  # in this step: the first to commit it may move the factor

    def numbers(self, sums: Sequence[BucketSum], rank: int, size: int) -> list[float]:
        self._applied = self.factor
        return [float(sum(not finite(each.slice(rank)) for each in sums))]

    def decide(self, found: list[float], sums: Sequence[BucketSum], verdict: Verdict) -> None:
        verdict.scale /= self._applied
        if found[0] and self.dynamic and self._applied <= LEAST_SCALE:
            raise ReplicaError(
                f"the gradient of {suspect(sums)} is not finite, whatever the loss scale: the last "
                f"one was {self._applied:g}"
            )
        if found[0]:
            verdict.skip = f"a gradient overflowed at loss scale {self._applied:g}"

    def move(self, skipped: bool) -> None:
        """Adapt the factor, once for all replicas."""
        self.good = 0 if skipped else self.good + 1
        if self.dynamic and skipped:
            self.factor /= 2
        elif self.dynamic and self.good == self.patience:
            self.factor, self.good = self.factor * 2, 0


class ClipNorm(Inspection):
    """Gradients are scaled down to a norm of ``limit``, over all parameters together.

    Source: Pascanu, Mikolov and Bengio 2013, arXiv 1211.5063.
    """

    whole = True

    def __init__(self, limit: float, order: float = 2.0) -> None:
        if not order > 0:
            raise ReplicaError(f"clip by the norm of order {order}: expected one above 0")
        self.limit, self.order, self.norm = limit, order, math.nan

    def numbers(self, sums: Sequence[BucketSum], rank: int, size: int) -> list[float]:
        found: list[float] = []
        for each in sums:
            blocks = range(0, each.reduced.size, BLOCK)
            found += [
                power_sum(each.reduced[start : start + BLOCK], self.order)
                if i % size == rank else 0.0 for i, start in enumerate(blocks)
            ]  # fmt: skip
        return found

    def decide(self, found: list[float], sums: Sequence[BucketSum], verdict: Verdict) -> None:
        self.norm = verdict.scale * norm_of(found, self.order)
        coefficient = self.limit / (self.norm + 1e-6)
        if not verdict.skip:
            verdict.scale *= min(1.0, coefficient) if math.isfinite(self.norm) else coefficient


def power_sum(block: Array, order: float) -> float:
    """The sum of |x|^order in float64, or the largest |x|."""
    xp = backend_of(block).xp
    wide = xp.abs(block.astype(np.float64))
    return float(wide.max() if math.isinf(order) else (wide**order).sum())


def norm_of(found: Sequence[float], order: float) -> float:
    """The norm, from the power sums of blocks."""
    if math.isinf(order):
        return float(np.max(found, initial=0.0))
    return float(math.fsum(found) ** (1 / order)) if np.isfinite(found).all() else math.nan


def finite(array: Array) -> bool:
    """Whether no element is NaN or infinite."""
    return bool(backend_of(array).xp.isfinite(array).all())


def suspect(sums: Sequence[BucketSum]) -> str:
    """The first parameter with a gradient that is not finite."""
    found = (name for each in sums for name in not_finite(each.bucket, each.reduced))
    return next(found, "some parameter")


def not_finite(bucket: Bucket, gradient: Array) -> Iterator[str]:
    """The parameters of a bucket with a gradient that is not finite."""
    for name, view in zip(bucket.names, bucket.views(gradient), strict=True):
        if not finite(view):
            yield f"parameter {name}"


def require_finite(end: BucketEnd) -> None:
    """A ReplicaError that names the first parameter with a gradient that is not finite."""
    for name in not_finite(end.bucket, end.gradient):
        raise ReplicaError(f"the gradient of {name} is not finite (nan='raise')")


@told_as("raise if not finite")
def require_finite_loss(loss: Tensor) -> None:
    """A ReplicaError for a loss that is NaN or infinite."""
    value = float(loss)
    if not np.isfinite(value):
        raise ReplicaError(f"the loss is {value} (nan='raise')")


def anything(end: BucketEnd) -> None:
    """No objection."""
