"""One replica: its rank and device, its ends of the buckets, and its part of a step.

Inside a replica's thread this object is ``mode.replica``: the engine asks it for the replica's
own tensor of a parameter, for what backward starts from, and for sums over replicas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from fractions import Fraction
from typing import Any

from minidp.backend import backend_of, get_backend
from minidp.device import Device
from minidp.errors import GraphError, ReplicaError
from minidp.mode import mode
from minidp.ops import collective
from minidp.parallel.batch import cut, rows_of
from minidp.parallel.bucket import make_buckets
from minidp.parallel.commit import Commit, agree
from minidp.parallel.communicator import Communicator
from minidp.parallel.denominator import SumsWantedError
from minidp.parallel.ends import BucketEnd, make_ends
from minidp.parallel.exchange import Exchange
from minidp.parallel.feed import Feed
from minidp.parallel.inspections import ClipNorm, Inspection, anything
from minidp.parallel.names import Names, name_of
from minidp.parallel.reduction import Reduction
from minidp.parallel.split import Share, shares
from minidp.parallel.step import Step
from minidp.parallel.update import Optimizers
from minidp.parameter import Parameter
from minidp.random import Generator
from minidp.tensor import Tensor
from minidp.types import Array


class World:
    """What a replica's program is given: ``rank``, ``size``, ``device`` and ``comm``.

    ``places`` are the devices of all replicas, ``random`` is the state of the default generator
    when they were launched: steps are counted on from there.
    """

    def __init__(
        self, rank: int, places: Sequence[Device], comm: Communicator, exchange: Exchange,
        store: str, random: dict[str, int],
    ) -> None:  # fmt: skip
        self.rank, self.size, self.device, self.comm = rank, comm.size, places[rank], comm
        self.places, self.exchange, self.store = places, exchange, store
        self.generator = Generator()
        self.generator.set_state(random)
        self.ends: list[BucketEnd] = []
        self.inspections: list[Inspection] = []
        """What is asked of the sums before each update; the same on all replicas."""
        self.check: Callable[[BucketEnd], None] = anything
        """What is asked of this replica's own gradients before they are added."""
        self.factor = 1.0
        """What backward starts from is multiplied by this; an inspection divides by it."""
        self._place: dict[Tensor, tuple[int, int]] = {}
        self._names = Names()
        self.in_place = store == "local" and all(place.type == "cpu" for place in places)
        """Whether replicas update the memory that they read parameters from."""
        self._optimizers = Optimizers(exchange)
        self._shards = self._models = 0
        self.now = Step(random["step"], Share(0, 1, self.size), range(self.size))
        self.adopt([])

    @property
    def step(self) -> int:
        """The number of the running step."""
        return self.now.number

    @property
    def share(self) -> Share:
        """The rows that this replica runs now."""
        return self.now.part

    @property
    def active(self) -> Sequence[int]:
        """The ranks that have rows now."""
        return self.now.active

    @property
    def first_row(self) -> int:
        """The index, in the global batch, of this replica's first row."""
        return self.share.start

    def replicate(self, model: Any) -> Any:
        """The model, for this replica: from now on backward() also reduces its gradients.

        Every replica passes the same model; a ReplicaError otherwise.
        """
        self._models += 1
        first, ends = self.exchange.once(("model", self._models), lambda: self._all_ends(model))
        if first is not model:
            raise ReplicaError(
                f"replicate: replica {self.rank} gave another {type(model).__name__} than the "
                "first did; build one model outside the program and pass it to all replicas"
            )
        self.adopt([*self.ends, *ends[self.rank]])
        return model

    def _all_ends(self, model: Any) -> tuple[Any, list[list[BucketEnd]]]:
        home = self.places[0] if self.store == "device" else Device("cpu", 0)
        names = {p: name for name, p in model.named_parameters()}
        buckets = make_buckets([list(model.parameters())], home, names)
        return model, make_ends(buckets, self.places, self.store)

    def check_change(self, tensor: Any) -> None:
        """A ReplicaError if forward must not change the tensor, for other replicas share it."""
        if self.size > 1:
            self._names.check_change(tensor, self.now.copies)

    def shard(self, loader: Iterable[Any]) -> Iterator[Any]:
        """This replica's rows of each batch of ``loader``, on its device; each begins a step."""
        self._shards += 1
        feed: Feed = self.exchange.once(
            ("feed", self._shards), lambda: Feed(loader, self.size, self.step)
        )
        for batch, used in feed.each(self.rank, self.exchange):
            parts = shares(rows_of(batch), [Fraction(1)] * self.size)
            if parts[-1].rows == 0:
                raise ReplicaError(
                    f"a batch of {parts[-1].total} rows cannot be sharded over {self.size} "
                    "replicas: use drop_last=True, larger batches, or dp.Scheduler"
                )
            self.begin(self.step + 1, parts[self.rank], range(self.size))
            self.now.used = used
            yield cut(batch, self.share, self.device)

    def adopt(self, ends: Sequence[BucketEnd]) -> None:
        """Train the parameters in these buckets."""
        self.ends = list(ends)
        self._place = {
            p: (index, i)
            for index, end in enumerate(self.ends) for i, p in enumerate(end.bucket.parameters)
        }  # fmt: skip
        for end in self.ends:
            end.memory.follow(end.bucket.master)
        self.begin(self.step, self.share, self.active)

    def begin(self, step: int, share: Share, ranks: Sequence[int], lead: int = 0) -> None:
        """Start a step with this replica's ``share``; ``ranks`` are those that have rows, of which
        ``lead`` acts for all.

        The values, gradients and intentions of the step before are forgotten.
        """
        self.now = Step(step, share, ranks, lead)
        self._names.forget()
        self.comm.step = self.exchange.steps[self.rank] = step
        self.generator.step, self.generator.draw = step, 0
        self.reduction = Reduction(self.comm, self.ends, self.check)
        self._commit: Commit | None = None
        for end in self.ends:
            end.begin(self.reduction.start_ready)

    def begin_part(self, part: Share, active: Sequence[int], last: bool) -> None:
        """Start a part of the step: its gradient is added to that of the parts before."""
        self.now.part, self.now.active, self.now.last = part, active, last
        self.generator.draw = 0  # equal rows draw equal numbers, in whichever part they are
        for end in self.ends:
            end.begin_part(last)

    def close(self, failed: bool) -> None:
        """The program has ended: let go of the model and of peers."""
        ends, self.ends, self._place = self.ends, [], {}
        self.begin(self.exchange.steps.get(self.rank, self.step), self.share, self.active)
        for end in ends:
            end.begin()
        self.comm.close(failed)

    def local(self, shared: Tensor) -> Tensor:
        """This replica's tensor for a Parameter or Buffer of the model."""
        found = self._place.get(shared)
        if found is not None:
            own = self.ends[found[0]].tensors()[found[1]]
            return own if shared.requires_grad else own.detach()  # frozen meanwhile
        if isinstance(shared, Parameter) and shared.requires_grad and mode.grad:
            raise ReplicaError(
                f"parameter {name_of(shared)} is not one of the replicated model's: "
                "pass the whole model to replicate(), and build optimiser and scheduler after it; "
                "what is added or unfrozen while replicas run is trained from the next run on; "
                "what is not to be trained is used under no_grad()"
            )
        if self.device.type == "cpu" or shared.device == self.device:
            return shared
        copies = self.now.copies
        if shared not in copies:
            copies[shared] = shared.detach().to(self.device)
        return copies[shared]

    @property
    def fraction(self) -> float:
        """Rows here / rows everywhere."""
        return self.share.fraction

    def seed(self) -> float:
        """What a backward starts from."""
        return self.fraction * self.factor

    @property
    def alone(self) -> bool:
        """Whether no other replica has rows now."""
        return len(self.active) == 1

    @property
    def place(self) -> tuple[int, int]:
        """Which one this is of those that have rows now, and how many these are."""
        return self.active.index(self.rank), len(self.active)

    def all_reduce(self, array: Array, name: str) -> Array:
        """The sum over the replicas that have rows, on this replica's device."""
        if self.alone:
            return array
        shape, name = array.shape, self._names.of_collective(name)
        total = self.comm.all_reduce(array.reshape(-1), name, self.active).wait()
        return self._here(total).reshape(shape)

    def everywhere(self, here: Tensor, name: str) -> Tensor:
        """The sum of ``here`` over the rows of all replicas, and all parts of the step."""
        if self.now.sums is not None:
            return self.now.sums.of(here, self.share.fraction)
        if self.now.parts > 1:
            raise SumsWantedError(f"{name}: asked for in a later part of a step, not in its first")
        result: Tensor = here if self.alone else collective.all_reduce(here, name=name)
        return result

    def _here(self, array: Array) -> Array:
        backend = get_backend(self.device.type)
        return array if backend_of(array) is backend else backend.put(array, self.device.index)

    def at_commit(self, action: Callable[[], None]) -> None:
        """Run ``action`` when the step is accepted: by one replica, for all."""
        self.now.actions.append(action)

    def at_commit_sum(self, owner: Any, values: Array, action: Callable[[Array], None]) -> None:
        """Run ``action`` with the sum of ``values`` over replicas when the step is accepted; what
        an ``owner`` gives in several parts of the step is added."""
        before = self.now.sums_at_commit.get(owner)
        given = values if before is None else before[0] + values
        self.now.sums_at_commit[owner] = given, action

    def clip_norm(
        self, limit: float, order: float = 2.0, among: Sequence[Tensor] | None = None,
        require_finite: bool = False,
    ) -> float:  # fmt: skip
        """Wait for the gradients and scale them down to the norm ``limit``; returns the norm.

        ``among`` must be all trained parameters.
        """
        trained = {p for p in self._place if p.requires_grad}
        if among is not None and trained - {*among}:
            raise ReplicaError(
                f"clip_norm: {len(trained - {*among})} trained parameter(s) were not given; in a "
                "replica all are clipped together"
            )
        if self._commit is None:
            self._commit = Commit(self, (), whole=True)
        clip = ClipNorm(limit, order)  # raises for what is no norm
        self._commit.inspect([clip])
        if require_finite and not math.isfinite(clip.norm):
            raise GraphError(f"The total norm of order {order} of the gradients is {clip.norm}")
        return clip.norm

    def update(
        self, optimizer: Any, numbers: Sequence[float] = (),
        accepted: Callable[[list[float], str], None] | None = None,
        afterwards: Callable[[], None] | None = None,
    ) -> list[float]:  # fmt: skip
        """Finish the step: reduce, inspect, update this replica's slice, commit.

        Returns the sums over replicas of ``numbers``; one replica also calls ``accepted`` with
        them, and with the reason if the step is skipped, as part of the step, and ``afterwards``
        when the step has happened, before any replica begins the next.
        """
        updates = self._optimizers.updates(optimizer, self.ends)
        with self.exchange.whole(self.rank):
            commit = self._commit
            if commit is None:
                whole = self.store == "device" or any(each.whole for each in self.inspections)
                commit = Commit(self, numbers, whole)
            else:  # summed before; now all have what they need to know of the optimiser
                commit.totals = agree(self.comm, numbers, "loss")
            commit.happen(optimizer, updates, accepted)
        commit.end(afterwards)
        self.begin(self.step + (not self._shards), self.now.share, self.now.ranks)
        return commit.totals

    def span(self, kind: str, name: str, size: int = 0) -> AbstractContextManager[None]:
        """A block that is an event of the timeline, if one is recorded."""
        recording = self.exchange.recording
        if recording is None:
            return nullcontext()
        return recording.span(self.rank, self.step, kind, name, size)
