"""Nested values as JSON, with the arrays among them apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from minidp.backend import backend_of
from minidp.errors import CheckpointError
from minidp.tensor import Tensor
from minidp.types import Array


def described(value: Any, name: str, tensors: dict[str, Array]) -> Any:
    """``value`` as JSON, its arrays moved to ``tensors`` under dotted names."""
    if isinstance(value, (Tensor, np.ndarray)):
        return _moved(value.array if isinstance(value, Tensor) else value, name, tensors)
    if isinstance(value, dict):
        return {"dict": [[_key(k, name), described(v, _join(name, k), tensors)]
                         for k, v in value.items()]}  # fmt: skip
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [described(v, _join(name, i), tensors) for i, v in enumerate(value)]}
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    hint = ": save its state_dict()" if hasattr(value, "state_dict") else ""
    raise CheckpointError(
        f"save: {name or 'the object'} is a {type(value).__name__}; a checkpoint holds tensors, "
        f"numbers, strings, None, lists, tuples and dicts{hint}"
    )


def _moved(array: Array, name: str, tensors: dict[str, Array]) -> dict[str, Any]:
    if array.dtype.kind not in "biuf":
        raise CheckpointError(
            f"save: {name or 'the array'} holds {array.dtype}; a checkpoint holds numbers"
        )
    while name in tensors:  # {"a.b": x, "a": {"b": y}}
        name += "'"
    tensors[name] = np.ascontiguousarray(backend_of(array).get(array))
    return {"tensor": name, "shape": list(array.shape)}


def _key(key: Any, name: str) -> Any:
    """A key of a dict, which comes back as it is."""
    key = key.item() if isinstance(key, np.generic) else key
    if key is None or isinstance(key, (bool, int, float, str)):
        return key
    raise CheckpointError(f"save: {name or 'the object'} has a key {key!r}; a checkpoint's dicts "
                          "have strings and numbers for keys")  # fmt: skip


def _join(name: str, key: Any) -> str:
    return f"{name}.{key}" if name else str(key)


def rebuilt(tree: Any, tensors: dict[str, Array]) -> Any:
    """What ``described`` was given, with Tensors for arrays."""
    if not isinstance(tree, dict):
        return tree
    if "tensor" in tree:
        return Tensor(tensors[tree["tensor"]].reshape(tree["shape"]))
    if "dict" in tree:
        return {k: rebuilt(v, tensors) for k, v in tree["dict"]}
    if "list" in tree:
        return [rebuilt(v, tensors) for v in tree["list"]]
    return tuple(rebuilt(v, tensors) for v in tree["tuple"])
