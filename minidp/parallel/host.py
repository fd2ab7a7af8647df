"""The communicator through host memory: replicas as threads, arrays added by everyone at once.

An all-reduce has no root. When every rank has given its array, each adds its own slice of all of
them, in a balanced tree over ranks, into the first rank's array; small arrays every rank adds for
itself. A rank also works on rounds that became complete while it was computing, each time it
gives something new: so reduction overlaps with backward without threads of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from minidp.backend import backend_of
from minidp.parallel.communicator import Communicator, Tag, Work, bounds
from minidp.parallel.exchange import Exchange, Round
from minidp.types import Array

SMALL = 4096
"""Elements up to which every rank adds for itself: one meeting instead of two."""

Key = tuple[tuple[int, ...], bool, int]


class HostWork(Work):
    """A large sum: a round of the exchange, seen from one rank."""

    def __init__(
        self, communicator: HostCommunicator, key: Key, current: Round, shared: bool
    ) -> None:
        self.communicator, self.key, self.round, self.shared = communicator, key, current, shared
        self.reduced = False

    def advance(self) -> None:
        """Add this rank's slice, if everyone has given and it has not been done."""
        if self.reduced or not self.round.complete:
            return
        self.reduced = True
        arrays = [self.round.given[rank].reshape(-1) for rank in self.round.members]
        cuts = bounds(arrays[0].size, len(arrays))
        place = self.round.members.index(self.communicator.rank)
        tree_sum([a[cuts[place] : cuts[place + 1]] for a in arrays])
        self.communicator.exchange.finish(self.communicator.rank, self.round)

    def wait(self) -> Array:
        link, current = self.communicator, self.round
        link.meet(current, lambda: current.complete)
        self.advance()
        link.meet(current, lambda: len(current.finished) == len(current.members))
        result = current.given[current.members[0]]
        result = result if self.shared else result.copy()
        link.forget(self)
        return result


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
        self._counts: dict[tuple[tuple[int, ...], bool], int] = {}
        self._open: list[HostWork] = []

    def all_reduce(
        self, array: Array, name: str, among: Sequence[int] | None = None, in_place: bool = False
    ) -> Work:
        self.progress()
        host = _host(array, copy=not in_place or array.size <= SMALL)
        key, current = self.give("all_reduce", name, host, among, in_place)
        if host.size <= SMALL:
            return SmallWork(self, key, current)
        work = HostWork(self, key, current, in_place)
        self._open.append(work)
        return work

    def reduce_scatter(self, array: Array, name: str) -> Work:
        return SliceWork(self.all_reduce(array, name), self.rank, self.size)

    def all_gather(self, array: Array, name: str) -> Work:
        return SmallWork(self, *self.give("all_gather", name, _host(array), None))

    def broadcast(self, array: Array, name: str, root: int = 0) -> Work:
        return SmallWork(self, *self.give("broadcast", name, _host(array), None), root)

    def send(self, array: Array, name: str, to: int) -> Work:
        return SmallWork(self, *self.give("send", name, _host(array), (self.rank, to)))

    def recv(self, array: Array, name: str, source: int) -> Work:
        return SmallWork(self, *self.give("send", name, _host(array), (source, self.rank)))

    def barrier(self, name: str) -> None:
        SmallWork(self, *self.give("barrier", name, np.zeros(0, np.int8), None)).wait()

    def progress(self) -> None:
        """Work on rounds that became complete since."""
        for work in self._open:
            work.advance()

    def meet(self, current: Round, until: Callable[[], bool]) -> None:
        """Wait for peers; the exchange watches over it."""
        self.exchange.wait(self.rank, until, current.tag, current.missing)

    def forget(self, work: HostWork) -> None:
        self._open.remove(work)
        self.exchange.leave(self.rank, work.key)

    def give(
        self, operation: str, name: str, array: Array, among: Sequence[int] | None,
        in_place: bool = False,
    ) -> tuple[Key, Round]:  # fmt: skip
        """Bring this rank's part to the next collective of these ranks."""
        members = tuple(range(self.size)) if among is None else tuple(among)
        line = (members, in_place)
        count = self._counts[line] = self._counts.get(line, 0) + 1
        tag = Tag(operation, name, self.step, array.shape, array.dtype)
        key = (*line, count)
        return key, self.exchange.give(self.rank, key, tag, members, array)


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


def tree_sum(arrays: Sequence[Array]) -> None:
    """Add all arrays into the first, pairwise: (0+1)+(2+3)+...; the others are used up.

    The order depends on the number of arrays alone, never on which came first.
    """
    stride = 1
    while stride < len(arrays):
        for i in range(0, len(arrays) - stride, 2 * stride):
            np.add(arrays[i], arrays[i + stride], out=arrays[i])
        stride *= 2
