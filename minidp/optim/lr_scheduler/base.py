"""What all schedules share: ``step()`` sets ``group["lr"]`` of every parameter group."""

import warnings
from collections.abc import Iterable
from typing import Any

from minidp.arguments import refuse
from minidp.mode import apart
from minidp.optim.optimizer import Optimizer
from minidp.tensor import Tensor

Rates = list[float]


class LRScheduler:
    """The base of schedules: ``get_lr`` says the rates in step ``last_epoch``.

    A schedule starts with the rate its group has ("initial_lr" from then on). With ``last_epoch``
    it goes on in a group that already has one."""

    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer, self.last_epoch = check_optimizer(optimizer), last_epoch
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", float(group["lr"]))
            refuse("initial_lr" not in group, f"param 'initial_lr' is not specified in "
                   f"param_groups[{i}] when resuming scheduler with last_epoch >= 0", KeyError)
        self.base_lrs = [float(group["initial_lr"]) for group in optimizer.param_groups]
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count, self._is_initial = 0, True
        self.step()
        self._is_initial = False

    def get_lr(self) -> Rates:
        """The rate of each group; called by ``step``, after ``last_epoch`` has moved."""
        raise NotImplementedError(f"{type(self).__name__}.get_lr")

    def closed(self) -> Rates:
        """The same from ``last_epoch`` alone, where that can be said."""
        return self.get_lr()

    def get_last_lr(self) -> Rates:
        """The rates that the last step set."""
        return self._last_lr

    @apart
    def step(self, epoch: Any = None) -> None:
        """Set the rates of the next step; call it after ``optimizer.step()``."""
        if self._step_count == 1 and not self.optimizer.stepped:
            warnings.warn("Detected call of `lr_scheduler.step()` before `optimizer.step()`: the "
                          "first value of the schedule is skipped", stacklevel=3)  # fmt: skip
        self._step_count += 1
        self._update_lr(epoch)

    def _update_lr(self, epoch: Any = None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._set(self.get_lr() if epoch is None else self.closed())

    def _set(self, rates: Iterable[float]) -> None:
        for group, lr in zip(self.optimizer.param_groups, rates, strict=True):
            old = group["lr"]  # one that is a Tensor keeps its identity
            group["lr"] = old.fill_(lr) if isinstance(old, Tensor) else lr
        self._last_lr = self._rates()

    def _rates(self) -> Rates:
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """All but the optimiser; of functions only the attributes of callable objects."""
        return {key: _saved(x) for key, x in vars(self).items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state; the rates themselves are in the optimiser's state."""
        vars(self).update({k: _loaded(vars(self).get(k), x) for k, x in state_dict.items()})


def _saved(value: Any) -> Any:
    if isinstance(value, list):
        return [_saved(each) for each in value]
    if isinstance(value, LRScheduler):
        return value.state_dict()
    return dict(getattr(value, "__dict__", {})) or None if callable(value) else value


def _loaded(own: Any, value: Any) -> Any:
    """What becomes of an attribute: schedules and callable objects stay, with the state given."""
    if isinstance(own, list) and any(isinstance(x, LRScheduler) or callable(x) for x in own):
        return [_loaded(mine, each) for mine, each in zip(own, value, strict=True)]
    if isinstance(own, LRScheduler):
        own.load_state_dict(value)
    elif callable(own):
        vars(own).update(value or {})
    return own if isinstance(own, LRScheduler) or callable(own) else value


def check_optimizer(given: Any) -> Any:
    name = type(given).__name__
    refuse(not isinstance(given, Optimizer), f"{name} is not an Optimizer", TypeError)
    return given


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """``value`` as a list with one entry for each group."""
    count = len(check_optimizer(optimizer).param_groups)
    values = list(value) if isinstance(value, (list, tuple)) else [value] * count
    refuse(len(values) != count, f"{name} must have the same length as optimizer.param_groups: "
           f"{name} has {len(values)} values, param_groups has {count}")  # fmt: skip
    return values
