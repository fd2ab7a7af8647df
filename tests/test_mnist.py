"""The bundled digits, and folders that the user names."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
from pathlib import Path

import numpy as np
import pytest
from mnist_files import BUNDLED, NAMES, clean, put, small_set  # noqa: F401  (clean: autouse)

from minidp.data import DataLoader, fashion_mnist, mnist
from minidp.data.archives import MNIST
from minidp.data.idx import format_idx
from minidp.errors import DataError

TRAIN = "2c4f2d99948d389d1adc9268140243710c0f1a828636ab24e363c971e9089052"
TEST = "bcc7c2b462cc647665ca7e814986c769f309b7df4ec7a7a5b407f2642a7b6afb"


def test_bundled_digits():
    train, test = mnist("train", "bundled"), mnist("test", "bundled")
    assert train.origin == BUNDLED and "held out" in test.origin
    for data, each in ((train, 400), (test, 100)):
        assert data.images.dtype == np.uint8 and data.images.shape == (10 * each, 28, 28)
        assert np.bincount(data.labels).tolist() == [each] * 10
        assert data.labels.dtype == np.int64 and data.targets is data.labels
        assert (np.diff(data.labels) != 0).mean() > 0.8  # not sorted by class
    pictures = {image.tobytes() for data in (train, test) for image in data.images}
    assert len(pictures) == 5000
    assert abs(train.images.mean() / 255 - MNIST.mean) < 0.003
    assert sum(path.stat().st_size for path in MNIST.bundled.glob("*")) < 900_000


@pytest.mark.parametrize("split, digest", [("train", TRAIN), ("test", TEST)])
def test_bundled_digits_are_the_ones_the_script_makes(split, digest):
    path = Path(__file__).parent / "tools" / "make_mnist_subset.py"
    spec = importlib.util.spec_from_file_location("make_mnist_subset", path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    labels, data = np.repeat(np.arange(10), 500), mnist(split, "bundled")
    rows = script.split(labels)[{"train": "train", "test": "t10k"}[split]]
    assert (labels[rows] == data.labels).all()
    content = data.images.tobytes() + data.labels.astype(np.uint8).tobytes()
    assert hashlib.sha256(content).hexdigest() == digest


def test_scaling_and_transform():
    plain, normal = mnist("test", "bundled", normalize=False), mnist("test", "bundled")
    x, y = plain.arrays
    assert x.dtype == np.float32 and x.shape == (1000, 1, 28, 28) and y.dtype == np.int64
    assert x.min() == 0 and x.max() == 1
    assert np.allclose(normal.arrays[0], (x - 0.1307) / 0.3081, atol=1e-6)
    negative = mnist("test", "bundled", transform=np.negative)
    assert (next(iter(DataLoader(negative, 3)))[0].array == -normal.arrays[0][:3]).all()


@pytest.mark.parametrize("arguments", [("valid",), ("train", "bundled", "x")])
def test_unknown_names(arguments):
    with pytest.raises(DataError, match="has to be"):
        mnist(*arguments[:2], dataset="kmnist" if len(arguments) > 2 else "mnist")


# --- a folder that was given


@pytest.mark.parametrize("below", ["", "mnist", "MNIST/raw"])
@pytest.mark.parametrize("form", ["gzipped", "plain", "dotted"])
def test_given_folder(tmp_path, below, form):
    files = small_set()
    if form != "gzipped":
        files = {name[:-3]: gzip.decompress(data) for name, data in files.items()}
    if form == "dotted":
        files = {name.replace("-idx", ".idx"): data for name, data in files.items()}
    put(tmp_path / "data" / below, files)
    assert len(mnist("train", tmp_path / "data")) == 20
    assert str(tmp_path) in mnist("test", str(tmp_path / "data")).origin


def other_length(files):
    files[NAMES[1]] = gzip.compress(format_idx(np.zeros(19, np.uint8)))


def swapped(files):
    files[NAMES[0]], files[NAMES[1]] = files[NAMES[1]], files[NAMES[0]]


def high_labels(files):
    files[NAMES[1]] = gzip.compress(format_idx(np.full(20, 11, np.uint8)))


def cut_off(files):
    files[NAMES[0]] = files[NAMES[0]][:3000]


def page(files):
    files[NAMES[1]] = b"<html>captive portal</html>"


def no_labels(files):
    del files[NAMES[1]]


def nothing(files):
    files.clear()


BAD = [(other_length, "20 images, but .* 19 labels"), (swapped, "not images"),
       (high_labels, "not labels"), (cut_off, "ends early"), (page, "web page"),
       (no_labels, "cannot be read"), (nothing, "no MNIST there")]  # fmt: skip


@pytest.mark.parametrize("spoil, text", BAD)
def test_bad_given_folder_is_one_clear_error(tmp_path, spoil, text):
    files = small_set()
    spoil(files)
    folder = put(tmp_path / "data", files)
    with pytest.raises(DataError, match=text) as caught:
        mnist("train", folder)
    assert str(folder) in str(caught.value) and "\n" not in str(caught.value)
    assert caught.value.__cause__ is None
    with pytest.raises(DataError):
        mnist("train", tmp_path / "absent")


def test_environment_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("MINIDP_DATA", str(put(tmp_path / "data" / "mnist", small_set()).parent))
    assert len(mnist()) == 20 and str(tmp_path / "data" / "mnist") in mnist().origin
    (tmp_path / "data" / "mnist" / NAMES[3]).unlink()
    with pytest.raises(DataError, match=r"MINIDP_DATA.*lacks t10k-labels"):
        mnist()
    monkeypatch.setenv("MINIDP_DATA", str(tmp_path))  # nothing of MNIST there: look elsewhere
    assert mnist().origin == BUNDLED
    monkeypatch.setenv("MINIDP_DATA", str(tmp_path / "absent"))
    with pytest.raises(DataError, match="MINIDP_DATA"):
        mnist()


def test_environment_folder_does_not_take_digits_for_clothes(monkeypatch, tmp_path):
    monkeypatch.setenv("MINIDP_DATA", str(put(tmp_path / "data", small_set())))
    assert len(mnist()) == 20
    with pytest.raises(DataError, match="not on this machine"):
        fashion_mnist()
