"""Dropout with counter-based random bits: what is kept depends on places in the global batch.

Bits are those of Philox4x32-10: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy
as 1, 2, 3" (2011). Words are 32 bits wide and kept in 64, so that products are exact.
"""

import math

import numpy as np

from ._jit import compiled, part
from ._layout import moved, ready, served
from ._memory import empty

MASK = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)
FACTORS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
STEPS = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)  # golden ratio and square root of 3, less 1
BLOCKS = 128  # counters whose words are made at a time


@compiled
def philox(first, row, draw, step, low, high, words):
    """Fill words (4, m): outputs for counters (first + i, row, draw, step), key (low, high)."""
    row, draw, step, low, high = row & MASK, draw & MASK, step & MASK, low & MASK, high & MASK
    for i in range(words.shape[1]):  # products of what is known to be short take one instruction
        a, b, c, d = (first + np.uint64(i)) & MASK, row, draw, step
        key, other = low, high
        for _ in range(10):
            p, q = FACTORS[0] * a, FACTORS[1] * c
            a, b, c, d = (q >> HALF) ^ b ^ key, q & MASK, (p >> HALF) ^ d ^ other, p & MASK
            key, other = (key + STEPS[0]) & MASK, (other + STEPS[1]) & MASK
        words[0, i], words[1, i], words[2, i], words[3, i] = a, b, c, d


@compiled
def _drop(x, y, words, key, first_row, threshold, scale):
    """Drop from x to y (rows, places, channels) with logical order (rows, channels, places)."""
    rows, places, channels = x.shape
    low, high, draw, step = key[0], key[1], key[2], key[3]
    size, chunk, zero = places * channels, 4 * words.shape[1], x.dtype.type(0)
    for i in range(rows):
        source, target = x[i], y[i]
        place = channel = 0
        for start in range(0, size, chunk):
            row = (first_row + np.uint64(i)) & MASK
            philox(np.uint64(start // 4), row, draw, step, low, high, words)
            if channels == 1:
                given, made = source.reshape(-1)[start:], target.reshape(-1)[start:]
                _drop_in_order(given[:chunk], made[:chunk], words, threshold, scale)
                continue
            for lane in range(min(chunk, size - start)):
                kept = words[lane & 3, lane >> 2] >= threshold
                target[place, channel] = source[place, channel] * scale if kept else zero
                place += 1
                if place == places:
                    place, channel = 0, channel + 1


@part
def _drop_in_order(x, y, words, threshold, scale):
    """The same for values that lie in memory as the words come, four to a counter."""
    zero = x.dtype.type(0)
    first, second, third, fourth = words[0], words[1], words[2], words[3]
    for i in range(x.shape[0] // 4):
        a, b, c, d = x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]
        y[4 * i] = a * scale if first[i] >= threshold else zero
        y[4 * i + 1] = b * scale if second[i] >= threshold else zero
        y[4 * i + 2] = c * scale if third[i] >= threshold else zero
        y[4 * i + 3] = d * scale if fourth[i] >= threshold else zero
    for k in range(x.shape[0] % 4):
        at = x.shape[0] - x.shape[0] % 4 + k
        y[at] = x[at] * scale if words[k, x.shape[0] // 4] >= threshold else zero


def dropout(x, *, p, key, row, batch_dim):
    """y = x / (1 - p) where a random word is at least floor(p * 2**32), else 0.

    key = (seed, step, draw). The word of an element is word e % 4 of Philox for counter (e // 4,
    global row, draw, step), where e is its C-order index in its row and `row` the global index of
    the first row along `batch_dim` (None: all of x is row 0).
    """
    if not served(x):
        return NotImplemented
    rows = x[None] if batch_dim is None else moved(x, batch_dim, 0)
    memory, is_last = _memory(rows)
    y = np.empty_like(memory)
    scale = x.dtype.type(1 / (1 - p) if p < 1 else 0)
    first = np.uint64(0 if batch_dim is None else row & 0xFFFFFFFF)
    blocks = min(BLOCKS, -(-memory[:1].size // 4))
    words, key = empty((4, max(1, blocks)), np.uint64), _words(key)
    _drop(memory, y, words, key, first, np.uint64(math.floor(p * 2**32)), scale)
    y = y.reshape(np.moveaxis(rows, 1, -1).shape if is_last else rows.shape)
    y = np.moveaxis(y, -1, 1) if is_last else y
    return y[0, ...] if batch_dim is None else moved(y, 0, batch_dim)


def _words(key):
    """low key word, high key word, draw, step; a captured step keeps them, and gives them so."""
    if isinstance(key, np.ndarray):
        return key
    seed, step, draw = key
    return np.array([v & 0xFFFFFFFF for v in (seed, seed >> 32, draw, step)], np.uint64)


def _memory(rows):
    """rows (n, c, ...) as (n, places, channels), and whether memory is channels-last."""
    last = rows if rows.flags.c_contiguous or rows.ndim < 3 else np.moveaxis(rows, 1, -1)
    if last is rows or not last.flags.c_contiguous:
        return ready(rows).reshape(len(rows), math.prod(rows.shape[1:]), 1), False
    return ready(last).reshape(len(rows), math.prod(last.shape[1:-1]), last.shape[-1]), True
