"""The communicator between GPUs of one process: NCCL through CuPy, one rank per thread.

A collective is queued on a stream of its own, behind an event of the computing stream; its
``Work`` lets the computing stream go on behind the collective's event. Each is announced to the
exchange first: so calls that do not match raise instead of mixing buffers, and a wait knows who
is missing. Then waits poll, so that a failed peer, an error of NCCL or the deadline ends them.
What is not an all-GPU collective on GPU arrays (few numbers, or only some ranks) goes through
host memory.

NCCL adds in an order of its own, which depends on the number of ranks: results are equal on all
ranks, but not to the last bit equal to those of the host communicator.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minidp.errors import ReplicaError
from minidp.parallel.communicator import Communicator, Sum, Work
from minidp.parallel.exchange import Exchange, Round
from minidp.parallel.host import SMALL, HostCommunicator, Key
from minidp.types import Array

POLL = 5e-5
"""Seconds between two looks at an event."""


class NcclWork(Work):
    """A queued collective. It keeps its buffers alive until the event has passed."""

    def __init__(
        self, link: NcclCommunicator, key: Key, current: Round, buffers: tuple[Array, ...]
    ) -> None:  # fmt: skip
        self.link, self.key, self.round, self.buffers = link, key, current, buffers
        self.event: Any = None

    def wait(self) -> Array:
        link, current = self.link, self.round
        link.host.meet(current, lambda: current.complete)
        link.exchange.leave(link.rank, self.key)
        link.poll(self.event, current)
        link.cupy.cuda.get_current_stream().wait_event(self.event)
        link.open.remove(self)
        return self.buffers[-1]


class NcclSum(Sum):
    """A queued bucket, and the numbers that ride along through host memory."""

    def __init__(self, work: NcclWork, riding: Work) -> None:
        self.work, self.riding, self.sharers = work, riding, (work.link.rank,)

    def slice(self) -> Array:
        return self.wait()

    def wait(self) -> Array:
        self.numbers = self.riding.wait()
        return self.work.wait()


class NcclCommunicator(Communicator):
    """Rank ``rank``'s end of NCCL; made by all ranks' threads at the same time.

    ``cupy`` is the module, or a stand-in for it in tests without GPUs.
    """

    def __init__(self, rank: int, exchange: Exchange, cupy: Any) -> None:
        self.rank, self.size, self.exchange, self.cupy = rank, exchange.size, exchange, cupy
        self.host = HostCommunicator(rank, exchange)
        self.nccl = cupy.cuda.nccl
        identity = exchange.once("NCCL identity", self.nccl.get_unique_id)
        self.host.barrier("NCCL identity")  # NCCL itself waits for all ranks, without a deadline
        self.link = self.nccl.NcclCommunicator(self.size, identity, rank)
        self.stream = cupy.cuda.Stream(non_blocking=True)
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
        return NcclSum(work, self.host.all_reduce(riding, f"numbers of {name}", bucket=True))

    def _all_reduce(self, array: Array, name: str, bucket: bool) -> NcclWork:
        pointer = array.data.ptr
        return self._queue("all_reduce", name, (array,), lambda kind, stream: self.link.allReduce(
            pointer, pointer, array.size, kind, self.nccl.NCCL_SUM, stream), bucket)  # fmt: skip

    def reduce_scatter(self, array: Array, name: str) -> Work:
        out = self.cupy.empty((len(array) // self.size, *array.shape[1:]), array.dtype)
        return self._queue("reduce_scatter", name, (array, out), lambda kind, stream:
            self.link.reduceScatter(array.data.ptr, out.data.ptr, out.size, kind,
                                    self.nccl.NCCL_SUM, stream))  # fmt: skip

    def all_gather(self, array: Array, name: str) -> Work:
        out = self.cupy.empty((len(array) * self.size, *array.shape[1:]), array.dtype)
        return self._queue("all_gather", name, (array, out), lambda kind, stream:
            self.link.allGather(array.data.ptr, out.data.ptr, array.size, kind,
                                stream))  # fmt: skip

    def broadcast(self, array: Array, name: str, root: int = 0) -> Work:
        out = array.copy()
        return self._queue("broadcast", name, (out,), lambda kind, stream: self.link.bcast(
            out.data.ptr, out.size, kind, root, stream))  # fmt: skip

    def send(self, array: Array, name: str, to: int) -> Work:
        return self._queue("send", name, (array,), lambda kind, stream: self.link.send(
            array.data.ptr, array.size, kind, to, stream), pair=(self.rank, to))  # fmt: skip

    def recv(self, array: Array, name: str, source: int) -> Work:
        out = self.cupy.empty(array.shape, array.dtype)
        return self._queue("send", name, (out,), lambda kind, stream: self.link.recv(
            out.data.ptr, out.size, kind, source, stream), pair=(source, self.rank))  # fmt: skip

    def barrier(self, name: str) -> None:
        self.host.step = self.step
        self.host.barrier(name)

    def close(self, failed: bool) -> None:
        """End NCCL in the thread that began it: after a failure without waiting for peers."""
        if failed:
            self.link.abort()
        else:
            self.link.destroy()
        self.open.clear()
        self.host.close(failed)

    def _queue(
        self, operation: str, name: str, buffers: tuple[Array, ...],
        call: Callable[[int, int], None], bucket: bool = False,
        pair: tuple[int, int] | None = None,
    ) -> NcclWork:  # fmt: skip
        """Queue one collective behind what has been computed so far."""
        for array in buffers:
            if not array.flags.c_contiguous:
                raise ReplicaError(f"{name}: NCCL needs contiguous arrays")
        kind = self._kind(buffers[0].dtype)
        self.host.step = self.step
        key, current = self.host.give(operation, name, buffers[0], None, pair, bucket)
        work = NcclWork(self, key, current, buffers)
        self.open.append(work)
        self.stream.wait_event(self.cupy.cuda.get_current_stream().record())
        call(kind, self.stream.ptr)
        work.event = self.stream.record()
        return work

    def _kind(self, dtype: Any) -> int:
        names = {"float16": "NCCL_FLOAT16", "float32": "NCCL_FLOAT32", "float64": "NCCL_FLOAT64",
                 "int32": "NCCL_INT32", "int64": "NCCL_INT64"}  # fmt: skip
        if str(dtype) not in names:
            raise ReplicaError(f"NCCL adds {', '.join(names)}; not {dtype}")
        return int(getattr(self.nccl, names[str(dtype)]))

    def poll(self, event: Any, current: Round) -> None:
        """Return when ``event`` has passed; end with the first failure or at the deadline."""
        began = time.monotonic()
        while not event.done:
            self.exchange.check()
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
