"""The communicator through host memory: replicas as threads, arrays added by everyone at once.

An all-reduce has no root. When every rank has given its array, each adds its own slice of all of
them, in a balanced tree over ranks, into the first rank's array; small arrays every rank adds for
itself. A rank also works on rounds that became complete while it was computing, each time it
gives something new: so reduction overlaps with backward without threads of its own. What is left
at the end of a step may be added ``later``, together with the update.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np

from minidp.backend import backend_of
from minidp.parallel.communicator import Communicator, Sum, Tag, Work, slice_of
from minidp.parallel.exchange import Exchange, Round
from minidp.types import Array

SMALL = 4096
"""Elements up to which every rank adds for itself: one meeting instead of two."""

NO_NUMBERS = np.zeros(0)

Key = tuple[tuple[int, ...], bool, int]


class HostSum(Sum):
    """The sum of large arrays, in place: a round of the exchange, seen from one rank."""

    def __init__(self, communicator: HostCommunicator, key: Key, current: Round) -> None:
        self.communicator, self.key, self.round = communicator, key, current
        self.sharers, self.reduced = current.members, False

    @property
    def ready(self) -> bool:
        """Whether everyone has given and this rank's slice has not been added."""
        return self.round.complete and not self.reduced

    def parts(self) -> list[Array]:
        return self._given() if self.ready else []

    def _given(self) -> list[Array]:
        return [self.round.given[rank][0] for rank in self.round.members]

    def advance(self) -> None:
        if not self.ready:
            return
        began, self.reduced = perf_counter_ns(), True
        arrays = [array.reshape(-1) for array in self._given()]
        first, last = slice_of(arrays[0].size, self.round.members, self.communicator.rank)
        tree_sum([array[first:last] for array in arrays])
        link, tag = self.communicator, self.round.tag
        size = self.round.given[link.rank][0].nbytes
        link.exchange.reducing[link.rank] += (perf_counter_ns() - began) / 1e9
        link.exchange.moment(link.rank, "reduce", tag.name, size, began)
        link.exchange.finish(link.rank, self.round)

    def slice(self) -> Array:
        link, current = self.communicator, self.round
        link.meet(current, lambda: current.complete)
        if not link.later:
            self.advance()
        given = [current.given[rank] for rank in current.members]
        self.numbers = tree_total([numbers for _, numbers in given])
        link.forget(self)
        result: Array = given[0][0]
        return result

    def wait(self) -> Array:
        result, current = self.slice(), self.round
        self.communicator.meet(current, lambda: len(current.finished) == len(current.members))
        return result


class CopyWork(Work):
    """A large sum of which each rank gets a copy of its own."""

    def __init__(self, work: Work) -> None:
        self.work = work

    def wait(self) -> Array:
        return self.work.wait().copy()


class SmallWork(Work):
    """A round whose result every rank makes from what all gave; no rank changes what it gave."""

    def __init__(
        self, communicator: HostCommunicator, key: Key, current: Round, root: int = 0
    ) -> None:
        self.communicator, self.key, self.round, self.root = communicator, key, current, root

    def wait(self) -> Array:
        current = self.round
        self.communicator.meet(current, lambda: current.complete)
        given = [current.given[rank] for rank in current.members]
        self.communicator.exchange.leave(self.communicator.rank, self.key)
        if current.tag.operation == "all_reduce":
            return tree_total(given)
        if current.tag.operation == "all_gather":
            return np.concatenate(given)
        return given[self.root].copy()


