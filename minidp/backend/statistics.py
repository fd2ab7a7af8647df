"""How much memory of each GPU the arrays of this process take, now and at most.

CuPy's pool knows what it holds now. The largest amount is counted at each allocation and release,
by a hook that belongs to a thread: it is set where a thread first uses a GPU.
"""

from __future__ import annotations

import threading
from typing import Any


class Statistics:
    """Bytes in use and bytes reserved from the driver, by device."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self.used: dict[int, int] = {}
        self.most_used: dict[int, int] = {}
        self.most_reserved: dict[int, int] = {}
        self._lock, self._thread = threading.Lock(), threading.local()

    def watch_thread(self) -> None:
        """Count what this thread allocates and releases from now on."""
        if not getattr(self._thread, "watched", False):
            self._thread.watched = True
            self._thread.hook = _hook(self.cupy, self)
            self._thread.hook.__enter__()

    def change(self, device: int, size: int) -> None:
        """``size`` bytes more (or fewer) are in use."""
        with self._lock:
            used = self.used[device] = self.used.get(device, 0) + size
            self.most_used[device] = max(self.most_used.get(device, 0), used)

    def allocated(self, device: int) -> int:
        """Bytes that arrays take, as the pool counts them."""
        with self.cupy.cuda.Device(device):
            used = int(self.cupy.get_default_memory_pool().used_bytes())
        with self._lock:  # what threads without a hook released is counted here
            self.used[device] = used
            self.most_used[device] = max(self.most_used.get(device, 0), used)
        return used

    def reserved(self, device: int) -> int:
        """Bytes that the pool holds, in use or free."""
        with self.cupy.cuda.Device(device):
            total = int(self.cupy.get_default_memory_pool().total_bytes())
        self.most_reserved[device] = max(self.most_reserved.get(device, 0), total)
        return total

    def most_allocated(self, device: int) -> int:
        """The most bytes that arrays took since the start or the last reset."""
        return max(self.allocated(device), self.most_used[device])

    def most_held(self, device: int) -> int:
        """The most bytes that the pool held, as far as was seen."""
        return max(self.reserved(device), self.most_reserved[device])

    def reset(self, device: int) -> None:
        """Let the largest amounts begin again at the present ones."""
        self.most_used[device] = self.most_reserved[device] = 0
        self.allocated(device)
        self.reserved(device)


def _hook(cupy: Any, statistics: Statistics) -> Any:
    """CuPy's way to tell of each allocation, made when CuPy is there."""

    class Counting(cupy.cuda.MemoryHook):  # type: ignore[misc]
        """Tells the statistics."""

        name = "minidp statistics"

        def malloc_postprocess(self, **what: Any) -> None:
            if what["mem_ptr"]:
                statistics.change(what["device_id"], what["mem_size"])

        def free_postprocess(self, **what: Any) -> None:
            statistics.change(what["device_id"], -what["mem_size"])

    return Counting()
