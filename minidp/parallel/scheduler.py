"""The scheduler: one model, trained on several devices as if on one.

It cuts each batch by the devices' workloads, runs the model on every replica, adds the gradients
and updates the parameters. The result is that of one device, for any split; for an equal number
of replicas it is equal to the last bit, on any number of devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Lock, get_ident
from typing import Any

import numpy as np

from minidp.device import Device
from minidp.errors import ReplicaError
from minidp.parallel import options
from minidp.parallel.batch import Batch
from minidp.parallel.bucket import FIRST_KIB, LIMIT_KIB, Bucket, make_buckets
from minidp.parallel.checks import check_copies, verified
from minidp.parallel.ends import make_ends
from minidp.parallel.evaluation import correct, evaluating, means, whole
from minidp.parallel.events import Recording
from minidp.parallel.exchange import Exchange, check_seconds
from minidp.parallel.feed import Feed
from minidp.parallel.launch import check_devices, check_store, launch_on, placed
from minidp.parallel.progress import Progress
from minidp.parallel.replays import Replays
from minidp.parallel.replica import World
from minidp.parallel.snapshot import fingerprint
from minidp.parallel.split import check_workload
from minidp.parallel.stats import Logged, Stats
from minidp.parallel.training import Evaluation, Gradients, Program, Training
from minidp.random import default_generator
from minidp.tensor import Tensor


class Scheduler:
    """Trains ``model`` with ``loss`` and ``optimizer`` on ``devices``.

    ``workload`` weights the devices (``[3, 1]``); ``store`` says where gradients meet: ``"local"``
    in host memory, ``"device"`` on every device. ``replicas`` is their number where it differs
    from that of the devices; devices then decide only who runs which. ``accumulate`` runs each
    replica's rows in so many parts.

    What is asked of a step's gradients before anything changes, of all replicas alike:
    ``nan="raise"`` ends a step whose loss or gradient is not finite, ``nan="skip"`` leaves it out;
    ``clip_norm`` scales gradients down to this norm; ``loss_scale`` multiplies the loss for
    float16 and divides the gradients again: a factor, or ``"dynamic"``.

    ``unused`` says what happens when backward reaches a parameter in no replica: ``"warn"`` (once),
    ``"error"`` or ``"ignore"``. ``verify=True`` compares the first step with one replica.
    ``bucket_kib`` are the sizes of the first bucket and of others. ``capture=True`` replays steps
    that repeat (see ``dp.capture``), with the same bytes; ``fuse=True`` also fuses their
    element-wise ops, which is faster and equal but for rounding. A replica that has waited
    ``warn_after`` seconds for others warns, after ``deadline`` seconds it raises.

    >>> model = nn.Linear(3, 1)
    >>> optimizer = optim.SGD(model.parameters(), lr=0.1)
    >>> train = dp.Scheduler(model, nn.MSELoss(), optimizer, devices=2)
    >>> loss = train(dp.rand(5, 3), dp.rand(5, 1))  # split 3 and 2, run, reduced, updated
    """

    def __init__(
        self, model: Any, loss: Callable[..., Tensor], optimizer: Any, devices: Any = None,
        workload: Sequence[float] | None = None, store: str = "local", *,
        replicas: int | None = None, accumulate: int = 1, nan: str | None = None,
        clip_norm: float | None = None, loss_scale: float | str | None = None,
        unused: str = "warn", verify: bool = False,
        bucket_kib: tuple[float, float] = (FIRST_KIB, LIMIT_KIB), capture: bool = False,
        fuse: bool = False, warn_after: float = 10.0, deadline: float = 300.0,
    ) -> None:  # fmt: skip
        self.model, self.loss, self.optimizer = model, loss, optimizer
        options.check_parts(model, loss, optimizer)
        self.devices = check_devices(devices)
        self.store = check_store(store)
        self.inspections = options.inspections(nan, clip_norm, loss_scale, unused)
        self.accumulate = options.positive("accumulate", accumulate)
        self.bucket_kib = options.sizes(bucket_kib)
        check_seconds(warn_after=warn_after, deadline=deadline)
        self.verify, self.warn_after, self.deadline = verify, warn_after, deadline
        self.capture, self.fuse = capture or fuse, fuse
        self.weights = check_workload(workload, len(self.devices))
        self.places = self.devices
        if replicas is not None:
            self.places = placed(self.devices, replicas, self.weights)
            self.weights = check_workload(None, replicas)
        self.gradients = Gradients(model, loss, finite=nan == "raise")
        self.buckets: list[Bucket] = []
        self._trained: list[Any] | None = None
        self._prepare()
        self.progress = Progress()
        self._running = Lock()
        self._between: int | None = None  # the thread that calls on_step
        self.recording: Recording | None = None
        self._stats: Stats | None = None

    def _prepare(self) -> None:
        """Take over what the caller changed since: values, and which parameters are trained."""
        groups = [group["params"] for group in self.optimizer.param_groups]
        options.check_trained(self.model, groups)
        trained = options.trained(groups)
        if self._trained is None or not options.same(trained, self._trained):
            self._trained = None  # until all is made
            home = self.places[0] if self.store == "device" else Device("cpu", 0)
            named = getattr(self.model, "named_parameters", dict)
            names = {p: name for name, p in dict(named()).items()}
            self.buckets = make_buckets(groups, home, names, *self.bucket_kib)
            self._make_ends()
            self._trained = trained
        for bucket in self.buckets:
            bucket.refresh()

    def _make_ends(self) -> None:
        """New ends of the buckets for all replicas; captured steps belong to the old ones."""
        ends = make_ends(self.buckets, self.places, self.store)
        replays = Replays(self.gradients, ends, self.fuse) if self.capture else None
        self.ends, self.replays = ends, replays  # both or none: Ctrl-C may come between calls

    def __repr__(self) -> str:
        captured = "" if self.replays is None else f", {self.replays}"
        return (
            f"Scheduler({len(self.places)} replica(s) on {', '.join(map(str, self.devices))}, "
            f"store={self.store!r}, {len(self.buckets)} bucket(s){captured})"
        )

    def __reduce__(self) -> Any:
        raise options.no_copy()

    def __call__(self, *batch: Any, accumulate: int | None = None, **named: Any) -> Tensor:
        """Train on one batch, ``(*inputs, targets)`` and inputs by name: split, replicate, run,
        reduce, update. Returns the mean loss.

        With ``accumulate`` each replica runs its rows in so many parts, one after the other, which
        takes a part of the memory; the gradient is that of the whole batch.
        """
        self.progress = Progress()
        self.run_batches([Batch(*batch, **named)], None, accumulate)
        return Tensor(np.array(self.progress.loss))

    def run(
        self, loader: Iterable[Any], epochs: int = 1, *, accumulate: int | None = None,
        watch: Callable[[Progress], None] | None = None,
        on_step: Callable[[Progress], None] | None = None,
        on_epoch: Callable[[Progress], None] | None = None, log: str | Path | None = None,
    ) -> list[float]:  # fmt: skip
        """Train on every batch of ``loader``, ``epochs`` times; return each epoch's mean loss.

        Replicas run freely through an epoch, without a hand-off per step. ``watch`` is called
        about ten times a second and ``on_epoch`` after each epoch, both in the caller's thread;
        ``on_step`` after each step by one replica, while the others wait: it may move a schedule.
        ``log`` is a file that ``stats()`` are appended to, a line of JSON a second. Epochs are
        counted as the loader counts them, if it does.
        """
        options.check_loader(loader, epochs)
        losses = []
        for epoch in range(epochs):
            self.progress = Progress(epoch=getattr(loader, "epoch", epoch))
            self.run_batches(loader, watch, accumulate, on_step, log)
            losses.append(self.progress.mean_loss)
            if on_epoch is not None:
                on_epoch(self.progress)
        return losses

    def run_batches(
        self, batches: Iterable[Any], watch: Callable[[Progress], None] | None = None,
        accumulate: int | None = None, on_step: Callable[[Progress], None] | None = None,
        log: str | Path | None = None,
    ) -> None:  # fmt: skip
        """One pass over ``batches``."""
        count = self.accumulate
        if accumulate is not None:
            count = options.positive("accumulate", accumulate)
        batches = verified(self, batches)
        self._check_free()
        with self._running:
            self._prepare()
            for bucket in self.buckets:
                bucket.check_hooks()
            after = None if on_step is None else partial(self._between_steps, on_step)
            program = Training(self.gradients, self.weights, self.optimizer, count,
                               self.inspections, self.replays, self.progress, after)  # fmt: skip
            self._launch(program, batches, watch, log)

    def _check_free(self) -> None:
        """A ReplicaError where a run would wait for itself."""
        if self._running.locked():
            raise ReplicaError(
                "this scheduler is running already, in another thread or around this callback: "
                "wait for its end (only evaluate may be called in on_step)"
            )

    def _between_steps(self, on_step: Callable[[Progress], None]) -> None:
        """Call ``on_step`` while all replicas wait: it may evaluate."""
        stats, self._between = self._stats, get_ident()
        try:
            on_step(self.progress)
            groups = [group["params"] for group in self.optimizer.param_groups]
            options.check_begun_with(self.model, groups, self.buckets)
        finally:
            self._stats, self._between = stats, None

    def evaluate(
        self, loader: Iterable[Any],
        metrics: dict[str, Callable[[Tensor, Tensor], Any]] | None = None,
    ) -> dict[str, float]:  # fmt: skip
        """The mean loss and ``metrics`` over every row of ``loader``, each row exactly once.

        A metric is called with (outputs, targets) of some rows and gives one number per row, or
        their sum. ``accuracy`` is there by default.
        """
        metrics = options.metrics({"accuracy": correct} if metrics is None else metrics)
        program = Evaluation(self.gradients, self.weights, [*metrics.values()])
        if self._between == get_ident():
            for bucket in self.buckets:
                bucket.refresh()
            return means(self._evaluate(program, loader), [*metrics])
        self._check_free()
        with self._running:
            self._prepare()
            return means(self._evaluate(program, loader), [*metrics])

    def _evaluate(self, program: Evaluation, loader: Iterable[Any]) -> list[Any]:
        with evaluating(self.model):
            return self._launch(program, whole(loader))

    def _launch(
        self, program: Program, batches: Iterable[Any],
        watch: Callable[[Progress], None] | None = None, log: str | Path | None = None,
    ) -> list[Any]:  # fmt: skip
        feed = Feed(batches, len(self.places), default_generator.step)
        exchange = Exchange(len(self.places), self.warn_after, self.deadline)
        exchange.recording = self.recording if isinstance(program, Training) else None
        size = sum(bucket.master.data.nbytes for bucket in self.buckets)
        self._stats = stats = Stats(exchange, feed, self.progress, size, self.devices)
        lines = None if log is None else Logged(log, stats)

        def poll() -> None:
            if watch is not None:
                watch(self.progress)
            if lines is not None:
                lines.poll()

        try:
            return launch_on(partial(self._run, program), self.places, (feed,), self.store, poll,
                             exchange)  # fmt: skip
        except BaseException:
            # a replica inside a long kernel may still write to the ends it was given
            self._make_ends()
            raise
        finally:
            stats.stop()
            if lines is not None:
                lines.close()

    def _run(self, program: Program, world: World, feed: Feed) -> Any:
        world.adopt(self.ends[world.rank])
        return program(world, feed)

    def stats(self) -> dict[str, Any]:
        """What the last pass has cost, or the running one so far: rows per second, each replica's
        busy share, exposed communication and more. See ``minidp.parallel.metrics``."""
        return self._stats.metrics().record() if self._stats is not None else {}

    @contextmanager
    def record(self) -> Iterator[Recording]:
        """Record what replicas do in this block, for a timeline.

        Module by module, unless steps are captured. Recorded steps take a little longer;
        evaluation is left out. Inside of ``on_step`` it begins, or ends, in the midst of a pass.
        """
        meta = {"model": type(self.model).__name__, "store": self.store}
        recording = Recording([], [str(place) for place in self.places], meta)
        first = default_generator.step + 1
        self._record(recording)
        try:
            yield recording
            recording.keep(first, default_generator.step)
        finally:
            self._record(None)

    def _record(self, recording: Recording | None) -> None:
        self.recording = recording
        if self._stats is not None:
            self._stats.exchange.recording = recording

    def check_replicas(self) -> None:
        """A ReplicaError that names the first parameter in which two replicas differ, as the last
        step left them: with store ``device`` each device has a copy of its own."""
        check_copies(self.buckets, self.ends)

    def fingerprint(self) -> str:
        """A hash of all parameters and buffers: equal ones are equal to the last bit."""
        return fingerprint(self.model, self.optimizer)
