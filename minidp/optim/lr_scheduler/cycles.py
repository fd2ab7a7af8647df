"""Schedules that rise and fall again: restarts and cycles."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from minidp.mode import apart
from minidp.optim.declared import refuse
from minidp.optim.lr_scheduler.base import LRScheduler, Rates, per_group
from minidp.optim.optimizer import Optimizer


def cosine(start: float, end: float, part: float) -> float:
    """From start to end on half a cosine."""
    return end + (start - end) / 2 * (math.cos(math.pi * part) + 1)


def line(start: float, end: float, part: float) -> float:
    return (end - start) * part + start


ANNEAL = {"cos": cosine, "linear": line}
HEIGHTS: dict[str, Callable[[float, float], float]] = {
    "triangular": lambda cycle, gamma: 1.0,
    "triangular2": lambda cycle, gamma: 0.5 ** (cycle - 1),
    "exp_range": lambda t, gamma: gamma**t,
}


def check_strategy(name: str) -> str:
    wrong = f"anneal_strategy must be one of 'cos' or 'linear', instead got {name}"
    refuse(name not in ANNEAL, wrong)
    return name


def positive(**named: Any) -> int:
    """The product of integers above 0."""
    for name, value in named.items():
        wrong = not isinstance(value, int) or value <= 0
        refuse(wrong, f"Expected positive integer {name}, but got {value}")
    return math.prod(named.values())


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine of ``T_0`` steps from the initial rate to ``eta_min``, then from the start
    again; each time ``T_mult`` times as long. ``step(epoch)`` takes fractions of epochs.

    Source: Loshchilov and Hutter 2017, arXiv 1608.03983."""

    def __init__(self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0,
                 last_epoch: int = -1) -> None:  # fmt: skip
        wrong = f"Expected integer T_mult >= 1, but got {T_mult}"
        refuse(positive(T_0=T_0) and not (isinstance(T_mult, int) and T_mult >= 1), wrong)
        self.T_0, self.T_i, self.T_mult, self.eta_min = T_0, T_0, T_mult, eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        return [cosine(lr, self.eta_min, self.T_cur / self.T_i) for lr in self.base_lrs]

    @apart
    def step(self, epoch: Any = None) -> None:
        refuse((epoch or 0) < 0, f"Expected non-negative epoch, but got {epoch}")
        if epoch is None and self.last_epoch >= 0:
            epoch, self.T_cur = self.last_epoch + 1, self.T_cur + 1
        else:
            epoch = self.T_cur = epoch or 0
            self.T_i = self.T_0
        while self.T_cur >= self.T_i:
            self.T_cur, self.T_i = self.T_cur - self.T_i, self.T_i * self.T_mult
        self.last_epoch = math.floor(epoch)
        self._set(self.get_lr())


class Cycle(LRScheduler):
    """The base of schedules that move the momentum (or beta1) against the rate."""

    def _begin(self, optimizer: Optimizer, cycle_momentum: bool, low: Any, high: Any,
               last_epoch: int) -> None:  # fmt: skip
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = "betas" in optimizer.defaults
            refuse("momentum" not in optimizer.defaults and not self.use_beta1, "optimizer must "
                   "support momentum or beta1 with `cycle_momentum` option enabled")  # fmt: skip
            self.base_momentums = per_group("base_momentum", optimizer, low)
            self.max_momentums = per_group("max_momentum", optimizer, high)
            pairs = zip(self.base_momentums, self.max_momentums, strict=True)
            for group, pair in zip(optimizer.param_groups, pairs, strict=True):
                given = dict(zip(("base_momentum", "max_momentum"), pair, strict=True))
                group.update(given if last_epoch == -1 else {**given, **group})
        LRScheduler.__init__(self, optimizer, last_epoch)

    def _set_momentum(self, height: float) -> None:
        """``height`` is 0 at the lowest rate and 1 at the highest."""
        for group in self.optimizer.param_groups if self.cycle_momentum else ():
            low, high = group["base_momentum"], group["max_momentum"]
            value = high - (high - low) * height
            group.update({"betas": (value, *group["betas"][1:])} if self.use_beta1
                         else {"momentum": value})  # fmt: skip


