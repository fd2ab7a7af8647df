"""The communicator between GPUs of one process: NCCL through CuPy, one rank per thread.

A rank that comes to a collective says which arrays it gives and which event they are ready behind.
The last rank to come queues the collective for all of them, in one group of NCCL calls: each on
its rank's stream for communication, behind its rank's event. So calls that do not match raise
before NCCL hears of them, and all ranks' collectives are queued in one order, whichever way their
threads ran. A ``Work`` lets the computing stream go on behind the collective's event; waits poll,
so that a failed peer, an error of NCCL or the deadline ends them. What is not an all-GPU collective
on GPU arrays (few numbers, or only some ranks) goes through host memory.

NCCL adds in an order of its own, which depends on the number of ranks: results are equal on all
ranks, but not to the last bit equal to those of the host communicator.
"""

from __future__ import annotations

import importlib
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minidp.errors import ReplicaError
from minidp.parallel.communicator import Communicator, Sum, Work
from minidp.parallel.exchange import Exchange, Round, Stopped
from minidp.parallel.host import SMALL, HostCommunicator, Key
from minidp.types import Array

POLL = 5e-5
"""Seconds between two looks at an event."""

Call = Callable[[Any, int, int], None]
"""Queues one rank's part: called with its NCCL communicator, the kind of element, the stream."""

KINDS = {"float16": "NCCL_FLOAT16", "float32": "NCCL_FLOAT32", "float64": "NCCL_FLOAT64",
         "int32": "NCCL_INT32", "int64": "NCCL_INT64"}  # fmt: skip


def nccl_available() -> bool:
    """Whether CuPy finds NCCL: it looks when this module of it is imported, and warns if not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bool(importlib.import_module("cupy.cuda.nccl").available)


class Links:
    """NCCL's communicators and streams of all ranks of this process, by rank.

    ``world``: how many ranks all processes have, NCCL's identity, which one process made for all,
    and the first of this process's ranks, where there are several processes.
    """

    def __init__(
        self, cupy: Any, devices: Sequence[int], world: tuple[int, bytes, int] | None = None
    ) -> None:
        self.cupy, self.devices = cupy, list(devices)
        self.nccl = cupy.cuda.nccl
        if world is None:
            self.members = self.nccl.NcclCommunicator.initAll(self.devices)
        else:
            self.members = self._join(*world)
        self.streams = [self._stream(device) for device in self.devices]
        self.lock, self.closed = threading.Lock(), False

    def _join(self, size: int, identity: bytes, first: int) -> list[Any]:
        """This process's ranks among those of all processes, which do the same meanwhile."""
        made = []
        self.nccl.groupStart()
        try:
            for rank, device in enumerate(self.devices, first):
                with self.cupy.cuda.Device(device):
                    made.append(self.nccl.NcclCommunicator(size, identity, rank))
        finally:
            self.nccl.groupEnd()
        return made

    def _stream(self, device: int) -> Any:
        with self.cupy.cuda.Device(device):
            return self.cupy.cuda.Stream(non_blocking=True)

    def queue(self, current: Round) -> None:
        """Queue a complete round for all its ranks, if nobody has done it yet."""
        with self.lock:
            works = [current.given[rank] for rank in current.members]
            if works[0].event is not None:
                return
            if self.closed:
                raise Stopped
            for work in works:
                self.streams[work.rank].wait_event(work.ready)
            self._call_all(works)
            for work in works:
                with self.cupy.cuda.Device(self.devices[work.rank]):
                    work.event = self.streams[work.rank].record()

    def _call_all(self, works: Sequence[NcclWork]) -> None:
        self.nccl.groupStart()
        try:
            for work in works:
                stream = self.streams[work.rank]
                work.call(self.members[work.rank], work.kind, stream.ptr)
        finally:
            self.nccl.groupEnd()

    def close(self, rank: int, failed: bool) -> None:
        """End NCCL for a rank: after a failure without waiting for peers."""
        with self.lock:
            self.closed = self.closed or failed
            if failed:
                self.members[rank].abort()
        if not failed:
            self.members[rank].destroy()  # waits for peers, who may want the lock


class NcclWork(Work):
    """A rank's part of a collective. It keeps its buffers alive until the event has passed."""

    round: Round
    key: Key
    event: Any = None

    def __init__(
        self, link: NcclCommunicator, buffers: tuple[Array, ...], call: Call, kind: int
    ) -> None:
        self.link, self.rank, self.buffers = link, link.rank, buffers
        self.call, self.kind = call, kind
        self.ready = link.cupy.cuda.get_current_stream().record()

    def wait(self) -> Array:
        link, current = self.link, self.round
        link.host.meet(current, lambda: current.complete)
        link.links.queue(current)
        link.exchange.leave(self.rank, self.key)
        link.poll(self.event, current)
        link.cupy.cuda.get_current_stream().wait_event(self.event)
        link.open.remove(self)
        return self.buffers[-1]


class DeviceSum(Sum):
    """A bucket under way on GPUs, and the numbers that ride along through host memory."""

    def __init__(self, rank: int, work: Work, riding: Work) -> None:
        self.work, self.riding, self.sharers = work, riding, (rank,)

    def slice(self) -> Array:
        return self.wait()

    def wait(self) -> Array:
        self.numbers = self.riding.wait()
        return self.work.wait()


