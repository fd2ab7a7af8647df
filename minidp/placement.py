"""From Python values to arrays, and from one device to another."""

from __future__ import annotations

from typing import Any

import numpy as np

from minidp.backend import backend_of, get_backend
from minidp.device import device as as_device
from minidp.errors import DTypeError
from minidp.mode import mode
from minidp.types import Array


def as_array(values: Any, dtype: Any = None) -> Array:
    """Python numbers and nested sequences as an array; floats in the default dtype unless given."""
    try:
        array = np.array(values)
    except ValueError as error:
        raise DTypeError(f"rows of unequal length make no tensor: {error}") from error
    if dtype is not None and array.dtype != object:
        return _fitted(array, np.dtype(dtype))
    if array.dtype == np.float64 and not _holds_arrays(values):
        return _fitted(array, mode.default_dtype)
    return array


def _fitted(array: Array, dtype: Any) -> Array:
    """The values in another dtype: of reals without what is behind the point, too large ones as
    infinity; but no integer is changed."""
    with np.errstate(all="ignore"):
        result = array.astype(dtype, copy=False)
        lost = result.dtype.kind in "iu" and array.dtype.kind != "b" and np.trunc(array) != result
    if np.any(lost):
        value = array.reshape(-1)[np.argmax(lost)]
        raise ValueError(f"{value} does not fit into {result.dtype}")
    return result


def _holds_arrays(values: Any) -> bool:
    """Whether float64 comes from NumPy values rather than from Python floats."""
    while isinstance(values, (list, tuple)) and values:
        values = values[0]
    return hasattr(values, "dtype")


def ordered_like(array: Array, like: Array) -> Array:
    """A dense array of one value with its axes in the order that those of ``like`` have in memory,
    if that is dense: so images stay channels-last."""
    order = sorted(range(like.ndim), key=lambda axis: -like.strides[axis])
    if not like.size or not like.transpose(order).flags.c_contiguous:
        return array
    return array.reshape([like.shape[axis] for axis in order]).transpose(np.argsort(order))


def place(array: Array, device: Any) -> Array:
    """The array on ``device``; None: on the running replica's device, or the default one if one
    was set, or where it is."""
    if device is None:
        device = mode.default_device if mode.replica is None else mode.replica.device
        if device is None or device.type == "cpu":
            return array
    target = as_device(device)
    source = backend_of(array)
    if source.name == target.type and (target.type == "cpu" or source.index(array) == target.index):
        return array
    if source.name == target.type:
        return source.move(array, target.index)
    return get_backend(target.type).put(source.get(array), target.index)
