"""Schedules that rise and fall again: restarts and cycles."""

import math
from collections.abc import Callable
from typing import Any

from minidp.arguments import positive, refuse, unit
from minidp.mode import apart
from minidp.optim.lr_scheduler.base import LRScheduler, Rates, per_group
from minidp.optim.lr_scheduler.factors import LevelLR


def cosine(start: float, end: float, part: float) -> float:
    """From start to end on half a cosine."""
    return end + (start - end) / 2 * (math.cos(math.pi * part) + 1)


def line(start: float, end: float, part: float) -> float:
    return (end - start) * part + start


Anneal = Callable[[float, float, float], float]
ANNEAL: dict[str, Anneal] = {"cos": cosine, "linear": line}


def annealing(name: str) -> Anneal:
    refuse(name not in ANNEAL,
           f"anneal_strategy must be one of 'cos' or 'linear', instead got {name}")  # fmt: skip
    return ANNEAL[name]


class CosineAnnealingWarmRestarts(LevelLR):
    """Half a cosine of ``T_0`` steps from the initial rate to ``eta_min``, then from the start
    again; each time ``T_mult`` times as long. ``step(epoch)`` takes fractions of epochs.

    Source: Loshchilov and Hutter 2017, arXiv 1608.03983."""

    def begin(self, first: bool, **options: Any) -> None:
        self.T_0, self.T_mult = options["T_0"], options["T_mult"]
        positive(T_0=self.T_0, T_mult=self.T_mult)
        self.T_i, self.T_cur = self.T_0, 0.0 if first else self.last_epoch

    def level(self, t: int, T_0: int, T_mult: int = 1, eta_min: float = 0.0) -> float:
        return cosine(1.0, 0.0, self.T_cur / self.T_i)

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
        self._set(self.closed())


class Cycle(LevelLR):
    """The base of schedules that move the momentum (or beta1) against the rate."""

    cycle_momentum: bool
    closed = LRScheduler.closed  # ``level`` is no factor of the initial rate

    def begin(self, first: bool, **options: Any) -> None:
        super().begin(first, **options)
        refuse(self.cycle_momentum and not {"momentum", "betas"} & {*self.optimizer.defaults},
               "optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        for name in ("base_momentum", "max_momentum") if self.cycle_momentum else ():
            values = per_group(name, self.optimizer, options[name])
            for group, value in zip(self.optimizer.param_groups, values):
                group[name] = value if first else group.get(name, value)

    def move_momentum(self, height: float) -> None:
        """``height`` is 0 at the lowest rate and 1 at the highest."""
        for group in self.optimizer.param_groups if self.cycle_momentum else ():
            value = line(group["max_momentum"], group["base_momentum"], height)
            group.update({"betas": (value, *group["betas"][1:])} if "betas" in group
                         else {"momentum": value})  # fmt: skip


class CyclicLR(Cycle):
    """Up from ``base_lr`` to ``max_lr`` and down again, in straight lines, over and over; the
    height of each cycle by ``mode`` or ``scale_fn``. Source: Smith 2017, arXiv 1506.01186."""

    def begin(self, first: bool, **options: Any) -> None:
        super().begin(first, **options)
        self.base_lr, self.max_lr = (per_group(name, self.optimizer, options[name])
                                     for name in ("base_lr", "max_lr"))  # fmt: skip
        if first:
            self._set(self.base_lr)

    def level(
        self, t: int, base_lr: Any, max_lr: Any, step_size_up: int = 2000,
        step_size_down: int | None = None, mode: str = "triangular", gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None, scale_mode: str = "cycle",
        cycle_momentum: bool = True, base_momentum: Any = 0.8, max_momentum: Any = 0.9,
    ) -> float:  # fmt: skip
        """From 0 at the lowest rate to 1 at the highest of the first cycle."""
        total = float(step_size_up + (step_size_up if step_size_down is None else step_size_down))
        (cycle, x), peak = divmod(t / total, 1), step_size_up / total
        scales = {"triangular": 1.0, "triangular2": 0.5**cycle, "exp_range": gamma**t}
        refuse(mode not in scales and scale_fn is None, "mode is invalid and scale_fn is None")
        own = scale_fn and scale_fn(cycle + 1 if scale_mode == "cycle" else t)
        return (scales[mode] if own is None else own) * (
            x / peak if x <= peak else (x - 1) / (peak - 1))  # fmt: skip

    def get_lr(self) -> Rates:
        height = self._level(self.last_epoch)
        self.move_momentum(height)
        return [line(low, high, height) for low, high in zip(self.base_lr, self.max_lr)]


class OneCycleLR(Cycle):
    """Once up to ``max_lr`` in a part ``pct_start`` of the steps, and down to almost nothing.

    Starts at max_lr / div_factor and ends at that over final_div_factor; ``three_phase`` comes
    down as it went up before. Source: Smith and Topin 2018, arXiv 1708.07120."""

    def begin(self, first: bool, **options: Any) -> None:
        steps = {name: options[name] for name in ("total_steps", "epochs", "steps_per_epoch")}
        total = steps.pop("total_steps")
        refuse(total is None and None in steps.values(),
               "You must define either total_steps OR (epochs AND steps_per_epoch)")  # fmt: skip
        self.total_steps = positive(**steps if total is None else {"total_steps": total})
        super().begin(first, **options)
        tops = per_group("max_lr", self.optimizer, options["max_lr"]) if first else ()
        for group, top in zip(self.optimizer.param_groups, tops):
            low = top / options["div_factor"]
            group.update(initial_lr=low, max_lr=top, min_lr=low / options["final_div_factor"])

    def level(
        self, t: int, max_lr: Any, total_steps: int | None = None, epochs: int | None = None,
        steps_per_epoch: int | None = None, pct_start: float = 0.3, anneal_strategy: str = "cos",
        cycle_momentum: bool = True, base_momentum: Any = 0.85, max_momentum: Any = 0.95,
        div_factor: float = 25.0, final_div_factor: float = 1e4, three_phase: bool = False,
    ) -> Any:  # fmt: skip
        """The way from one of the group's rates to the next, and their names."""
        refuse(not isinstance(pct_start, float), "pct_start expected to be a float")
        unit("pct_start", pct_start)
        total, up = self.total_steps, pct_start * self.total_steps
        refuse(t > total, f"Tried to step {t} times. The number of total steps is {total}")
        ends = [up - 1, *[2 * up - 2] * three_phase, total - 1]
        phase = next((i for i, end in enumerate(ends) if t <= end), len(ends) - 1)
        start = ends[phase - 1] if phase else 0.0
        anneal, part = annealing(anneal_strategy), (t - start) / (ends[phase] - start)
        levels = ["initial", "max", *["initial"] * three_phase, "min"]
        return lambda a, b: anneal(a, b, part), *levels[phase : phase + 2]

    def get_lr(self) -> Rates:
        way, start, end = self._level(self.last_epoch)
        self.move_momentum(way(float(start == "max"), float(end == "max")))
        return [way(g[f"{start}_lr"], g[f"{end}_lr"]) for g in self.optimizer.param_groups]
