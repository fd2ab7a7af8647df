"""What each replica was doing at each moment: events, which nest, become states, which do not.

A replica's thread does one thing at a time: that of the event that began last and has not ended
(the innermost one). Where no event is open, the state's kind is ``other``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from minidp.parallel.events import TURN, Event, Recording

GROUPS = {
    "forward": "compute", "backward": "compute", "update": "compute", "commit": "compute",
    "replay": "compute", "load": "data", "copy": "data", "reduce": "reduce", "wait": "wait",
    "stall": "stall", "other": "other",
}  # fmt: skip
"""The group that the time of each kind is counted in. ``ready`` is an instant and has none."""


class State(NamedTuple):
    """What ``replica`` did from ``began`` to ``ended``, in nanoseconds."""

    replica: int
    kind: str
    name: str
    began: int
    ended: int

    @property
    def length(self) -> int:
        return self.ended - self.began

    @property
    def group(self) -> str:
        return GROUPS.get(self.kind, "other")


def beside(event: Event, device: str) -> bool:
    """Whether a reduction runs beside the replica's own work instead of interrupting it.

    So it is on GPUs, which reduce on a stream of their own, and where the recorder says so
    (``detail="beside"``). On other devices the replica's thread adds, and does nothing else.
    """
    return event.kind == "reduce" and (event.detail == "beside" or device.startswith("cuda"))


def by_step(recording: Recording) -> dict[int, list[list[Event]]]:
    """Per step, in ascending order, the events of each replica by their beginning.

    A turn that is waited for when a step is over belongs to the next one.
    """
    count = len(recording.replicas)
    steps: dict[int, list[list[Event]]] = {}
    for event in sorted(recording.events, key=order):
        lanes = steps.setdefault(event.step, [[] for _ in range(count)])
        lanes[event.replica].append(event)
    for number, lanes in steps.items():
        for lane, following in zip(lanes, steps.get(number + 1, ())):
            if lane and (lane[-1].kind, lane[-1].name) == ("stall", TURN):
                following.insert(0, lane.pop())
    return dict(sorted(steps.items()))


def order(event: Event) -> tuple[int, int]:
    """The key by which an event comes before those inside it."""
    return event.began, -event.ended


def states(events: Iterable[Event], device: str = "cpu:0") -> list[State]:
    """The states of one replica, from its first event to the end of its last, without gaps."""
    own = [e for e in events if e.kind != "ready" and not beside(e, device)]
    return list(_swept(sorted(own, key=order)))


def _swept(events: list[Event]) -> Iterator[State]:
    """Go through the beginnings in order of time, with the open events on a stack."""
    open_events: list[Event] = []
    now = events[0].began if events else 0
    for event in events:
        yield from _closing(open_events, event.replica, now, event.began)
        now = event.began
        open_events.append(event)
    if events:
        yield from _closing(open_events, events[0].replica, now, max(e.ended for e in events))


def _closing(open_events: list[Event], replica: int, now: int, until: int) -> Iterator[State]:
    """The states from ``now`` to ``until``, between which no event begins."""
    while open_events and now < until:
        top = open_events[-1]
        if top.ended > now:
            end = min(top.ended, until)
            yield State(replica, top.kind, top.name, now, end)
            now = end
        if top.ended <= now:
            open_events.pop()
    if now < until:
        yield State(replica, "other", "", now, until)
