"""A replica's end of a bucket: its values, its part of the gradient, and its place in the graph.

Parameters enter a replica's graph through ``broadcast`` and ``unpack``; their derivatives ``pack``
the cotangents and start the reduction. See ``minidp.ops.collective``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from minidp.backend import get_backend
from minidp.device import Device
from minidp.errors import GraphError
from minidp.mode import switched
from minidp.ops.collective import broadcast, unpack
from minidp.parallel.bucket import Bucket
from minidp.parallel.communicator import Sum
from minidp.parallel.memory import Memory, moved
from minidp.tensor import Tensor
from minidp.types import Array


class BucketEnd:
    """One replica's end of a bucket: the copy of the values it reads, its part of the gradient.

    ``memory`` is the copy that this replica updates, together with the ``peers`` that share it.
    """

    def __init__(
        self, bucket: Bucket, device: Device, memory: Memory, peers: Sequence[int]
    ) -> None:  # fmt: skip
        self.bucket, self.device, self.memory, self.peers = bucket, device, memory, peers
        self.gradient: Array | None = None
        home = bucket.home if memory is bucket.master else device
        here = home == device or home.type == device.type == "cpu"
        self.values = memory.data
        if not here:
            self.values = get_backend(device.type).put(memory.data, device.index)
        self.views = bucket.views

    def hand_out(self) -> Array:
        """This replica's values, fetched from the master copy where they are not its own."""
        if self.values is not self.memory.data:
            self.values[...] = moved(self.memory.data, self.values)
        return self.values

    def pack(self, cotangents: dict[int, Array]) -> Array:
        """Lay the parameters' cotangents end to end; zeros where backward did not come by."""
        bucket = self.bucket
        if self.gradient is None:
            backend = get_backend(self.device.type)
            self.gradient = backend.zeros(bucket.size, bucket.dtype, self.device.index)
        for i, view in enumerate(self.views(self.gradient)):
            given = cotangents.get(i)
            view[...] = 0 if given is None else given
        return self.gradient

    def release(self, reduced: Array) -> None:
        """Leave the memory to ``Parameter.grad`` if the sum was made there."""
        if reduced is self.gradient:
            self.gradient = None


class Link:
    """A bucket as the ops ``broadcast`` and ``unpack`` see it, in one step of one replica.

    ``reached`` has a 1 for each parameter that backward came by; added over replicas it tells
    which were used anywhere.
    """

    def __init__(self, end: BucketEnd, launch: Callable[[], None]) -> None:
        self.end, self._launch = end, launch
        self.work: Sum | None = None
        self.gradient: Array | None = None
        self.reached = [0.0] * len(end.bucket.parameters)
        self._tensors: tuple[Tensor, ...] = ()

    def tensors(self) -> tuple[Tensor, ...]:
        """This replica's tensors of the parameters, made on first use in the step."""
        if not self._tensors:
            with switched(grad=True):
                flat = Tensor(self.end.values, requires_grad=True)
                self._tensors = unpack(broadcast(flat, bucket=self), bucket=self)
        return self._tensors

    def clear(self) -> None:
        """Forget the tensors, whose nodes lead back here: no cycle is left."""
        self._tensors = ()

    def hand_out(self, flat: Array) -> Array:
        return self.end.hand_out()

    def views(self, flat: Array) -> tuple[Array, ...]:
        return self.end.views(flat)

    def pack(self, cotangents: dict[int, Array]) -> Array:
        if self.gradient is not None:
            raise GraphError(
                "a second backward() in one step of a replica: add the losses and call backward() "
                "once, so that each bucket is reduced once"
            )
        for i in cotangents:
            self.reached[i] = 1.0
        self.gradient = self.end.pack(cotangents)
        return self.gradient

    def reduce(self, g: Array) -> None:
        """The bucket's cotangent is whole: start its reduction, in index order."""
        self._launch()


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
            memory = bucket.master if store == "local" else memories[place]
            ends[rank].append(BucketEnd(bucket, place, memory, peers))
    return ends
