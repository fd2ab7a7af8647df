"""CUDA graphs: work that is queued once and launched again as a whole.

Kernels in a graph read and write the addresses that they had when it was captured. So all memory
that is made meanwhile comes from a pool of the graph's own and stays there: nobody else is given
it, and it goes with the graph.
"""

from __future__ import annotations

from typing import Any

from minidp.errors import DeviceError


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
