"""A loader shared by replicas: each batch is fetched once, by whoever comes first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from minidp.parallel.exchange import Exchange

AHEAD = 4
"""Batches that the fastest replica may be ahead of the slowest."""


class Feed:
    """Hands every replica the same batches, without a hand-off to the caller's thread."""

    def __init__(self, batches: Iterable[Any], size: int) -> None:
        self.batches, self.size = iter(batches), size
        self._items: dict[int, tuple[Any, int]] = {}
        self._fetched, self._fetching, self._ended = 0, False, False

    def each(self, rank: int, exchange: Exchange) -> Iterator[Any]:
        """The batches in order, for one replica; raises what the loader raises."""
        index = 0
        while True:
            item = self._get(index, rank, exchange)
            if item is None:
                return
            yield item[0]
            index += 1

    def _get(self, index: int, rank: int, exchange: Exchange) -> tuple[Any] | None:
        while True:
            with exchange.condition:
                if index in self._items:
                    return self._take(index, exchange)
                if self._ended:
                    return None
                mine = not self._fetching and len(self._items) < AHEAD
                self._fetching = self._fetching or mine
            if mine:
                self._fetch(exchange)
            else:
                exchange.wait(rank, lambda: self._moved(index), f"batch {index} of the loader", list)

    def _moved(self, index: int) -> bool:
        """Whether it is worth looking again."""
        room = not self._fetching and len(self._items) < AHEAD
        return index in self._items or self._ended or room

    def _fetch(self, exchange: Exchange) -> None:
        batch, ended = None, False
        try:
            batch = next(self.batches, self)
            ended = batch is self
        finally:
            with exchange.condition:
                self._fetching = False
                self._ended = self._ended or ended
                if not ended and batch is not None:
                    self._items[self._fetched] = (batch, 0)
                    self._fetched += 1
                exchange.condition.notify_all()

    def _take(self, index: int, exchange: Exchange) -> tuple[Any]:
        batch, taken = self._items[index]
        self._items[index] = (batch, taken + 1)
        if taken + 1 == self.size:
            del self._items[index]
            exchange.condition.notify_all()
        return (batch,)
