"""Schedules made of others, and the one that watches a metric."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from minidp.arguments import refuse
from minidp.mode import apart
from minidp.optim.lr_scheduler.base import LRScheduler, per_group
from minidp.optim.optimizer import Optimizer


class Combined(LRScheduler):
    """The base of schedules made of ``schedulers``, all of one optimiser and steps alone."""

    def __init__(self, optimizer: Any, schedulers: Sequence[Any]) -> None:
        self.optimizer, self._schedulers, name = optimizer, list(schedulers), type(self).__name__
        for i, each in enumerate(schedulers):
            refuse(not hasattr(each, "optimizer"),
                   f"{name} at index {i} should have `optimizer` as its attribute.", TypeError)
            refuse(isinstance(each, ReduceLROnPlateau), f"{name} does not support "
                   f"`ReduceLROnPlateau`, but got one at index {i}")  # fmt: skip
            refuse(each.optimizer is not optimizer, f"{name} expects all schedulers to belong to "
                   f"the same optimizer, but the one at index {i} has another")  # fmt: skip

    def _undo(self) -> None:
        """Take back the first steps."""
        for each in self._schedulers:
            if isinstance(each, Combined):
                each._undo()
            else:
                each.last_epoch -= 1


class ChainedScheduler(Combined):
    """All of ``schedulers`` in every step, each on the rate that the one before left."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Any = None) -> None:
        refuse(not schedulers, "ChainedScheduler expects at least one scheduler to be chained")
        super().__init__(optimizer or schedulers[0].optimizer, schedulers)
        self._last_lr = self._rates()

    @apart
    def step(self, epoch: Any = None) -> None:
        for each in self._schedulers:
            each.step()
        self._last_lr = self._rates()


class SequentialLR(Combined):
    """The first of ``schedulers`` up to the first of ``milestones``, then the second, and so on;
    each counts its own steps."""

    def __init__(self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int],
                 last_epoch: int = -1) -> None:  # fmt: skip
        refuse(len(milestones) != len(schedulers) - 1, f"SequentialLR got {len(schedulers)} "
               f"schedulers and {len(milestones)} milestones; expected one milestone less")
        super().__init__(optimizer, schedulers)
        self._milestones, self.last_epoch = milestones, last_epoch + 1
        self._set(group["initial_lr"] for group in optimizer.param_groups)
        self._undo()
        self._schedulers[bisect_right(milestones, 0)]._initial_step()
        self._last_lr = self._rates()

    @apart
    def step(self, epoch: Any = None) -> None:
        self.last_epoch += 1
        i = bisect_right(self._milestones, self.last_epoch)
        if i > 0 and self._milestones[i - 1] == self.last_epoch:
            self._schedulers[i]._update_lr(0)
        else:
            self._schedulers[i].step()
        self._last_lr = self._schedulers[i].get_last_lr()


class ReduceLROnPlateau(LRScheduler):
    """Times ``factor`` when a metric has not become better for ``patience`` steps.

    Better: by ``threshold``, "rel"ative to the best or "abs"olute. ``step(metric)``."""

    def __init__(
        self, optimizer: Optimizer, mode: str = "min", factor: float = 0.1, patience: int = 10,
        threshold: float = 1e-4, threshold_mode: str = "rel", cooldown: int = 0, min_lr: Any = 0,
        eps: float = 1e-8,
    ) -> None:  # fmt: skip
        refuse(factor >= 1.0, "Factor should be < 1.0.")
        refuse(mode not in ("min", "max"), f"mode {mode} is unknown!")
        refuse(threshold_mode not in ("rel", "abs"), f"threshold mode {threshold_mode} is unknown!")
        self.optimizer, self.min_lrs = optimizer, per_group("min_lr", optimizer, min_lr)
        self.mode, self.factor, self.patience, self.cooldown = mode, factor, patience, cooldown
        self.threshold, self.threshold_mode, self.eps = threshold, threshold_mode, eps
        self.best = math.inf if mode == "min" else -math.inf
        self.cooldown_counter = self.num_bad_epochs = self.last_epoch = 0
        self._last_lr = self._rates()

    @apart
    def step(self, metrics: Any, epoch: Any = None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        better = self._better(float(metrics))
        self.best = float(metrics) if better else self.best
        self.num_bad_epochs = 0 if better or self.in_cooldown else self.num_bad_epochs + 1
        self.cooldown_counter = max(0, self.cooldown_counter - 1)
        if self.num_bad_epochs > self.patience:
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
            lower = [max(lr * self.factor, low) for lr, low in zip(self._rates(), self.min_lrs)]
            self._set(new if lr - new > self.eps else lr for lr, new in zip(self._rates(), lower))
        self._last_lr = self._rates()

    @property
    def in_cooldown(self) -> bool:
        """Whether steps after the last reduction are still left out."""
        return self.cooldown_counter > 0

    def _better(self, value: float) -> bool:
        sign = -1 if self.mode == "min" else 1
        absolute, edge = self.threshold_mode == "abs", self.best * (1 + sign * self.threshold)
        return sign * value > sign * (self.best + sign * self.threshold if absolute else edge)
