"""Where reading stands: between two batches of an epoch."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from minidp.errors import DataError

Array = npt.NDArray[Any]
State = dict[str, Any]


@dataclass(frozen=True)
class Position:
    """The place before batch ``batch`` of epoch ``epoch``, which is over if it ``ended``.

    ``order``: a checksum of the epoch's row numbers, where they are known; ``sampler``: the state
    of the loader's sampler before it drew them.
    """

    epoch: int = 0
    batch: int = 0
    ended: bool = False
    order: int | None = None
    sampler: State | None = None

    def settled(self) -> Position:
        """The beginning of the next epoch in place of the end of this one."""
        return Position(self.epoch + 1) if self.ended else self


def behind(start: Position, batches: Sequence[Array],
           sampler: State | None) -> Iterator[tuple[Array, Position]]:  # fmt: skip
    """Each batch of row numbers from ``start`` on, with the position behind it.

    Raises DataError if the epoch's rows are not those of which ``start`` has the checksum.
    """
    order = checksum(batches)
    if start.order not in (None, order):
        raise DataError(
            f"DataLoader: epoch {start.epoch} was left after {start.batch} batch(es), and now has "
            "its rows in another order: a sampler has to give the same rows again to go on midway"
        )
    return (
        (rows, Position(start.epoch, number, number == len(batches), order, sampler))
        for number, rows in enumerate(batches[start.batch :], start.batch + 1)
    )


def checksum(batches: Sequence[Array]) -> int:
    """A number that tells the rows of one epoch, in their order, from those of another."""
    rows = np.concatenate([np.asarray(each, "<i8") for each in batches] or [np.empty(0, "<i8")])
    return zlib.crc32(rows.tobytes())
