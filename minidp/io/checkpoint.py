"""Checkpoints: tensors as safetensors, everything else as JSON in the same file's header.

Under a checkpoint's name there is a whole one at every moment (``minidp.io.whole``), a checksum
tells when one is no longer what was written, and nothing is unpickled. What is in it depends
neither on devices nor on the number of replicas; the header says where it was written.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from minidp.errors import CheckpointError, MissingError
from minidp.io.origin import Origin, origin
from minidp.io.tree import described, rebuilt
from minidp.io.whole import write_whole
from minidp.tensor import Tensor
from minidp.types import Array

TREE, ORIGIN, CHECKSUM = "minidp", "origin", "sha256"
File = str | os.PathLike[str] | BinaryIO


def save(obj: Any, f: File) -> None:
    """Write tensors, numbers, strings, lists and dicts of them, nested as one likes, into a file of
    that name or into an open one."""
    content = as_bytes(obj)
    if isinstance(f, (str, os.PathLike)):
        write_whole(Path(f), content)
    else:
        f.write(content)


def as_bytes(obj: Any) -> bytes:
    """The content of a checkpoint."""
    from safetensors.numpy import save as to_bytes

    tensors: dict[str, Array] = {}
    header = {TREE: json.dumps(described(obj, "", tensors)), ORIGIN: json.dumps(origin())}
    return _in_order(to_bytes(tensors, {**header, CHECKSUM: checksum(header, tensors)}))


def _in_order(content: bytes) -> bytes:
    """The same file, with the texts of its header in order: equal states make equal files."""
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # so that values stay aligned
    return len(text).to_bytes(8, "little") + text + content[8 + size :]


def load(f: File, map_location: Any = None, *, weights_only: bool = True) -> Any:
    """What ``save`` wrote, in host memory; a CheckpointError when the file is missing or damaged.

    ``map_location`` and ``weights_only`` are there for PyTorch's sake: nothing in a file is tied
    to a device, and nothing but values is ever loaded.
    """
    return load_with_origin(f)[0]


def load_with_origin(f: File) -> tuple[Any, Origin]:
    """What ``save`` wrote, and where: versions, processor and threads, by name."""
    if not isinstance(f, (str, os.PathLike)):
        if not hasattr(f, "read"):
            raise CheckpointError(f"load({f!r}): expected the name of a file, or an open one")
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder, "checkpoint")
            copy.write_bytes(f.read())
            return load_with_origin(copy)
    header, tensors = _read(f)
    if not {TREE, CHECKSUM} & header.keys():  # not written by ``save``
        return {name: Tensor(array) for name, array in tensors.items()}, {}
    _check(f, header, tensors)
    try:
        return rebuilt(json.loads(header[TREE]), tensors), json.loads(header.get(ORIGIN, "{}"))
    except (KeyError, ValueError, TypeError, RecursionError) as error:
        raise CheckpointError(f"checkpoint {f} is damaged: {error!r}") from error


def _read(f: str | os.PathLike[str]) -> tuple[dict[str, str], dict[str, Array]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(os.fspath(f), framework="numpy") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return file.metadata() or {}, tensors
    except FileNotFoundError as error:
        raise MissingError(f"checkpoint {f}: there is no such file") from error
    except (OSError, SafetensorError, ValueError) as error:
        raise CheckpointError(f"checkpoint {f} is damaged or no checkpoint: {error}") from error


def _check(f: Any, header: dict[str, str], tensors: dict[str, Array]) -> None:
    """Refuse a file that is not what was written. (One without checksum is older than those.)"""
    told = {name: text for name, text in header.items() if name != CHECKSUM}
    if header.keys() != {TREE} and header.get(CHECKSUM) != checksum(told, tensors):
        raise CheckpointError(
            f"checkpoint {f} is damaged: its bytes are not those that were written (checksum)"
        )


def checksum(header: dict[str, str], tensors: dict[str, Array]) -> str:
    """SHA-256 of all that a file says: texts, names, dtypes, shapes and values."""
    digest = hashlib.sha256(json.dumps(sorted(header.items())).encode())
    for name, array in sorted(tensors.items()):
        digest.update(f"{name} {array.dtype.name} {array.shape}".encode())
        digest.update(array.reshape(-1).view(np.uint8))
    return digest.hexdigest()
