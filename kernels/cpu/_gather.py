"""Notes of reading places that are named by arrays of numbers: x[i], x[:, i, j]."""

import numpy as np

from ._loops import gather


def note_gather(notes, x, key, y):
    """y = x[key]: each element lies some bytes behind the first place that slices leave.

    Numbers are looked at natively: where one is out of range the table stops.
    """
    key = _whole(key, x.ndim)
    if key is None:
        return notes.refuse("an array is indexed by masks, or by more than numbers and slices")
    places = [axis for axis, part in enumerate(key) if not isinstance(part, slice)]
    together = places == list(range(places[0], places[-1] + 1))
    front = sum(isinstance(part, slice) for part in key[: places[0]]) if together else 0
    base = x[tuple(part if isinstance(part, slice) else 0 for part in key)]
    offsets = np.zeros((), np.int64)
    for axis in places:
        offsets = offsets + _in_range(notes, key[axis], x.shape[axis]) * x.strides[axis]
    if not y.size:
        return None
    base = base.reshape(base.shape[:front] + (1,) * offsets.ndim + base.shape[front:])
    offsets = offsets.reshape(offsets.shape + (1,) * (y.ndim - front - offsets.ndim))
    function = gather(y.dtype.itemsize)[0], 0
    return notes.loop(function, [base, offsets, y], y.shape, 2, "gather")


def _whole(key, count):
    """A part for each axis: a slice, a whole number or an array of these; None for other keys."""
    parts = key if isinstance(key, tuple) else (key,)
    parts = [np.asarray(part) if isinstance(part, list) else part for part in parts]
    dots = [i for i, part in enumerate(parts) if part is ...]
    at = dots[0] if dots else len(parts)
    rest = [slice(None)] * (count - len(parts) + len(dots))
    whole = [*parts[:at], *rest, *parts[at + 1 :]]
    known = all(isinstance(part, slice) or _is_whole_number(part) for part in whole)
    return whole if known and len(dots) < 2 and len(whole) == count else None


def _is_whole_number(part):
    kind = np.asarray(part).dtype.kind if isinstance(part, (int, np.ndarray, np.integer)) else ""
    return kind in ("i", "u")


def _in_range(notes, index, length):
    """Indices counted from the start; those of arrays are looked at in each run."""
    index = index.astype(np.int64) if isinstance(index, np.ndarray) else np.asarray(index)
    if bool(((index < -length) | (index >= length)).any()):
        notes.refuse("an index is out of range")
    return np.where(index < 0, index + length, index)
