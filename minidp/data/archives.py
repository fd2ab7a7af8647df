"""What is known of each set of idx files: its names, mirrors, checksums and statistics.

Checksums are md5 of the *uncompressed* bytes: the same files are found packed in different ways.
They guard against damage, not against an adversary.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Archive:
    """A data set of four idx files: images and labels, for training and for testing.

    `folders`: where it may lie below a data folder; `system`: where a distribution puts it;
    `bundled`: a subset of it that comes with minidp, or None; `mean`, `std`: of all training
    pixels, scaled to [0, 1].
    """

    name: str
    title: str
    folders: tuple[str, ...]
    mirrors: tuple[str, ...]
    md5: dict[str, str]
    mean: float
    std: float
    classes: tuple[str, ...]
    system: Path | None = None
    bundled: Path | None = None


SPLITS = {"train": "train", "test": "t10k"}
SIZES = {"train": 60_000, "test": 10_000}  # rows of the full sets
FILES = tuple(f"{prefix}-{kind}-ubyte" for prefix in SPLITS.values()
              for kind in ("images-idx3", "labels-idx1"))  # fmt: skip

CLOTHES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
           "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")  # fmt: skip

MNIST = Archive(
    name="mnist",
    title="MNIST",
    folders=("mnist", "MNIST/raw"),
    mirrors=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    md5={
        "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
        "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
        "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
        "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
    },
    mean=0.1307,
    std=0.3081,
    classes=("0", "1", "2", "3", "4", "5", "6", "7", "8", "9"),
    bundled=Path(__file__).parent / "mnist_digits",
)

FASHION = Archive(
    name="fashion-mnist",
    title="Fashion-MNIST",
    folders=("fashion-mnist", "FashionMNIST/raw"),
    mirrors=("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
    md5={
        "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
        "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
        "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
    },
    mean=0.2860,
    std=0.3530,
    classes=CLOTHES,
    system=Path("/usr/share/datasets/fashion-mnist"),
)
