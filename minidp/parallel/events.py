"""What a recorded run consists of: events, each with its replica, its step and its times."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Event(NamedTuple):
    """Something that a replica did from ``began`` to ``ended``.

    Times are nanoseconds of ``time.perf_counter_ns()``; ``size`` is in bytes. Kinds: ``load``
    (waiting for the loader), ``copy`` (rows to the device), ``forward`` and ``backward`` (a
    module's call; ``name`` is its path, "" for the whole), ``ready`` (an instant: a bucket's
    gradient is there), ``reduce`` (work on a bucket's sum), ``wait`` (blocked on other replicas,
    ``name`` says for what), ``update``, ``commit``, and ``stall`` (something else held it up).
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
    """The events of a run, the device of each replica, and what the run was (``meta``)."""

    events: list[Event] = field(default_factory=list)
    replicas: list[str] = field(default_factory=list)
    meta: dict[str, Any] = field(default_factory=dict)
