"""From the host to a GPU while it computes: pinned buffers and a stream for copies.

A host array is first copied into one of two pinned buffers, which the GPU reads on its own while
the thread goes on; the next array goes into the other. The copy runs on a stream of its own, and
the computing stream, CuPy's current one, waits for its event. What a staged array lay in is not
used again before the computing stream is past the array's last use: CuPy's pool would hand a freed
block of the copying stream to the next copy at once.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from minidp.types import Array

LEAST = 2**16
"""Bytes below which the ordinary copy is as quick."""


class PinnedBuffer:
    """Page-locked host memory, and the event of the last copy that reads it."""

    def __init__(self, cupy: Any) -> None:
        self.cupy, self.size = cupy, 0
        self.memory: Any = None
        self.copied: Any = None

    def fill(self, array: Array) -> Array:
        """The values in pinned memory, once the copy before has read what was there."""
        if self.copied is not None:
            self.copied.synchronize()
        if self.size < array.nbytes:
            self.size = array.nbytes
            self.memory = self.cupy.cuda.alloc_pinned_memory(self.size)
        view = np.frombuffer(self.memory, array.dtype, array.size).reshape(array.shape)
        np.copyto(view, array)
        return view


class Staging:
    """Copies to the device that is current when it is made, by the current thread."""

    def __init__(self, cupy: Any) -> None:
        self.cupy, self.device = cupy, cupy.cuda.Device().id
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.buffers = PinnedBuffer(cupy), PinnedBuffer(cupy)
        self.retired: list[tuple[Any, Any]] = []
        """Memory of arrays that are gone, each with the event of their last use."""

    def put(self, array: Array) -> Array:
        """A device array with the values; the computing stream will find it filled."""
        self.let_go()
        buffer, computing = self.buffers[0], self.cupy.cuda.get_current_stream()
        self.buffers = self.buffers[::-1]
        pinned = buffer.fill(array)
        with self.stream:
            result = self.cupy.empty(array.shape, array.dtype)
            result.data.copy_from_host_async(pinned.ctypes.data, array.nbytes, self.stream)
            buffer.copied = self.stream.record()
        computing.wait_event(buffer.copied)
        weakref.finalize(result, self.retire, result.data, computing).atexit = False
        return result

    def retire(self, memory: Any, computing: Any) -> None:
        """The array in ``memory`` is gone: keep the memory until its last use has passed."""
        with self.cupy.cuda.Device(self.device):
            self.retired.append((computing.record(), memory))

    def let_go(self) -> None:
        """Give memory back whose last use has passed."""
        self.retired = [(event, memory) for event, memory in self.retired if not event.done]
