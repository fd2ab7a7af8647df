"""Noise that is a function of the global row: it does not depend on how a batch is split."""

from typing import Any

import numpy as np

from minidp.op import op
from minidp.random import Key, words
from minidp.types import Array


@op("... -> ...", x=lambda g, constants: dropout(g, **constants))
def dropout(xp: Any, x: Array, p: float, key: Key, row: int, batch_dim: int | None) -> Array:
    """x / (1 - p) where a random word is at least p 2^32, else 0 (Srivastava et al. 2014).

    ``row`` is the global index of the first row along ``batch_dim``; with None the whole array
    is one row, 0. Linear in x, so it is its own derivative."""
    kept = _words(xp, x, key, row, batch_dim) >= xp.uint64(int(p * 2**32))
    scale = xp.asarray(1 / (1 - p) if p < 1 else 0, x.dtype)
    return xp.where(kept, x * scale, xp.zeros((), x.dtype))


@op("... -> ...")
def noise(xp: Any, x: Array, key: Key, row: int, batch_dim: int | None) -> Array:
    """Uniform random numbers between 0 and 1, neither included, one for each element of x."""
    found = (_words(xp, x, key, row, batch_dim) >> xp.uint32(9)) * 2.0**-23 + 2.0**-24
    return found.astype(x.dtype)


def _words(xp: Any, x: Array, key: Key, row: int, batch_dim: int | None) -> Array:
    """A random word for each element of x, by its place in its global row."""
    if batch_dim is None:
        return words(xp, key, 0, 1, x.size).reshape(x.shape)
    shape = xp.moveaxis(x, batch_dim, 0).shape
    count = int(np.prod(shape[1:], dtype=int))
    return xp.moveaxis(words(xp, key, row, shape[0], count).reshape(shape), 0, batch_dim)
