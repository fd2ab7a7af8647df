"""Who gets which rows: a batch cut by the replicas' workloads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from minidp.errors import ReplicaError


@dataclass(frozen=True)
class Share:
    """The rows of one replica in one step: ``start`` to ``stop`` of ``total``."""

    start: int
    stop: int
    total: int

    @property
    def rows(self) -> int:
        return self.stop - self.start

    @property
    def fraction(self) -> float:
        """Rows here / rows everywhere."""
        return self.rows / self.total if self.total else 0.0


def check_workload(workload: Sequence[float] | None, count: int) -> list[Fraction]:
    """The weights as exact fractions, one per device; a ReplicaError when they make no sense."""
    if workload is None:
        return [Fraction(1)] * count
    try:
        weights = [Fraction(str(each)) for each in workload]
    except (ValueError, TypeError, ZeroDivisionError):
        weights = []
    if len(weights) != count or min(weights, default=0) < 0 or sum(weights) == 0:
        raise ReplicaError(
            f"workload {workload!r} does not fit {count} device(s): expected {count} "
            "number(s), none negative and not all zero"
        )
    return weights


def counts(rows: int, weights: Sequence[Fraction]) -> list[int]:
    """Rows per replica by the largest remainder; if all weigh the same, the first get one more.

    A replica may get none. Ties go to the lower rank.
    """
    total = sum(weights)
    exact = [rows * weight / total for weight in weights]
    whole = [int(each) for each in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: (whole[i] - exact[i], i))
    for i in by_remainder[: rows - sum(whole)]:
        whole[i] += 1
    return whole


def shares(rows: int, weights: Sequence[Fraction]) -> list[Share]:
    """Contiguous rows for each replica, in rank order."""
    result, start = [], 0
    for count in counts(rows, weights):
        result.append(Share(start, start + count, rows))
        start += count
    return result


def parts(share: Share, count: int) -> list[Share]:
    """A replica's rows in ``count`` even parts, of which the last may be empty."""
    cuts = [share.start]
    for rows in counts(share.rows, [Fraction(1)] * count):
        cuts.append(cuts[-1] + rows)
    return [Share(a, b, share.total) for a, b in pairwise(cuts)]


def leads(split: Sequence[Share]) -> int:
    """The replica that does what happens once for all in a step: the first of most rows."""
    return max(range(len(split)), key=lambda rank: split[rank].rows)
