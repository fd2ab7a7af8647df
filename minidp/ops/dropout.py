"""Dropout whose mask is a function of the global row: it does not depend on the split."""

from __future__ import annotations

from typing import Any

import numpy as np

from minidp.op import op
from minidp.random import Key, words
from minidp.types import Array


@op("... -> ...",
    x=lambda g, p, key, row, batch_dim: dropout(g, p, key, row, batch_dim))  # fmt: skip
def dropout(xp: Any, x: Array, p: float, key: Key, row: int, batch_dim: int | None) -> Array:
    """x / (1 - p) where a random word is at least p 2^32, else 0 (Srivastava et al. 2014).

    ``row`` is the global index of the first row along ``batch_dim``; with None the whole array
    is one row, 0. Linear in x, so it is its own derivative.
    """
    axis = 0 if batch_dim is None else batch_dim
    moved = x.reshape(1, -1) if batch_dim is None else xp.moveaxis(x, axis, 0)
    rows, count = moved.shape[0], int(np.prod(moved.shape[1:], dtype=int))
    kept = words(xp, key, row, rows, count) >= xp.uint64(int(p * 2**32))
    kept = kept.reshape(moved.shape)
    kept = kept.reshape(x.shape) if batch_dim is None else xp.moveaxis(kept, 0, axis)
    scale = xp.asarray(1 / (1 - p) if p < 1 else 0, x.dtype)
    return xp.where(kept, x * scale, xp.zeros((), x.dtype))
