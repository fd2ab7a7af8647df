"""Optimisers; PyTorch's names, defaults and state dicts."""

from minidp.optim import lr_scheduler, swa_utils
from minidp.optim.adam import Adam, Adamax, AdamW, NAdam, RAdam
from minidp.optim.descent import SGD, Adadelta, Adagrad, RMSprop
from minidp.optim.optimizer import Optimizer

__all__ = [
    "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "Optimizer", "RAdam",
    "RMSprop", "lr_scheduler", "swa_utils",
]  # fmt: skip
