"""What a recording says: where time went, what communication cost, who was last, what to shorten.

For one step and replica, with its states (see ``states.py``):

* its *span* goes from its first event to the end of its last;
* *time* of a group is the length of its states of that group; groups add up to the span;
* the *busy share* is compute / span;
* *communication* is going on while the replica reduces or waits for others, and while a bucket is
  in flight: from its ``ready`` to the end of the replica's last ``reduce`` or ``wait`` for it;
* communication is *exposed* while the replica reduces or waits, or while a reduction runs beside
  it and it computes nothing. What is not exposed is *hidden*: behind compute.

Across replicas: the *straggler* of a step is the replica that waited least (of equals the first);
it is *behind* by how much longer the others waited on average. With one replica there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from minidp.parallel.events import Event, Recording
from minidp.parallel.metrics import Metrics, peak_memory
from minidp.parallel.timeline.intervals import Interval, length, merged, without
from minidp.parallel.timeline.path import critical_path
from minidp.parallel.timeline.states import State, beside, by_step, states


@dataclass(frozen=True)
class Lane:
    """One replica in one step. All times are nanoseconds."""

    replica: int
    began: int
    ended: int
    time: dict[str, int]
    waits: dict[str, int]
    exposed: list[Interval]
    communication: int
    reduced: int
    """Bytes of the buckets that the replica made ready."""

    @property
    def span(self) -> int:
        return self.ended - self.began

    @property
    def busy(self) -> float:
        """compute / span, between 0 and 1."""
        return self.time.get("compute", 0) / self.span if self.span else 0.0

    @property
    def hidden(self) -> int:
        return self.communication - length(self.exposed)


@dataclass(frozen=True)
class Step:
    """One step of all replicas that have events in it."""

    number: int
    began: int
    ended: int
    lanes: list[Lane]
    path: list[State]
    straggler: int | None
    behind: float

    @property
    def exposed(self) -> float:
        """Exposed communication, in nanoseconds, averaged over replicas."""
        return mean([length(lane.exposed) for lane in self.lanes])

    def on_path(self) -> dict[str, int]:
        """How long the critical path is in each kind of state, longest first."""
        found: dict[str, int] = {}
        for state in self.path:
            found[state.kind] = found.get(state.kind, 0) + state.length
        return dict(sorted(found.items(), key=lambda item: -item[1]))


@dataclass(frozen=True)
class Totals:
    """A whole recording; ``seconds`` from its first event to its last."""

    steps: int
    seconds: float
    busy: list[float] = field(default_factory=list)
    """Per replica: compute / time from its first event to its last."""
    exposed: float = 0.0
    """Exposed communication in seconds, averaged over replicas."""
    hidden: float = 0.0
    reduced: int = 0
    """Bytes of gradients that one replica gave to be reduced."""
    stragglers: list[int] = field(default_factory=list)
    """Per replica: the steps in which it was the straggler."""


def analyse(recording: Recording) -> list[Step]:
    """Every step of a recording."""
    return [_step(number, lanes, recording.replicas)
            for number, lanes in by_step(recording).items()]  # fmt: skip


def totals(recording: Recording, steps: Sequence[Step]) -> Totals:
    """The steps of a recording together."""
    if not steps:
        return Totals(0, 0.0)
    count = len(recording.replicas)
    own = [[lane for step in steps for lane in step.lanes if lane.replica == r]
           for r in range(count)]  # fmt: skip
    lanes = [lane for step in steps for lane in step.lanes]
    return Totals(
        len(steps), (max(s.ended for s in steps) - min(s.began for s in steps)) / 1e9,
        [_busy(part) for part in own],
        sum(length(lane.exposed) for lane in lanes) / 1e9 / count,
        sum(lane.hidden for lane in lanes) / 1e9 / count,
        max(sum(lane.reduced for lane in part) for part in own),
        [sum(step.straggler == r for step in steps) for r in range(count)],
    )  # fmt: skip


def _busy(lanes: Sequence[Lane]) -> float:
    if not lanes:
        return 0.0
    span = max(lane.ended for lane in lanes) - min(lane.began for lane in lanes)
    return sum(lane.time.get("compute", 0) for lane in lanes) / span if span else 0.0


def _step(number: int, lanes: Sequence[list[Event]], devices: Sequence[str]) -> Step:
    swept = [states(lane, device) for lane, device in zip(lanes, devices)]
    present = [rank for rank, lane in enumerate(swept) if lane]
    found = [_lane(rank, lanes[rank], swept[rank], devices[rank]) for rank in present]
    straggler, behind = _straggler(found)
    return Step(
        number, min((lane.began for lane in found), default=0),
        max((lane.ended for lane in found), default=0), found,
        critical_path(lanes, swept, devices), straggler, behind,
    )  # fmt: skip


def _lane(rank: int, events: Sequence[Event], swept: Sequence[State], device: str) -> Lane:
    time: dict[str, int] = {}
    waits: dict[str, int] = {}
    for state in swept:
        time[state.group] = time.get(state.group, 0) + state.length
        if state.group == "wait":
            waits[state.name] = waits.get(state.name, 0) + state.length
    shown = exposed(events, swept, device)
    return Lane(
        rank, swept[0].began, swept[-1].ended, time, waits, shown,
        length(merged([*shown, *in_flight(events)])),
        sum(e.size for e in events if e.kind == "ready"),
    )  # fmt: skip


def exposed(events: Iterable[Event], swept: Iterable[State], device: str) -> list[Interval]:
    """When a replica communicated and did not compute."""
    computing = [(s.began, s.ended) for s in swept if s.group == "compute"]
    aside = [(e.began, e.ended) for e in events if beside(e, device)]
    stopped = [(s.began, s.ended) for s in swept if s.group in ("reduce", "wait")]
    return merged([*stopped, *without(merged(aside), merged(computing))])


def in_flight(events: Iterable[Event]) -> list[Interval]:
    """From a bucket's ``ready`` to the end of the last ``reduce`` or ``wait`` for it."""
    ready: dict[str, int] = {}
    done: dict[str, int] = {}
    for event in events:
        if event.kind == "ready":
            ready[event.name] = event.began
        elif event.kind in ("reduce", "wait") and event.name in ready:
            done[event.name] = max(event.ended, done.get(event.name, 0))
    return [(ready[name], ended) for name, ended in done.items()]


def _straggler(lanes: Sequence[Lane]) -> tuple[int | None, float]:
    if len(lanes) < 2:
        return None, 0.0
    waited = {lane.replica: lane.time.get("wait", 0) for lane in lanes}
    last = min(waited, key=lambda rank: (waited[rank], rank))
    others = mean([t for rank, t in waited.items() if rank != last])
    return last, others - waited[last]


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def measure(recording: Recording, rows: int, loss: float | None = None) -> Metrics:
    """The metrics of a recording in which ``rows`` rows were trained on, over all replicas."""
    steps = analyse(recording)
    found = totals(recording, steps)
    return Metrics(
        steps[-1].number if steps else 0, found.steps, found.seconds, rows, loss, found.busy,
        found.exposed, found.reduced, peak_memory=peak_memory(),
    )  # fmt: skip
