"""MNIST and Fashion-MNIST: found, checked and made ready for training.

`mnist("train")` always has an answer.  It looks in `$MINIDP_DATA`, in the user's cache
(`~/.cache/minidp/mnist`), at the mirrors, and at last takes the 5,000 real digits that come with
minidp; `dataset.origin` says which it was.  `$MINIDP_OFFLINE=1` leaves the mirrors out.

Both splits always come from one place: the bundled test digits are *training* digits of the full
set, so a full training set tested on the bundled digits would look better than it is.  Therefore a
place in that list counts only if it has all four files, and damage there is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from minidp.data.archives import FASHION, MNIST, SIZES, SPLITS, Archive
from minidp.data.dataset import TensorDataset
from minidp.data.idx import Array, PathLike, read_idx
from minidp.data.locate import cache_folder, fetched, find, locate
from minidp.errors import DataError


class ImageDataset(TensorDataset):
    """Pictures with a class each: `dataset[i]` is (x: (1, h, w) float32, y: int64).

    x = (images / 255 - mean) / std, computed in float32 in this order, as torchvision does.
    `.images` uint8 (n, h, w) as they were, for plots; `.labels` int64 (n,), also as `.targets`;
    `.classes` names; `.origin` where they came from.
    """

    def __init__(self, images: Array, labels: Array, mean: float = 0.0, std: float = 1.0, *,
                 classes: tuple[str, ...], origin: str,
                 transform: Callable[..., Array] | None = None) -> None:  # fmt: skip
        pixels = images.astype(np.float32)
        pixels /= 255
        pixels -= mean
        pixels /= std
        super().__init__(pixels[:, None], labels.astype(np.int64), transform=transform)
        self.images, self.labels, self.targets = images, self.arrays[1], self.arrays[1]
        self.classes, self.origin = classes, origin

    def __repr__(self) -> str:
        return f"ImageDataset({len(self):,} images, {len(self.classes)} classes, {self.origin})"


def mnist(split: str = "train", source: PathLike | None = None, *, normalize: bool = True,
          transform: Callable[..., Array] | None = None,
          dataset: str = "mnist") -> ImageDataset:  # fmt: skip
    """The training or test digits as float32 (n, 1, 28, 28) with int64 labels.

    `source`: None (look everywhere, see above), a folder with the idx files, "bundled", or
    "download" (the full set: from the cache, else from the mirrors, else an error).
    `normalize`: (x / 255 - 0.1307) / 0.3081, else x / 255.  `transform`: applied to batches of x.
    `dataset`: "mnist" or "fashion".  Raises DataError, naming the file and what is wrong with it.

    Y. LeCun, C. Cortes, C. Burges: the MNIST database of handwritten digits (1998).
    """
    if split not in SPLITS:
        raise DataError(f"mnist: split is {split!r}; it has to be 'train' or 'test'")
    if dataset not in ("mnist", "fashion"):
        raise DataError(f"mnist: dataset is {dataset!r}; it has to be 'mnist' or 'fashion'")
    archive = MNIST if dataset == "mnist" else FASHION
    folder, images, labels = load(archive, split, source)
    mean, std = (archive.mean, archive.std) if normalize else (0.0, 1.0)
    origin = describe(archive, folder, split, len(images))
    return ImageDataset(images, labels, mean, std, classes=archive.classes, origin=origin,
                        transform=transform)  # fmt: skip


def fashion_mnist(split: str = "train", source: PathLike | None = None, *, normalize: bool = True,
                  transform: Callable[..., Array] | None = None) -> ImageDataset:  # fmt: skip
    """Fashion-MNIST (Xiao, Rasul, Vollgraf 2017, arXiv 1708.07747): `mnist` with clothes.

    None comes with minidp: where it is neither found nor fetched, a DataError says what to do.
    """
    return mnist(split, source, normalize=normalize, transform=transform, dataset="fashion")


def load(archive: Archive, split: str, source: PathLike | None) -> tuple[Path, Array, Array]:
    """(folder, images, labels) of a split; a damaged file in the cache is fetched anew."""
    folder = locate(archive, source)
    try:
        return folder, *read_pair(folder, split)
    except DataError as damage:
        if folder != cache_folder(archive):
            raise
        reason = fetched(archive, folder)
        if reason:
            raise DataError(f"{damage} It is in minidp's cache and was not fetched again "
                            f"({reason}). Delete {folder} to go without.") from None  # fmt: skip
    return folder, *read_pair(folder, split)


def read_pair(folder: Path, split: str) -> tuple[Array, Array]:
    """The images and labels of a split, checked against each other."""
    names = [f"{SPLITS[split]}-{kind}-ubyte" for kind in ("images-idx3", "labels-idx1")]
    paths = [find(folder, name) or folder / f"{name}.gz" for name in names]
    images, labels = read_idx(paths[0]), read_idx(paths[1])
    if images.dtype != np.uint8 or images.shape[1:] != (28, 28):
        raise DataError(f"{paths[0]}: holds {images.dtype} {images.shape}, not images, which are "
                        "uint8 (n, 28, 28)")  # fmt: skip
    if labels.dtype != np.uint8 or labels.ndim != 1 or labels.max(initial=0) > 9:
        raise DataError(f"{paths[1]}: holds {labels.dtype} {labels.shape}, not labels, which are "
                        "uint8 (n,) from 0 to 9")  # fmt: skip
    if len(images) != len(labels):
        raise DataError(f"{paths[0]} has {len(images):,} images, but {paths[1]} has "
                        f"{len(labels):,} labels: they do not belong together")  # fmt: skip
    return images, labels


def describe(archive: Archive, folder: Path, split: str, count: int) -> str:
    """What `origin` says."""
    if folder == archive.bundled:
        return f"bundled digits ({count:,} of {SIZES['train']:,}{HELD_OUT[split]})"
    return f"{archive.title} ({count:,} of {SIZES[split]:,}) from {folder}"


HELD_OUT = {"train": "", "test": " training digits, held out"}
