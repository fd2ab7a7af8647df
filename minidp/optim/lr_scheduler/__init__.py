"""Learning-rate schedules; PyTorch's names, arguments and values."""

from minidp.optim.lr_scheduler.base import LRScheduler
from minidp.optim.lr_scheduler.base import LRScheduler as _LRScheduler
from minidp.optim.lr_scheduler.combined import ChainedScheduler, ReduceLROnPlateau, SequentialLR
from minidp.optim.lr_scheduler.cycles import CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR
from minidp.optim.lr_scheduler.factors import (
    ConstantLR,
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
    WarmupLR,
)
