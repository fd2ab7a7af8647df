"""The sums of one step's gradients: started bucket by bucket while backward goes on, then waited
for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from minidp.mode import mode
from minidp.parallel.communicator import Communicator, Sum, slice_of
from minidp.parallel.ends import BucketEnd
from minidp.parallel.faults import DroppedSum, meet
from minidp.types import Array


class BucketSum:
    """A bucket's sum over replicas, as one of them sees it.

    ``used`` tells which parameters were reached by backward anywhere.
    """

    def __init__(self, end: BucketEnd, work: Sum, whole: bool) -> None:
        self.end, self.bucket, self.work = end, end.bucket, work
        self.reduced: Array = work.wait() if whole else work.slice()
        self.sharers = work.sharers
        count = len(end.bucket.parameters)
        self.used = [reached > 0 for reached in work.numbers[:count].tolist()]
        self.riding: list[float] = work.numbers[count:].tolist()

    def unused(self) -> list[str]:
        """The names of trained parameters that backward reached nowhere."""
        known = zip(self.bucket.names, self.bucket.parameters, self.used, strict=True)
        return [name for name, p, used in known if not used and p.requires_grad]

    @property
    def bytes(self) -> int:
        """The size of the sum."""
        return int(self.reduced.nbytes)

    def slice(self, rank: int) -> Array:
        """The slice of the sum that this replica updates."""
        start, stop = slice_of(self.bucket.size, self.end.peers, rank)
        return self.reduced[start:stop]

    def multiply(self, rank: int, factor: float) -> None:
        """Multiply this replica's slice of the memory that the sum lies in."""
        start, stop = slice_of(self.bucket.size, self.sharers, rank)
        self.reduced[start:stop] *= self.reduced.dtype.type(factor)


class Reduction:
    """Adds the gradients of ``ends`` over replicas, in index order on every one of them.

    ``check`` is given each end before its gradient goes, and may raise.
    """

    def __init__(
        self, comm: Communicator, ends: Sequence[BucketEnd], check: Callable[[BucketEnd], None]
    ) -> None:  # fmt: skip
        self.comm, self.ends, self.check = comm, ends, check
        self._works: list[Sum] = []

    def start_ready(self) -> None:
        """Start the sums whose turn it is.

        The last one waits for ``finish``: who gives it agrees to the step.
        """
        while len(self._works) < len(self.ends) - 1:
            if not self.ends[len(self._works)].whole:
                return
            self._start()

    def _start(self, numbers: Sequence[float] = ()) -> None:
        index, comm = len(self._works), self.comm
        end = self.ends[index]
        if mode.faults and meet(comm.rank, comm.step, "bucket", index, end.gradient):
            self._works.append(DroppedSum(comm.exchange, comm.rank, str(end)))
            return
        self.check(end)
        riding, name = [*end.reached, *numbers], str(end)
        comm.exchange.moment(comm.rank, "ready", name, end.bucket.master.data.nbytes)
        self._works.append(comm.sum_bucket(end.gradient, name, riding))

    def finish(
        self, numbers: Sequence[float], whole: bool, later: bool = False
    ) -> list[BucketSum]:  # fmt: skip
        """Start what backward left open, and wait. The last sum carries the replica's ``numbers``.

        Buckets that no gradient reached go with zeros. ``later``: what has not been added yet need
        not be, before it is updated.
        """
        self.comm.later = later
        try:
            return self._finished(numbers, whole)
        finally:
            self.comm.later = False

    def _finished(self, numbers: Sequence[float], whole: bool) -> list[BucketSum]:
        for end in self.ends:
            if not end.whole:
                end.pack({})
        self.start_ready()
        if self.ends:
            self._start(numbers)
        works, self._works = self._works, []
        return [BucketSum(e, work, whole) for e, work in zip(self.ends, works, strict=True)]
