"""Data sets: rows by number.  PyTorch's names and semantics, and whole batches at once.

A data set has `len(dataset)` and `dataset[row]`; that is enough for DataLoader.  One that can do
better also has `batch(rows, key)`: the fields of many rows as NumPy arrays, in a few calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from types import GenericAlias
from typing import Any

import numpy as np
import numpy.typing as npt

from minidp.data.collate import collate, host_array, wrap
from minidp.data.transforms import Key, as_transform
from minidp.errors import DataError
from minidp.mode import switched
from minidp.random import Generator, default_generator
from minidp.tensor import Tensor

Array = npt.NDArray[Any]


class Dataset:
    """The base of data sets; subclasses define `__len__` and `__getitem__`."""

    __class_getitem__: Any = classmethod(GenericAlias)  # Dataset[Tensor], in hints and as a base

    def __len__(self) -> int:
        raise TypeError(f"object of type {type(self).__name__!r} has no len()")

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no __getitem__")

    def __add__(self, other: Dataset) -> ConcatDataset:
        return ConcatDataset([self, other])

    def batch(self, rows: Array, key: Key = (0, 0)) -> Any:
        """The samples of `rows` (int64, not negative), collated, as NumPy arrays.

        `key` is (seed, epoch): what random transforms may depend on besides the row.
        """
        return collate(samples(self, rows, key))


def samples(dataset: Any, rows: Array, key: Key) -> list[Any]:
    """The samples of ``rows``: of all at once where a data set has PyTorch's `__getitems__`, and
    then what it draws depends on the first row."""
    if not hasattr(dataset, "__getitems__"):
        return [sample(dataset, int(row), key) for row in rows]
    with switched(generator=draws(key, int(rows[0]) if len(rows) else 0)):
        return list(dataset.__getitems__(rows.tolist()))


def sample(dataset: Any, row: int, key: Key) -> Any:
    """``dataset[row]``; what it draws at random depends on the row and the key alone."""
    with switched(generator=draws(key, row)):
        return dataset[row]


def draws(key: Key, row: int = 0, kind: int = 0) -> Generator:
    """A generator for what a row draws in an epoch; for other kinds, what a batch that begins with
    the row draws (1), or a stream of samples (2)."""
    seed, epoch = key[:2]
    return Generator(seed + (epoch + 1) * 0x9E3779B97F4A7C15 + kind * 0xD1342543DE82EF95, row)


def fetch(dataset: Any, rows: Array, key: Key) -> Any:
    """`dataset.batch(rows, key)`, for objects that do not derive from Dataset too."""
    if callable(getattr(dataset, "batch", None)):
        return dataset.batch(rows, key)
    return Dataset.batch(dataset, rows, key)


class TensorDataset(Dataset):
    """Arrays or Tensors that have their first axis in common: sample i is the i-th of each.

    `transform` is applied to the first field, batch by batch.  `dataset[i]` and `dataset[rows]`
    (a slice, a list, an array of row numbers or a mask) are tuples of Tensors; there random
    transforms draw what they draw in epoch 0.

    >>> from minidp.data import TensorDataset
    >>> TensorDataset(dp.arange(3), [5, 6, 7])[1:]
    (tensor([1, 2]), tensor([6, 7]))
    """

    def __init__(self, *tensors: Any, transform: Callable[..., Array] | None = None) -> None:
        arrays = [host_array(each) for each in tensors]
        if not arrays or any(each.ndim == 0 for each in arrays):
            raise DataError("TensorDataset needs at least one array, each with an axis of rows")
        # np.take would copy a whole array that is not contiguous, at every call
        self.arrays = tuple(np.ascontiguousarray(each) for each in arrays)
        self.transform = None if transform is None else as_transform(transform)
        if len({len(each) for each in self.arrays}) > 1:
            raise DataError(f"TensorDataset: fields have shapes {[a.shape for a in self.arrays]}; "
                            "the first axis, rows, must be the same")  # fmt: skip

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The fields as Tensors, transforms not applied."""
        fields: tuple[Tensor, ...] = wrap(self.arrays)
        return fields

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        rows = np.arange(len(self))[index]
        fields: tuple[Tensor, ...] = wrap(self.batch(np.atleast_1d(rows)))
        return fields if rows.ndim else tuple(Tensor(field.array[0, ...]) for field in fields)

    def batch(self, rows: Array, key: Key = (0, 0)) -> tuple[Array, ...]:
        first, *rest = (np.take(array, rows, axis=0) for array in self.arrays)
        if self.transform is not None:
            first = self.transform(first, rows, key)
        return (first, *rest)


