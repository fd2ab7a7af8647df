"""A batch: what the model is given, what the loss compares it with, and what of it is split."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minidp.device import Device
from minidp.errors import ReplicaError
from minidp.nested import leaves, mapped
from minidp.parallel.split import Share
from minidp.tensor import Tensor, wrap


class Whole:
    """Marks an input that every replica gets as a whole: a number, a table, a name.

    >>> dp.Whole(3)
    Whole(3)
    """

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"Whole({self.value!r})"


class Batch:
    """``Batch(*inputs, targets, **named)``: a step runs ``loss(model(*inputs, **named), targets)``.

    Every array in it (also in tuples, lists and dicts) has as many rows, which are split over the
    replicas; what is not to be split is marked ``dp.Whole``. A loader may give tuples instead.

    >>> dp.Batch(dp.rand(8, 3), dp.rand(8, 1), mask=dp.ones(8)).rows
    8
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        if len(given) < 2:
            raise ReplicaError(
                f"a batch with {len(given)} part(s): expected at least the model's input and then "
                "the targets, such as (x, y)"
            )
        *inputs, self.targets = given
        self.inputs, self.named = tuple(inputs), named
        self.rows = rows_of((self.inputs, self.named, self.targets))

    @classmethod
    def of(cls, given: Any) -> Batch:
        """What a loader gave, as a Batch."""
        if isinstance(given, Batch):
            return given
        if isinstance(given, (tuple, list)):
            return cls(*given)
        raise ReplicaError(
            f"the loader gave a {type(given).__name__}: expected a tuple of the model's inputs and "
            "the targets, such as (x, y), or dp.Batch(x, y, name=z)"
        )

    def map(self, function: Callable[[Any], Any]) -> Batch:
        """The batch with ``function`` of every leaf."""
        result = Batch.__new__(Batch)
        parts = self.inputs, self.named, self.targets
        result.inputs, result.named, result.targets = (mapped(function, each) for each in parts)
        result.rows = self.rows
        return result

    def plain(self) -> Any:
        """What is in it, without the marks of what is whole."""
        parts = self.inputs, self.named, self.targets
        return mapped(lambda leaf: leaf.value if isinstance(leaf, Whole) else leaf, parts)

    def cut(self, share: Share, device: Device) -> Batch:
        """The rows of ``share``, on ``device``."""
        return self.map(lambda leaf: to_device(rows(leaf, share), device))


def rows_of(batch: Any) -> int:
    """How many rows a batch has: the length of its first array that is split."""
    for leaf in leaves(batch):
        if not isinstance(leaf, Whole) and leaf is not None:
            return len(_sized(leaf))
    raise ReplicaError(
        "an empty batch cannot be split: give at least one array that is not marked dp.Whole"
    )


def cut(batch: Any, share: Share, device: Device) -> Any:
    """The rows of ``share`` in every array of a batch, on ``device``."""
    return mapped(lambda leaf: to_device(rows(leaf, share), device), batch)


def rows(leaf: Any, share: Share) -> Any:
    """The rows of ``share``; what is marked Whole, and None, as it is."""
    if leaf is None or isinstance(leaf, Whole):
        return None if leaf is None else leaf.value
    data = leaf.array if isinstance(leaf, Tensor) else _sized(leaf)
    if len(_sized(data)) != share.total:
        raise ReplicaError(
            f"a batch of {share.total} rows holds an array of {len(data)} rows; mark what is not "
            "to be split: dp.Whole(...)"
        )
    own = data[share.start : share.stop]
    return wrap(own) if data is not leaf else Tensor(own)


def _sized(leaf: Any) -> Any:
    """The leaf, which has rows."""
    if not hasattr(leaf, "shape") or not leaf.shape:
        raise ReplicaError(
            f"a batch holds {leaf!r:.60}, which has no rows to split: a list is several things, "
            "each an array; make one tensor of it with dp.tensor(...), or mark what every replica "
            "gets as it is: dp.Whole(...)"
        )
    return leaf


def to_device(leaf: Any, device: Device) -> Any:
    """A Tensor on ``device``; anything else as it is."""
    if not isinstance(leaf, Tensor) or (device.type == "cpu" and type(leaf.array) is np.ndarray):
        return leaf
    return leaf.to(device)
