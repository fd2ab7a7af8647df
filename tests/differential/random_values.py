"""Awkward tensors by number: shapes, layouts, dtypes, ties, zeros and what is not finite."""

from __future__ import annotations

from typing import Any

import numpy as np

from differential.twins import Leaf

FLOATS = ("float32", "float64")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
EVERY = (*FLOATS, "float16", *INTEGERS, "bool")
SHAPES = [(), (1,), (3,), (0,), (2, 3), (3, 2), (1, 3), (3, 1), (2, 1, 3), (2, 3, 4), (0, 3),
          (2, 0, 3), (1, 1), (4, 1, 2, 3), (5,), (3, 3)]  # fmt: skip


class Draw:
    """Random choices, all from one seed."""

    def __init__(self, *seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, p: float = 0.5) -> bool:
        return bool(self.rng.random() < p)

    def number(self, low: int, high: int) -> int:
        """An integer from low to high, both included."""
        return int(self.rng.integers(low, high + 1))

    def shape(self, least: int = 0, most: int = 4, empty: bool = True) -> tuple[int, ...]:
        fit = [s for s in SHAPES if least <= len(s) <= most and (empty or 0 not in s)]
        return self.pick(*fit)

    def dtype(self, kinds: str = "fib") -> str:
        """Mostly a common one."""
        names = [n for n in EVERY if np.dtype(n).kind.replace("u", "i") in kinds]
        common = [n for n in ("float32", "float64", "int64") if n in names]
        return self.pick(*common) if common and self.chance(0.6) else self.pick(*names)

    def values(self, shape: tuple[int, ...], dtype: str, kind: str | None = None) -> np.ndarray:
        """``kind``: smooth, ties, special (0, -0, inf, NaN), positive or unit."""
        kind = kind or self.pick("smooth", "smooth", "ties", "special")
        rng, kinds = self.rng, np.dtype(dtype).kind
        if kinds == "b":
            return np.asarray(rng.random(shape) < 0.5)
        if kinds in "iu":
            low = 1 if kind == "positive" else 0 if kinds == "u" else -4
            return np.asarray(rng.integers(low, 6, shape)).astype(dtype)
        if kind == "ties":
            return np.asarray(rng.integers(-2, 3, shape)).astype(dtype)
        if kind == "unit":
            return np.asarray(rng.uniform(-0.95, 0.95, shape)).astype(dtype)
        x = np.asarray(rng.standard_normal(shape) * 1.5)
        if kind == "positive":
            x = np.abs(x) + 0.1
        if kind == "special":
            special = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5], shape)
            x = np.where(rng.random(shape) < 0.5, special, x)
        return np.asarray(x).astype(dtype)

    def leaf(
        self,
        shape: tuple[int, ...] | None = None,
        dtype: str | None = None,
        kind: str | None = None,
        kinds: str = "fib",
        grad: bool | None = None,
    ) -> Leaf:
        """A tensor of this shape, by one of the ways to come by one."""
        shape = self.shape() if shape is None else shape
        dtype = dtype or self.dtype(kinds)
        wants = np.dtype(dtype).kind == "f" and (self.chance(0.8) if grad is None else grad)
        way, rank = self.number(0, 9), len(shape)
        if way == 0 and rank >= 2:
            a, b = self.pick(*[(i, j) for i in range(rank) for j in range(rank) if i < j])
            order = list(shape)
            order[a], order[b] = order[b], order[a]
            views = [("transpose", a, b)]
            return Leaf(self.values(tuple(order), dtype, kind), views, wants)
        if way == 1 and rank >= 1:
            axis = self.number(0, rank - 1)
            wide = list(shape)
            wide[axis] = 2 * wide[axis]
            key = (slice(None),) * axis + (slice(None, None, 2),)
            return Leaf(self.values(tuple(wide), dtype, kind), [("getitem", key)], wants)
        if way == 2 and rank >= 1:
            axis = self.number(0, rank - 1)
            thin = list(shape)
            thin[axis] = 1
            return Leaf(self.values(tuple(thin), dtype, kind), [("expand", shape)], wants)
        if way == 3 and rank >= 1:
            axis = self.number(0, rank - 1)
            wide = list(shape)
            wide[axis] += 2
            key = (slice(None),) * axis + (slice(1, -1),)
            return Leaf(self.values(tuple(wide), dtype, kind), [("getitem", key)], wants)
        return Leaf(self.values(shape, dtype, kind), [], wants)

    def like(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A shape that broadcasts with ``shape``."""
        own = [1 if self.chance(0.25) else n for n in shape]
        cut = self.number(0, len(own)) if self.chance(0.3) else 0
        own = own[cut:]
        return (self.pick(1, 2), *own) if self.chance(0.1) and len(own) == len(shape) else (*own,)

    def dim(self, rank: int, wrong: bool = True) -> int:
        """An axis, counted from either end; now and then one that is not there."""
        most = max(rank, 1)
        if wrong and self.chance(0.03):
            return self.pick(most, -most - 1)
        return self.number(-most, most - 1)

    def dims(self, rank: int) -> Any:
        """One axis, several (as tuple or list), none, or None."""
        way = self.number(0, 5)
        if way == 0:
            return None
        if way <= 3:
            return self.dim(rank)
        count = self.number(0, rank)
        axes = self.rng.permutation(max(rank, 1))[:count]
        chosen = [int(a) - (max(rank, 1) if self.chance() else 0) for a in axes]
        if self.chance(0.05) and chosen:
            chosen.append(chosen[0])
        return tuple(chosen) if self.chance() else chosen

    def scalar(self, kinds: str = "fib") -> Any:
        kind = self.pick(*kinds)
        if kind == "b":
            return self.chance()
        if kind == "i":
            return self.number(-3, 4)
        return self.pick(0.5, -1.5, 2.0, 0.0, float("inf"), float("nan"), 1e-3, -2.0, 3.0)
