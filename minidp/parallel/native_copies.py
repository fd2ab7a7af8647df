"""Two replicas of a small model work apart: each updates a copy of all parameters of its own.

Where each updates a half, as others do, parameters go from core to core as well as gradients, and
replicas meet twice. Here they meet once, each adds all gradients of both, in the same order, and
updates all, so that both have the same bytes. That is twice the arithmetic, which is little.
"""

from __future__ import annotations

from collections.abc import Sequence

from minidp.backend import CPU
from minidp.parallel.ends import BucketEnd
from minidp.types import Array

NEAR = 2**17
"""Bytes of parameters up to which that is less: all that is read stays in the second cache."""


def apart(ends: Sequence[Sequence[BucketEnd]]) -> bool:
    """Whether the replicas that have these ends work so."""
    return len(ends) == 2 and near(ends[0])


def near(own: Sequence[BucketEnd]) -> bool:
    """Whether a replica's parameters are so few."""
    return sum(int(end.memory.data.nbytes) for end in own) <= NEAR


def zeros(end: BucketEnd) -> Array:
    """Memory like a bucket's."""
    found: Array = CPU.zeros(end.bucket.size, end.bucket.dtype, 0)
    return found


class Copies:
    """A replica's own copies of what all update alike; the first one has none: what it updates is
    the optimiser's."""

    def __init__(self, own: bool) -> None:
        self._own = own
        self._made: dict[int, tuple[Array, Array]] = {}

    def of(self, array: Array) -> Array:
        """What this replica has in place of a flat array: always the same."""
        place = array.ctypes.data
        if self._own and place not in self._made:
            self._made[place] = CPU.zeros(array.size, array.dtype, 0), array
        return self._made[place][0] if self._own else array

    def behind(self, array: Array) -> int:
        """How many bytes behind some array is what takes its place, if it lies in what is copied: a
        step may also read parameters that it takes for constants."""
        place = array.ctypes.data
        return next((copy.ctypes.data - first for first, (copy, _) in self._made.items()
                     if first <= place < first + copy.nbytes), 0)  # fmt: skip

    def renew(self) -> None:
        """Take over what has changed elsewhere."""
        for copy, array in self._made.values():
            copy[...] = array
