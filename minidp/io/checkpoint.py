"""Checkpoints: tensors as safetensors, everything else as JSON in the same file's header.

A file is written under a temporary name and renamed, so that a whole checkpoint is there at every
moment. Nothing is unpickled, and nothing in it depends on devices or on the number of replicas.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from minidp.backend import backend_of
from minidp.errors import CheckpointError
from minidp.tensor import Tensor
from minidp.types import Array

KEY = "minidp"


def save(obj: Any, f: str | os.PathLike[str] | BinaryIO) -> None:
    """Write tensors, numbers, strings, lists and dicts of them, nested as one likes, into a file of
    that name or into an open one."""
    from safetensors.numpy import save as to_bytes

    tensors: dict[str, Array] = {}
    tree = _described(obj, "", tensors)
    content = to_bytes(tensors, metadata={KEY: json.dumps(tree)})
    if isinstance(f, (str, os.PathLike)):
        write_whole(Path(f), content)
    else:
        f.write(content)


def load(
    f: str | os.PathLike[str] | BinaryIO, map_location: Any = None, *, weights_only: bool = True
) -> Any:
    """What ``save`` wrote, in host memory; a CheckpointError when the file is missing or damaged.

    ``map_location`` and ``weights_only`` are there for PyTorch's sake: nothing in a file is tied
    to a device, and nothing but values is ever loaded.
    """
    from safetensors import SafetensorError, safe_open

    if not isinstance(f, (str, os.PathLike)):
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder, "checkpoint")
            copy.write_bytes(f.read())
            return load(copy)
    try:
        with safe_open(os.fspath(f), framework="numpy") as file:
            header = (file.metadata() or {}).get(KEY)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError as error:
        raise CheckpointError(f"checkpoint {f}: there is no such file") from error
    except (OSError, SafetensorError, ValueError) as error:
        raise CheckpointError(f"checkpoint {f} is damaged or no checkpoint: {error}") from error
    if header is None:
        return {name: Tensor(array) for name, array in tensors.items()}
    return _rebuilt(json.loads(header), tensors)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that under its name there is always a whole one: the old or the new."""
    if path.exists() and not path.is_file():
        raise CheckpointError(f"{path} is no file: it is not written over")
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _described(value: Any, name: str, tensors: dict[str, Array]) -> Any:
    """``value`` as JSON, its tensors moved to ``tensors`` under dotted names."""
    if isinstance(value, (Tensor, np.ndarray)):
        array = value.array if isinstance(value, Tensor) else value
        tensors[name] = np.ascontiguousarray(backend_of(array).get(array))
        return {"tensor": name, "shape": list(array.shape)}
    if isinstance(value, dict):
        return {"dict": [[k, _described(v, _join(name, k), tensors)] for k, v in value.items()]}
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_described(v, _join(name, i), tensors) for i, v in enumerate(value)]}
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise CheckpointError(
        f"save: {name or 'the object'} is a {type(value).__name__}; a checkpoint holds tensors, "
        "numbers, strings, None, lists, tuples and dicts"
    )


def _join(name: str, key: Any) -> str:
    return f"{name}.{key}" if name else str(key)


def _rebuilt(tree: Any, tensors: dict[str, Array]) -> Any:
    if not isinstance(tree, dict):
        return tree
    if "tensor" in tree:
        return Tensor(tensors[tree["tensor"]].reshape(tree["shape"]))
    if "dict" in tree:
        return {k: _rebuilt(v, tensors) for k, v in tree["dict"]}
    if "list" in tree:
        return [_rebuilt(v, tensors) for v in tree["list"]]
    return tuple(_rebuilt(v, tensors) for v in tree["tuple"])
