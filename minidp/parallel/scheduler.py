"""The scheduler: one model, trained on several devices as if on one.

It cuts each batch by the devices' workloads, runs the model on every replica, adds the gradients
and updates the parameters. The result is that of one device, for any split; for an equal number
of replicas it is equal to the last bit, on any number of devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any
from weakref import proxy

import numpy as np

from minidp.autograd import no_grad
from minidp.captured import Captured, kind_of
from minidp.device import Device
from minidp.errors import ReplicaError
from minidp.mode import aside, told_as
from minidp.parallel.bucket import Bucket, make_buckets
from minidp.parallel.denominator import share_of, told, total_weight
from minidp.parallel.ends import make_ends
from minidp.parallel.evaluation import correct, evaluating, host
from minidp.parallel.feed import Feed
from minidp.parallel.launch import assign, check_devices, check_store, launch_on
from minidp.parallel.progress import Progress
from minidp.parallel.replica import World
from minidp.parallel.split import Share, check_workload, counts, cut, rows_of, shares, to_device
from minidp.tensor import Tensor
from minidp.types import float32


class Scheduler:
    """Trains ``model`` with ``loss`` and ``optimizer`` on ``devices``.

    ``workload`` weights the devices (``[3, 1]``); ``store`` says where gradients meet: ``"local"``
    in host memory, ``"device"`` on every device. ``replicas`` is their number where it differs
    from that of the devices; devices then decide only who runs which. ``nan="raise"`` ends a step
    whose loss or gradient is not finite, before anything changes. ``capture=True`` replays steps
    that repeat (see ``dp.capture``), with the same bytes; ``fuse=True`` also fuses their
    element-wise ops, which is faster and equal but for rounding.

    >>> model = nn.Linear(3, 1)
    >>> optimizer = optim.SGD(model.parameters(), lr=0.1)
    >>> train = dp.Scheduler(model, nn.MSELoss(), optimizer, devices=2)
    >>> loss = train(dp.rand(5, 3), dp.rand(5, 1))  # split 3 and 2, run, reduced, updated
    """

    def __init__(
        self, model: Any, loss: Callable[..., Tensor], optimizer: Any, devices: Any = None,
        workload: Sequence[float] | None = None, store: str = "local", *,
        replicas: int | None = None, nan: str | None = None, capture: bool = False,
        fuse: bool = False, warn_after: float = 10.0, deadline: float = 300.0,
    ) -> None:  # fmt: skip
        self.model, self.loss, self.optimizer = model, loss, optimizer
        if isinstance(loss, type) or not callable(loss) or not hasattr(optimizer, "param_groups"):
            raise ReplicaError(
                f"Scheduler(model, {loss!r}, {type(optimizer).__name__}): expected a loss, such as "
                "nn.CrossEntropyLoss(), and an optimizer, such as optim.SGD(model.parameters())"
            )
        self.devices = check_devices(devices)
        self.store = check_store(store)
        if nan not in (None, "raise"):
            raise ReplicaError(f"nan={nan!r}: expected None or 'raise'")
        self.nan, self.warn_after, self.deadline = nan, warn_after, deadline
        self.capture, self.fuse, self.captured = capture or fuse, fuse, list[Captured]()
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
            self._make_ends()
            self._trained = trained
        for bucket in self.buckets:
            bucket.refresh()

    def _make_ends(self) -> None:
        """New ends of the buckets for all replicas; captured steps belong to the old ones."""
        self.ends = make_ends(self.buckets, self.places, self.store)
        this: Any = proxy(self)  # itself would be a cycle
        step = partial(Scheduler._gradients, this)
        self.captured = [Captured(step, self.fuse) for _ in self.places]
        self._replayed: dict[Any, bool] = {}  # by kind of batch: whether all replicas can replay

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
        with evaluating(self.model):
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
            self._make_ends()
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
            kind = kind_of(x, y) if self.capture else None
            loss = self._backward(world, x, y, share, kind) if share.rows else 0.0
            accepted = self._accepted(world, share, kind)
            world.update(self.optimizer, [loss * share.fraction], accepted)

    def _accepted(self, world: World, share: Share, kind: Any) -> Callable[[list[float]], None]:
        """What else belongs to an accepted step: it is counted, and its replicas agree whether to
        replay the next one like it, all or none."""

        def count(totals: list[float]) -> None:
            self.progress.count(share.total, totals[0])
            steps = [self.captured[rank] for rank in world.active]
            self._replayed[kind] = all(step.replays for step in steps)

        return count

    def _backward(self, world: World, x: Any, y: Any, share: Share, kind: Any) -> float:
        """The loss of this replica's rows; their gradients are on their way when it returns."""
        rows, targets = (to_device(cut(each, share), world.device) for each in (x, y))
        denominator = share_of(total_weight(self.loss, y), share)
        if not self.capture:
            return float(self._gradients(rows, targets, denominator, share))
        if denominator is not None:  # it depends on the targets: an argument of the step
            dtype = self.buckets[0].dtype if self.buckets else float32
            given: Any = Tensor(np.array(denominator, dtype)).to(world.device)
        else:
            given = None
        step = self.captured[world.rank]
        step.allowed = self._replayed.get(kind, False)
        return float(step(rows, targets, given, share))

    def _gradients(self, rows: Any, targets: Any, denominator: Any, share: Share) -> Tensor:
        """Forward and backward. (A captured step is known for each ``share``.)"""
        outputs = self.model(rows)
        with told(self.loss, denominator):
            loss = self.loss(outputs, targets)
        if self.nan == "raise":
            aside(_require_finite, loss)
        loss.backward()
        return loss

    def _evaluate(
        self, world: World, feed: Feed, metrics: dict[str, Callable[[Tensor, Tensor], Any]]
    ) -> tuple[int, float, list[float]]:
        rows, weight, sums = 0, 0.0, [0.0] * (len(metrics) + 1)
        with no_grad():
            for x, y, share in self._steps(world, feed):
                if share.rows:
                    known = total_weight(self.loss, y)
                    total = share.total if known is None else known
                    inputs, targets = (to_device(cut(z, share), world.device) for z in (x, y))
                    outputs = self.model(inputs)
                    with told(self.loss, share_of(known, share)):
                        loss = float(self.loss(outputs, targets))
                    rows, weight = rows + share.rows, weight + total * share.fraction
                    sums[0] += loss * total * share.fraction if total else 0.0
                    for i, metric in enumerate(metrics.values(), 1):
                        sums[i] += float(np.sum(np.asarray(host(metric(outputs, targets)))))
        return rows, weight, sums


@told_as("raise if not finite")
def _require_finite(loss: Tensor) -> None:
    value = float(loss)
    if not np.isfinite(value):
        raise ReplicaError(f"the loss is {value} (nan='raise')")


def _same(these: list[Any], those: list[Any]) -> bool:
    """Whether the same parameters are meant, with equal remarks on each."""
    return len(these) == len(those) and all(
        a[0] is b[0] and a[1:] == b[1:] for a, b in zip(these, those, strict=True)
    )
