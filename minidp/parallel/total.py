"""Memory for the sum of a bucket's gradients, which native steps give away."""

from __future__ import annotations

from sys import getrefcount

import numpy as np

from minidp.parallel.bucket import Bucket
from minidp.types import Array

KEPT = 3
"""How many pieces of memory are kept, one of which is used at a time."""


class Total:
    """Pieces of memory for one sum: lists of the flat array and the parameters' views of it.

    A piece that somebody has, by ``.grad`` or otherwise, is not used again before it is let go. So
    steps that leave gradients behind write to two pieces in turn, and nothing is copied.
    """

    def __init__(self, bucket: Bucket) -> None:
        self.bucket, self._pool = bucket, list[list[Array]]()
        self._unused = sum(map(getrefcount, self._made()))

    def taken(self) -> list[Array]:
        """A piece that nobody has."""
        for piece in self._pool:
            if sum(map(getrefcount, piece)) == self._unused:
                return piece
        return self._made()

    def _made(self) -> list[Array]:
        """New memory, which takes the place of the oldest if there is enough. What lies between
        parameters stays 0."""
        flat = np.zeros(self.bucket.size, self.bucket.dtype)
        piece = [flat, *self.bucket.views(flat)]
        del flat
        self._pool = [*self._pool[1 - KEPT :], piece]
        return piece
