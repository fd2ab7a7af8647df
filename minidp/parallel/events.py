"""What replicas did, and when: the events that a timeline is drawn of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any, NamedTuple

TURN = "its turn on the device"
"""The name of a stall while other replicas have the device."""


class Event(NamedTuple):
    """Something that a replica did from ``began`` to ``ended``, in ns of ``perf_counter_ns``.

    ``kind``: ``load`` (the loader is asked), ``copy`` (rows go to the device), ``forward`` and
    ``backward`` (``name`` is the module's path, "" the whole), ``ready`` (a moment: the gradient of
    a bucket is whole), ``reduce`` (adding it), ``wait`` (for other replicas; ``name`` says what
    for; only where it had to), ``update`` (the optimiser), ``commit``, ``replay`` (a captured
    step's forward and backward), ``stall`` (something else held it up). ``size`` is in bytes.
    """

    replica: int
    step: int
    kind: str
    name: str
    began: int
    ended: int
    size: int = 0
    detail: str = ""


@dataclass
class Recording:
    """The events of a run; ``replicas`` are the devices' names, ``meta`` says what ran."""

    events: list[Event] = field(default_factory=list)
    replicas: list[str] = field(default_factory=list)
    meta: dict[str, Any] = field(default_factory=dict)

    def note(
        self, replica: int, step: int, kind: str, name: str, began: int, size: int = 0
    ) -> None:
        """Something that began at ``began`` ends now. Threads may note at the same time."""
        self.events.append(Event(replica, step, kind, name, began, perf_counter_ns(), size))

    def keep(self, first: int, last: int) -> None:
        """Forget other steps: the end of one before, and questions for a batch that was not there.
        """
        self.events[:] = [event for event in self.events if first <= event.step <= last]

    @contextmanager
    def span(self, replica: int, step: int, kind: str, name: str, size: int = 0) -> Iterator[None]:
        """A block that is one event."""
        began = perf_counter_ns()
        try:
            yield
        finally:
            self.note(replica, step, kind, name, began, size)
