"""Distributions of class numbers, given by probabilities or by logits."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import math
from typing import Any

import numpy as np

from minidp.create import arange, full_like
from minidp.distributions.base import Distribution, parameters
from minidp.draw import bernoulli, rand
from minidp.errors import ShapeError
from minidp.functional import binary_cross_entropy_with_logits, softmax
from minidp.functions import broadcast_tensors
from minidp.ops.elementwise import where
from minidp.ops.index import take_along_dim
from minidp.tensor import Tensor
from minidp.types import Shape


def one_of(name: str, probs: Any, logits: Any) -> Tensor:
    """The one that is given."""
    if (probs is None) == (logits is None):
        raise ValueError(f"{name}: either `probs` or `logits` must be specified, but not both")
    (found,) = parameters(logits if probs is None else probs)
    return found


def bounded(probs: Tensor) -> Tensor:
    """Probabilities that have a finite logarithm, as their complements have."""
    edge = float(np.finfo(probs.dtype).eps)
    return probs.clamp(edge, 1 - edge)


class Bernoulli(Distribution):
    """1 with probability ``probs`` = sigmoid(``logits``), else 0."""

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        given = one_of("Bernoulli", probs, logits)
        super().__init__(given.shape, (), validate_args)
        if probs is not None:
            self._require((given >= 0) & (given <= 1), "probs", given, "from 0 to 1")
            inner = bounded(given)
            self.probs, self.logits = given, inner.log() - (-inner).log1p()
        else:
            self._require(given == given, "logits", given, "no NaN")
            self.probs, self.logits = given.sigmoid(), given

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        """The more probable outcome; NaN where both are as probable."""
        return where(self.probs == 0.5, math.nan, (self.probs >= 0.5).type(self.probs.dtype))

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def _draw(self, shape: Shape, batch_dim: int | None) -> Tensor:
        return bernoulli(self.probs.detach().expand(shape), batch_dim=batch_dim)

    def log_prob(self, value: Any) -> Tensor:
        value = self._value(value, lambda x: (x == 0) | (x == 1), "0 or 1").to(self.logits.dtype)
        logits, value = broadcast_tensors(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """0 and 1, along a new first axis."""
        values = arange(2, dtype=self.probs.dtype, device=self.probs.device)
        return self._outcomes(values, expand)


class Categorical(Distribution):
    """Class numbers 0 .. c - 1 with probabilities in proportion to ``probs`` (..., c), or to
    e^``logits``.

    >>> policy = dp.distributions.Categorical(logits=dp.tensor([0.0, 0.0]))
    >>> policy.log_prob(policy.sample())
    tensor(-0.6931)
    """

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        given = one_of("Categorical", probs, logits)
        if given.ndim < 1:
            raise ShapeError("Categorical: expected probabilities (..., classes), got a number")
        super().__init__(given.shape[:-1], (), validate_args)
        if probs is not None:
            self._require((given >= 0) & (given < math.inf), "probs", given, "0 or more")
            self.probs = given / given.sum(-1, keepdim=True)
            self._require(self.probs == self.probs, "probs", given, "not all 0")
            self.logits = bounded(self.probs).log()
        else:
            self._require(given == given, "logits", given, "no NaN")
            self.logits = given - given.logsumexp(-1, keepdim=True)
            self.probs = softmax(self.logits, -1)

    @property
    def mean(self) -> Tensor:
        """NaN: classes are no numbers."""
        return full_like(self.probs[..., 0].detach(), math.nan)

    variance = mean

    @property
    def mode(self) -> Tensor:
        """The most probable class."""
        return self.probs.argmax(-1)

    def _draw(self, shape: Shape, batch_dim: int | None) -> Tensor:
        """By the inverse of the cumulated probabilities."""
        bounds = self.probs.detach().double().cumsum(-1)
        part = rand(shape, dtype="float64", device=self.probs.device, batch_dim=batch_dim)
        below = part.unsqueeze(-1) * bounds[..., -1:] >= bounds
        return below.long().sum(-1).clamp(max=self.probs.shape[-1] - 1)

    def log_prob(self, value: Any) -> Tensor:
        count = self.probs.shape[-1]
        value = self._value(value, lambda x: (x >= 0) & (x < count) & (x == x.floor()),
                            f"a class, 0 to {count - 1}").long()  # fmt: skip
        value, _ = broadcast_tensors(value, self.probs[..., 0])
        logits = self.logits.expand((*value.shape, count))
        return take_along_dim(logits, value.unsqueeze(-1), dim=-1).squeeze(-1)

    def entropy(self) -> Tensor:
        least = float(np.finfo(self.logits.dtype).min)
        return -(self.logits.clamp(min=least) * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All classes, along a new first axis."""
        return self._outcomes(arange(self.probs.shape[-1], device=self.probs.device), expand)