class CyclicLR(Cycle):
    """Up from ``base_lr`` to ``max_lr`` and down again, in straight lines, over and over; the
    height of each cycle by ``mode`` or ``scale_fn``. Source: Smith 2017, arXiv 1506.01186."""

    def __init__(
        self, optimizer: Optimizer, base_lr: Any, max_lr: Any, step_size_up: int = 2000,
        step_size_down: int | None = None, mode: str = "triangular", gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None, scale_mode: str = "cycle",
        cycle_momentum: bool = True, base_momentum: Any = 0.8, max_momentum: Any = 0.9,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        refuse(mode not in HEIGHTS and scale_fn is None, "mode is invalid and scale_fn is None")
        low = per_group("base_lr", optimizer, base_lr)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up + down)
        self.step_ratio = step_size_up / self.total_size
        self.mode, self.gamma, self._scale_fn_custom = mode, gamma, scale_fn
        own = "iterations" if mode == "exp_range" else "cycle"
        self.scale_mode = own if scale_fn is None else scale_mode
        if last_epoch == -1:
            self.optimizer = optimizer
            self._set(low)
        self._begin(optimizer, cycle_momentum, base_momentum, max_momentum, last_epoch)
        self.base_lrs = low

    def scale_fn(self, x: float) -> float:
        """The height of cycle x, or in step x."""
        custom = self._scale_fn_custom
        return HEIGHTS[self.mode](x, self.gamma) if custom is None else custom(x)

    def get_lr(self) -> Rates:
        cycle, x = divmod(self.last_epoch / self.total_size, 1)
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        height *= self.scale_fn(cycle + 1 if self.scale_mode == "cycle" else self.last_epoch)
        self._set_momentum(height)
        pairs = zip(self.base_lrs, self.max_lrs, strict=True)
        return [low + (high - low) * height for low, high in pairs]


class OneCycleLR(Cycle):
    """Once up to ``max_lr`` in a part ``pct_start`` of the steps, and down to almost nothing.

    Starts at max_lr / div_factor and ends at that over final_div_factor; ``three_phase`` comes
    down as it went up before. Source: Smith and Topin 2018, arXiv 1708.07120."""

    def __init__(
        self, optimizer: Optimizer, max_lr: Any, total_steps: int | None = None,
        epochs: int | None = None, steps_per_epoch: int | None = None, pct_start: float = 0.3,
        anneal_strategy: str = "cos", cycle_momentum: bool = True, base_momentum: Any = 0.85,
        max_momentum: Any = 0.95, div_factor: float = 25.0, final_div_factor: float = 1e4,
        three_phase: bool = False, last_epoch: int = -1,
    ) -> None:  # fmt: skip
        refuse(total_steps is None and (epochs is None or steps_per_epoch is None),
               "You must define either total_steps OR (epochs AND steps_per_epoch)")  # fmt: skip
        self.total_steps = positive(total_steps=total_steps) if total_steps is not None else (
            positive(epochs=epochs, steps_per_epoch=steps_per_epoch))  # fmt: skip
        refuse(not (isinstance(pct_start, float) and 0 <= pct_start <= 1),
               f"Expected float between 0 and 1 pct_start, but got {pct_start}")  # fmt: skip
        self._anneal_func_type = check_strategy(anneal_strategy)
        up = pct_start * self.total_steps
        self.ends = [up - 1, *[2 * up - 2] * three_phase, self.total_steps - 1]
        self.levels = ["initial", "max", *["initial"] * three_phase, "min"]
        tops = per_group("max_lr", optimizer, max_lr) if last_epoch == -1 else ()
        for group, top in zip(optimizer.param_groups, tops):
            low = top / div_factor
            group.update(initial_lr=low, max_lr=top, min_lr=low / final_div_factor)
        self._begin(optimizer, cycle_momentum, base_momentum, max_momentum, last_epoch)

    def get_lr(self) -> Rates:
        t, total = self.last_epoch, self.total_steps
        wrong = f"Tried to step {t} times. The specified number of total steps is {total}"
        refuse(t > total, wrong)
        phase = next((i for i, end in enumerate(self.ends) if t <= end), len(self.ends) - 1)
        start = self.ends[phase - 1] if phase else 0.0
        part = (t - start) / (self.ends[phase] - start)
        anneal, (begin, end) = ANNEAL[self._anneal_func_type], self.levels[phase : phase + 2]
        self._set_momentum(anneal(float(begin == "max"), float(end == "max"), part))
        groups = self.optimizer.param_groups
        return [anneal(group[f"{begin}_lr"], group[f"{end}_lr"], part) for group in groups]
