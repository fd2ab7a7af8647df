"""A replica's end of a bucket: its values, its part of the gradient, and its place in the graph.

Parameters enter a replica's graph through ``broadcast`` and ``unpack``; their derivatives ``pack``
the cotangents and start the reduction. See ``minidp.ops.collective``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from minidp.backend import backend_of, get_backend
from minidp.device import Device
from minidp.errors import GraphError
from minidp.mode import switched
from minidp.ops.collective import broadcast, unpack
from minidp.parallel.bucket import Bucket, Memory, aligned
from minidp.parallel.communicator import Work
from minidp.tensor import Tensor
from minidp.types import Array


class BucketEnd:
    """One replica's end of a bucket: its copy of the values and its part of the gradient."""

    def __init__(self, bucket: Bucket, device: Device, own: bool) -> None:
        self.bucket, self.device = bucket, device
        backend = get_backend(device.type)
        self.gradient = backend.put(aligned(bucket.size + len(bucket.parameters), bucket.dtype),
                                    device.index)  # fmt: skip
        here = device == bucket.home or (device.type == bucket.home.type == "cpu" and not own)
        self.memory = bucket.master
        self.values = bucket.master.data
        if not here:
            self.values = backend.put(bucket.master.data.copy(), device.index)
            self.memory = Memory(self.values) if own else bucket.master
        self.views = bucket.views

    def hand_out(self) -> Array:
        """This replica's values, fetched from the master copy where they are not its own."""
        if self.values is not self.memory.data:
            fresh = backend_of(self.memory.data).get(self.memory.data)
            self.values[...] = get_backend(self.device.type).put(fresh, self.device.index)
        return self.values

    def pack(self, cotangents: dict[int, Array]) -> Array:
        """Lay the parameters' cotangents end to end; zeros where backward did not come by."""
        flat, size = self.gradient, self.bucket.size
        for i, view in enumerate(self.views(flat)):
            given = cotangents.get(i)
            view[...] = 0 if given is None else given
            flat[size + i] = 0 if given is None else 1
        return flat


class Link:
    """A bucket as the ops ``broadcast`` and ``unpack`` see it, in one step of one replica."""

    def __init__(self, end: BucketEnd, launch: Callable[[], None]) -> None:
        self.end, self._launch = end, launch
        self.work: Work | None = None
        self.gradient: Array | None = None
        self._tensors: tuple[Tensor, ...] = ()

    def tensors(self) -> tuple[Tensor, ...]:
        """This replica's tensors of the parameters, made on first use in the step."""
        if not self._tensors:
            with switched(grad=True):
                flat = Tensor(self.end.values, requires_grad=True)
                self._tensors = unpack(broadcast(flat, bucket=self), bucket=self)
        return self._tensors

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
        self.gradient = self.end.pack(cotangents)
        return self.gradient[: self.end.bucket.size]

    def reduce(self, g: Array) -> None:
        """The bucket's cotangent is whole: start its reduction, in index order."""
        self._launch()


def make_ends(buckets: Sequence[Bucket], device: Device, store: str) -> list[BucketEnd]:
    """A replica's ends of all buckets."""
    return [BucketEnd(bucket, device, own=store == "device") for bucket in buckets]
