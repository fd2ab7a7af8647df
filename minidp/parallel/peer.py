"""The communicator between GPUs of one process where NCCL is absent: copies from peer to peer.

Each rank copies every rank's bucket to its own GPU, on a stream for communication, and adds them
there in the balanced tree of the host communicator: so the bytes are those of the ``local`` store.
Every rank reads all that every rank gave, which for two GPUs is as little as NCCL moves, and more
for more. What is not a large sum over all ranks goes through host memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from minidp.parallel.communicator import Sum, Work
from minidp.parallel.exchange import Exchange, Round
from minidp.parallel.host import SMALL, HostCommunicator, Key, tree_sum
from minidp.parallel.nccl import DeviceSum
from minidp.types import Array


class PeerWork(Work):
    """A sum: what this rank gives, behind which event it is ready, and the event of its reads."""

    key: Key
    round: Round
    read: Any = None

    def __init__(self, link: PeerCommunicator, array: Array) -> None:
        self.link, self.array = link, link.cupy.ascontiguousarray(array)
        self.done = link.cupy.cuda.get_current_stream().record()

    @property
    def ready(self) -> bool:
        """Whether everyone has given and this rank has not yet copied."""
        return self.round.complete and self.read is None

    def advance(self) -> None:
        """Queue the copies and their sum, if that can be done."""
        if not self.ready:
            return
        given = [self.round.given[rank] for rank in self.round.members]
        self.total, self.read = self.link.add(given)
        self.link.exchange.finish(self.link.rank, self.round)

    def wait(self) -> Array:
        link, current = self.link, self.round
        link.meet(current, lambda: current.complete)
        self.advance()
        link.meet(current, lambda: len(current.finished) == len(current.members))
        computing = link.cupy.cuda.get_current_stream()
        for rank in current.members:  # nobody's array is changed before all have read it
            computing.wait_event(current.given[rank].read)
        link.forget(cast(Any, self))
        return self.total


class PeerCommunicator(HostCommunicator):
    """Rank ``rank``'s end, made by its thread with its GPU as the current device.

    ``cupy`` is the module, or a stand-in for it in tests without GPUs.
    """

    def __init__(self, rank: int, exchange: Exchange, cupy: Any) -> None:
        super().__init__(rank, exchange)
        self.cupy, self.stream = cupy, cupy.cuda.Stream(non_blocking=True)

    def all_reduce(
        self, array: Array, name: str, among: Sequence[int] | None = None, bucket: bool = False
    ) -> Work:
        few = among is not None and len(among) < self.size
        if few or array.size <= SMALL or not isinstance(array, self.cupy.ndarray):
            return super().all_reduce(array, name, among, bucket)
        return self._peers(array, name, bucket)

    def sum_bucket(self, array: Array, name: str, numbers: Sequence[float]) -> Sum:
        work = self._peers(array, name, True)
        riding = np.array(numbers, np.float64)
        numbers_of = self.all_reduce(riding, f"numbers of {name}", bucket=True)
        return DeviceSum(self.rank, work, numbers_of)

    def _peers(self, array: Array, name: str, bucket: bool) -> PeerWork:
        self.progress()
        work = PeerWork(self, array)
        self._open.append(cast(Any, work))
        work.key, work.round = self.give("all_reduce", name, array, work, None, bucket)
        return work

    def add(self, given: Sequence[PeerWork]) -> tuple[Array, Any]:
        """The sum of what all ranks gave, and the event behind which it is there."""
        pieces = [self.cupy.empty(work.array.shape, work.array.dtype) for work in given]
        self.stream.wait_event(self.cupy.cuda.get_current_stream().record())
        with self.stream:
            for piece, work in zip(pieces, given, strict=True):
                self.stream.wait_event(work.done)
                source = work.array
                piece.data.copy_from_device_async(source.data, source.nbytes, self.stream)
            tree_sum(pieces)
            return pieces[0], self.stream.record()
