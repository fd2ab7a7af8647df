"""Who gets which rows: a batch cut by the replicas' workloads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from minidp.device import Device
from minidp.errors import ReplicaError
from minidp.tensor import Tensor


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
        weights = [Fraction(-1)]
    if len(weights) != count or min(weights, default=0) < 0 or sum(weights) == 0:
        raise ReplicaError(
            f"workload {list(workload)} does not fit {count} device(s): expected {count} "
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


def rows_of(batch: Any) -> int:
    """How many rows a batch has: the length of its first array."""
    if isinstance(batch, dict):
        batch = tuple(batch.values())
    if isinstance(batch, (tuple, list)):
        if not batch:
            raise ReplicaError("an empty batch cannot be split")
        return rows_of(batch[0])
    return len(batch)


def cut(batch: Any, share: Share) -> Any:
    """The rows of ``share`` in every array of a batch (tuples, lists and dicts of them)."""
    if isinstance(batch, dict):
        return {name: cut(each, share) for name, each in batch.items()}
    if isinstance(batch, (tuple, list)):
        return _like(batch, [cut(each, share) for each in batch])
    data = batch.array if isinstance(batch, Tensor) else batch
    if len(data) != share.total:
        raise ReplicaError(f"a batch of {share.total} rows holds an array of {len(data)} rows")
    return Tensor(data[share.start : share.stop])


def to_device(batch: Any, device: Device) -> Any:
    """Every tensor of a batch on ``device``."""
    if isinstance(batch, dict):
        return {name: to_device(each, device) for name, each in batch.items()}
    if isinstance(batch, (tuple, list)):
        return _like(batch, [to_device(each, device) for each in batch])
    return batch if device.type == "cpu" else batch.to(device)


def _like(batch: Any, values: list[Any]) -> Any:
    """The values as a tuple, named tuple or list, as ``batch`` is."""
    return type(batch)(*values) if hasattr(batch, "_fields") else type(batch)(values)
