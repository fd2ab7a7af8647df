"""How far a run is, for progress lines and logs."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass
class Progress:
    """How far a run is; written by one replica, read by the caller's thread."""

    epoch: int = 0
    steps: int = 0
    skipped: int = 0
    native: int = 0
    """How many of the steps ran natively, many in one call; see docs/design/capture.md."""
    rows: int = 0
    loss: float = float("nan")
    loss_times_rows: float = 0.0
    began: float = field(default_factory=time.perf_counter)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.began

    @property
    def mean_loss(self) -> float:
        """The mean loss over the rows seen so far."""
        return self.loss_times_rows / self.rows if self.rows else float("nan")

    def count_all(self, rows: int, losses: list[float]) -> None:
        """Steps are over, one after the other, each of so many rows."""
        total = self.loss_times_rows
        for loss in losses:
            total += loss * rows
        self.steps, self.rows = self.steps + len(losses), self.rows + rows * len(losses)
        self.loss, self.loss_times_rows = losses[-1] if losses else self.loss, total

    def count(self, rows: int, loss: float, skipped: bool = False) -> None:
        """A step is over; one that was skipped does not count in the mean loss."""
        self.steps, self.skipped, self.loss = self.steps + 1, self.skipped + skipped, loss
        if not skipped:
            self.rows, self.loss_times_rows = self.rows + rows, self.loss_times_rows + loss * rows
