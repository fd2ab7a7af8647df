"""Whether replicas agree: with each other, and with one replica alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from minidp.backend import backend_of
from minidp.errors import ReplicaError
from minidp.parallel.bucket import Bucket
from minidp.parallel.ends import BucketEnd
from minidp.parallel.feed import with_positions
from minidp.parallel.progress import Progress
from minidp.parallel.snapshot import Snapshot
from minidp.types import Array

if TYPE_CHECKING:
    from minidp.parallel.scheduler import Scheduler


def check_copies(buckets: Sequence[Bucket], ends: Sequence[Sequence[BucketEnd]]) -> None:
    """A ReplicaError that names the first parameter of which two replicas have different values."""
    for bucket in buckets:
        copies = [(rank, mine[bucket.index].memory.data) for rank, mine in enumerate(ends)]
        for (one, a), (other, b) in pairwise(copies):
            if a is not b:
                _compare(bucket, one, a, other, b)


def _compare(bucket: Bucket, one: int, a: Array, other: int, b: Array) -> None:
    ours, theirs = bucket.views(_host(a)), bucket.views(_host(b))
    for name, x, y in zip(bucket.names, ours, theirs, strict=True):
        if x.tobytes() != y.tobytes():
            difference = float(np.max(np.abs(x - y), initial=0.0))
            raise ReplicaError(
                f"parameter {name} differs between replicas {one} and {other}, by up to "
                f"{difference:g}: something changed one copy alone"
            )


def verified(train: Scheduler, batches: Iterable[Any]) -> Iterable[Any]:
    """The batches; before the first of all is trained on, its gradients are compared with those
    of one replica."""
    if not train.verify:
        return batches
    given = with_positions(batches)
    first = next(given, None)
    if first is None:
        return ()
    train.verify = False  # once is enough
    verify_step(train, first[0])
    if hasattr(batches, "commit"):
        return batches  # its first batch is still to come
    return chain([first[0]], (batch for batch, _ in given))


def verify_step(train: Scheduler, batch: Any) -> None:
    """A ReplicaError unless a step has the gradients that one replica alone finds, before they are
    inspected. All stays as it was."""
    before = Snapshot(train.model, train.optimizer)
    progress, inspections = train.progress, train.inspections
    train.progress, train.inspections = Progress(), []
    parameters = [p for bucket in train.buckets for p in bucket.parameters]
    names = [name for bucket in train.buckets for name in bucket.names]
    alone = type(train)(train.model, train.loss, train.optimizer, train.devices[:1],
                        unused="ignore")  # fmt: skip
    try:
        alone.run_batches([batch])
        expected = _gradients(parameters)
        before.restore()
        train.run_batches([batch])
        check_gradients(names, _gradients(parameters), expected)
    finally:
        before.restore()
        train.progress, train.inspections = progress, inspections


def _gradients(parameters: Sequence[Any]) -> list[Any]:
    return [None if p.grad is None else _host(p.grad.array).copy() for p in parameters]


def check_gradients(names: Sequence[str], found: Sequence[Any], alone: Sequence[Any]) -> None:
    """A ReplicaError that names the first parameter whose gradient is not that of one replica."""
    sizes = [0.0 if g is None else float(np.linalg.norm(_wide(g))) for g in alone]
    floor = 1e-3 * max(sizes, default=0.0)
    for name, ours, theirs, size in zip(names, found, alone, sizes, strict=True):
        if (ours is None) is not (theirs is None):
            raise ReplicaError(f"verify: parameter {name} has a gradient only with {_who(ours)}")
        if ours is None or (theirs is not None and not np.isfinite(theirs).all()):
            continue  # there is nothing to compare
        apart = float(np.linalg.norm(_wide(ours) - _wide(theirs))) / max(size, floor, 1e-300)
        if not apart <= min(0.1, 2e3 * np.finfo(theirs.dtype).eps):
            raise ReplicaError(
                f"verify: the gradient of parameter {name} differs from that of one replica by "
                f"{apart:.2g} of its size. A loss or layer that looks at several rows at once "
                "cannot be split; use dp.mean(values, weight) for means, synchronised batch norm, "
                "and reduction='sum' for sums"
            )


def _who(ours: Any) -> str:
    return "one replica" if ours is None else "several replicas"


def _wide(gradient: Array) -> Array:
    return _host(gradient).astype(np.float64)


def _host(array: Array) -> Array:
    return backend_of(array).get(array)
