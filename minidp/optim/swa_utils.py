"""Averages of a model's weights over the steps of its training: Izmailov et al. 2018, arXiv
1803.05407 (stochastic weight averaging); Polyak and Juditsky 1992 (averages of iterates)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

from minidp.autograd import no_grad
from minidp.create import tensor
from minidp.mode import apart
from minidp.nn.module import Module
from minidp.optim.declared import refuse
from minidp.optim.lr_scheduler.base import LRScheduler, Rates, per_group
from minidp.optim.lr_scheduler.cycles import ANNEAL, check_strategy
from minidp.optim.optimizer import Optimizer
from minidp.parameter import Buffer
from minidp.tensor import Tensor
from minidp.types import int64

Average = Callable[[Tensor, Tensor, Any], Any]
Averages = Callable[[list[Tensor], list[Tensor], Any], None]


def get_swa_avg_fn() -> Average:
    """The plain mean of all models so far: average + (new - average) / (n + 1)."""
    return lambda average, new, count: average + (new - average) / (int(count) + 1)


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """The running mean: decay average + (1 - decay) new."""
    refuse(not 0 <= decay <= 1, f"Invalid decay value {decay} provided; expected 0 to 1")
    return lambda average, new, count: decay * average + (1 - decay) * new


def get_swa_multi_avg_fn() -> Averages:
    """The plain mean for lists of tensors, in place."""
    return _on_lists(get_swa_avg_fn())


def get_ema_multi_avg_fn(decay: float = 0.999) -> Averages:
    """The running mean for lists of tensors, in place."""
    return _on_lists(get_ema_avg_fn(decay))


def _on_lists(average: Average) -> Averages:
    def update(averages: list[Tensor], news: list[Tensor], count: Any) -> None:
        with no_grad():
            for mean, new in zip(averages, news, strict=True):
                mean.copy_(average(mean, new, count))

    return update


class AveragedModel(Module):
    """A copy of ``model`` whose weights are an average of those that ``update_parameters`` is
    given; the plain mean unless ``avg_fn`` or ``multi_avg_fn`` says otherwise. Buffers are the
    last model's, or averaged too with ``use_buffers``."""

    n_averaged: Buffer

    def __init__(
        self, model: Module, device: Any = None, avg_fn: Average | None = None,
        multi_avg_fn: Averages | None = None, use_buffers: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        refuse(avg_fn is not None and multi_avg_fn is not None,
               "Only one of avg_fn and multi_avg_fn should be provided")  # fmt: skip
        copied = copy.deepcopy(model)
        self.module = copied if device is None else copied.to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=int64, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    @apart
    def update_parameters(self, model: Module) -> None:
        """Take one more model into the average; call it between steps."""
        first = int(self.n_averaged) == 0
        (means, kept), (news, last) = self._split(self.module), self._split(model)
        update = self.multi_avg_fn or _on_lists(self.avg_fn or get_swa_avg_fn())
        with no_grad():
            for mean, new in zip(kept + means * first, last + news * first, strict=True):
                mean.copy_(new)
            if not first:
                there = [x.to(mean.device) for x, mean in zip(news, means, strict=True)]
                update(means, there, self.n_averaged.detach())
            self.n_averaged.copy_(self.n_averaged.detach() + 1)

    def _split(self, model: Module) -> tuple[list[Tensor], list[Tensor]]:
        """What is averaged of a model, and what is the last model's."""
        parameters, buffers = [*model.parameters()], [*model.buffers()]
        averaged = parameters + buffers * self.use_buffers
        return [x.detach() for x in averaged], [] if self.use_buffers else [*buffers]


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Make the running statistics of normalisation layers anew, as means over ``loader``."""
    layers: list[Any] = [m for m in model.modules() if hasattr(m, "reset_running_stats")]
    before, training = [layer.momentum for layer in layers], model.training
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None
    model.train()
    with no_grad():
        for batch in loader if layers else ():
            x = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(x if device is None else x.to(device))
    model.train(training)
    for layer, momentum in zip(layers, before, strict=True):
        layer.momentum = momentum


class SWALR(LRScheduler):
    """From the rate it finds to ``swa_lr`` in ``anneal_epochs`` steps, then constant."""

    def __init__(self, optimizer: Optimizer, swa_lr: Any, anneal_epochs: int = 10,
                 anneal_strategy: str = "cos", last_epoch: int = -1) -> None:  # fmt: skip
        rates = per_group("swa_lr", optimizer, swa_lr)
        for group, lr in zip(optimizer.param_groups, rates, strict=True):
            group["swa_lr"] = lr
        refuse(not isinstance(anneal_epochs, int) or anneal_epochs < 0,
               f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")  # fmt: skip
        self.anneal_epochs, self._anneal_strategy = anneal_epochs, check_strategy(anneal_strategy)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        """The distance to ``swa_lr`` shrinks by the ratio of what is left after this step to what
        was left before it."""
        step = self._step_count - 1 if self.anneal_epochs else max(1, self._step_count - 1)
        parts = [max(0, min(1, t / max(1, self.anneal_epochs))) for t in (step - 1, step)]
        before, left = (ANNEAL[self._anneal_strategy](1.0, 0.0, part) for part in parts)
        ratio = left / before if before else 0.0
        pairs = [(group["swa_lr"], float(group["lr"])) for group in self.optimizer.param_groups]
        return [end + ratio * (lr - end) for end, lr in pairs]
