"""Indexing under PyTorch's names: reading, and indexed assignment.

A key is read in two steps, as in PyTorch: first integers, slices, None and Ellipsis, which give a
view; then masks and index arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minidp.errors import DTypeError, PlaceError, ShapeError
from minidp.functions.inplace import take_over
from minidp.functions.layout import broadcast_to, ravel, reshape
from minidp.mode import aside, mode
from minidp.ops import index as ops
from minidp.ops.index import get, put, set_at
from minidp.ops.layout import copy
from minidp.placement import place
from minidp.tensor import Tensor, method

__all__ = ["index_put"]
WHOLE = slice(None)


def in_range(name: str, index: Any, size: int, low: int = 0) -> Any:
    """An index array or tensor as int64, a copy; an IndexError, also when a captured step is
    replayed, names a value outside of low .. size - 1."""
    if index.dtype.kind not in "iu":
        raise DTypeError(f"{name}: an index of {index.dtype}; expected integers")
    return ops.in_range(index, low=low, high=size, name=name)


def _part(part: Any, device: Any) -> Any:
    """One part of a key: a slice, None, Ellipsis, an int, or an array on ``device`` (masks are
    copies, since backward needs them)."""
    if part is None or part is ... or isinstance(part, slice) or type(part) is int:
        return part
    if isinstance(part, Tensor) and part.dtype == np.uint8:
        raise IndexError("an index of uint8: say .bool() for a mask, .long() for places")
    part = part if hasattr(part, "dtype") else np.asarray(part)
    if part.dtype.kind not in "biu":
        if 0 not in part.shape:
            raise IndexError(f"an index of {part.dtype}: expected integers, booleans or slices")
        part = np.zeros(part.shape, np.int64)  # an empty list
    mask = part.dtype.kind == "b"
    if part.ndim == 0 and not mask:
        return int(part)
    if isinstance(part, Tensor):
        return (copy(part) if mask else part.detach()).to(device).array
    return place(part.copy() if mask else part, device)


def _steps(self: Tensor, key: Any) -> tuple[Any, Any]:
    """A key as two keys: the view that is taken first, and what names places in it (or None)."""
    if type(key) in (int, slice) or key is None or key is ...:
        return (key, ...) if key is not ... else (key,), None
    parts = [_part(part, self.device) for part in (key if isinstance(key, tuple) else (key,))]
    widths = [p.ndim if is_mask(p) else int(p is not None and p is not ...) for p in parts]
    if not any(hasattr(part, "strides") for part in parts):
        return tuple(parts) if ... in parts else (*parts, ...), None  # not a bare number
    if sum(widths) > self.ndim:
        raise IndexError(f"{sum(widths)} indices for a tensor with {self.ndim} axes")
    rest = (WHOLE,) * (self.ndim - sum(widths))
    view, places, axis = [], [], 0
    for part, width in zip(parts, widths, strict=True):
        if hasattr(part, "strides"):
            places.append(_checked(part, self.shape[axis : axis + width], axis))
            view += [WHOLE] * width
        elif part is ...:
            view, places = [*view, *rest], [*places, *rest]
            axis += len(rest)
        else:
            view.append(part)
            places += [] if type(part) is int else [WHOLE]
        axis += width
    plain = all(part is WHOLE for part in view)
    return None if plain else tuple(view), places[0] if len(places) == 1 else tuple(places)


def is_mask(part: Any) -> bool:
    return hasattr(part, "dtype") and part.dtype.kind == "b"


def _checked(part: Any, shape: tuple[int, ...], axis: int) -> Any:
    if not is_mask(part):
        return in_range(f"x[...], axis {axis}", part, shape[0], -shape[0])
    if part.shape != shape:
        raise IndexError(f"a mask of shape {part.shape} for axes of {shape}, from axis {axis}")
    return part


@method("__getitem__")
def getitem(self: Tensor, key: Any) -> Tensor:
    """The elements that ``key`` names; slices give views, masks and index arrays copies."""
    if mode.watch is not None:  # a mask of the step decides on the shape of what it reads
        for part in key if isinstance(key, tuple) else (key,):
            if isinstance(part, Tensor) and is_mask(part):
                part._read()
    view, places = _steps(self, key)
    x = self if view is None else get(self, key=view)
    return x if places is None else get(x, key=places)


@method("__setitem__")
def setitem(self: Tensor, key: Any, value: Any) -> None:
    """Write ``value`` (broadcast, cast) where ``key`` says, in place. Recorded, the value gets the
    cotangent of its places, and what was there before gets 0."""
    write(self, key, value, "indexed assignment")


def write(self: Tensor, key: Any, value: Any, name: str) -> Tensor:
    """``setitem`` under the name that error messages give it."""
    mode.check_change(self)
    view, places = _steps(self, key)
    if value is None or isinstance(value, str):
        raise TypeError(f"{name}: a {type(value).__name__} is no value of a tensor")
    value = _without_ones(value)
    tracked = value.fresh().node if isinstance(value, Tensor) else None
    try:
        if mode.grad and (tracked is not None or self.requires_grad):
            return _assign(self, view, places, value, name)
        array = value.array if isinstance(value, Tensor) else value
        array = place(array, self.device) if getattr(array, "ndim", 0) else array
        aside(_put, self.array, view, places, array)
        self.changed()
        return self
    except OverflowError as error:
        raise DTypeError(f"{name}: {value} does not fit into {self.dtype}") from error
    except (IndexError, ValueError) as error:
        kind = PlaceError if isinstance(error, IndexError) else ShapeError
        raise kind(f"{name} in {self.shape}: {error}") from error


def _put(data: Any, view: Any, places: Any, array: Any) -> None:
    target = data if view is None or places is None else data[(*view, *[...] * (... not in view))]
    with np.errstate(all="ignore"):
        if type(array) is int and data.dtype.kind in "iu":
            array = np.asarray(array).astype(data.dtype)[()]  # wraps, where NumPy would refuse
        target[view if places is None else places] = array


def _without_ones(value: Any) -> Any:
    """A value without leading axes of length one: it may have more axes than its place."""
    if isinstance(value, (list, tuple)):
        if any(isinstance(each, Tensor) for each in value):
            raise TypeError("indexed assignment of a list of tensors: join them by stack() first")
        value = np.asarray(value)
    shape = getattr(value, "shape", ())
    ones = next((i for i, n in enumerate(shape) if n != 1), len(shape))
    return value.reshape(shape[ones:]) if ones else value


def _assign(self: Tensor, view: Any, places: Any, value: Any, name: str) -> Tensor:
    """Indexed assignment as ops: the part that the view names is changed and put back."""
    new = value if isinstance(value, Tensor) else Tensor(np.asarray(value, self.dtype))
    new = new.to(self.device).type(self.dtype)
    if places is not None:
        new = set_at(self if view is None else get(self, key=view), new, key=places)
    whole = places is not None and view is None
    return take_over(self, new if whole else set_at(self, new, key=view), name)


@method()
def fill_(self: Tensor, value: Any) -> Tensor:
    """Set every element, in place."""
    return write(self, ..., value, "fill_")


@method()
def zero_(self: Tensor) -> Tensor:
    """Set every element to 0, in place."""
    return write(self, ..., 0, "zero_")


@method()
def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Take over the values of ``src`` (broadcast, cast, from any device), in place."""
    if getattr(src, "ndim", 0) > self.ndim:
        raise ShapeError(f"copy_: values of {src.shape} into {self.shape}")
    return write(self, ..., src if hasattr(src, "ndim") else Tensor(np.asarray(src)), "copy_")


@method()
def index_put(input: Tensor, indices: Sequence[Any], values: Tensor, accumulate: bool = False
              ) -> Tensor:  # fmt: skip
    """x with ``values`` at x[indices], put there or (``accumulate``) added."""
    y = input.clone()
    key = tuple(indices)
    if not accumulate:
        y[key] = values
        return y
    places = Tensor(np.arange(y.numel()).reshape(y.shape)).to(y.device)[key]
    added = put(ravel(broadcast_to(values, places.shape)), shape=(y.numel(),),
                key=(ravel(places).array,))  # fmt: skip
    return y + reshape(added, y.shape)
