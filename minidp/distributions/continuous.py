"""Distributions of real numbers."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import math
from typing import Any

from minidp.distributions.base import Distribution, parameters
from minidp.draw import rand, randn
from minidp.ops.elementwise import where
from minidp.ops.error_function import erf, erfinv
from minidp.tensor import Tensor
from minidp.types import Shape


class Normal(Distribution):
    """Density exp(-((x - loc) / scale)^2 / 2) / (scale sqrt(2 pi)).

    >>> Normal = dp.distributions.Normal
    >>> Normal(dp.zeros(2), 2.0).entropy()
    tensor([2.1121, 2.1121])
    """

    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = parameters(loc, scale)
        super().__init__(self.loc.shape, (), validate_args)
        self._require(self.loc == self.loc, "loc", self.loc, "no NaN")
        self._require(self.scale > 0, "scale", self.scale, "greater than 0")

    @property
    def mean(self) -> Tensor:
        return self.loc

    mode = mean

    @property
    def variance(self) -> Tensor:
        return self.scale.square()

    @property
    def stddev(self) -> Tensor:
        return self.scale

    def _draw(self, shape: Shape, batch_dim: int | None) -> Tensor:
        noise = randn(shape, dtype=self.loc.dtype, device=self.loc.device, batch_dim=batch_dim)
        return self.loc + noise * self.scale

    def log_prob(self, value: Any) -> Tensor:
        value = self._value(value, lambda x: x == x, "a number")
        distance = (value - self.loc).square() / (2 * self.variance)
        return -distance - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def entropy(self) -> Tensor:
        return self.scale.log() + (0.5 + 0.5 * math.log(2 * math.pi))

    def cdf(self, value: Any) -> Tensor:
        """The probability of at most ``value``."""
        standard = (self._value(value) - self.loc) / self.scale
        return (1 + erf(standard / math.sqrt(2))) * 0.5

    def icdf(self, value: Any) -> Tensor:
        """The number below which lies the part ``value`` of all outcomes."""
        return self.loc + self.scale * erfinv(self._value(value) * 2 - 1) * math.sqrt(2)


class Uniform(Distribution):
    """Density 1 / (high - low) from ``low`` up to, not including, ``high``."""

    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = parameters(low, high)
        super().__init__(self.low.shape, (), validate_args)
        self._require(self.low < self.high, "high", self.high, "greater than low")

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        """NaN: all outcomes are as probable."""
        return self.high * math.nan

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low).square() / 12

    def _draw(self, shape: Shape, batch_dim: int | None) -> Tensor:
        part = rand(shape, dtype=self.low.dtype, device=self.low.device, batch_dim=batch_dim)
        return self.low + part * (self.high - self.low)

    def _inside(self, value: Tensor) -> Tensor:
        return (value >= self.low) & (value <= self.high)

    def log_prob(self, value: Any) -> Tensor:
        value = self._value(value, self._inside, "from low to high")
        inside = (value >= self.low) & (value < self.high)
        return where(inside, 0.0, -math.inf) - (self.high - self.low).log()

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()

    def cdf(self, value: Any) -> Tensor:
        """The probability of at most ``value``."""
        return ((self._value(value) - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Any) -> Tensor:
        """The number below which lies the part ``value`` of all outcomes."""
        return self._value(value) * (self.high - self.low) + self.low
