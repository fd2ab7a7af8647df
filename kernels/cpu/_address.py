"""Where arrays lie in memory, and the fewest loops that go through them."""

from functools import cache

import numpy as np


class Address:
    """A word of a frame: bytes from the start of an origin's memory."""

    def __init__(self, origin, offset):
        self.origin, self.offset = origin, offset


def address(array):
    """The address of an array's first element."""
    origin = origin_of(array)
    return Address(origin, start(array) - low(origin))


def start(array):
    return array.__array_interface__["data"][0]


@cache
def _bounds():
    """Lowest and highest address of an array."""
    module = getattr(np.lib, "array_utils", np)
    return module.byte_bounds


def low(array):
    """The lowest address of an array."""
    return _bounds()(array)[0] if any(s < 0 for s in array.strides) else start(array)


def extent(array):
    """How many bytes an array spans."""
    first, last = _bounds()(array)
    return last - first if array.size else 0


def origin_of(array):
    """The memory that an array is a view of: the traced array that stands for it, else the array
    that owns it."""
    while not getattr(array, "is_origin", False):
        base = getattr(array, "stands_on", None)
        base = array.base if base is None else base
        if not isinstance(base, np.ndarray):
            break
        array = base
    return array


def spread(array, shape):
    """The strides of an array that is broadcast to `shape`."""
    missing = len(shape) - array.ndim
    own = [0 if n == 1 else s for n, s in zip(array.shape, array.strides, strict=True)]
    return [0] * missing + own


def collapsed(shape, strides, order):
    """Lengths and strides of the fewest axes that go through the same places, sorted by the size
    of the strides of one operand; the last one is the inner one."""
    axes = [i for i, n in enumerate(shape) if n != 1]
    axes.sort(key=lambda i: (-abs(strides[order][i]), i))
    lengths, kept = [], [[] for _ in strides]
    for axis in axes:
        n = shape[axis]
        if lengths and all(k[-1] == s[axis] * n for k, s in zip(kept, strides, strict=True)):
            lengths[-1] *= n
            for k, s in zip(kept, strides, strict=True):
                k[-1] = s[axis]
        else:
            lengths.append(n)
            for k, s in zip(kept, strides, strict=True):
                k.append(s[axis])
    return lengths, kept
