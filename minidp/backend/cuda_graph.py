"""CUDA graphs: work that is queued once and launched again as a whole.

Kernels in a graph read and write the addresses that they had when it was captured. So all memory
that is made meanwhile comes from a pool of the graph's own and stays there: nobody else is given
it, and it goes with the graph.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from minidp.errors import DeviceError
from minidp.types import Array

if TYPE_CHECKING:
    from minidp.backend.base import Results
    from minidp.backend.cuda import CudaBackend


class CudaGraph:
    """One captured piece of work on the device that was current."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.pool = cupy.cuda.MemoryPool()
        self.graph: Any = None
        self._entered: list[Any] = []

    def begin(self) -> None:
        """From here on the thread's work is noted, not done; what must wait for it raises."""
        if self.graph is not None or self._entered:
            raise DeviceError("a CUDA graph is captured once: reset() it, or make another")
        before = self.cupy.cuda.get_current_stream()
        self.stream.wait_event(before.record())
        self._entered = [self.cupy.cuda.using_allocator(self.pool.malloc), self.stream]
        for each in self._entered:
            each.__enter__()
        try:
            self.stream.begin_capture()  # in relaxed mode: the pool may ask for memory
        except BaseException:
            self._leave()
            raise

    def end(self) -> None:
        """Back to work that is done."""
        try:
            self.graph = self.stream.end_capture()
        finally:
            self._leave()

    def abandon(self) -> None:
        """Leave a capture in which something was raised."""
        try:
            if self.stream.is_capturing():
                self.stream.end_capture()
        except Exception:
            pass  # a capture that CUDA gave up on: the first error is the one to see
        finally:
            self._leave()

    def replay(self) -> None:
        """Do the captured work once, behind what the current stream was given."""
        if self.graph is None:
            raise DeviceError("a CUDA graph is replayed after it was captured")
        self.graph.launch(self.cupy.cuda.get_current_stream())

    def reset(self) -> None:
        """Forget the work and give its memory back, once the device is done with it."""
        self.cupy.cuda.get_current_stream().synchronize()
        self.graph = None
        self.pool = self.cupy.cuda.MemoryPool()

    def _leave(self) -> None:
        while self._entered:
            self._entered.pop().__exit__(None, None, None)


class Replayed:
    """A function of arrays as a CUDA graph: what it is given is copied to where the graph reads,
    what it gives is copied from where the graph writes, as whoever gets it may keep it.

    The first call runs the function itself, which compiles kernels and warms libraries up; the
    second captures it. Where that fails, a warning says why, once, and all calls run the function.
    """

    def __init__(self, backend: CudaBackend, run: Callable[..., Results]) -> None:
        self.backend, self.run, self.index = backend, run, 0
        self.calls, self.reason = 0, ""
        self.graph: CudaGraph | None = None
        self._given: list[Array] = []
        self._gives: Results = ()
        self._launched: Any = None
        self._lock = threading.Lock()

    def __call__(self, *arrays: Array) -> Results:
        if self.reason or not self._lock.acquire(blocking=False):  # another thread replays it
            return self.run(*arrays)
        try:
            self.index = self.backend.device_of("a captured step", arrays)
            with self.backend.activate(self.index):
                self.calls += 1
                if self.graph is None and self.calls > 1:
                    self._capture(arrays)
                return self.run(*arrays) if self.graph is None else self._replay(arrays)
        finally:
            self._lock.release()

    def _capture(self, arrays: Sequence[Array]) -> None:
        graph = CudaGraph(self.backend.xp)
        self._given = [array.copy("K") for array in arrays]
        try:
            graph.begin()
            self._gives = self.run(*self._given)
            graph.end()
        except Exception as problem:
            graph.abandon()
            self._given, self.reason = [], f"{type(problem).__name__}: {problem}"
            warnings.warn(
                "a captured step cannot become a CUDA graph, and runs as a list of calls: "
                f"{self.reason}", stacklevel=4,
            )  # fmt: skip
            return
        self.graph = graph

    def _replay(self, arrays: Sequence[Array]) -> Results:
        assert self.graph is not None
        stream = self.backend.xp.cuda.get_current_stream()
        if self._launched is not None:  # perhaps on another stream
            stream.wait_event(self._launched)
        for fixed, array in zip(self._given, arrays, strict=True):
            fixed[...] = array
        self.graph.replay()
        results = tuple(array.copy("K") for array in self._gives)
        self._launched = stream.record()
        return results

    def nbytes(self) -> int:
        """The memory that the graph holds."""
        if self.graph is None:
            return 0
        fixed = sum(array.nbytes for array in self._given)
        return int(self.graph.pool.total_bytes()) + int(fixed)

    def let_go(self) -> None:
        """Give the memory back; the next call captures anew."""
        with self._lock, self.backend.activate(self.index):
            if self.graph is not None:
                self.graph.reset()
            self.graph, self._given, self._gives = None, [], ()
