"""Places of ranks without sorting everything, row by row.

A few first ranks are kept sorted while the others pass by. A single one is found by Hoare's
quickselect (1961) among whole numbers of 64 bits that a float32 and its place make: so equal
values are apart and keep their order.
"""

import numpy as np

from ._jit import compiled, part
from ._layout import along_rows, rows_along, served
from ._memory import empty

WHOLE, BITS = np.dtype(np.int64), np.dtype(np.uint64)
FEW, ALONE = 512, 16  # ranks that are kept sorted; a single one beyond is selected
HALF, LAST = np.uint64(32), np.uint64(0xFFFFFFFF)


def argsort(x, *, dim, descending=False, start=0, stop=None):
    """The places of ranks `start` to `stop` along `dim`; declines all, many, and late ones of
    float64."""
    if stop is None or not served(x) or not x.ndim or not x.size:
        return NotImplemented
    count = stop - start
    is_single = x.dtype == np.float32 and stop > ALONE and count == 1
    if stop > FEW and not is_single:
        return NotImplemented
    rows = rows_along(x, dim)
    places, keys = empty((len(rows), count), WHOLE), empty(rows.shape[1:], BITS)
    if is_single:
        _selected(rows.view(np.uint32), start, descending, keys, places)
    else:
        best, where = empty((stop,), BITS), empty((stop,), WHOLE)
        bits = rows.view(np.uint32 if rows.itemsize == 4 else np.uint64)
        _ranked(bits, start, stop, descending, keys, best, where, places)
    dim %= x.ndim
    return along_rows(places, (*x.shape[:dim], count, *x.shape[dim + 1 :]), dim)


@compiled
def _ranked(x, start, stop, descending, keys, best, where, places):
    for i in range(x.shape[0]):
        _keys(x, i, descending, keys)
        _first(keys, best, where)
        for j in range(start, stop):
            places[i, j - start] = where[j]


@compiled
def _selected(x, rank, descending, keys, places):
    for i in range(x.shape[0]):
        _keys(x, i, descending, keys)
        for j in range(keys.shape[0]):
            keys[j] = (keys[j] << HALF) | np.uint64(j)
        places[i, 0] = _select(keys, rank) & LAST


@part
def _keys(x, i, descending, keys):
    """Whole numbers in the order of the values that the bits of x are, NaN as the largest."""
    is_short = x.itemsize == 4
    sign = np.uint64(0x80000000 if is_short else 0x8000000000000000)
    infinite = np.uint64(0x7F800000 if is_short else 0x7FF0000000000000)
    largest = sign | (sign - np.uint64(1))
    flip = largest if descending else np.uint64(0)
    for j in range(x.shape[1]):
        bits = np.uint64(x[i, j])
        key = largest - bits if bits > sign else bits | sign
        key = largest if bits & (sign - np.uint64(1)) > infinite else key
        keys[j] = key ^ flip


@part
def _first(keys, best, where):
    """The smallest keys in order, and their places: a new one is put where it belongs."""
    count = 0
    for j in range(keys.shape[0]):
        key = keys[j]
        if count < best.shape[0]:
            count += 1
        elif not count or key >= best[count - 1]:
            continue
        at = count - 1
        while at > 0 and best[at - 1] > key:
            best[at], where[at] = best[at - 1], where[at - 1]
            at -= 1
        best[at], where[at] = key, j


@part
def _select(keys, rank):
    """The key of that rank; the others are moved to its sides."""
    low, high = 0, keys.shape[0] - 1
    while low < high:
        a, b, c = keys[low], keys[(low + high) // 2], keys[high]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = low, high
        while i <= j:
            while keys[i] < pivot:
                i += 1
            while keys[j] > pivot:
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                i, j = i + 1, j - 1
        if rank <= j:
            high = j
        elif rank >= i:
            low = i
        else:
            return keys[rank]
    return keys[rank]
