"""Optimisers; PyTorch's names, defaults and state dicts."""

from minidp.optim.adam import Adam, AdamW
from minidp.optim.optimizer import Optimizer
from minidp.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer"]
