"""In which row of its replica's lane an event is drawn."""

from __future__ import annotations

from collections.abc import Sequence

from minidp.parallel.events import Event
from minidp.parallel.timeline.states import order

COMPUTE, COMMUNICATION, WAITING = 0, 1, 2
_PLACES = {"ready": COMMUNICATION, "reduce": COMMUNICATION, "wait": WAITING, "stall": WAITING,
           "load": WAITING}  # fmt: skip


def row_of(kind: str) -> int:
    """The band of a kind: compute (nested by module), communication, or waiting."""
    return _PLACES.get(kind, COMPUTE)


def depths(events: Sequence[Event]) -> list[int]:
    """How deep each event of one replica lies in its band: events in one row do not overlap.

    An event goes below every event of its band that is open when it begins; so a module lies
    below the module that calls it. Instants take no room and lie in the first row.
    """
    found = [0] * len(events)
    ends: dict[int, list[int]] = {COMPUTE: [], COMMUNICATION: [], WAITING: []}
    lasting = [i for i, event in enumerate(events) if event.kind != "ready"]
    for index in sorted(lasting, key=lambda i: order(events[i])):
        event = events[index]
        rows = ends[row_of(event.kind)]
        while rows and rows[-1] <= event.began:
            rows.pop()
        found[index] = len(rows)
        rows.append(event.ended)
    return found
