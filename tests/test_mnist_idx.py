"""The idx format: round trips, and each way in which a file can be no idx file."""

from __future__ import annotations

import gzip
from contextlib import suppress

import numpy as np
import pytest

from minidp.data import read_idx, write_idx
from minidp.data.idx import format_idx
from minidp.errors import DataError


@pytest.mark.parametrize("dtype", ["u1", "i1", "i2", "i4", "f4", "f8"])
@pytest.mark.parametrize("shape", [(3,), (2, 3, 4), (0, 5), ()])
@pytest.mark.parametrize("name", ["x-ubyte", "x-ubyte.gz"])
def test_idx_round_trip(tmp_path, dtype, shape, name):
    array = np.random.default_rng(0).normal(0, 50, shape).astype(np.int8).astype(dtype)
    write_idx(tmp_path / name, array)
    back = read_idx(tmp_path / name)
    assert back.dtype == array.dtype and back.dtype.isnative and back.flags.writeable
    assert back.shape == array.shape and (back == array).all()


def test_idx_bytes_are_the_known_ones_and_reproducible(tmp_path):
    array = np.array([[258, -1]], dtype=np.int16)
    assert format_idx(array).hex() == "00000b0200000001000000020102ffff"
    for name in ("a.gz", "b.gz"):
        write_idx(tmp_path / name, np.arange(100, dtype=np.uint8))
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert (tmp_path / "a.gz").read_bytes()[4:8] == bytes(4)
    with pytest.raises(DataError, match="int64"):
        write_idx(tmp_path / "c", np.arange(3))


PLAIN = format_idx(np.arange(24, dtype=np.uint8).reshape(2, 3, 4))
PACKED = gzip.compress(PLAIN, mtime=0)
FAULTS = {
    "empty": (b"", "starts with nothing"),
    "web page": (b"\n<!DOCTYPE html><html>404</html>", "web page"),
    "gzipped web page": (gzip.compress(b"<html></html>"), "web page"),
    "magic": (b"PK\x03\x04" + PLAIN, "starts with 50 4b 03 04"),
    "type": (b"\0\0\x07\x01\0\0\0\x01\0", "magic number"),
    "header cut": (PLAIN[:9], "within its header"),
    "cut": (PLAIN[:-1], "24 bytes, but 23 bytes follow"),
    "too long": (PLAIN + b"\0", "24 bytes, but 25 bytes follow"),
    "gzip cut": (PACKED[:-9], "ends early"),
    "gzip header cut": (PACKED[:5], "ends early"),
    "gzip damaged": (PACKED[:-8] + b"12345678", "damaged"),
    "gzip flipped": (PACKED[:12] + b"\xff\xff\xff" + PACKED[15:], "damaged"),
    "too many axes": (b"\0\0\x08\x46" + bytes(4 * 70), "header says"),
}


@pytest.mark.parametrize("data, text", FAULTS.values(), ids=FAULTS)
def test_faulty_idx_files_are_named_with_their_fault(tmp_path, data, text):
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(data)
    with pytest.raises(DataError, match=text) as caught:
        read_idx(path)
    assert str(path) in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_no_idx_bytes_raise_anything_else(tmp_path):
    random = np.random.default_rng(1)
    for base in (PLAIN, PACKED):
        for _ in range(150):
            data = bytearray(base[: random.integers(len(base) + 1)])
            for place in random.integers(0, max(len(data), 1), 2):
                data[place : place + 1] = bytes([random.integers(256)])
            (tmp_path / "x").write_bytes(data)
            with suppress(DataError):
                read_idx(tmp_path / "x")
    with pytest.raises(DataError, match="cannot be read"):
        read_idx(tmp_path)
