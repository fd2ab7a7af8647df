"""Transforms of whole batches (n, c, h, w); torchvision's names and arguments.

A random transform must not depend on how rows are cut into batches or spread over replicas.  So
its numbers belong to rows: for a key (seed, epoch, place in the pipeline), Philox fills a table
with one line per row of the data set, and a batch looks up the lines of its rows.  (A table is a
prefix of any longer one with the same key, so its length does not matter.)  It costs 8 bytes per
number and row, once an epoch, and no Python work per row.

J. Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (2011): Philox.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from minidp.errors import DataError, ShapeError

Array = npt.NDArray[Any]
Key = tuple[int, ...]
"""What randomness may depend on besides the row: (seed, epoch, ...)."""


class Transform:
    """A function of a batch; random ones also look at `rows`, the data set's row numbers."""

    def __call__(self, images: Array, rows: Array | None = None, key: Key = (0, 0)) -> Array:
        """The batch transformed; `rows` None: rows 0, 1, 2 ..."""
        return self.apply(images, np.arange(len(images)) if rows is None else rows, key)

    def apply(self, images: Array, rows: Array, key: Key) -> Array:
        """What a kind of transform does; never changes `images`."""
        raise NotImplementedError(f"{type(self).__name__} has no apply(images, rows, key)")


class Lambda(Transform):
    """Any function of a batch."""

    def __init__(self, lambd: Callable[..., Array]) -> None:
        self.lambd = lambd

    def apply(self, images: Array, rows: Array, key: Key) -> Array:
        result: Array = self.lambd(images)
        return result


class Compose(Transform):
    """One transform after another; plain functions of a batch may be among them."""

    def __init__(self, transforms: Sequence[Callable[..., Array]]) -> None:
        self.transforms = [as_transform(each) for each in transforms]

    def apply(self, images: Array, rows: Array, key: Key) -> Array:
        for place, transform in enumerate(self.transforms):
            images = transform.apply(images, rows, (*key, place))
        return images


class Normalize(Transform):
    """y = (x - mean) / std, one mean and std per channel (or one for all)."""

    def __init__(self, mean: float | Sequence[float], std: float | Sequence[float]) -> None:
        self.mean, self.std = (np.reshape(np.asarray(each, dtype=np.float64), (-1, 1, 1))
                               for each in (mean, std))  # fmt: skip
        if not self.std.all():
            raise DataError(f"Normalize: std is {std}; zero would divide by zero")

    def apply(self, images: Array, rows: Array, key: Key) -> Array:
        dtype = np.result_type(images.dtype, np.float32)
        centred: Array = np.subtract(images, self.mean.astype(dtype), dtype=dtype)
        centred /= self.std.astype(dtype)
        return centred


class Pad(Transform):
    """`padding` = pixels on all sides, or (left and right, top and bottom), or (l, t, r, b)."""

    def __init__(self, padding: int | Sequence[int], fill: float = 0) -> None:
        sides = (padding,) if isinstance(padding, int) else tuple(padding)
        if len(sides) not in (1, 2, 4):
            raise DataError(f"Pad: padding has {len(sides)} numbers; 1, 2 or 4 are understood")
        self.left, self.top, self.right, self.bottom = sides * (4 // len(sides))
        self.fill = fill

    def apply(self, images: Array, rows: Array, key: Key) -> Array:
        edges = ((0, 0), (0, 0), (self.top, self.bottom), (self.left, self.right))
        return np.pad(images, edges, constant_values=self.fill)


class RandomTransform(Transform):
    """A transform that draws `count` uniform numbers in [0, 1) for every row."""

    count = 1

    def __init__(self) -> None:
        self.tables: dict[Key, Array] = {}

    def draws(self, rows: Array, key: Key) -> Array:
        """(n, count) numbers, the same for a row and a key in whatever batch it comes."""
        table = self.tables.get(key, np.empty((0, self.count)))
        needed = int(rows.max(initial=-1)) + 1
        if len(table) < needed:
            longest = max((len(each) for each in self.tables.values()), default=0)
            table = uniform(key, max(needed, longest, 2 * len(table)), self.count)
            kept = {each: old for each, old in self.tables.items() if each[:2] == key[:2]}
            self.tables = {**kept, key: table}  # a new dict: loader threads may share a transform
        return np.take(table, rows, axis=0)


class RandomHorizontalFlip(RandomTransform):
    """Mirror each picture with probability `p`."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def apply(self, images: Array, rows: Array, key: Key) -> Array:
        flipped = self.draws(rows, key)[:, 0] < self.p
        result = images.copy()
        result[flipped] = images[flipped][..., ::-1]
        return result


class RandomCrop(RandomTransform):
    """A window of `size` (pixels, or (h, w)) anywhere in the picture, first padded if asked."""

    count = 2

    def __init__(self, size: int | Sequence[int], padding: int | Sequence[int] | None = None,
                 *, fill: float = 0) -> None:  # fmt: skip
        super().__init__()
        self.size = (size, size) if isinstance(size, int) else tuple(size)
        self.pad = Pad(0 if padding is None else padding, fill)

    def apply(self, images: Array, rows: Array, key: Key) -> Array:
        padded = self.pad.apply(images, rows, key)
        height, width = self.size
        if padded.shape[2] < height or padded.shape[3] < width:
            raise ShapeError(f"RandomCrop: size {self.size} does not fit into pictures of "
                             f"{padded.shape[2:]} (padding included): pad more")  # fmt: skip
        windows = sliding_window_view(padded, (height, width), axis=(2, 3))
        places = self.draws(rows, key) * windows.shape[2:4]
        top, left = places.astype(np.intp).T
        crops: Array = windows[np.arange(len(images)), :, top, left]
        return crops


def as_transform(function: Callable[..., Array]) -> Transform:
    """`function` if it is a Transform already, else a Lambda of it."""
    return function if isinstance(function, Transform) else Lambda(function)


def uniform(key: Key, rows: int, count: int) -> Array:
    """(rows, count) numbers in [0, 1), fixed by `key`; line r is the same for any `rows` > r."""
    seeds = np.random.SeedSequence([part % 2**64 for part in key])
    return np.random.Generator(np.random.Philox(seeds)).random((rows, count))
