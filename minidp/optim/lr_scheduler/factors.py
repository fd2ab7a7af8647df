"""Schedules as formulas: the level of the rate in step t. A step multiplies the rate that it finds
by level(t) / level(t - 1), so that schedules add up with others and with changes by hand."""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from inspect import signature
from typing import Any, ClassVar

from minidp.arguments import NEEDED, constructor, refuse, unit
from minidp.optim.lr_scheduler.base import LRScheduler, Rates, check_optimizer, per_group
from minidp.optim.optimizer import Optimizer

Factor = Callable[[int], float]


class LevelLR(LRScheduler):
    """The base: a subclass says ``level``, 1 for the initial rate. What it takes after t are the
    options, which the constructor takes and keeps. An ``eager`` one that begins later than in step
    0 makes the change of that step at once; others wait for the next."""

    options: ClassVar[list[str]] = []
    eager: ClassVar[bool] = False
    eta_min = 0.0
    """The rate of level 0."""

    def __init_subclass__(cls, eager: bool = False) -> None:
        if "level" in vars(cls):
            _, _, *options = signature(cls.level).parameters.values()
            cls.options, cls.eager = [each.name for each in options], eager
            takes = {each.name: each.default for each in options}
            cls.__init__ = constructor(  # type: ignore[method-assign]
                LevelLR.__init__, {"optimizer": NEEDED, **takes, "last_epoch": -1})  # fmt: skip

    def __init__(self, optimizer: Optimizer, *args: Any, last_epoch: int = -1, **options: Any):
        vars(self).update(options, optimizer=check_optimizer(optimizer), last_epoch=last_epoch)
        self.begin(last_epoch == -1, **options)
        super().__init__(optimizer, last_epoch)

    def begin(self, first: bool, **options: Any) -> None:
        """Refuse options that make no sense; not ``first``: the schedule goes on."""
        self._level(0)

    def level(self, t: int, *args: Any, **options: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__}.level")

    def _level(self, t: int) -> Any:
        return self.level(t, **{name: getattr(self, name) for name in self.options})

    def get_lr(self) -> Rates:
        t, low, waits = self.last_epoch, self.eta_min, self._is_initial and not self.eager
        now = self._level(t)
        before = self._level(t - 1) if not waits else now if t else 1.0
        if before == 0:
            return [lr + (base - low) * now for lr, base in zip(self._rates(), self.base_lrs)]
        return [(lr - low) * now / before + low for lr in self._rates()]

    def closed(self) -> Rates:
        low, now = self.eta_min, self._level(self.last_epoch)
        return [(base - low) * now + low for base in self.base_lrs]


def done(t: int, total: int) -> float:
    """The part of ``total`` steps that lies behind."""
    return min(t, total) / max(total, 1)


class StepLR(LevelLR, eager=True):
    """Times ``gamma`` every ``step_size`` steps.

    >>> optimizer = optim.SGD([nn.Parameter(dp.ones(1))], lr=1.0)
    >>> schedule = optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.1)
    >>> optimizer.step(); schedule.step(); schedule.get_last_lr()
    [0.1]
    """

    def level(self, t: int, step_size: int, gamma: float = 0.1) -> float:
        return float(gamma ** (max(t, 0) // step_size))


class MultiStepLR(LevelLR, eager=True):
    """Times ``gamma`` at each of the ``milestones``."""

    def level(self, t: int, milestones: Iterable[int], gamma: float = 0.1) -> float:
        return float(gamma ** sum(at <= t for at in Counter(milestones).elements()))


class ConstantLR(LevelLR, eager=True):
    """Times ``factor`` for ``total_iters`` steps."""

    total_iters: int

    def level(self, t: int, factor: float = 1 / 3, total_iters: int = 5) -> float:
        unit("Constant multiplicative factor", factor)
        return 1.0 if t < 0 or t >= total_iters > 0 else factor

    def closed(self) -> Rates:
        """Without steps the rate itself, as PyTorch's; step by step that is ``factor`` for good."""
        return super().closed() if self.total_iters else list(self.base_lrs)


class LinearLR(LevelLR):
    """From ``start_factor`` to ``end_factor`` times the rate, in ``total_iters`` steps."""

    def level(self, t: int, start_factor: float = 1 / 3, end_factor: float = 1.0,
              total_iters: int = 5) -> float:  # fmt: skip
        refuse(start_factor == 0, "Starting multiplicative factor expected to be greater than 0.")
        unit("Starting multiplicative factor", start_factor)
        unit("Ending multiplicative factor", end_factor)
        rise = (end_factor - start_factor) * done(t, total_iters)
        return 1.0 if t < 0 else start_factor + rise


class WarmupLR(LevelLR):
    """The rate for one replica rises to ``replicas`` times itself in ``total_iters`` steps: a batch
    k times larger wants a rate k times larger, but not at first. Source: Goyal et al. 2017, arXiv
    1706.02677."""

    def level(self, t: int, replicas: int, total_iters: int) -> float:
        text = f"WarmupLR: replicas={replicas}, total_iters={total_iters}; expected at least 1"
        refuse(min(replicas, total_iters) < 1, text)
        return 1 + (replicas - 1) * done(max(t, 0), total_iters)


class ExponentialLR(LevelLR):
    """Times ``gamma`` in every step."""

    def level(self, t: int, gamma: float) -> float:
        return float(gamma**t)


class PolynomialLR(LevelLR):
    """(1 - t / total_iters)^power times the rate; 0 from ``total_iters`` on."""

    def level(self, t: int, total_iters: int = 5, power: float = 1.0) -> float:
        return float((1.0 - done(t, total_iters)) ** power)


class CosineAnnealingLR(LevelLR):
    """From the initial rate to ``eta_min`` in ``T_max`` steps on half a cosine, then up again.

    Source: Loshchilov and Hutter 2017, arXiv 1608.03983, without its restarts."""

    def level(self, t: int, T_max: int, eta_min: float = 0.0) -> float:
        return (1 + math.cos(math.pi * t / T_max)) / 2


class LambdaLR(LRScheduler):
    """lr = initial lr times ``lr_lambda(epoch)``; one function, or one for each group."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Factor | list[Factor],
                 last_epoch: int = -1) -> None:  # fmt: skip
        self.lr_lambdas: list[Factor] = per_group("lr_lambda", optimizer, lr_lambda)
        for each in self.lr_lambdas:
            wrong = f"lr_lambda should be a function, but got {type(each).__name__}"
            refuse(not callable(each), wrong, TypeError)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        return [lr * each(self.last_epoch) for lr, each in zip(self.base_lrs, self.lr_lambdas)]


class MultiplicativeLR(LambdaLR):
    """lr is multiplied by ``lr_lambda(epoch)`` in each step."""

    def get_lr(self) -> Rates:
        factors = [1.0 if self._is_initial else each(self.last_epoch) for each in self.lr_lambdas]
        return [lr * factor for lr, factor in zip(self._rates(), factors)]
