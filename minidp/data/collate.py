"""From samples to a batch: stacking, and the one place where arrays become Tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from minidp.errors import DataError
from minidp.tensor import Tensor

Array = npt.NDArray[Any]


def host_array(values: Any) -> Array:
    """`values` (a Tensor, an array, nested lists) as a NumPy array, shared where possible."""
    if isinstance(values, Tensor):
        values = values.detach().numpy()
    array = np.asarray(values)
    if array.dtype.kind not in "biufc":
        raise DataError(f"a data set holds numbers, not {array.dtype} ({type(values).__name__})")
    return array


def wrap(batch: Any) -> Any:
    """The same structure with a Tensor around every array of numbers; nothing is copied."""
    if isinstance(batch, (np.ndarray, np.generic)):
        array = np.asarray(batch)
        return Tensor(array) if array.dtype.kind in "biufc" else batch
    if isinstance(batch, Mapping):
        return {name: wrap(part) for name, part in batch.items()}
    if isinstance(batch, tuple):
        return rebuilt(batch, [wrap(part) for part in batch])
    return batch


def default_collate(batch: Sequence[Any]) -> Any:
    """A batch of Tensors from a list of samples, as PyTorch's `default_collate`.

    Arrays, Tensors and numbers are stacked along a new first axis (Python numbers become int64 and
    float64), tuples, lists and mappings are collated part by part, strings stay a list.
    """
    return wrap(collate(batch))


def collate(samples: Sequence[Any]) -> Any:
    """`default_collate` with NumPy arrays in place of Tensors."""
    first = samples[0]
    if isinstance(first, (str, bytes)):
        return list(samples)
    if isinstance(first, (Tensor, np.ndarray, np.generic, bool, int, float, complex)):
        return stack([host_array(sample) for sample in samples])
    if isinstance(first, Mapping):
        return {name: collate([sample[name] for sample in samples]) for name in first}
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in samples):
            raise DataError(f"default_collate: samples have {len(first)} fields and others more or "
                            "fewer: give DataLoader a collate_fn")  # fmt: skip
        return rebuilt(first, [collate(field) for field in zip(*samples, strict=True)])
    raise DataError(f"default_collate: cannot batch samples of type {type(first).__name__}: "
                    "return arrays, numbers, tuples or dicts, or pass a collate_fn")  # fmt: skip


def stack(arrays: list[Array]) -> Array:
    """One array with a new first axis."""
    for array in arrays:
        if array.shape != arrays[0].shape:
            raise DataError(f"default_collate: samples of shapes {arrays[0].shape} and "
                            f"{array.shape} make no batch: pad them, or give DataLoader a "
                            "collate_fn")  # fmt: skip
    return np.stack(arrays)


def rebuilt(model: Any, parts: list[Any]) -> Any:
    """`parts` as a tuple, of the named kind if `model` is one."""
    return type(model)(*parts) if hasattr(model, "_fields") else tuple(parts)