class NcclCommunicator(Communicator):
    """Rank ``rank``'s end of NCCL; made by all ranks' threads at the same time, each with its
    device as the current one.

    ``cupy`` is the module, or a stand-in for it in tests without GPUs.
    """

    def __init__(self, rank: int, exchange: Exchange, cupy: Any) -> None:
        self.rank, self.size, self.exchange, self.cupy = rank, exchange.size, exchange, cupy
        self.host = HostCommunicator(rank, exchange)
        own = np.array([cupy.cuda.Device().id])
        devices = self.host.all_gather(own, "NCCL devices").wait().tolist()
        self.links: Links = exchange.once("NCCL", lambda: Links(cupy, devices))
        self.nccl, self.link = self.links.nccl, self.links.members[rank]
        self.open: list[NcclWork] = []

    def all_reduce(self, array: Array, name: str, among: Sequence[int] | None = None) -> Work:
        few = among is not None and len(among) < self.size
        if few or array.size <= SMALL or not isinstance(array, self.cupy.ndarray):
            self.host.step = self.step
            return self.host.all_reduce(array, name, among)
        return self._all_reduce(array.copy(), name, False)

    def sum_bucket(self, array: Array, name: str, numbers: Sequence[float]) -> Sum:
        work = self._all_reduce(array, name, True)
        self.host.step = self.step
        riding = np.array(numbers, np.float64)
        numbers_of = self.host.all_reduce(riding, f"numbers of {name}", bucket=True)
        return DeviceSum(self.rank, work, numbers_of)

    def _all_reduce(self, array: Array, name: str, bucket: bool) -> NcclWork:
        at = array.data.ptr
        return self._queue("all_reduce", name, (array,), lambda link, kind, stream:
            link.allReduce(at, at, array.size, kind, self.nccl.NCCL_SUM, stream),
            bucket)  # fmt: skip

    def reduce_scatter(self, array: Array, name: str) -> Work:
        out = self.cupy.empty((len(array) // self.size, *array.shape[1:]), array.dtype)
        return self._queue("reduce_scatter", name, (array, out), lambda link, kind, stream:
            link.reduceScatter(array.data.ptr, out.data.ptr, out.size, kind,
                               self.nccl.NCCL_SUM, stream))  # fmt: skip

    def all_gather(self, array: Array, name: str) -> Work:
        out = self.cupy.empty((len(array) * self.size, *array.shape[1:]), array.dtype)
        return self._queue("all_gather", name, (array, out), lambda link, kind, stream:
            link.allGather(array.data.ptr, out.data.ptr, array.size, kind, stream))  # fmt: skip

    def broadcast(self, array: Array, name: str, root: int = 0) -> Work:
        out = array.copy()
        return self._queue("broadcast", name, (out,), lambda link, kind, stream:
            link.bcast(out.data.ptr, out.size, kind, root, stream))  # fmt: skip

    def send(self, array: Array, name: str, to: int) -> Work:
        return self._queue("send", name, (array,), lambda link, kind, stream:
            link.send(array.data.ptr, array.size, kind, to, stream),
            pair=(self.rank, to))  # fmt: skip

    def recv(self, array: Array, name: str, source: int) -> Work:
        out = self.cupy.empty(array.shape, array.dtype)
        return self._queue("send", name, (out,), lambda link, kind, stream:
            link.recv(out.data.ptr, out.size, kind, source, stream),
            pair=(source, self.rank))  # fmt: skip

    def barrier(self, name: str) -> None:
        self.host.step = self.step
        self.host.barrier(name)

    def close(self, failed: bool) -> None:
        """End NCCL for this rank: after a failure without waiting for peers."""
        self.links.close(self.rank, failed)
        self.open.clear()
        self.host.close(failed)

    def _queue(
        self, operation: str, name: str, buffers: tuple[Array, ...], call: Call,
        bucket: bool = False, pair: tuple[int, int] | None = None,
    ) -> NcclWork:  # fmt: skip
        """Bring this rank's part of a collective, behind what it has computed so far."""
        for array in buffers:
            if not array.flags.c_contiguous:
                raise ReplicaError(f"{name}: NCCL needs contiguous arrays")
        work = NcclWork(self, buffers, call, self._kind(buffers[0].dtype))
        self.host.step = self.step
        work.key, work.round = self.host.give(operation, name, buffers[0], work, pair, bucket)
        self.open.append(work)
        if work.round.complete:
            self.links.queue(work.round)
        return work

    def _kind(self, dtype: Any) -> int:
        if str(dtype) not in KINDS:
            raise ReplicaError(f"NCCL adds {', '.join(KINDS)}; not {dtype}")
        return int(getattr(self.nccl, KINDS[str(dtype)]))

    def poll(self, event: Any, current: Round) -> None:
        """Return when ``event`` has passed, for what all have queued all get; end when that has
        failed, or at the deadline."""
        began = time.monotonic()
        while not event.done:
            self.exchange.check_lost(current.members)
            try:
                self.link.check_async_error()
            except self.nccl.NcclError as problem:
                raise ReplicaError(
                    f"replica {self.rank}: NCCL reports {problem} in {current.tag}"
                ) from problem
            if time.monotonic() - began > self.exchange.deadline:
                raise ReplicaError(
                    f"replica {self.rank} has waited {self.exchange.deadline:g} s for NCCL to "
                    f"carry out {current.tag}"
                )
            time.sleep(POLL)
