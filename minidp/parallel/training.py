"""The programs of a scheduler's replicas: to train on every batch, or to evaluate it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

from minidp.autograd import no_grad
from minidp.errors import ReplicaError
from minidp.graph.captured import kind_of
from minidp.mode import aside, switched
from minidp.parallel.batch import Batch
from minidp.parallel.denominator import (
    Sums,
    SumsWantedError,
    is_known,
    share_of,
    told,
    total_weight,
)
from minidp.parallel.evaluation import summed
from minidp.parallel.faults import meet
from minidp.parallel.feed import Feed
from minidp.parallel.inspections import (
    Inspection,
    Scale,
    anything,
    require_finite,
    require_finite_loss,
)
from minidp.parallel.native import NativeRuns
from minidp.parallel.progress import Progress
from minidp.parallel.recorder import Recorder
from minidp.parallel.replays import Replays
from minidp.parallel.replica import World
from minidp.parallel.split import Share, leads, parts, shares
from minidp.tensor import Tensor


class Gradients:
    """Forward and backward of some rows: what a captured step records."""

    def __init__(
        self, model: Callable[..., Any], loss: Callable[..., Tensor], finite: bool
    ) -> None:  # fmt: skip
        self.model, self.loss, self.finite = model, loss, finite
        self.exchanges = not is_known(loss)
        """Whether means that appear in the forward must be known beforehand where it is run in
        parts: the model's, too, once it has asked for one."""

    def __call__(self, batch: tuple[Any, ...], denominator: Any, *kind: Any) -> Tensor:
        """The loss of the rows; a captured step is known for each ``kind``."""
        loss = check_loss(self.forward(batch, denominator))
        if self.finite:
            aside(require_finite_loss, loss)
        loss.backward()
        return loss

    def forward(self, batch: tuple[Any, ...], denominator: Any) -> Tensor:
        inputs, named, targets = batch
        outputs = self.model(*inputs, **named)
        with told(self.loss, denominator):
            return self.loss(outputs, targets)


def check_loss(loss: Any) -> Tensor:
    """The loss; a ReplicaError for what is not a Tensor with one element."""
    if isinstance(loss, Tensor) and loss.numel() == 1:
        return loss
    what = f"a tensor of shape {loss.shape}" if isinstance(loss, Tensor) else f"{loss!r:.60}"
    raise ReplicaError(
        f"the loss gave {what}: expected a tensor with one element, as reduction='mean', "
        "reduction='sum' and dp.mean(values, weight) make it"
    )


class Program(ABC):
    """What the programs of replicas share: each batch, with a step begun for it."""

    def __init__(self, gradients: Gradients, weights: Sequence[Fraction]) -> None:
        self.gradients, self.weights = gradients, weights

    @abstractmethod
    def __call__(self, world: World, feed: Feed) -> Any:
        """Run all batches, as one replica."""

    def steps(self, world: World, feed: Feed) -> Iterator[tuple[Batch, list[Share]]]:
        """Every batch, and the shares of all replicas."""
        world.exchange.steps[world.rank] = world.step + 1  # for which the first batch is fetched
        split: list[Share] = []
        for given, used in feed.each(world.rank, world.exchange):
            batch, step = Batch.of(given), feed.step + feed.places[world.rank]
            if not split or batch.rows != split[0].total:
                split = shares(batch.rows, self.weights)
            ranks = [rank for rank, share in enumerate(split) if share.rows]
            world.begin(step, split[world.rank], ranks, leads(split))
            world.now.used = used
            yield batch, split


