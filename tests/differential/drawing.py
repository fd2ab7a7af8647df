"""Random arguments for differential tests: awkward ones more often than life has them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Case(NamedTuple):
    """A layer's constructor arguments, and those of its calls."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}  # noqa: RUF012
    inputs: tuple[Any, ...] = ()
    named: dict[str, Any] = {}  # noqa: RUF012
    train: bool | None = None
    fixed: tuple[Any, ...] = ()
    """The inputs, by place or name, that PyTorch does not differentiate by."""


class Draw:
    """Draws from one generator, of one floating-point type."""

    def __init__(self, random: np.random.Generator, dtype: str = "float64") -> None:
        self.random, self.dtype = random, np.dtype(dtype)
        self.special = self.chance(0.2)
        self.undefined = self.special and self.chance(0.3)
        self.coarse = self.chance(0.25)

    def chance(self, share: float) -> bool:
        return bool(self.random.random() < share)

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.random.integers(len(choices)))]

    def size(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high + 1))

    def sizes(self, axes: int, low: int, high: int) -> Any:
        """One number, or one for each axis."""
        if self.chance(0.5):
            return self.size(low, high)
        return tuple(self.size(low, high) for _ in range(axes))

    def options(self, **choices: Any) -> dict[str, Any]:
        """Each option with a chance of being given at all."""
        return {name: self.pick(*values) for name, values in choices.items() if self.chance(0.6)}

    def shape(self, low: int = 0, high: int = 4) -> tuple[int, ...]:
        return tuple(
            self.pick(1, 2, 3, 4, 5, 0 if self.chance(0.1) else 2)
            for _ in range(self.size(low, high))
        )

    def batch(self) -> int:
        return self.pick(1, 2, 3, 4, 0 if self.chance(0.3) else 2)

    def normal(self, *shape: int, scale: float = 1.0) -> Any:
        """Normal numbers; sometimes only halves, so that there are ties and kinks."""
        values = self.random.standard_normal(shape) * scale
        if self.coarse:
            values = np.round(values * 2) / 2
        return np.asarray(values).astype(self.dtype)

    def extreme(self, *shape: int) -> Any:
        """Normal numbers; sometimes with very large, infinite and undefined ones among them."""
        values = self.normal(*shape, scale=self.pick(1.0, 3.0, 10.0))
        if self.special and values.size:
            some = [0.0, -0.0, np.inf, -np.inf, 1e4, -1e4, 6.0, -3.0, 3.0, 20.0, 1e-7]
            some += [np.nan] * self.undefined
            places = self.random.random(values.shape) < 0.3
            values = np.where(places, self.random.choice(some, values.shape), values)
        return np.asarray(values).astype(self.dtype)

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> Any:
        values = self.random.uniform(low, high, shape)
        if self.coarse:
            values = np.clip(np.round(values * 4) / 4, low, high)
        return np.asarray(values).astype(self.dtype)

    def integers(self, low: int, high: int, *shape: int) -> Any:
        return np.asarray(self.random.integers(low, high, shape), dtype=np.int64)

    def signs(self, *shape: int) -> Any:
        return np.asarray(self.random.choice([-1.0, 1.0], shape)).astype(self.dtype)

    def image(self, axes: int, channels: int, low: int = 1, high: int = 8) -> Any:
        """(n, c, ...), sometimes (c, ...)."""
        shape = (channels, *(self.size(low, high) for _ in range(axes)))
        return self.normal(*(shape if self.chance(0.15) else (self.batch(), *shape)))
