"""The communicator between GPUs of one process: NCCL through CuPy, one rank per thread.

A collective is queued on a stream of its own, behind an event of the computing stream; its
``Work`` lets the computing stream go on behind the collective's event. Waits poll, so that a
failed peer, an error of NCCL or the deadline ends them. What is not an all-GPU collective on GPU
arrays (few numbers, or only some ranks) goes through host memory.

NCCL adds in an order of its own, which depends on the number of ranks: results are equal on all
ranks, but not to the last bit equal to those of the host communicator.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from minidp.errors import ReplicaError
from minidp.parallel.communicator import Communicator, Work
from minidp.parallel.exchange import Exchange
from minidp.parallel.host import SMALL, HostCommunicator
from minidp.types import Array

POLL = 5e-5
"""Seconds between two looks at an event."""


class NcclWork(Work):
    """A queued collective. It keeps its buffers alive until the event has passed."""

    def __init__(self, link: NcclCommunicator, event: Any, buffers: tuple[Array, ...], name: str) -> None:
        self.link, self.event, self.buffers, self.name = link, event, buffers, name

    def wait(self) -> Array:
        self.link.poll(self.event, self.name)
        self.link.cupy.cuda.get_current_stream().wait_event(self.event)
        result = self.buffers[-1]
        self.buffers = ()
        return result


class NcclCommunicator(Communicator):
    """Rank ``rank``'s end of NCCL; made by all ranks' threads at the same time.

    ``cupy`` is the module, or a stand-in for it in tests without GPUs.
    """

    def __init__(self, rank: int, exchange: Exchange, cupy: Any) -> None:
        self.rank, self.size, self.exchange, self.cupy = rank, exchange.size, exchange, cupy
        self.host = HostCommunicator(rank, exchange)
        self.nccl = cupy.cuda.nccl
        unique = self._share_identity()
        self.link = self.nccl.NcclCommunicator(self.size, unique, rank)
        self.stream = cupy.cuda.Stream(non_blocking=True)

    def _share_identity(self) -> tuple[Any, ...]:
        """NCCL's name for this group, made by rank 0."""
        import numpy as np

        first = self.nccl.get_unique_id() if self.rank == 0 else [0] * 128
        numbers = np.array([int(each) for each in first], np.int64)
        shared = self.host.broadcast(numbers, "NCCL identity").wait()
        return tuple(int(each) for each in shared)

    def all_reduce(self, array: Array, name: str, among: Sequence[int] | None = None) -> Work:
        few = among is not None and len(among) < self.size
        if few or array.size <= SMALL or not isinstance(array, self.cupy.ndarray):
            self.host.step = self.step
            return self.host.all_reduce(array, name, among)
        return self._queue(name, (array,), lambda kind, stream: self.link.allReduce(
            array.data.ptr, array.data.ptr, array.size, kind, self.nccl.NCCL_SUM, stream))  # fmt: skip

    def reduce_scatter(self, array: Array, name: str) -> Work:
        out = self.cupy.empty((len(array) // self.size, *array.shape[1:]), array.dtype)
        return self._queue(name, (array, out), lambda kind, stream: self.link.reduceScatter(
            array.data.ptr, out.data.ptr, out.size, kind, self.nccl.NCCL_SUM, stream))  # fmt: skip

    def all_gather(self, array: Array, name: str) -> Work:
        out = self.cupy.empty((len(array) * self.size, *array.shape[1:]), array.dtype)
        return self._queue(name, (array, out), lambda kind, stream: self.link.allGather(
            array.data.ptr, out.data.ptr, array.size, kind, stream))  # fmt: skip

    def broadcast(self, array: Array, name: str, root: int = 0) -> Work:
        return self._queue(name, (array,), lambda kind, stream: self.link.bcast(
            array.data.ptr, array.size, kind, root, stream))  # fmt: skip

    def send(self, array: Array, name: str, to: int) -> Work:
        return self._queue(name, (array,), lambda kind, stream: self.link.send(
            array.data.ptr, array.size, kind, to, stream))  # fmt: skip

    def recv(self, array: Array, name: str, source: int) -> Work:
        return self._queue(name, (array,), lambda kind, stream: self.link.recv(
            array.data.ptr, array.size, kind, source, stream))  # fmt: skip

    def barrier(self, name: str) -> None:
        self.host.step = self.step
        self.host.barrier(name)

    def _queue(
        self, name: str, buffers: tuple[Array, ...], call: Callable[[int, int], None]
    ) -> NcclWork:
        """Queue one collective behind what has been computed so far."""
        for array in buffers:
            if not array.flags.c_contiguous:
                raise ReplicaError(f"{name}: NCCL needs contiguous arrays")
        self.exchange.check()
        before = self.cupy.cuda.get_current_stream().record()
        self.stream.wait_event(before)
        call(self._kind(buffers[0].dtype), self.stream.ptr)
        return NcclWork(self, self.stream.record(), buffers, name)

    def _kind(self, dtype: Any) -> int:
        names = {"float16": "NCCL_FLOAT16", "float32": "NCCL_FLOAT32", "float64": "NCCL_FLOAT64",
                 "int32": "NCCL_INT32", "int64": "NCCL_INT64"}  # fmt: skip
        if str(dtype) not in names:
            raise ReplicaError(f"NCCL adds {', '.join(names)}; not {dtype}")
        return int(getattr(self.nccl, names[str(dtype)]))

    def poll(self, event: Any, name: str) -> None:
        """Return when ``event`` has passed; end with the first failure or at the deadline."""
        began = time.monotonic()
        while not event.done:
            if self.exchange.failure is not None:
                self.link.abort()
                self.exchange.check()
            problem = self.link.check_async_error()
            if problem:
                raise ReplicaError(f"replica {self.rank}: NCCL reports error {problem} in {name}")
            if time.monotonic() - began > self.exchange.deadline:
                self.link.abort()
                raise ReplicaError(
                    f"replica {self.rank} has waited {self.exchange.deadline:g} s for {name} "
                    f"in step {self.step}"
                )
            time.sleep(POLL)
