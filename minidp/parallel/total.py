"""Memory for the sum of a bucket's gradients, which is given away as ``Parameter.grad``."""

from __future__ import annotations

from sys import getrefcount

from minidp.backend import get_backend
from minidp.device import Device
from minidp.parallel.bucket import Bucket
from minidp.types import Array

KEPT = 3
"""How many pieces of memory are kept, one of which is used at a time."""


class Total:
    """Pieces of memory for one sum: lists of the flat array and the parameters' views of it.

    A piece that somebody has, by ``.grad`` or otherwise, is not used again before it is let go. So
    steps that leave gradients behind write to two pieces in turn, and nothing is copied, and
    nothing filled with zeros but once.
    """

    def __init__(self, bucket: Bucket, device: Device) -> None:
        self.bucket, self.device = bucket, device
        self._pool: list[list[Array]] = []
        self._unused = 0

    def taken(self) -> list[Array]:
        """A piece that nobody has."""
        return self.several(1)[0]

    def several(self, count: int) -> list[list[Array]]:
        """So many pieces that nobody has."""
        if not self._pool:
            self._unused = _uses(self._made())
        found = [piece for piece in self._pool if _uses(piece) == self._unused][:count]
        while len(found) < count:
            found.append(self._made())
        return found

    def _made(self) -> list[Array]:
        """New memory, which takes the place of the oldest if there is enough. What lies between
        parameters stays 0."""
        backend, bucket = get_backend(self.device.type), self.bucket
        flat = backend.zeros(bucket.size, bucket.dtype, self.device.index)
        piece = [flat, *bucket.views(flat)]
        del flat
        self._pool = [*self._pool[1 - KEPT :], piece]
        return piece


def _uses(piece: list[Array]) -> int:
    """How often something refers to a piece's arrays, and to the array that owns their memory,
    which views of views refer to."""
    owner = piece[0].base
    return sum(map(getrefcount, piece)) + (0 if owner is None else getrefcount(owner))