class Training(Program):
    """Trains on every batch: forward and backward of this replica's rows, and the update."""

    def __init__(
        self, gradients: Gradients, weights: Sequence[Fraction], optimizer: Any, accumulate: int,
        inspections: list[Inspection], replays: Replays | None, progress: Progress,
        on_step: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(gradients, weights)
        self.optimizer, self.accumulate, self.inspections = optimizer, accumulate, inspections
        self.replays, self.progress, self.on_step = replays, progress, on_step
        self.scale = next((each for each in inspections if isinstance(each, Scale)), None)
        finite = gradients.finite and not (self.scale is not None and self.scale.dynamic)
        self.check = require_finite if finite else anything
        self.native: NativeRuns | None = None
        if replays is not None and accumulate == 1 and on_step is None:
            self.native = NativeRuns(replays, gradients.loss, optimizer, weights, inspections,
                                     progress)  # fmt: skip

    def __call__(self, world: World, feed: Feed) -> None:
        world.inspections = self.inspections
        world.check = self.check
        self._natively(world, feed)
        for batch, split in self.steps(world, feed):
            if batch.rows == 0:
                raise ReplicaError("a batch without rows cannot be trained on; drop it")
            kind = None
            if self.replays is not None:
                kind = kind_of(batch.plain(), self.accumulate)
            world.factor = self.scale.factor if self.scale is not None else 1.0
            meet(world.rank, world.step, "forward")
            loss = self._gradients(world, batch, split, kind)
            meet(world.rank, world.step, "update")
            accepted = partial(self._accepted, world, batch.rows, kind)
            world.update(self.optimizer, [loss], accepted, self.on_step)
            self._natively(world, feed)

    def _natively(self, world: World, feed: Feed) -> None:
        """Run the next batches without Python between them, as far as that can be."""
        if self.native is not None and self.native.possible(world):
            self.native.run(world, feed)

    def _accepted(
        self, world: World, rows: int, kind: Any, totals: list[float], skipped: str
    ) -> None:
        """What else belongs to a step, once for all replicas: it is counted, and its replicas
        agree whether to replay the next one like it."""
        self.progress.count(rows, totals[0], bool(skipped))
        if self.replays is not None:
            self.replays.agree(kind, world.now.ranks)
        if self.scale is not None:
            self.scale.move(bool(skipped))

    def _gradients(
        self, world: World, batch: Batch, split: list[Share], kind: Any
    ) -> float:
        """This replica's share of the loss; its gradients are on their way when it returns."""
        pieces = [parts(share, self.accumulate) for share in split]
        world.now.parts = self.accumulate
        if self.accumulate > 1 and self.gradients.exchanges:
            world.now.sums = self._sums(world, batch, pieces)
        try:
            return self._in_parts(world, batch, pieces, kind)
        except SumsWantedError:  # all come here, in the first part: no bucket has been given any
            if world.now.part.start != world.now.share.start:
                raise
            self.gradients.exchanges = True
            world.now.sums = self._sums(world, batch, pieces)
            return self._in_parts(world, batch, pieces, kind)

    def _in_parts(
        self, world: World, batch: Batch, pieces: list[list[Share]], kind: Any
    ) -> float:
        known = total_weight(self.gradients.loss, batch.targets)
        return sum(
            float(self._part(world, batch, part, share_of(known, part), kind)) * part.fraction
            for part in self._begun(world, pieces)
        )

    def _begun(self, world: World, pieces: list[list[Share]]) -> Iterator[Share]:
        """This replica's parts that have rows, each begun."""
        own = [part for part in pieces[world.rank] if part.rows]
        for place, part in enumerate(own):
            active = [rank for rank, each in enumerate(pieces) if each[place].rows]
            world.begin_part(part, active, part is own[-1])
            if world.now.sums is not None:
                world.now.sums.begin_part(place)
            yield part

    def _sums(self, world: World, batch: Batch, pieces: list[list[Share]]) -> Sums:
        """What the means of all parts consist of, by a forward of each, which may ask for
        gradients itself."""
        sums = world.now.sums = Sums()
        for part in self._begun(world, pieces):
            self.gradients.forward(self._cut(world, batch, part), None)
        world.now.forget()
        world.now.active = world.now.ranks
        sums.complete(lambda flat: world.comm.all_reduce(
            flat, "sums of the parts", world.now.ranks).wait())  # fmt: skip
        return sums

    def _part(
        self, world: World, batch: Batch, part: Share, denominator: float | None, kind: Any
    ) -> Tensor:
        given = self._cut(world, batch, part)
        if self.replays is not None:
            with world.span("replay", ""):
                return self.replays(world, kind, given, denominator, part)
        recording = world.exchange.recording
        if recording is None:
            return self.gradients(given, denominator)
        watch = Recorder(recording, world.rank, world.step)
        with switched(watch=watch):
            loss = self.gradients(given, denominator)
        watch.close()
        return loss

    def _cut(self, world: World, batch: Batch, part: Share) -> tuple[Any, ...]:
        with world.span("copy", ""):
            own = batch.cut(part, world.device)
        return own.inputs, own.named, own.targets


class Evaluation(Program):
    """The loss and the metrics' sums over this replica's rows of every batch."""

    def __init__(
        self, gradients: Gradients, weights: Sequence[Fraction],
        metrics: Sequence[Callable[[Tensor, Tensor], Any]],
    ) -> None:  # fmt: skip
        super().__init__(gradients, weights)
        self.metrics = metrics

    def __call__(self, world: World, feed: Feed) -> tuple[int, float, list[float]]:
        """(rows, what the losses divide by, sums: the loss and each metric)."""
        rows, weight, sums = 0, 0.0, [0.0] * (len(self.metrics) + 1)
        with no_grad():
            for batch, split in self.steps(world, feed):
                share = split[world.rank]
                if share.rows:
                    total, found = self._found(world, batch, share)
                    rows, weight = rows + share.rows, weight + total * share.fraction
                    sums = [a + b for a, b in zip(sums, found, strict=True)]
        return rows, weight, sums

    def _found(self, world: World, batch: Batch, share: Share) -> tuple[float, list[float]]:
        loss_of = self.gradients.loss
        known = total_weight(loss_of, batch.targets)
        total = share.total if known is None else known
        own = batch.cut(share, world.device)
        outputs = self.gradients.model(*own.inputs, **own.named)
        with told(loss_of, share_of(known, share)):
            loss = float(loss_of(outputs, own.targets))
        sums = [loss * total * share.fraction if total else 0.0]
        metrics = [metric(outputs, own.targets) for metric in self.metrics]
        return total, sums + [summed(each, share.rows) for each in metrics]
