"""What replicas can ask of each other: the interface that every store goes through."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from minidp.types import Array, DType, Shape

if TYPE_CHECKING:
    from minidp.parallel.exchange import Exchange


class Tag(NamedTuple):
    """What a collective is, so that replicas that disagree are told at once."""

    operation: str
    name: str
    step: int
    shape: Shape
    dtype: DType

    def __str__(self) -> str:
        what = f"{self.name!r}, {self.dtype}{list(self.shape)}"
        return f"{self.operation}({what}) in step {self.step}"


class Work(ABC):
    """A collective that has begun."""

    @abstractmethod
    def wait(self) -> Array:
        """The result, once it is there. Call it once."""


class Sum(Work):
    """A bucket's sum under way."""

    numbers: Array
    """The sums of the numbers that rode along; there after ``slice`` or ``wait``."""
    sharers: Sequence[int]
    """The ranks whose results are one memory."""

    @abstractmethod
    def slice(self) -> Array:
        """The sum, of which only this rank's slice (see ``bounds``) need be there yet; not even
        that where the communicator adds ``later``."""

    def parts(self) -> list[Array]:
        """What all gave, if this rank's slices are still to be added, into the first."""
        return []

    def advance(self) -> None:
        """Add this rank's slice, if that can be done and has not been."""
        return


class Communicator(ABC):
    """One replica's end of the line to its peers.

    ``among`` names the ranks that take part (None: all). Every rank of a collective must call
    it, with equal operation, name, shape, dtype and step, and in the same order.
    """

    rank: int
    size: int
    exchange: Exchange
    step: int = 0
    later: bool = False
    """Whether slices of buckets that are asked for are left to be added by ``advance``."""

    @abstractmethod
    def all_reduce(self, array: Array, name: str, among: Sequence[int] | None = None) -> Work:
        """The sum over ranks, in a fixed balanced tree."""

    @abstractmethod
    def sum_bucket(self, array: Array, name: str, numbers: Sequence[float]) -> Sum:
        """The sum over all ranks, made in their arrays: one memory for all, to be read only.

        ``numbers`` are added on the way, in float64. Buckets are counted apart from the other
        collectives, among which they may begin at different places, as they do where a replica
        leaves out a branch.
        """

    @abstractmethod
    def reduce_scatter(self, array: Array, name: str) -> Work:
        """The sum over ranks, of which each rank gets its slice of the first axis."""

    @abstractmethod
    def all_gather(self, array: Array, name: str) -> Work:
        """The arrays of all ranks, end to end in rank order."""

    @abstractmethod
    def broadcast(self, array: Array, name: str, root: int = 0) -> Work:
        """The array of rank ``root``."""

    @abstractmethod
    def send(self, array: Array, name: str, to: int) -> Work:
        """Hand an array to rank ``to``, which must call ``recv``."""

    @abstractmethod
    def recv(self, array: Array, name: str, source: int) -> Work:
        """The array that rank ``source`` sends, of the shape and dtype of ``array``."""

    @abstractmethod
    def barrier(self, name: str) -> None:
        """Return when every rank has come here."""

    def close(self, failed: bool) -> None:
        """The replica has ended: give back what it holds."""
        return


@lru_cache(1024)
def bounds(size: int, parts: int, block: int = 16) -> tuple[int, ...]:
    """Where ``size`` elements are cut into ``parts`` slices, at multiples of ``block``."""
    blocks = -(-size // block)
    return tuple([min(size, blocks * i // parts * block) for i in range(parts + 1)])


def slice_of(size: int, sharers: Sequence[int], rank: int) -> tuple[int, int]:
    """Where the slice of ``rank`` starts and stops, among those who share so many elements."""
    cuts, place = bounds(size, len(sharers)), sharers.index(rank)
    return cuts[place], cuts[place + 1]
