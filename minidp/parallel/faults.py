"""Faults made on purpose, for tests and lessons: see ``dp.testing.inject``."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from minidp.errors import ReplicaError
from minidp.mode import mode
from minidp.parallel.communicator import Sum
from minidp.types import Array

if TYPE_CHECKING:
    from minidp.parallel.exchange import Exchange

PLACES = ("loader", "forward", "bucket", "update")
KINDS = ("raise", "delay", "nan", "drop")


class InjectedFault(ReplicaError):
    """A fault that was asked for."""


@dataclass
class Fault:
    """One fault: what ``kind``, in which replica and step (counted from 1), at which place."""

    kind: str
    replica: int
    step: int
    at: str
    bucket: int = 0
    seconds: float = 0.0
    error: BaseException | None = None
    happened: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS or self.at not in PLACES:
            raise ValueError(
                f"inject({self.kind!r}, at={self.at!r}): kinds are {', '.join(KINDS)}, places are "
                f"{', '.join(PLACES)}"
            )
        if self.bucket and self.at != "bucket":
            raise ValueError(f"inject(bucket={self.bucket}, at={self.at!r}): only at='bucket'")
        if self.kind in ("nan", "drop") and self.at != "bucket":
            raise ValueError(f"inject({self.kind!r}, at={self.at!r}): only at='bucket'")

    def meets(self, replica: int, step: int, at: str, bucket: int) -> bool:
        """Whether this is the moment."""
        if (self.step, self.at) != (step, at):
            return False  # any replica may ask the loader
        return at == "loader" or (self.replica, self.bucket) == (replica, bucket)

    def happen(self, gradient: Array | None) -> bool:
        """Do it; returns whether a bucket is to be dropped."""
        self.happened = True
        if self.kind == "raise":
            where = f"replica {self.replica}, step {self.step}, {self.at}"
            raise self.error or InjectedFault(f"an injected fault: {where}")
        if self.kind == "delay":
            time.sleep(self.seconds)
        elif self.kind == "nan" and gradient is not None:
            gradient[:1] = np.nan
        return self.kind == "drop"


def meet(replica: int, step: int, at: str, bucket: int = 0, gradient: Array | None = None) -> bool:
    """Let the faults of this moment happen; returns whether a bucket is to be dropped."""
    due = [fault for fault in mode.faults if fault.meets(replica, step, at, bucket)]
    dropped = [fault.happen(gradient) for fault in due]
    return any(dropped)


class DroppedSum(Sum):
    """The sum of a bucket that this replica does not give: nobody ever gets it."""

    def __init__(self, exchange: Exchange, rank: int, name: str) -> None:
        self.exchange, self.rank, self.name = exchange, rank, name

    def slice(self) -> Any:
        self.exchange.wait(self.rank, lambda: False, f"{self.name}, which it dropped", list)

    def wait(self) -> Any:
        return self.slice()