class HostCommunicator(Communicator):
    """Rank ``rank``'s end of an Exchange. Arrays are flat arrays in host memory."""

    def __init__(self, rank: int, exchange: Exchange) -> None:
        self.rank, self.size, self.exchange = rank, exchange.size, exchange
        self._everyone = tuple(range(self.size))
        self._counts: dict[tuple[tuple[int, ...], bool], int] = {}
        self._open: list[HostSum] = []

    def all_reduce(
        self, array: Array, name: str, among: Sequence[int] | None = None, bucket: bool = False
    ) -> Work:
        self.progress()
        host = _host(array)
        if host.size <= SMALL:
            return self._small("all_reduce", name, host, among, bucket=bucket)
        return CopyWork(self._sum(name, host, NO_NUMBERS, among, False))

    def sum_bucket(self, array: Array, name: str, numbers: Sequence[float]) -> Sum:
        self.progress()
        host = _host(array, copy=False)
        return self._sum(name, host, np.array(numbers, np.float64), None, True)

    def _sum(
        self, name: str, host: Array, numbers: Array, among: Sequence[int] | None, bucket: bool
    ) -> HostSum:
        given = (host, numbers)
        work = HostSum(self, *self.give("all_reduce", name, host, given, among, bucket))
        self._open.append(work)
        return work

    def reduce_scatter(self, array: Array, name: str) -> Work:
        return SliceWork(self.all_reduce(array, name), self.rank, self.size)

    def all_gather(self, array: Array, name: str) -> Work:
        return self._small("all_gather", name, _host(array))

    def broadcast(self, array: Array, name: str, root: int = 0) -> Work:
        return self._small("broadcast", name, _host(array), None, root)

    def send(self, array: Array, name: str, to: int) -> Work:
        return self._small("send", name, _host(array), (self.rank, to))

    def recv(self, array: Array, name: str, source: int) -> Work:
        return self._small("send", name, _host(array), (source, self.rank))

    def barrier(self, name: str) -> None:
        if self.size > 1:
            self._small("barrier", name, NO_NUMBERS).wait()

    def _small(
        self, operation: str, name: str, host: Array, among: Sequence[int] | None = None,
        root: int = 0, bucket: bool = False,
    ) -> Work:  # fmt: skip
        return SmallWork(self, *self.give(operation, name, host, host, among, bucket), root)

    def close(self, failed: bool) -> None:
        """Let go of sums that a failure left open: they lead back here."""
        self._open.clear()

    def progress(self) -> None:
        """Work on rounds that became complete since."""
        for work in () if self.later else self._open:
            work.advance()

    def meet(self, current: Round, until: Callable[[], bool]) -> None:
        """Wait for peers, working meanwhile on rounds that become complete."""
        while not until():
            self.progress()
            self.exchange.wait(
                self.rank, lambda: until() or self._has_work(),
                current.tag, current.missing,
            )  # fmt: skip

    def _has_work(self) -> bool:
        return not self.later and any(work.ready for work in self._open)

    def forget(self, work: HostSum) -> None:
        self._open.remove(work)
        self.exchange.leave(self.rank, work.key)

    def give(
        self, operation: str, name: str, array: Array, what: Any,
        among: Sequence[int] | None = None, bucket: bool = False,
    ) -> tuple[Key, Round]:  # fmt: skip
        """Bring this rank's part to the next collective of these ranks, on ``array``."""
        members = self._everyone if among is None else tuple(among)
        line = (members, bucket)
        count = self._counts[line] = self._counts.get(line, 0) + 1
        tag = Tag(operation, name, self.step, array.shape, array.dtype)
        key = (*line, count)
        return key, self.exchange.give(self.rank, key, tag, members, what)


class SliceWork(Work):
    """This rank's slice of an all-reduce."""

    def __init__(self, work: Work, rank: int, size: int) -> None:
        self.work, self.rank, self.size = work, rank, size

    def wait(self) -> Array:
        result = self.work.wait()
        rows = len(result) // self.size
        return result[self.rank * rows : (self.rank + 1) * rows].copy()


def _host(array: Array, copy: bool = True) -> Array:
    """The array in host memory; ``copy``: in memory of its own."""
    host = backend_of(array).get(array)
    return host.copy() if copy and host is array else host


def tree_total(arrays: Sequence[Array]) -> Array:
    """The sum of all arrays, in the order of ``tree_sum``; new memory unless there is only one."""
    while len(arrays) > 1:
        pairs = [a + b for a, b in zip(arrays[::2], arrays[1::2], strict=False)]
        arrays = pairs + list(arrays[len(pairs) * 2 :])
    return arrays[0]


def tree_sum(arrays: Sequence[Array], total: Array | None = None) -> None:
    """Add all arrays into the first, pairwise: (0+1)+(2+3)+...; the others are used up. With
    ``total`` the sum of two or more goes there.

    The order depends on the number of arrays alone, never on which came first.
    """
    parts, stride = list(arrays), 1
    while stride < len(parts):
        for i in range(0, len(parts) - stride, 2 * stride):
            out = parts[i] if i or total is None else total
            parts[i] = np.add(parts[i], parts[i + stride], out=out)
        stride *= 2
