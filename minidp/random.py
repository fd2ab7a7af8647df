"""Random numbers by counting: the same bits on every backend, for any split of a batch.

Each block of four 32-bit words is a function of a key (the seed) and of a counter: which four
elements, which global row, which draw, which step. Nothing depends on what was drawn before.
Source: Philox4x32-10, Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers".
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from minidp.device import Device
from minidp.mode import mode
from minidp.types import Array

Key = tuple[int, int, int]
"""(seed, step, draw): names one draw of a whole tensor."""


class Draw(tuple[int, int, int]):
    """A Key that knows the generator that gave it, so that a captured step can ask it again."""

    generator: Generator


class Generator:
    """Counts draws; ``next_key()`` names the next one. It belongs to no device: one that is given,
    as PyTorch's first argument is, means nothing."""

    def __init__(self, seed: Any = 0, step: int = 0, *, device: Any = None) -> None:
        if isinstance(seed, (str, Device)):
            seed, device = 0, seed
        self.device = Device("cpu" if device is None else device)
        self._lock = threading.Lock()
        self.seed, self.step, self.draw = int(seed) & (2**64 - 1), step, 0

    def manual_seed(self, seed: int) -> Generator:
        """Begin again with ``seed``, a 64-bit integer."""
        if mode.watch is not None:
            mode.watch.seeds()
        if not hasattr(seed, "__index__"):
            raise TypeError(f"manual_seed({seed!r}): expected an integer")
        self.seed, self.step, self.draw = int(seed) & (2**64 - 1), 0, 0
        return self

    def initial_seed(self) -> int:
        """The seed that it began with."""
        return self.seed

    def next_key(self) -> Key:
        """The name of the next draw: (seed, step, draw)."""
        with self._lock:
            self.draw += 1
            key = Draw((self.seed, self.step, self.draw - 1))
        key.generator = self
        return key

    def get_state(self) -> dict[str, int]:
        """Seed, step and draw, for ``set_state``."""
        return {"seed": self.seed, "step": self.step, "draw": self.draw}

    def set_state(self, state: dict[str, int]) -> None:
        """Go on from where ``get_state`` was asked."""
        self.seed, self.step, self.draw = state["seed"], state["step"], state["draw"]

    state_dict, load_state_dict = get_state, set_state
    __getstate__ = get_state

    def __setstate__(self, state: dict[str, int]) -> None:
        """A copy, or one that was pickled, counts on for itself."""
        self._lock, self.device = threading.Lock(), Device("cpu", 0)
        self.set_state(state)


default_generator = Generator()


def generator_here() -> Generator:
    """The one that draws for this thread: a replica's, a loader's, or the default one."""
    if mode.generator is not None:
        return mode.generator
    return default_generator if mode.replica is None else mode.replica.generator


def manual_seed(seed: int) -> Generator:
    """Begin the default generator again with ``seed``.

    >>> _ = dp.manual_seed(1)
    >>> a = dp.rand(2)
    >>> _ = dp.manual_seed(1)
    >>> dp.equal(a, dp.rand(2))
    True
    """
    return default_generator.manual_seed(seed)


def initial_seed() -> int:
    """The seed of the default generator."""
    return default_generator.seed


def get_rng_state() -> dict[str, int]:
    """Where the default generator is: what ``set_rng_state`` takes."""
    return default_generator.get_state()


def set_rng_state(new_state: dict[str, int]) -> None:
    """Let the default generator go on from where ``get_rng_state`` was asked."""
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, **options: Any) -> Iterator[None]:
    """What the default generator draws in the ``with`` block leaves it where it was before."""
    before = get_rng_state()
    try:
        yield
    finally:
        if enabled:
            set_rng_state(before)


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Nothing to do: the same program on the same devices always gives the same numbers."""


def words(xp: Any, key: Key, row: int, rows: int, count: int) -> Array:
    """uint32 words of shape (rows, count): element e of global row r is word e % 4 of the
    block with counter (e // 4, r, draw, step)."""
    seed, step, draw = key
    blocks = -(-count // 4)
    ones = xp.ones((rows, blocks), xp.uint64)
    counter = [
        ones * xp.arange(blocks, dtype=xp.uint64),
        ones * xp.arange(row, row + rows, dtype=xp.uint64)[:, None],
        ones * xp.uint64(draw & 0xFFFFFFFF),
        ones * xp.uint64(step & 0xFFFFFFFF),
    ]
    mixed = philox(xp, counter, seed & 0xFFFFFFFF, seed >> 32)
    return xp.stack(mixed, axis=-1).reshape(rows, blocks * 4)[:, :count].astype(xp.uint32)


def philox(xp: Any, counter: list[Array], key0: int, key1: int) -> list[Array]:
    """Ten rounds of Philox4x32 on uint64 arrays that hold 32-bit words."""
    mask, shift = xp.uint64(0xFFFFFFFF), xp.uint64(32)
    c0, c1, c2, c3 = counter
    for _ in range(10):
        low = c0 * xp.uint64(0xD2511F53)
        high = c2 * xp.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = (
            (high >> shift) ^ c1 ^ xp.uint64(key0), high & mask,
            (low >> shift) ^ c3 ^ xp.uint64(key1), low & mask,
        )  # fmt: skip
        key0, key1 = (key0 + 0x9E3779B9) & 0xFFFFFFFF, (key1 + 0xBB67AE85) & 0xFFFFFFFF
    return [c0, c1, c2, c3]


def uniforms(key: Key, count: int, row: int = 0, rows: int = 1) -> Array:
    """(rows, count) float64 numbers in [0, 1), of 53 bits, from two words each; those of a row
    depend on its number, ``row`` for the first."""
    pairs = words(np, key, row, rows, 2 * count).astype(np.uint64)
    high, low = pairs[:, 0::2] >> np.uint64(5), pairs[:, 1::2] >> np.uint64(6)
    return (high * 67108864.0 + low) / 2.0**53


def normals(key: Key, count: int, row: int = 0, rows: int = 1) -> Array:
    """(rows, count) float64 numbers of the standard normal distribution (Box and Muller 1958)."""
    half = -(-count // 2)
    u = uniforms(key, 2 * half, row, rows)
    radius, angle = np.sqrt(-2 * np.log1p(-u[:, :half])), 2 * np.pi * u[:, half:]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)[:, :count]
