"""Averages of a model's weights over the steps of its training: Izmailov et al. 2018, arXiv
1803.05407 (stochastic weight averaging); Polyak and Juditsky 1992 (averages of iterates)."""

import copy
from collections.abc import Callable, Iterable
from typing import Any

from minidp.arguments import refuse, unit
from minidp.autograd import no_grad
from minidp.create import tensor
from minidp.mode import apart
from minidp.nn.module import Module
from minidp.optim.lr_scheduler.base import LRScheduler, Rates, per_group
from minidp.optim.lr_scheduler.cycles import annealing
from minidp.optim.lr_scheduler.factors import LevelLR
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
    unit(f"Invalid decay value {decay}:", decay)
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
        refuse(avg_fn and multi_avg_fn, "Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model).to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=int64, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    @apart
    def update_parameters(self, model: Module) -> None:
        """Take one more model into the average; call it between steps."""
        first = int(self.n_averaged) == 0
        (means, kept), (news, last) = self._split(self.module), self._split(model)
        take = _on_lists(lambda mean, new, count: new)
        average = self.multi_avg_fn or _on_lists(self.avg_fn or get_swa_avg_fn())
        there = [x.to(mean.device) for x, mean in zip(news, means, strict=True)]
        take(kept, last, 0)
        (take if first else average)(means, there, self.n_averaged.detach())
        with no_grad():
            self.n_averaged.add_(1)

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
    for layer, momentum in zip(layers, before):
        layer.momentum = momentum


class SWALR(LevelLR):
    """From the rate it finds to ``swa_lr`` in ``anneal_epochs`` steps, then constant."""

    closed = LRScheduler.closed

    def begin(self, first: bool, **options: Any) -> None:
        super().begin(first, **options)
        rates = per_group("swa_lr", self.optimizer, options["swa_lr"])
        for group, lr in zip(self.optimizer.param_groups, rates):
            group["swa_lr"] = lr

    def level(self, t: int, swa_lr: Any, anneal_epochs: int = 10,
              anneal_strategy: str = "cos") -> float:  # fmt: skip
        refuse(not isinstance(anneal_epochs, int) or anneal_epochs < 0,
               f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")  # fmt: skip
        part = t / anneal_epochs if anneal_epochs else t + 1
        return annealing(anneal_strategy)(1.0, 0.0, max(0, min(1, part)))

    def get_lr(self) -> Rates:
        """The distance to ``swa_lr`` shrinks by the ratio of what is left after this step to what
        was left before it."""
        before, left = (self._level(t) for t in (self._step_count - 2, self._step_count - 1))
        ratio = left / before if before else 0.0
        pairs = [(group["swa_lr"], float(group["lr"])) for group in self.optimizer.param_groups]
        return [end + ratio * (lr - end) for end, lr in pairs]
