"""Transforms of batches: what they do, and that chance belongs to rows, not to batches."""

from __future__ import annotations

import numpy as np
import pytest

from minidp.data import (
    Compose,
    DataLoader,
    Lambda,
    Normalize,
    Pad,
    RandomCrop,
    RandomHorizontalFlip,
    Subset,
    TensorDataset,
)
from minidp.errors import ShapeError


def pictures(count: int) -> np.ndarray:
    return np.arange(count * 2 * 6 * 5, dtype=np.float32).reshape(count, 2, 6, 5)


def test_normalize_pad_lambda_compose():
    x = pictures(3)
    y = Compose([Normalize((1.0, 2.0), (2.0, 4.0)), lambda images: images + 1])(x)
    assert y.dtype == np.float32
    assert np.allclose(y[:, 0], (x[:, 0] - 1) / 2 + 1)
    assert np.allclose(y[:, 1], (x[:, 1] - 2) / 4 + 1)
    assert Pad(1)(x).shape == (3, 2, 8, 7) and Pad((1, 0))(x).shape == (3, 2, 6, 7)
    padded = Pad((1, 2, 3, 4), fill=9)(x)
    assert padded.shape == (3, 2, 12, 9) and padded[0, 0, 0, 0] == 9
    assert (padded[:, :, 2:8, 1:6] == x).all()
    assert (Lambda(np.negative)(x) == -x).all()
    assert (x == pictures(3)).all()


def test_flip_mirrors_about_p_of_the_rows():
    x = pictures(1000)
    y = RandomHorizontalFlip(0.3)(x)
    flipped = (y == x[..., ::-1]).all(axis=(1, 2, 3))
    kept = (y == x).all(axis=(1, 2, 3))
    assert (flipped | kept).all() and 240 < flipped.sum() < 360
    assert (RandomHorizontalFlip(1.0)(x) == x[..., ::-1]).all()
    assert (RandomHorizontalFlip(0.0)(x) == x).all()


def test_crop_takes_every_window_and_only_windows():
    x = np.broadcast_to(pictures(1), (500, 2, 6, 5)).copy()
    y = RandomCrop((4, 3), padding=1)(x)
    padded = np.pad(x[0], ((0, 0), (1, 1), (1, 1)))
    windows = {padded[:, i : i + 4, j : j + 3].tobytes() for i in range(5) for j in range(5)}
    assert y.shape == (500, 2, 4, 3) and {each.tobytes() for each in y} == windows
    with pytest.raises(ShapeError, match="does not fit"):
        RandomCrop(9)(x)


def augmented(shuffle: bool, size: int, epoch: int, seed: int = 0, count: int = 60) -> dict:
    transform = Compose([RandomCrop(5, padding=2), RandomHorizontalFlip()])
    images = np.tile(pictures(1), (count, 1, 1, 1))
    data = TensorDataset(images, np.arange(count), transform=transform)
    loader = DataLoader(data, size, shuffle, seed=seed)
    loader.epoch = epoch
    return {int(i): x.tobytes() for xs, rows in loader for x, i in zip(xs.array, rows.array)}


def test_random_transforms_belong_to_rows_and_epochs():
    reference = augmented(False, 60, 1)
    assert len(set(reference.values())) > 20
    assert augmented(False, 7, 1) == reference == augmented(True, 13, 1)
    assert augmented(False, 60, 2) != reference != augmented(False, 60, 1, seed=1)
    longer = augmented(True, 13, 1, count=90)  # more rows do not change those there were
    assert all(longer[row] == picture for row, picture in reference.items())


def test_a_subset_draws_what_its_rows_draw():
    data = TensorDataset(pictures(30), transform=RandomCrop(3))
    rows = np.array([21, 4, 9])
    part = DataLoader(Subset(data, rows), 3).load(np.arange(3), epoch=5)
    assert (part[0].array == DataLoader(data).load(rows, epoch=5)[0].array).all()


def test_the_same_transform_twice_draws_twice():
    flip = RandomHorizontalFlip()
    once, twice = flip(pictures(100)), Compose([flip, flip])(pictures(100))
    assert (twice != pictures(100)).any() and (twice != once).any()
