"""One replica: its rank and device, its ends of the buckets, and its part of a step.

Inside a replica's thread this object is ``mode.replica``: the engine asks it for the replica's
own tensor of a parameter, for what backward starts from, and for sums over replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from minidp.backend import backend_of, get_backend
from minidp.device import Device
from minidp.errors import ReplicaError
from minidp.parallel.bucket import make_buckets
from minidp.parallel.communicator import Communicator
from minidp.parallel.ends import BucketEnd, make_ends
from minidp.parallel.exchange import Exchange, Stopped
from minidp.parallel.feed import Feed
from minidp.parallel.split import Share, cut, rows_of, shares, to_device
from minidp.parallel.update import BucketUpdate, finite, groups_of, require_finite
from minidp.parameter import Parameter
from minidp.placement import place
from minidp.random import Generator, default_generator
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
        self.share = Share(0, 1, comm.size)
        self.active: Sequence[int] = range(comm.size)
        self.ends: list[BucketEnd] = []
        self.step = comm.step = random["step"]
        self.check_finite = False
        self._place: dict[Tensor, tuple[int, int]] = {}
        self._actions: list[Callable[[], None]] = []
        self._copies: dict[Tensor, Tensor] = {}
        self._optimizers: list[Any] = []
        self._launched = self._shards = self._models = 0

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

    def shard(self, loader: Iterable[Any]) -> Iterator[Any]:
        """This replica's rows of each batch of ``loader``, on its device; each begins a step."""
        self._shards += 1
        feed: Feed = self.exchange.once(("feed", self._shards), lambda: Feed(loader, self.size))
        for batch in feed.each(self.rank, self.exchange):
            parts = shares(rows_of(batch), [Fraction(1)] * self.size)
            if parts[-1].rows == 0:
                raise ReplicaError(
                    f"a batch of {parts[-1].total} rows cannot be sharded over {self.size} "
                    "replicas: use drop_last=True, larger batches, or dp.Scheduler"
                )
            self.begin(self.step + 1, parts[self.rank], range(self.size))
            yield to_device(cut(batch, self.share), self.device)

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

    def begin(self, step: int, share: Share, active: Sequence[int]) -> None:
        """Start a step with this replica's ``share``; ``active`` are the ranks that have rows."""
        self.step, self.share, self.active = step, share, active
        self.comm.step = step
        self.generator.step, self.generator.draw = step, 0
        self._renew()

    def _renew(self) -> None:
        """Forget the values, gradients and intentions of the step before."""
        for end in self.ends:
            end.begin(self.launch_ready)
        self._actions, self._copies, self._launched = [], {}, 0

    def close(self, failed: bool) -> None:
        """The program has ended: let go of the model and of peers."""
        for end in self.ends:
            end.begin(self.launch_ready)
        self.ends, self._place = [], {}
        self._renew()
        self.comm.close(failed)

    def local(self, shared: Tensor) -> Tensor:
        """This replica's tensor for a Parameter or Buffer of the model."""
        found = self._place.get(shared)
        if found is not None:
            return self.ends[found[0]].tensors()[found[1]]
        if isinstance(shared, Parameter) and shared.requires_grad:
            raise ReplicaError(
                f"a parameter of shape {shared.shape} is not one of the replicated model's: "
                "pass the whole model to replicate(), and build optimiser and scheduler after it"
            )
        if self.device.type == "cpu" or shared.device == self.device:
            return shared
        if shared not in self._copies:
            self._copies[shared] = shared.detach().to(self.device)
        return self._copies[shared]

    def seed(self) -> float:
        """What a backward starts from: rows here / rows everywhere."""
        return self.share.fraction

    @property
    def alone(self) -> bool:
        """Whether no other replica has rows in this step."""
        return len(self.active) == 1

    def all_reduce(self, array: Array, name: str) -> Array:
        """The sum over the replicas that have rows, on this replica's device."""
        if self.alone:
            return array
        shape = array.shape
        total = self.comm.all_reduce(array.reshape(-1), name, self.active).wait()
        return self._here(total).reshape(shape)

    def _here(self, array: Array) -> Array:
        backend = get_backend(self.device.type)
        return array if backend_of(array) is backend else backend.put(array, self.device.index)

    def at_commit(self, action: Callable[[], None]) -> None:
        """Run ``action`` when the step is accepted: by one replica, for all."""
        self._actions.append(action)

    def launch_ready(self) -> None:
        """Start the reductions whose turn it is: buckets go in index order on every replica.

        The last one waits for ``update``: who gives it agrees to the step.
        """
        while self._launched < len(self.ends) - 1:
            if self.ends[self._launched].gradient is None:
                return
            self._launch(self.ends[self._launched])

    def _launch(self, end: BucketEnd, numbers: Sequence[float] = ()) -> None:
        gradient, riding = end.gradient, [*end.reached, *numbers]
        if self.check_finite:
            require_finite(gradient, end.bucket)
        end.work = self.comm.sum_bucket(gradient, f"bucket {self._launched}", riding)
        self._launched += 1

    def _launch_all(self, numbers: Sequence[float]) -> None:
        """Start what backward left open: buckets that no gradient reached go with zeros."""
        for end in self.ends:
            if end.gradient is None:
                end.pack({})
        self.launch_ready()
        if self.ends:
            self._launch(self.ends[-1], numbers)

    def update(
        self, optimizer: Any, numbers: Sequence[float] = (),
        accepted: Callable[[list[float]], None] | None = None,
    ) -> list[float]:  # fmt: skip
        """Finish the step: reduce, agree, update this replica's slice, commit.

        Returns the sums over replicas of ``numbers``; one replica also calls ``accepted`` with
        them as part of the step. A replica agrees by giving its last bucket. Until all have agreed
        nothing changes; from then on nothing stops a replica before its part is done, so that a
        step happens whole or not at all.
        """
        owner, lead = groups_of(optimizer), self._lead(optimizer)
        updates = [BucketUpdate(optimizer, lead, end, owner) for end in self.ends]
        self._launch_all(numbers)
        totals = list(numbers)
        for end, update in zip(self.ends, updates, strict=True):
            if end.work is not None:
                totals = update.receive(end.work, self.store).tolist()
        if not self.ends:
            totals = self._agree(numbers)
        if self.check_finite:
            self._check_sums(updates)
        for update in updates:
            update.run(self.rank)
        if self.rank == self.active[0]:
            self._commit(updates)
            if accepted is not None:
                accepted(totals)
        if self.exchange.once(optimizer, lambda: self.rank) == self.rank:
            for update in updates:
                update.advance()
        self.comm.barrier("end of step")
        self._finish(updates)
        return totals

    def _check_sums(self, updates: Sequence[BucketUpdate]) -> None:
        """Let no one update when some slice of a sum is not finite."""
        bad = [update for update in updates if not finite(update.slice(self.rank))]
        found = self._agree([float(len(bad))])[0]
        for update in bad:
            require_finite(update.reduced, update.bucket)
        if found:
            raise Stopped

    def _lead(self, optimizer: Any) -> Any:
        """The first of the optimisers that replicas have in this place."""
        if optimizer not in self._optimizers:
            self._optimizers.append(optimizer)
        place = self._optimizers.index(optimizer)
        return self.exchange.once(("optimizer", place), lambda: optimizer)

    def _agree(self, numbers: Sequence[float]) -> list[float]:
        total = self.comm.all_reduce(np.array(numbers, np.float64), "loss").wait()
        result: list[float] = total.tolist()
        return result

    def _commit(self, updates: Sequence[BucketUpdate]) -> None:
        """What happens once for all replicas: buffers and gradients are set."""
        default_generator.step = self.step
        for action in self._actions:
            action()
        for update in updates:
            bucket = update.end.bucket
            views = bucket.views(place(update.reduced, bucket.home))
            for p, view, used in zip(bucket.parameters, views, update.used, strict=True):
                p.grad = Tensor(view) if used else None
                p.changed()

    def _finish(self, updates: Sequence[BucketUpdate]) -> None:
        for update in updates:
            update.end.release(update.reduced)
        if self._shards:
            self._renew()
        else:
            self.begin(self.step + 1, self.share, self.active)
