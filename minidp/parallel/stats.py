"""What a run has cost: rows per second, who was busy, what was exchanged, memory."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

from minidp.parallel.exchange import Exchange
from minidp.parallel.feed import Feed
from minidp.parallel.progress import Progress


class Stats:
    """Counts over one pass of a scheduler, while it runs and afterwards."""

    def __init__(self, exchange: Exchange, feed: Feed, progress: Progress, gradient: int) -> None:
        """``gradient`` is the size of all gradients of a replica in bytes."""
        self.exchange, self.feed, self.progress, self.gradient = exchange, feed, progress, gradient
        self._steps, self._rows, self._began = progress.steps, progress.rows, perf_counter()
        self._seconds: float | None = None

    def stop(self) -> None:
        """The pass is over."""
        self._seconds = perf_counter() - self._began

    def report(self) -> dict[str, Any]:
        """``rows_per_second``; by replica the share of time that it was ``busy``, neither waiting
        for others nor adding gradients; ``exposed_seconds`` of that communication, the mean over
        replicas; ``loader_seconds`` that some replica waited for the loader; ``reduced_bytes``;
        ``peak_bytes`` of the process."""
        seconds = perf_counter() - self._began if self._seconds is None else self._seconds
        steps, rows = self.progress.steps - self._steps, self.progress.rows - self._rows
        pairs = zip(self.exchange.waited, self.exchange.reducing, strict=True)
        exposed = [waited + adding for waited, adding in pairs]
        several = self.exchange.size > 1
        return {
            "steps": steps, "rows": rows, "skipped": self.progress.skipped, "seconds": seconds,
            "rows_per_second": rows / seconds if seconds else 0.0,
            "busy": [max(0.0, 1 - each / seconds) if seconds else 0.0 for each in exposed],
            "exposed_seconds": sum(exposed) / len(exposed),
            "loader_seconds": self.feed.loaded,
            "reduced_bytes": steps * self.gradient * several, "peak_bytes": peak_bytes(),
        }  # fmt: skip


def peak_bytes() -> int:
    """The most memory that the process has had so far."""
    try:
        import resource
    except ImportError:  # not a Unix
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


class Log:
    """A file of JSON lines: one a second while a run lasts, and one at its end."""

    def __init__(self, path: str | Path, progress: Callable[[], Progress],
                 stats: Callable[[], dict[str, Any]]) -> None:  # fmt: skip
        self.path, self.progress, self.stats = Path(path), progress, stats
        self._next = perf_counter() + 1

    def poll(self) -> None:
        """Called often: writes a line when a second has passed."""
        if perf_counter() >= self._next:
            self.write()

    def write(self) -> None:
        """Append a line."""
        self._next = perf_counter() + 1
        now = self.progress()
        line = {"epoch": now.epoch, "step": now.steps, "loss": now.loss,
                "mean_loss": now.mean_loss, **self.stats()}  # fmt: skip
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")
