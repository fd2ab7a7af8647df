"""The scheduler: one model, trained on several devices as if on one.

It cuts each batch by the devices' workloads, runs the model on every replica, adds the gradients
and updates the parameters. The result is that of one device, for any split; for an equal number
of replicas it is equal to the last bit, on any number of devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np

from minidp.autograd import no_grad
from minidp.device import Device
from minidp.errors import ReplicaError
from minidp.mode import switched
from minidp.nn.loss import Loss
from minidp.parallel.bucket import Bucket, make_buckets
from minidp.parallel.ends import make_ends
from minidp.parallel.feed import Feed
from minidp.parallel.launch import assign, check_devices, check_store, launch_on
from minidp.parallel.progress import Progress
from minidp.parallel.replica import World
from minidp.parallel.split import Share, check_workload, counts, cut, rows_of, shares, to_device
from minidp.tensor import Tensor


class Scheduler:
    """Trains ``model`` with ``loss`` and ``optimizer`` on ``devices``.

    ``workload`` weights the devices (``[3, 1]``); ``store`` says where gradients meet: ``"local"``
    in host memory, ``"device"`` on every device. ``replicas`` is their number where it differs
    from that of the devices; devices then decide only who runs which. ``nan="raise"`` ends a step
    whose loss or gradient is not finite, before anything changes.
    """

    def __init__(
        self, model: Any, loss: Callable[..., Tensor], optimizer: Any, devices: Any = None,
        workload: Sequence[float] | None = None, store: str = "local", *,
        replicas: int | None = None, nan: str | None = None,
        warn_after: float = 10.0, deadline: float = 300.0,
    ) -> None:  # fmt: skip
        self.model, self.loss, self.optimizer = model, loss, optimizer
        self.devices = check_devices(devices)
        self.store = check_store(store)
        if nan not in (None, "raise"):
            raise ReplicaError(f"nan={nan!r}: expected None or 'raise'")
        self.nan, self.warn_after, self.deadline = nan, warn_after, deadline
        weights = check_workload(workload, len(self.devices))
        self.places, self.weights = self.devices, weights
        if replicas is not None:
            self.places = self._placed(replicas, weights)
            self.weights = check_workload(None, replicas)
        self.buckets: list[Bucket] = []
        self._trained: list[Any] | None = None
        self._prepare()
        self.progress = Progress()

    def _prepare(self) -> None:
        """Take over what the caller changed since: values, and which parameters are trained."""
        groups = [group["params"] for group in self.optimizer.param_groups]
        trained = [
            (p, p.dtype, p.shape, g)
            for g, group in enumerate(groups) for p in group if p.requires_grad
        ]  # fmt: skip
        if self._trained is None or not _same(trained, self._trained):
            self._check_parameters(groups)
            home = self.devices[0] if self.store == "device" else Device("cpu", 0)
            named = getattr(self.model, "named_parameters", dict)
            names = {p: name for name, p in dict(named()).items()}
            self.buckets = make_buckets(groups, home, names)
            self.ends = make_ends(self.buckets, self.places, self.store)
            self._trained = trained
        for bucket in self.buckets:
            bucket.refresh()

    def _placed(self, replicas: int, weights: Sequence[Any]) -> list[Device]:
        """The device of each replica, as many to each device as its workload says."""
        if not isinstance(replicas, int) or replicas < 1:
            raise ReplicaError(f"replicas={replicas!r}: expected a number of at least 1")
        many = counts(replicas, weights)
        if sum(many) != replicas or len(set(weights)) == 1:
            return assign(self.devices, replicas)
        return [d for d, n in zip(self.devices, many, strict=True) for _ in range(n)]

    def _check_parameters(self, groups: Sequence[Sequence[Any]]) -> None:
        known = {id(p) for group in groups for p in group}
        named = self.model.named_parameters() if hasattr(self.model, "named_parameters") else ()
        for name, parameter in named:
            if parameter.requires_grad and id(parameter) not in known:
                raise ReplicaError(
                    f"parameter {name!r} of the model is not in the optimizer: give it to the "
                    "optimizer, or freeze it with requires_grad_(False)"
                )

    def __repr__(self) -> str:
        return (
            f"Scheduler({len(self.places)} replica(s) on {', '.join(map(str, self.devices))}, "
            f"store={self.store!r}, {len(self.buckets)} bucket(s))"
        )

    def __call__(self, x: Any, y: Any) -> Tensor:
        """Train on one batch: split, replicate, run, reduce, update. Returns the mean loss."""
        self.progress = Progress()
        self.run_batches([(x, y)])
        return Tensor(np.array(self.progress.loss))

    def run(
        self, loader: Iterable[Any], epochs: int = 1, *,
        watch: Callable[[Progress], None] | None = None,
        on_epoch: Callable[[Progress], None] | None = None,
    ) -> list[float]:  # fmt: skip
        """Train on every batch of ``loader``, ``epochs`` times; return each epoch's mean loss.

        Replicas run freely through an epoch, without a hand-off per step. ``watch`` is called
        about ten times a second, ``on_epoch`` after each epoch, both in the caller's thread.
        """
        losses = []
        for epoch in range(epochs):
            self.progress = Progress(epoch=epoch)
            self.run_batches(loader, watch)
            losses.append(self.progress.mean_loss)
            if on_epoch is not None:
                on_epoch(self.progress)
        return losses

    def run_batches(
        self, batches: Iterable[Any], watch: Callable[[Progress], None] | None = None
    ) -> None:
        """One pass over ``batches``."""
        self._launch(self._train, batches, watch)

    def evaluate(
        self, loader: Iterable[Any],
        metrics: dict[str, Callable[[Tensor, Tensor], Any]] | None = None,
    ) -> dict[str, float]:  # fmt: skip
        """The mean loss and ``metrics`` over every row of ``loader``, each row exactly once.

        A metric is called with (outputs, targets) of some rows and gives one number per row, or
        their sum. ``accuracy`` is there by default.
        """
        metrics = {"accuracy": correct} if metrics is None else metrics
        with _evaluation(self.model):
            parts = self._launch(self._evaluate, loader, None, metrics)
        rows, weight = (sum(part[i] for part in parts) for i in (0, 1))
        if rows == 0:
            raise ReplicaError("evaluate: the loader gave no rows")
        loss, *sums = (sum(part[2][i] for part in parts) for i in range(len(metrics) + 1))
        mean = loss / weight if weight else float("nan")
        return {"loss": mean, **dict(zip(metrics, [each / rows for each in sums], strict=True))}

    def _launch(
        self, program: Callable[..., Any], batches: Iterable[Any],
        watch: Callable[[Progress], None] | None, *args: Any,
    ) -> list[Any]:  # fmt: skip
        self._prepare()
        feed = Feed(batches, len(self.places))
        poll = None if watch is None else lambda: watch(self.progress)
        try:
            return launch_on(program, self.places, (feed, *args), self.store, poll,
                             self.warn_after, self.deadline)  # fmt: skip
        except BaseException:
            # a replica inside a long kernel may still write to the ends it was given
            self.ends = make_ends(self.buckets, self.places, self.store)
            raise

    def _steps(self, world: World, feed: Feed) -> Any:
        """Each batch of the feed, with this replica's step begun for it."""
        world.adopt(self.ends[world.rank])
        world.check_finite = self.nan == "raise"
        step = world.step
        parts: list[Share] = []
        for x, y in feed.each(world.rank, world.exchange):
            step += 1
            if not parts or rows_of(x) != parts[0].total:
                parts = shares(rows_of(x), self.weights)
            active = [rank for rank, part in enumerate(parts) if part.rows]
            world.begin(step, parts[world.rank], active)
            yield x, y, parts[world.rank]

    def _train(self, world: World, feed: Feed) -> None:
        for x, y, share in self._steps(world, feed):
            if share.total == 0:
                raise ReplicaError("a batch without rows cannot be trained on; drop it")
            loss = self._backward(world, x, y, share) if share.rows else 0.0
            world.update(self.optimizer, [loss * share.fraction], self._accepted(world, share))

    def _accepted(self, world: World, share: Share) -> Callable[[list[float]], None]:
        """What else belongs to an accepted step: it is counted."""

        def count(totals: list[float]) -> None:
            self.progress.count(share.total, totals[0])

        return count

    def _backward(self, world: World, x: Any, y: Any, share: Share) -> float:
        outputs, targets = self._forward(world, x, y, share)
        with self._denominator(y, share)[1]:
            loss = self.loss(outputs, targets)
        value = float(loss)
        if self.nan == "raise" and not np.isfinite(value):
            raise ReplicaError(f"the loss is {value} (nan='raise')")
        loss.backward()
        return value

    def _denominator(self, y: Any, share: Share) -> tuple[float, AbstractContextManager[None]]:
        """The weight of a whole batch, and a block in which a loss of ``minidp.nn`` knows it.

        A mean then is this replica's share, such that the row-weighted mean of all shares is the
        mean over all rows. Other losses exchange what they need.
        """
        loss: Any = self.loss
        own = isinstance(loss, Loss) and type(loss).__module__ == Loss.__module__
        if not own or loss.reduction != "mean":
            return share.total, nullcontext()
        total = loss.total_weight(y if isinstance(y, Tensor) else Tensor(y))
        if total is None:
            return share.total, switched(denominator=_local)
        return total, switched(denominator=lambda weight: total * share.fraction)

    def _forward(self, world: World, x: Any, y: Any, share: Share) -> tuple[Tensor, Any]:
        inputs, targets = (to_device(cut(each, share), world.device) for each in (x, y))
        return self.model(inputs), targets

    def _evaluate(
        self, world: World, feed: Feed, metrics: dict[str, Callable[[Tensor, Tensor], Any]]
    ) -> tuple[int, float, list[float]]:
        rows, weight, sums = 0, 0.0, [0.0] * (len(metrics) + 1)
        with no_grad():
            for x, y, share in self._steps(world, feed):
                if share.rows:
                    outputs, targets = self._forward(world, x, y, share)
                    total, known = self._denominator(y, share)
                    with known:
                        loss = float(self.loss(outputs, targets))
                    rows, weight = rows + share.rows, weight + total * share.fraction
                    sums[0] += loss * total * share.fraction if total else 0.0
                    for i, metric in enumerate(metrics.values(), 1):
                        sums[i] += float(np.sum(np.asarray(_host(metric(outputs, targets)))))
        return rows, weight, sums


def correct(outputs: Tensor, targets: Tensor) -> Tensor:
    """Whether the largest output is that of the target class, row by row."""
    result: Tensor = outputs.argmax(1) == targets
    return result


def _local(weight: Any) -> Any:
    """The local number of values: right where each row has equally many."""
    return weight


def _same(these: list[Any], those: list[Any]) -> bool:
    """Whether the same parameters are meant, with equal remarks on each."""
    return len(these) == len(those) and all(
        a[0] is b[0] and a[1:] == b[1:] for a, b in zip(these, those, strict=True)
    )


@contextmanager
def _evaluation(model: Any) -> Iterator[None]:
    """The model in evaluation mode; then each of its modules in the mode that it was in."""
    modules = list(model.modules()) if hasattr(model, "modules") else []
    before = [module.training for module in modules]
    for module in modules:
        module.training = False
    try:
        yield
    finally:
        for module, training in zip(modules, before, strict=True):
            module.training = training


def _host(value: Any) -> Any:
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else value
