"""The idx format of the MNIST files: reading, checking, writing.

Big-endian: two zero bytes, one byte for the type, one for the number of axes, one uint32 per axis,
then the values in row-major order.  Images are magic number 2051 (uint8, 3 axes), labels 2049
(uint8, 1 axis).  Files may be plain or gzipped; which one is seen from the bytes, not the name.
"""

from __future__ import annotations

import gzip
import io
import math
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from minidp.errors import DataError

Array = npt.NDArray[Any]
PathLike = str | os.PathLike[str]

TYPES: dict[int, np.dtype[Any]] = {
    0x08: np.dtype(">u1"),
    0x09: np.dtype(">i1"),
    0x0B: np.dtype(">i2"),
    0x0C: np.dtype(">i4"),
    0x0D: np.dtype(">f4"),
    0x0E: np.dtype(">f8"),
}
LARGEST = 1 << 31  # bytes, uncompressed: a small gzip file can hold a very large nothing


def read_idx(path: PathLike) -> Array:
    """The array in the idx file `path` (plain or gzipped), in native byte order.

    Raises DataError where the file cannot be read, is cut off, or is something else.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None
    return parse_idx(unpack(data, path), path)


def write_idx(path: PathLike, array: Array) -> None:
    """Write `array` as an idx file, gzipped if the name ends in `.gz`.

    The same array gives the same bytes: the gzip header carries no time and no name.
    """
    data = format_idx(array)
    if Path(path).suffix == ".gz":
        packer = zlib.compressobj(9, zlib.DEFLATED, 31, 9)
        data = packer.compress(data) + packer.flush()
    Path(path).write_bytes(data)


def format_idx(array: Array) -> bytes:
    """The bytes of `array` in the idx format, not compressed."""
    codes = {kind.newbyteorder("="): code for code, kind in TYPES.items()}
    kind = array.dtype.newbyteorder("=")
    if kind not in codes:
        raise DataError(f"write_idx: dtype {kind} is not one of the format's: {list(codes)}")
    header = struct.pack(f">HBB{array.ndim}I", 0, codes[kind], array.ndim, *array.shape)
    return header + array.astype(TYPES[codes[kind]]).tobytes()


def unpack(data: bytes, name: PathLike) -> bytes:
    """`data` uncompressed if it is gzip, else as it is; `name` is for the error's text."""
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        raw = gzip.GzipFile(fileobj=io.BytesIO(data)).read(LARGEST + 1)
    except EOFError:
        raise broken(name, "its gzip stream ends early: the file was cut off") from None
    except (OSError, zlib.error) as error:
        raise broken(name, f"its gzip stream is damaged ({error})") from None
    if len(raw) > LARGEST:
        raise broken(name, f"it unpacks to more than {LARGEST:,} bytes")
    return raw


def parse_idx(data: bytes, name: PathLike) -> Array:
    """The array that the uncompressed idx bytes `data` describe; DataError where they do not."""
    check_magic(data, name)
    kind, start = TYPES[data[2]], 4 + 4 * data[3]
    if len(data) < start:
        raise broken(name, "it ends within its header: the file was cut off")
    shape = struct.unpack(f">{data[3]}I", data[4:start])
    expected = math.prod(shape) * kind.itemsize
    if len(data) - start != expected:
        raise broken(name, f"its header says shape {shape}, that is {expected:,} bytes, but "
                           f"{len(data) - start:,} bytes follow")  # fmt: skip
    try:
        values = np.frombuffer(data, kind, offset=start).reshape(shape)
    except ValueError as error:  # more axes than an array can have, or empty and absurdly wide
        raise broken(name, f"its header says shape {shape} ({error})") from None
    return values.astype(kind.newbyteorder("="))


def check_magic(data: bytes, name: PathLike) -> None:
    """Raise DataError unless `data` starts as an idx file does."""
    if data.lstrip()[:1] == b"<":
        raise broken(name, "it is a web page (an error page saved under this name?)")
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in TYPES:
        seen = data[:4].hex(" ") or "nothing"
        raise broken(name, f"it starts with {seen}, where an idx file has its magic number "
                           "(00 00 08 03 for images, 00 00 08 01 for labels)")  # fmt: skip


def broken(name: PathLike, what: str) -> DataError:
    """The error for a file that is not a sound idx file."""
    return DataError(f"{name}: not a sound idx file: {what}. Copy or download it again.")
