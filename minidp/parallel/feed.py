"""A loader shared by replicas: each batch is fetched once, by whoever comes first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from time import perf_counter_ns
from typing import Any

from minidp.mode import switched
from minidp.parallel.exchange import Exchange
from minidp.parallel.faults import meet
from minidp.random import Generator, default_generator

AHEAD = 4
"""Batches that the fastest replica may be ahead of the slowest."""
DRAWS = 2**31
"""What a loader draws for a step is counted from here: these are no numbers of the step itself."""
PATIENCE = 4e-3
"""Seconds for which more batches are asked for while the first of them could be used."""


Fed = tuple[Any, Callable[[], None]]
"""A batch, and what is to be called when it is used."""


def with_positions(batches: Iterable[Any]) -> Iterator[Fed]:
    """The batches of a loader, which stays where it is until it is told that one is used; those of
    anything else that can be iterated over."""
    loader: Any = batches
    if hasattr(loader, "read") and hasattr(loader, "commit"):
        for batch, position in loader.read():
            yield batch, partial(loader.commit, position)
    else:
        for batch in batches:
            yield batch, nothing


def nothing() -> None:
    """There is nobody to tell."""


class Feed:
    """Hands every replica the same batches, without a hand-off to the caller's thread."""

    def __init__(self, batches: Iterable[Any], size: int, step: int = 0) -> None:
        """``step`` is the number of the last step that was made."""
        self.batches, self.size, self.step = with_positions(batches), size, step
        self.at_once = isinstance(batches, (list, tuple)) or hasattr(batches, "commit")
        """Whether batches can be asked for ahead. What else can be iterated over, such as a
        generator, may look at what the step before has done, or use its memory again."""
        self._slow = not isinstance(batches, (list, tuple))
        """Whether a batch may take long."""
        self.loaded = 0.0
        """Seconds that replicas have waited for the loader."""
        self.places = [0] * size
        """How many batches each replica has taken."""
        self._items: dict[int, tuple[Fed, int]] = {}
        self._problem: BaseException | None = None
        self._fetched, self._ended = 0, False
        self._generator = Generator(default_generator.seed)
        self._fetching: list[int] = []  # the rank that is asking the loader

    def _asking(self) -> AbstractContextManager[None]:
        """While a loader is asked it is no part of a replica: it may run the model, for all rows.
        What it draws depends on the seed and the number of the step that the batch is for."""
        self._draw_anew()
        return switched(replica=None, generator=self._generator)

    def _draw_anew(self) -> None:
        self._generator.step, self._generator.draw = self.step + self._fetched + 1, DRAWS

    def each(self, rank: int, exchange: Exchange) -> Iterator[Fed]:
        """The batches in order, for one replica, each with what tells the loader that it is used;
        raises what the loader raises."""
        while True:
            item = self._get(self.places[rank], rank, exchange)
            if item is None:
                return
            self.places[rank] += 1
            yield item[0]

    def ahead(self, rank: int, most: int, since: int) -> list[Fed]:
        """The next batches, up to ``most``: the first, if there is one, and what the loader gives
        soon after ``since`` (nanoseconds of ``perf_counter_ns``). For one replica, while the others
        wait for it at the same place."""
        began, first = perf_counter_ns(), self.places[rank]
        most = most if self.at_once else 1
        due, last = since + int(PATIENCE * 1e9), first + most
        wanted = self._fetched == first or (self._fetched < last and began < due)
        if wanted and not self._ended and self._problem is None:
            try:
                self._read(last, due)
            except BaseException as problem:
                if self._fetched == first:
                    raise
                self._problem = problem  # it is raised when what came before is used
            self.loaded += (perf_counter_ns() - began) / 1e9
        return [self._items[index][0] for index in range(first, min(self._fetched, last))]

    def _read(self, last: int, due: int) -> None:
        with self._asking():
            for item in self.batches:
                self._items[self._fetched] = item, 0
                self._fetched += 1
                if self._fetched >= last or (self._slow and perf_counter_ns() > due):
                    return
                self._draw_anew()
        self._ended = True

    def skip(self, count: int) -> None:
        """All replicas have used the next ``count`` batches."""
        for index in range(self.places[0], self.places[0] + count):
            del self._items[index]
        self.places = [place + count for place in self.places]

    def _get(self, index: int, rank: int, exchange: Exchange) -> tuple[Fed] | None:
        while True:
            with exchange.condition:
                if index in self._items:
                    return self._take(index, exchange)
                if self._ended:
                    return None
                mine = self._room()
                if mine:
                    self._fetching = [rank]
            if mine:
                self._fetch(rank, exchange)
            else:
                exchange.wait(rank, lambda: self._moved(index), f"batch {index} of the loader",
                              lambda: self._fetching)  # fmt: skip

    def _room(self) -> bool:
        return not self._fetching and len(self._items) < AHEAD

    def _moved(self, index: int) -> bool:
        """Whether it is worth looking again."""
        return index in self._items or self._ended or self._room()

    def _fetch(self, rank: int, exchange: Exchange) -> None:
        began = perf_counter_ns()
        if self._problem is not None:
            raise self._problem
        try:
            meet(0, self.step + self._fetched + 1, "loader")
            with self._asking():
                batch = next(self.batches)
        except StopIteration:
            with exchange.condition:
                self._fetching, self._ended = [], True
                exchange.condition.notify_all()
            return
        exchange.moment(rank, "load", "", 0, began)
        self.loaded += (perf_counter_ns() - began) / 1e9
        with exchange.condition:
            self._items[self._fetched] = (batch, 0)
            self._fetched, self._fetching = self._fetched + 1, []
            exchange.condition.notify_all()

    def _take(self, index: int, exchange: Exchange) -> tuple[Fed]:
        batch, taken = self._items[index]
        self._items[index] = (batch, taken + 1)
        if taken + 1 == self.size:
            del self._items[index]
            exchange.condition.notify_all()
        return (batch,)
