"""What a mean over all replicas divides by, where the loss tells it from the targets alone.

A mean then is each replica's share, such that the row-weighted mean of all shares is the mean over
all rows. Other losses exchange what they need; see ``minidp.ops.collective``.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from minidp.mode import switched
from minidp.nn.loss import Loss
from minidp.parallel.split import Share
from minidp.tensor import Tensor


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


def share_of(total: float | None, share: Share) -> float | None:
    """What the sum over a replica's own rows is divided by; None as above."""
    return None if total is None else total * share.fraction


def told(loss: Any, denominator: Any) -> AbstractContextManager[None]:
    """A block in which ``loss`` knows its denominator: None is the number of its own values, which
    is right where each row has equally many."""
    if not is_known(loss):
        return nullcontext()
    return switched(denominator=lambda weight: weight if denominator is None else denominator)
