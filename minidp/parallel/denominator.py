"""What a mean over all replicas divides by, where the loss tells it from the targets alone.

A mean then is each replica's share, such that the row-weighted mean of all shares is the mean over
all rows. Other losses exchange what they need; see ``minidp.ops.collective``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from minidp.errors import ReplicaError
from minidp.mode import aside, mode, switched, told_as
from minidp.nn.loss import ClassLoss, Loss
from minidp.ops.collective import completed
from minidp.parallel.evaluation import host
from minidp.parallel.split import Share
from minidp.tensor import Tensor
from minidp.types import Array, category


def is_known(loss: Any) -> bool:
    """Whether ``loss`` is a mean of ``minidp.nn``, which asks for its denominator."""
    own = isinstance(loss, Loss) and type(loss).__module__ == Loss.__module__
    return own and loss.reduction == "mean"


def total_weight(loss: Any, targets: Any) -> float | None:
    """What the mean over the whole batch divides by; None: its number of values, or not known."""
    if not is_known(loss):
        return None
    total: float | None = loss.total_weight(
        targets if isinstance(targets, Tensor) else Tensor(targets)
    )
    return total


def total_weights(loss: Any, targets: Sequence[Any]) -> list[float | None]:
    """``total_weight`` of many batches' targets."""
    if not is_known(loss):
        return [None] * len(targets)
    arrays = [each.array if type(each) is Tensor else np.asarray(each) for each in targets]
    kinds = {(array.shape, array.dtype) for array in arrays}
    if len(kinds) > 1 or not isinstance(loss, ClassLoss) or loss.weight is not None:
        return [total_weight(loss, each) for each in targets]
    if category(arrays[0].dtype) == 2:
        return [None] * len(targets)
    if len(arrays) == 1:
        return [float(np.count_nonzero(arrays[0] != loss.ignore_index))]
    labels = np.concatenate(arrays).reshape(len(arrays), -1)  # all at once: a tenth of the time
    return [*map(float, np.count_nonzero(labels != loss.ignore_index, axis=1))]


def share_of(total: float | None, share: Share) -> float | None:
    """What the sum over a replica's own rows is divided by; None as above."""
    return None if total is None else total * share.fraction


def told(loss: Any, denominator: Any) -> AbstractContextManager[None]:
    """A block in which ``loss`` knows its denominator: None is the number of its own values, which
    is right where each row has equally many."""
    if not is_known(loss):
        return nullcontext()
    return switched(denominator=lambda weight: weight if denominator is None else denominator)


class SumsWantedError(ReplicaError):
    """A sum over all rows was asked for in a part of a step of which it is not known yet."""


class Sums:
    """The sums that the means of a step consist of, over all its parts and replicas.

    A mean over rows that are run in parts cannot be known in the first of them. So every part runs
    forward once to ``note`` its own sums, and again for its gradient, when they are ``complete``:
    the sum of everything, whose derivative belongs to the part's own rows.
    """

    def __init__(self) -> None:
        self.noted: list[list[Array]] = []
        """By part, and in the order in which they were met."""
        self._slopes: dict[int, Array] = {}
        self._totals: list[Array] = []
        self._part, self._place, self._complete = -1, 0, False

    def begin_part(self, part: int) -> None:
        self._part, self._place = part, 0
        if not self._complete:
            self.noted.append([])

    def complete(self, add: Callable[[Array], Array]) -> None:
        """All parts have run: ``add`` gives the sum of an array over replicas."""
        kept, self._complete = [each for each in self.noted if each], True
        if not kept:
            return
        flat = sum(np.concatenate([np.ravel(host(s)) for s in each]) for each in kept)
        cuts = np.cumsum([s.size for s in kept[0]])[:-1]
        self._totals = np.split(add(flat), cuts)

    def of(self, own: Tensor, fraction: float) -> Tensor:
        """The whole sum that ``own`` belongs to; backward starts from ``fraction`` of what it
        starts from elsewhere."""
        if not self._complete:
            self.noted[self._part].append(own.array)
            return own
        result: Tensor = completed(own, aside(_others, own.detach()), factor=1 / fraction)
        if result.requires_grad:
            place = self._place - 1
            result.register_hook(lambda g: aside(_agree, g, place, fraction))
        return result

    def others(self, own: Tensor) -> Tensor:
        """The sum without ``own``, in the order in which the sums were met."""
        place, self._place = self._place, self._place + 1
        self._check_noted(own, place)
        total = self._totals[place].reshape(own.shape).astype(own.dtype)
        result: Tensor = Tensor(total).to(own.device) - own
        return result

    def agree(self, slope: Array, place: int) -> None:
        """A ReplicaError when the loss of a part does not depend on a sum as that of the first
        does: what that means for the rows of other parts is not known."""
        first = np.asarray(self._slopes.setdefault(place, slope))
        limit = 1e4 * np.finfo(slope.dtype).eps
        if not np.allclose(slope, first, limit, limit * float(np.abs(first).max()), True):
            raise ReplicaError(
                f"accumulate: the rows of each part depend on sum {place + 1} over all rows in a "
                "way of their own, so that its gradient is not known before all parts have run: "
                "leave out accumulate, or detach the sum (the mean) where rows are computed from it"
            )

    def _check_noted(self, own: Tensor, place: int) -> None:
        """A ReplicaError when a part's own sum is no longer what was noted of it."""
        noted = [host(Tensor(each)) for each in self.noted[self._part][place : place + 1]]
        limit = 1e4 * np.finfo(own.dtype).eps
        if not noted or not np.allclose(host(own), noted[0], limit, limit, True):
            raise ReplicaError(
                f"accumulate: mean {place + 1} of the step depends on another mean over the rows, "
                "or on chance, so that it is not known before all parts have run: leave out "
                "accumulate, or detach what it depends on from the rows"
            )


@told_as("the sum elsewhere")
def _others(own: Tensor) -> Tensor:
    """Of the running step: a captured one looks again each time."""
    result: Tensor = mode.replica.now.sums.others(own)  # type: ignore[union-attr]
    return result


@told_as("the slopes of the parts agree")
def _agree(g: Tensor, place: int, fraction: float) -> None:
    mode.replica.now.sums.agree(host(g) / fraction, place)  # type: ignore[union-attr]
