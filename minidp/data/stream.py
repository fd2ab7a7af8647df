"""Data sets without row numbers: samples that come one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from types import GenericAlias
from typing import Any

from minidp.data.position import Position
from minidp.mode import switched
from minidp.random import Generator


class IterableDataset:
    """The base of data sets that can only be read from the start; subclasses define ``__iter__``.

    >>> from minidp.data import DataLoader, IterableDataset
    >>> class Countdown(IterableDataset):
    ...     def __iter__(self):
    ...         return iter([3, 2, 1])
    >>> list(DataLoader(Countdown(), batch_size=2))
    [tensor([3, 2]), tensor([1])]
    """

    __class_getitem__: Any = classmethod(GenericAlias)

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} has no __iter__")

    def __add__(self, other: Iterable[Any]) -> ChainDataset:
        return ChainDataset([self, other])


class ChainDataset(IterableDataset):
    """Iterable data sets one after the other."""

    def __init__(self, datasets: Iterable[Iterable[Any]]) -> None:
        self.datasets = list(datasets)

    def __iter__(self) -> Iterator[Any]:
        return chain.from_iterable(self.datasets)

    def __len__(self) -> int:
        return sum(map(len, self.datasets))  # type: ignore[arg-type]


def get_worker_info() -> None:
    """None: one thread of this process reads, and there are no worker processes to tell apart."""


def stream(samples: Iterable[Any], size: int, drop_last: bool, start: Position,
           generator: Generator) -> Iterator[tuple[list[Any], Position]]:  # fmt: skip
    """Lists of ``size`` samples from ``start`` on, each with the position behind it.

    The batches before are read and forgotten. One batch is read ahead, to know the last.
    """
    chunks = _chunks(_drawing(samples, generator), size, drop_last)
    number = sum(1 for _ in islice(chunks, start.batch))
    following = next(chunks, None)
    while following is not None:
        chunk, following, number = following, next(chunks, None), number + 1
        yield chunk, Position(start.epoch, number, following is None)


def _chunks(samples: Iterator[Any], size: int, drop_last: bool) -> Iterator[list[Any]]:
    while chunk := list(islice(samples, size)):
        if len(chunk) == size or not drop_last:
            yield chunk


def _drawing(samples: Iterable[Any], generator: Generator) -> Iterator[Any]:
    """The samples, while ``generator`` makes the random numbers of who makes them."""
    with switched(generator=generator):
        source = iter(samples)
    while True:
        with switched(generator=generator):
            taken = list(islice(source, 1))
        if not taken:
            return
        yield taken[0]
