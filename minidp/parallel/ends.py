"""A replica's end of a bucket: its values, its part of the gradient, and its place in the graph.

Parameters enter a replica's graph through ``broadcast`` and ``unpack``; their derivatives ``pack``
the cotangents and start the reduction. See ``minidp.ops.collective``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from minidp.backend import get_backend
from minidp.device import Device
from minidp.errors import GraphError
from minidp.mode import aside, switched, told_as
from minidp.ops.collective import broadcast, unpack
from minidp.parallel.bucket import Bucket
from minidp.parallel.memory import Memory, moved
from minidp.parallel.total import Total
from minidp.tensor import Tensor
from minidp.types import Array

if TYPE_CHECKING:
    from minidp.parallel.together import Together


def _nothing() -> None:
    pass


class BucketEnd:
    """One replica's end of a bucket: the copy of the values it reads, its part of the gradient.

    ``memory`` is the copy that this replica updates, together with the ``peers`` that share it.
    Of the running step: ``gradient``, once backward has come by, of which ``whole`` says whether
    nothing is to be added any more; ``reached`` has a 1 for each parameter that backward came by
    (added over replicas it tells which were used anywhere).
    """

    def __init__(
        self, bucket: Bucket, device: Device, memory: Memory, peers: Sequence[int]
    ) -> None:  # fmt: skip
        self.bucket, self.device, self.memory, self.peers = bucket, device, memory, peers
        home = bucket.home if memory is bucket.master else device
        here = home == device or home.type == device.type == "cpu"
        self.values = memory.data
        if not here:
            self.values = get_backend(device.type).put(memory.data, device.index)
        self._views = bucket.views(self.values)
        self._room = Total(bucket, device)
        self.together: Together | None = None
        """What this replica's updates keep from step to step."""
        self.begin()

    def __str__(self) -> str:
        return f"bucket {self.bucket.index}"

    def begin(self, ready: Callable[[], None] = _nothing) -> None:
        """A step begins; ``ready`` is to be called when the gradient is whole. What the step before
        made is forgotten: the nodes of its tensors lead back here, and no cycle is left."""
        self._ready = ready
        self.gradient: Array | None = None
        self._gradient_views: list[Array] = []
        self.reached = [0.0] * len(self.bucket.parameters)
        self.begin_part(last=True)

    def begin_part(self, last: bool) -> None:
        """A part of the step begins, which has a graph of its own; ``last``: none follows it."""
        self._tensors: tuple[Tensor, ...] = ()
        self._last, self._packed = last, False

    @property
    def whole(self) -> bool:
        return self._last and self._packed

    def tensors(self) -> tuple[Tensor, ...]:
        """This replica's tensors of the parameters, made on first use in the step."""
        if not self._tensors:
            with switched(grad=True):
                flat = Tensor(self.values, requires_grad=True)
                self._tensors = unpack(broadcast(flat, bucket=self), bucket=self)
        return self._tensors

    def hand_out(self, flat: Array) -> Array:
        """This replica's values, fetched from the master copy where they are not its own."""
        if self.values is not self.memory.data:
            self.values[...] = moved(self.memory.data, self.values)
        return self.values

    def views(self, flat: Array) -> tuple[Array, ...]:
        """The parameters in this replica's values."""
        return self._views

    def pack(self, cotangents: dict[int, Any]) -> Array:
        """Lay the parameters' cotangents end to end; zeros where backward did not come by."""
        if self._packed:
            raise GraphError(
                "a second backward() in one step of a replica: add the losses and call backward() "
                "once, so that each bucket is reduced once"
            )
        return aside(self._pack, tuple(cotangents), *cotangents.values())

    @told_as("pack")
    def _pack(self, places: Sequence[int], *cotangents: Any) -> Array:
        first, self._packed = self.gradient is None, True
        if self.gradient is None:
            self.gradient, *self._gradient_views = self._room.taken()
        given = dict(zip(places, cotangents, strict=True))
        found = [given.get(i) for i in range(len(self.bucket.parameters))]
        arrays = [g.array if isinstance(g, Tensor) else g for g in found]
        self._lay(self.gradient, arrays) if first else self._add(self.gradient, arrays)
        for i in places:
            self.reached[i] = 1.0
        return self.gradient

    def views_in(self, total: Array) -> Sequence[Array]:
        """The parameters in a sum, where the bucket has its home: views that are there already, if
        it lies in this gradient."""
        found = moved(total, self.bucket.master.data)
        return self._gradient_views if found is self.gradient else self.bucket.views(found)

    def _lay(self, gradient: Array, arrays: Sequence[Array | None]) -> None:
        """Copy the arrays (None: zeros) to their places: in few launches, if there is a kernel."""
        layout, kernel = self.bucket.layout, get_backend(self.device.type).kernel("pack")
        places = {"starts": layout.offsets[:-1], "counts": layout.sizes}
        done = NotImplemented if kernel is None else kernel(gradient, *arrays, **places)
        if done is NotImplemented:
            for view, g in zip(self.bucket.views(gradient), arrays, strict=True):
                view[...] = 0 if g is None else g

    def _add(self, gradient: Array, arrays: Sequence[Array | None]) -> None:
        """Add the arrays of a later part of the step (None: nothing) in their places."""
        for view, g in zip(self.bucket.views(gradient), arrays, strict=True):
            if g is not None:
                view[...] = view + g

    def reduce(self, g: Array) -> None:
        """The bucket's cotangent is whole: start its reduction, in index order."""
        aside(self._start)

    @told_as("all-reduce starts")
    def _start(self) -> None:
        if self._last:
            self._ready()


def make_ends(
    buckets: Sequence[Bucket], places: Sequence[Device], store: str
) -> list[list[BucketEnd]]:
    """Every replica's ends of all buckets.

    Store ``local``: all update the master copy, each a slice of it. ``device``: each device has a
    copy of its own, updated by the replicas that run there.
    """
    ends: list[list[BucketEnd]] = [[] for _ in places]
    for bucket in buckets:
        memories = {bucket.home: bucket.master}
        for rank, place in enumerate(places):
            peers = [r for r, p in enumerate(places) if store == "local" or p == place]
            if store == "device" and place not in memories:
                copy = get_backend(place.type).zeros(bucket.size, bucket.dtype, place.index)
                memories[place] = Memory(copy, bucket.layout)
                memories[place].follow(bucket.master)
            memory = bucket.master if store == "local" else memories[place]
            ends[rank].append(BucketEnd(bucket, place, memory, peers))
    return ends
