"""What a pass costs, counted while it runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from time import perf_counter

from minidp.device import Device
from minidp.parallel.exchange import Exchange
from minidp.parallel.feed import Feed
from minidp.parallel.metrics import Log, Metrics, device_memory, peak_memory
from minidp.parallel.progress import Progress


class Stats:
    """Counts over one pass of a scheduler on ``devices``; ``gradient`` is the size of a replica's
    gradients in bytes."""

    def __init__(
        self, exchange: Exchange, feed: Feed, progress: Progress, gradient: int,
        devices: Sequence[Device],
    ) -> None:  # fmt: skip
        self.exchange, self.feed, self.progress, self.gradient = exchange, feed, progress, gradient
        self.devices = devices
        self._before, self._began = (progress.steps, progress.rows), perf_counter()
        self._seconds: float | None = None

    def stop(self) -> None:
        """The pass is over."""
        self._seconds = perf_counter() - self._began

    def metrics(self) -> Metrics:
        """What it was like so far. While a replica waits for others or adds gradients, that is
        exposed communication, unless it adds together with the update; it is busy unless it does
        that, or waits for its turn on a device."""
        now, size = self.progress, self.exchange.size
        seconds = perf_counter() - self._began if self._seconds is None else self._seconds
        steps, rows = now.steps - self._before[0], now.rows - self._before[1]
        pairs = zip(self.exchange.waited, self.exchange.reducing, strict=True)
        exposed = [waited + adding for waited, adding in pairs]
        idle = [a + b for a, b in zip(exposed, self.exchange.queued, strict=True)]
        return Metrics(
            self.feed.step + steps, steps, seconds, rows, now.mean_loss,
            busy=[max(0.0, 1 - each / seconds) if seconds else 0.0 for each in idle],
            exposed=sum(exposed) / size, reduced=steps * self.gradient * (size > 1),
            loader=self.feed.loaded, skipped=now.skipped, peak_memory=peak_memory(),
            device_memory=device_memory(self.devices),
        )  # fmt: skip


class Logged:
    """Appends the metrics of a pass to a file, a line a second and one at the end."""

    def __init__(self, path: str | os.PathLike[str], stats: Stats) -> None:
        self.log, self.stats = Log(path), stats
        self._next = perf_counter() + 1

    def poll(self) -> None:
        """Called often."""
        if perf_counter() >= self._next:
            self.write()

    def write(self) -> None:
        """Append a line."""
        self._next = perf_counter() + 1
        self.log.write(self.stats.metrics(), epoch=self.stats.progress.epoch)

    def close(self) -> None:
        """The last line."""
        self.write()
        self.log.close()
