"""The Kullback-Leibler divergence of two distributions of one kind."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import math
from typing import Any

from minidp.distributions.base import Distribution, Independent
from minidp.distributions.continuous import Normal, Uniform
from minidp.distributions.discrete import Bernoulli, Categorical
from minidp.functional import softplus
from minidp.ops.elementwise import where
from minidp.tensor import Tensor


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The expected log p(x) - log q(x) for x from p, of each distribution of the batch.

    >>> from minidp.distributions import Normal, kl_divergence
    >>> kl_divergence(Normal(1.0, 1.0), Normal(0.0, 1.0))
    tensor(0.5000)
    """
    for kind, divergence in KINDS:
        if isinstance(p, kind) and isinstance(q, kind):
            return divergence(p, q)
    names = ", ".join(kind.__name__ for kind, _ in KINDS)
    raise NotImplementedError(f"kl_divergence({type(p).__name__}, {type(q).__name__}): expected "
                              f"two of one kind: {names}")  # fmt: skip


def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).square()
    return ((p.loc - q.loc) / q.scale).square() * 0.5 + (ratio - 1 - ratio.log()) * 0.5


def _uniform(p: Uniform, q: Uniform) -> Tensor:
    inside = (q.low <= p.low) & (p.high <= q.high)
    return where(inside, ((q.high - q.low) / (p.high - p.low)).log(), math.inf)


def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    """Where q cannot give what p can, infinite; where p cannot, 0."""
    one = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    none = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    one = where(p.probs == 0, 0.0, where(q.probs == 0, math.inf, one))
    return one + where(p.probs == 1, 0.0, where(q.probs == 1, math.inf, none))


def _categorical(p: Categorical, q: Categorical) -> Tensor:
    each = p.probs * (p.logits - q.logits)
    each = where(p.probs == 0, 0.0, where(q.probs == 0, math.inf, each))
    return each.sum(-1)


def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise ValueError("kl_divergence: outcomes of different numbers of axes")
    return p.over_event(kl_divergence(p.base_dist, q.base_dist))


KINDS: list[tuple[type[Distribution], Any]] = [
    (Normal, _normal), (Uniform, _uniform), (Bernoulli, _bernoulli), (Categorical, _categorical),
    (Independent, _independent),
]  # fmt: skip