class Subset(Dataset):
    """The rows `indices` of another data set; random transforms go by the other's row numbers."""

    def __init__(self, dataset: Any, indices: Sequence[int] | Array) -> None:
        self.dataset, self.indices = dataset, np.asarray(indices, dtype=np.int64)
        size = len(dataset)
        if self.indices.ndim != 1 or ((self.indices < -size) | (self.indices >= size)).any():
            raise DataError(f"Subset: indices {indices} do not all name rows of {size}")
        self.indices = self.indices % max(size, 1)

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: Any) -> Any:
        rows = self.indices[index]
        return self.dataset[rows if rows.ndim else int(rows)]

    def batch(self, rows: Array, key: Key = (0, 0)) -> Any:
        return fetch(self.dataset, self.indices[rows], key)


class ConcatDataset(Dataset):
    """Data sets one after the other."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise DataError("ConcatDataset needs at least one data set")
        self.cumulative_sizes = np.cumsum([len(each) for each in self.datasets]).tolist()

    def __len__(self) -> int:
        return int(self.cumulative_sizes[-1])

    def __getitem__(self, index: int) -> Any:
        if not -len(self) <= index < len(self):
            raise IndexError(f"row {index} of a data set of {len(self)} rows")
        place, row = self.locate(np.asarray(index % len(self)))
        return self.datasets[int(place)][int(row)]

    def locate(self, rows: Array) -> tuple[Array, Array]:
        """(which data set, row in it) of each of `rows`."""
        ends = np.asarray(self.cumulative_sizes)
        places = np.searchsorted(ends, rows, side="right")
        return places, rows - np.concatenate([[0], ends])[places]

    def batch(self, rows: Array, key: Key = (0, 0)) -> Any:
        if not all(isinstance(each, TensorDataset) for each in self.datasets):
            return super().batch(rows, key)
        places, rows_there = self.locate(rows)
        order = np.argsort(places, kind="stable")
        parts = [each.batch(rows_there[places == place], (*key, place))
                 for place, each in enumerate(self.datasets)]  # fmt: skip
        back = np.argsort(order, kind="stable")
        try:
            return tuple(np.concatenate(field)[back] for field in zip(*parts, strict=True))
        except ValueError as error:
            raise DataError(f"ConcatDataset: the sets' fields do not fit ({error})") from None


def random_split(dataset: Any, lengths: Sequence[float], generator: Generator | int | None = None,
                 seed: int | None = None) -> list[Subset]:  # fmt: skip
    """Subsets of the given lengths (rows, or fractions that add up to 1), drawn at random.

    As in PyTorch, rows that rounding down the fractions leaves over go to the first subsets.  The
    seed (or that of `generator`, or else of `manual_seed`) alone decides.

    >>> from minidp.data import random_split
    >>> [len(part) for part in random_split(range(10), [0.8, 0.2])]
    [8, 2]
    """
    if seed is None:
        of_split = default_generator if generator is None else generator
        seed = of_split.initial_seed() if isinstance(of_split, Generator) else of_split
    size, rows = len(dataset), list(lengths)
    if math.isclose(sum(rows), 1) and min(rows) >= 0:
        rows = [math.floor(size * fraction) for fraction in rows]
        for extra in range(int(size - sum(rows))):
            rows[extra % len(rows)] += 1
    if sum(rows) != size or any(n < 0 or n != int(n) for n in rows):
        raise DataError(f"random_split: lengths {list(lengths)} do not add up to the {size} rows "
                        "(nor, as fractions, to 1)")  # fmt: skip
    parts = np.split(permutation(size, seed, SPLIT), np.cumsum(rows, dtype=np.int64)[:-1])
    return [Subset(dataset, part) for part in parts]


SPLIT = 2**64 - 1  # in place of an epoch, so that no epoch shuffles as a split does


def permutation(count: int, seed: int, epoch: int) -> Array:
    """The rows 0 to count - 1 in an order that seed and epoch alone decide (Philox)."""
    # (NumPy may change `permutation` between its releases; within one it is fixed)
    bits = np.random.Philox(key=np.array([seed % 2**64, epoch % 2**64], dtype=np.uint64))
    return np.random.Generator(bits).permutation(count)
