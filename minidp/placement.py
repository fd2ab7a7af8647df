"""From Python values to arrays, and from one device to another."""

from __future__ import annotations

from typing import Any

import numpy as np

from minidp.backend import CPU, backend_of, get_backend
from minidp.device import Device
from minidp.device import device as as_device
from minidp.errors import ArgumentError, DTypeError, ShapeError
from minidp.mode import mode
from minidp.promotion import dtype_of
from minidp.types import Array, DType, bool_, int64, promote


def as_array(values: Any, dtype: Any = None) -> Array:
    """Python numbers and nested sequences as an array of the dtype that all of them promote to,
    unless one is given; Python's floats count as the default dtype."""
    try:
        array = np.array(values)
    except ValueError as error:
        raise ShapeError(f"rows of unequal length make no tensor: {error}") from error
    if array.dtype.kind == "c":
        raise DTypeError("complex numbers make no tensor")
    if array.dtype == object:
        return array
    if dtype is None and array.dtype.kind == "f":
        dtype = promote(list(_dtypes(values)) or [mode.default_dtype])
    if dtype is None and array.dtype == np.uint64 and np.uint64 not in _dtypes(values):
        raise ArgumentError(f"{array.max()} does not fit into int64")
    return array if dtype is None else _fitted(array, np.dtype(dtype))


def _fitted(array: Array, dtype: Any) -> Array:
    """The values in another dtype: of reals without what is behind the point, too large ones as
    infinity; but no integer is changed."""
    with np.errstate(all="ignore"):
        result = array.astype(dtype, copy=False)
        lost = result.dtype.kind in "iu" and array.dtype.kind != "b" and np.trunc(array) != result
        if result.dtype.kind == "u" and array.dtype.kind == "i":  # -1 is the largest, as in C
            lost &= (array > 0) | (array <= -(2 ** (8 * result.dtype.itemsize)))
    if np.any(lost):
        value = array.reshape(-1)[np.argmax(lost)]
        raise ArgumentError(f"{value} does not fit into {result.dtype}")
    return result


PLAIN = {float: None, int: int64, bool: bool_}
"""The dtypes of Python's numbers; None: the default one."""


def _dtypes(values: Any) -> set[DType]:
    """The dtypes of numbers, tensors and arrays in nested sequences."""
    if not isinstance(values, (list, tuple)):
        return {dtype_of(values)}
    kinds = set(map(type, values))
    if kinds <= PLAIN.keys():  # the usual ones, without looking at each
        return {PLAIN[kind] or mode.default_dtype for kind in kinds}
    return set().union(*map(_dtypes, values))


def ordered_like(array: Array, like: Array) -> Array:
    """A dense array of one value with its axes in the order that those of ``like`` have in memory,
    if that is dense: so images stay channels-last."""
    order = sorted(range(like.ndim), key=lambda axis: -like.strides[axis])
    if not like.size or not like.transpose(order).flags.c_contiguous:
        return array
    return array.reshape([like.shape[axis] for axis in order]).transpose(np.argsort(order))


def beside(array: Array, other: Array) -> Array:
    """The array on the device where ``other`` is."""
    target = backend_of(other)
    if target is backend_of(array) is CPU:
        return array
    return place(array, Device(target.name, target.index(other)))


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
