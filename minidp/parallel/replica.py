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
from minidp.parallel.communicator import Communicator, bounds
from minidp.parallel.ends import BucketEnd, Link, make_ends
from minidp.parallel.exchange import Exchange
from minidp.parallel.feed import Feed
from minidp.parallel.split import Share, cut, rows_of, shares, to_device
from minidp.placement import place
from minidp.random import Generator, default_generator
from minidp.tensor import Parameter, Tensor
from minidp.types import Array


class World:
    """What a replica's program is given: ``rank``, ``size``, ``device`` and ``comm``."""

    def __init__(
        self, rank: int, device: Device, comm: Communicator, exchange: Exchange, store: str
    ) -> None:  # fmt: skip
        self.rank, self.size, self.device, self.comm = rank, comm.size, device, comm
        self.exchange, self.store = exchange, store
        self.generator = Generator(default_generator.seed, default_generator.step)
        self.share = Share(0, 1, comm.size)
        self.active: Sequence[int] = range(comm.size)
        self.ends: list[BucketEnd] = []
        self.links: list[Link] = []
        self.step = 0
        self._place: dict[int, tuple[int, int]] = {}
        self._actions: list[Callable[[], None]] = []
        self._copies: dict[int, Tensor] = {}
        self._launched = self._shards = 0

    @property
    def first_row(self) -> int:
        """The index, in the global batch, of this replica's first row."""
        return self.share.start

    def replicate(self, model: Any) -> Any:
        """The model, for this replica: from now on backward() also reduces its gradients."""
        first = self.exchange.once("home", lambda: self.device if self.store == "device" else None)
        home = first or Device("cpu", 0)
        groups = [list(model.parameters())]
        buckets = self.exchange.once(("buckets", id(model)), lambda: make_buckets(groups, home))
        self.adopt(make_ends(buckets, self.device, self.store))
        return model

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
            id(p): (end.bucket.index, i)
            for end in ends for i, p in enumerate(end.bucket.parameters)
        }  # fmt: skip
        self.begin(self.step, self.share, self.active)

    def begin(self, step: int, share: Share, active: Sequence[int]) -> None:
        """Start a step with this replica's ``share``; ``active`` are the ranks that have rows."""
        self.step, self.share, self.active = step, share, active
        self.comm.step = step
        self.generator.step, self.generator.draw = step, 0
        self.links = [Link(end, self.launch_ready) for end in self.ends]
        self._actions, self._copies, self._launched = [], {}, 0

    def local(self, shared: Tensor) -> Tensor:
        """This replica's tensor for a Parameter or Buffer of the model."""
        found = self._place.get(id(shared))
        if found is not None:
            return self.links[found[0]].tensors()[found[1]]
        if isinstance(shared, Parameter) and shared.requires_grad:
            raise ReplicaError(
                f"a parameter of shape {shared.shape} is not one of the replicated model's: "
                "pass the whole model to replicate(), and build optimiser and scheduler after it"
            )
        if self.device.type == "cpu" or shared.device == self.device:
            return shared
        if id(shared) not in self._copies:
            self._copies[id(shared)] = shared.detach().to(self.device)
        return self._copies[id(shared)]

    def seed(self) -> float:
        """What a backward starts from: rows here / rows everywhere."""
        return self.share.fraction

    def all_reduce(self, array: Array, name: str) -> Array:
        """The sum over the replicas that have rows, on this replica's device."""
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
        """Start the reductions whose turn it is: buckets go in index order on every replica."""
        while self._launched < len(self.links):
            link = self.links[self._launched]
            if link.gradient is None:
                return
            link.work = self.comm.all_reduce(link.gradient, f"bucket {self._launched}")
            self._launched += 1

    def launch_all(self) -> None:
        """Start what backward left open: buckets that no gradient reached go with zeros."""
        for link in self.links:
            if link.gradient is None:
                link.gradient = link.end.pack({})
        self.launch_ready()

    def update(self, optimizer: Any, loss: Sequence[float] = (0.0,)) -> list[float]:
        """Finish the step: reduce, agree, update this replica's slice, commit.

        Returns the sums over replicas of the numbers in ``loss``.
        """
        self.launch_all()
        states = [self._state(optimizer, end) for end in self.ends]
        reduced = [link.work.wait() for link in self.links if link.work is not None]
        totals = self._agree(loss)
        for end, gradient, state in zip(self.ends, reduced, states, strict=True):
            self._update_bucket(optimizer, end, gradient, *state)
        if self.rank == self.active[0]:
            self._commit(reduced)
        if self.exchange.once(optimizer, lambda: self.rank) == self.rank:
            self._advance(optimizer, reduced)
        self.comm.barrier("end of step")
        return totals

    def _agree(self, numbers: Sequence[float]) -> list[float]:
        total = self.comm.all_reduce(np.array(numbers, np.float64), "loss").wait()
        return [float(each) for each in total]

    def _state(self, optimizer: Any, end: BucketEnd) -> tuple[dict[str, Array], list[int]]:
        """The optimiser's state for a bucket, read before anyone can have committed the step."""
        names = optimizer.slots(optimizer.param_groups[end.bucket.group])
        taken = [optimizer.steps_taken(p) for p in end.bucket.parameters]
        return end.memory.state(optimizer, names, end.bucket), taken

    def _update_bucket(
        self, optimizer: Any, end: BucketEnd, gradient: Array, state: dict[str, Array],
        taken: Sequence[int],
    ) -> None:  # fmt: skip
        bucket, memory = end.bucket, end.memory
        group = optimizer.param_groups[bucket.group]
        cuts = bounds(bucket.size, self.size)
        first, last = cuts[self.rank : self.rank + 2] if self.store == "local" else (0, bucket.size)
        g = gradient if self.store == "local" else self._here(gradient)
        for start, stop, step in bucket.runs(bucket.used(gradient), taken):
            part = slice(max(start, first), min(stop, last))
            if part.start < part.stop:
                slices = {name: array[part] for name, array in state.items()}
                optimizer.update(memory.data[part], g[part], slices, group, step)

    def _commit(self, reduced: Sequence[Array]) -> None:
        """What happens once for all replicas: buffers and gradients are set."""
        for action in self._actions:
            action()
        for end, gradient in zip(self.ends, reduced, strict=True):
            bucket = end.bucket
            views = bucket.views(place(gradient[: bucket.size], bucket.home))
            for p, view, used in zip(bucket.parameters, views, bucket.used(gradient), strict=True):
                p.grad = Tensor(view) if used else None
                p.version[0] += 1

    def _advance(self, optimizer: Any, reduced: Sequence[Array]) -> None:
        """Count the step in the optimiser, once however many replicas share it."""
        for end, gradient in zip(self.ends, reduced, strict=True):
            bucket = end.bucket
            names = optimizer.slots(optimizer.param_groups[bucket.group])
            flat = bucket.master.state(optimizer, names, bucket)
            views = {name: bucket.views(array) for name, array in flat.items()}
            for i, used in enumerate(bucket.used(gradient)):
                if used:
                    arrays = {name: view[i] for name, view in views.items()}
                    optimizer.advance(bucket.parameters[i], arrays)
