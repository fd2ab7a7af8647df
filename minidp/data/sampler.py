"""Samplers: which rows an epoch reads, and in which order; a new order at each ``iter``.

Random ones draw from ``generator`` (by default that of ``manual_seed``): each epoch is one draw.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from types import GenericAlias
from typing import Any

import numpy as np

from minidp.data.collate import Array, host_array
from minidp.errors import DataError
from minidp.random import Generator, default_generator


def drawn(generator: Generator | None) -> np.random.Generator:
    """NumPy's generator, at a place that ``generator`` names anew at each call."""
    key = (default_generator if generator is None else generator).next_key()
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(key)))


class Sampler:
    """The base of samplers; subclasses define `__iter__`, and `__len__` if they can."""

    __class_getitem__: Any = classmethod(GenericAlias)  # Sampler[int], in hints and as a base

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} has no __iter__")

    def state_dict(self) -> dict[str, Any]:
        """What the next order depends on."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Let the next order be the one that came after ``state_dict()``."""


class DrawnSampler(Sampler):
    """The base of those that draw: their state is that of the generator."""

    generator: Generator | None

    def state_dict(self) -> dict[str, Any]:
        return (self.generator or default_generator).get_state()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        (self.generator or default_generator).set_state(state_dict)


def state_of(sampler: Any) -> dict[str, Any]:
    """The state of a sampler; one that has no ``state_dict`` has none."""
    saved = getattr(sampler, "state_dict", dict)
    state: dict[str, Any] = saved()
    return state


def again(sampler: Any, state: dict[str, Any]) -> list[Any]:
    """What the sampler gave after ``state_of`` had given ``state``.

    The default generator, which others draw from too, stays where it is.
    """
    here = default_generator.get_state()
    if hasattr(sampler, "load_state_dict"):
        sampler.load_state_dict(state)
    try:
        return list(sampler)
    finally:
        default_generator.set_state(here)


class SequentialSampler(Sampler):
    """0, 1, 2 ... for each row of `data_source`."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class SubsetRandomSampler(DrawnSampler):
    """The rows `indices` in random order.

    >>> from minidp.data import SubsetRandomSampler
    >>> sorted(SubsetRandomSampler([3, 5, 8]))
    [3, 5, 8]
    """

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        order = drawn(self.generator).permutation(len(self.indices))
        return iter([self.indices[row] for row in order.tolist()])

    def __len__(self) -> int:
        return len(self.indices)


class RandomSampler(DrawnSampler):
    """`num_samples` rows (by default all) in random order, each at most once per round.

    `replacement`: each drawn from all rows.
    """

    def __init__(self, data_source: Sized, replacement: bool = False,
                 num_samples: int | None = None,
                 generator: Generator | None = None) -> None:  # fmt: skip
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self.num_samples = len(data_source) if num_samples is None else num_samples
        if self.num_samples < 1 or not len(data_source):
            raise DataError(f"RandomSampler: {self.num_samples} samples of {len(data_source)} "
                            "rows; both have to be 1 or more")  # fmt: skip

    def __iter__(self) -> Iterator[int]:
        size, rng = len(self.data_source), drawn(self.generator)
        if self.replacement:
            return iter(rng.integers(size, size=self.num_samples).tolist())
        rounds = [rng.permutation(size) for _ in range(-(-self.num_samples // size))]
        return iter(np.concatenate(rounds)[: self.num_samples].tolist())

    def __len__(self) -> int:
        return self.num_samples


class WeightedRandomSampler(DrawnSampler):
    """`num_samples` rows, drawn with probabilities in proportion to `weights`.

    >>> from minidp.data import WeightedRandomSampler
    >>> list(WeightedRandomSampler([0.0, 2.0], 3))
    [1, 1, 1]
    """

    def __init__(self, weights: Any, num_samples: int, replacement: bool = True,
                 generator: Generator | None = None) -> None:  # fmt: skip
        self.weights: Array = host_array(weights).astype(np.float64)
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator
        if self.weights.ndim != 1 or num_samples < 1:
            raise DataError(
                f"WeightedRandomSampler: weights of shape {self.weights.shape} and "
                f"num_samples={num_samples}; expected one axis, and 1 or more"
            )
        if not (self.weights >= 0).all() or not self.weights.sum() > 0:
            raise DataError("WeightedRandomSampler: weights have to be 0 or more, and not all 0")
        if not replacement and num_samples > (self.weights > 0).sum():
            raise DataError(f"WeightedRandomSampler: {num_samples} samples without replacement, "
                            f"but {(self.weights > 0).sum()} weights that are not 0")  # fmt: skip

    def __iter__(self) -> Iterator[int]:
        shares = self.weights / self.weights.sum()
        rows = drawn(self.generator).choice(len(shares), self.num_samples, self.replacement, shares)
        return iter(rows.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler):
    """Lists of `batch_size` rows of another sampler; the last may be short.

    >>> from minidp.data import BatchSampler
    >>> list(BatchSampler(range(5), 2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last
        if not isinstance(batch_size, (int, np.integer)) or batch_size < 1:
            raise DataError(f"BatchSampler: batch_size is {batch_size!r}; it has to be 1 or more")
        if not isinstance(drop_last, bool):
            raise DataError(f"BatchSampler: drop_last is {drop_last!r}; it has to be a bool")

    def state_dict(self) -> dict[str, Any]:
        return state_of(self.sampler)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        if hasattr(self.sampler, "load_state_dict"):
            self.sampler.load_state_dict(state_dict)

    def __iter__(self) -> Iterator[list[int]]:
        rows, size = list(self.sampler), self.batch_size
        full = len(rows) // size * size
        starts = range(0, full if self.drop_last else len(rows), size)
        return iter([rows[start : start + size] for start in starts])

    def __len__(self) -> int:
        count = len(self.sampler) if isinstance(self.sampler, Sized) else len(list(self.sampler))
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
