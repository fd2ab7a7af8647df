"""Probability distributions: samples, log-probabilities, entropies, divergences; PyTorch's names.

>>> from minidp.distributions import Normal
>>> Normal(0.0, 1.0).log_prob(dp.tensor(0.0))
tensor(-0.9189)
"""

from minidp.distributions.base import Distribution, Independent
from minidp.distributions.continuous import Normal, Uniform
from minidp.distributions.discrete import Bernoulli, Categorical
from minidp.distributions.divergence import kl_divergence

__all__ = ["Bernoulli", "Categorical", "Distribution", "Independent", "Normal", "Uniform",
           "kl_divergence"]  # fmt: skip
