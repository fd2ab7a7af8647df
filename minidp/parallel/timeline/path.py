"""The critical path of a step: what would have to be shorter for the step to be shorter.

It is found backwards from the last moment of the step. On a replica that worked, the path goes
back through what it did. Where it waited for others, the path jumps to the one that came last:
the wait was not its own doing. So the path is one line through the step, without gaps.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from minidp.parallel.events import TURN, Event
from minidp.parallel.timeline.states import State, beside

Moment = tuple[int, int]
"""A replica and a time."""


def critical_path(
    lanes: Sequence[list[Event]], states: Sequence[list[State]], devices: Sequence[str]
) -> list[State]:
    """The states that the end of a step depended on, in order of time.

    A wait for a bucket was ended by the replica with the latest ``ready`` or ``reduce`` of that
    bucket before the wait's end. Any other wait was ended by the replica that arrived last: that
    did not have to wait for the same thing, or began to wait for it last. The path goes on there
    from the moment of arrival; what remains of the wait (waking up), and waits that nobody else
    explains, are on the path themselves. A turn on a device was ended by the replica that had it,
    when that began to wait. A reduction beside the work (on GPUs) is on the path as far as it was
    waited for; before it, the replica that made the bucket whole.
    """
    ends = [(-lane[-1].ended, rank) for rank, lane in enumerate(states) if lane]
    if not ends:
        return []
    ended, rank = min(ends)
    return _Walk(lanes, states, devices).back(rank, -ended)


class _Walk:
    """The states and signals of one step, and the path so far, last state first."""

    def __init__(
        self, lanes: Sequence[list[Event]], states: Sequence[list[State]], devices: Sequence[str]
    ) -> None:
        self.states, self.devices = states, devices
        self.begins = [[state.began for state in lane] for lane in states]
        self.signals: dict[str, list[Event]] = {}
        for event in (e for lane in lanes for e in lane if e.kind in ("ready", "reduce")):
            self.signals.setdefault(event.name, []).append(event)
        self.path: list[State] = []

    def back(self, rank: int, now: int) -> list[State]:
        """The path that ends at ``now`` on ``rank``."""
        left: set[int] = set()  # replicas that the path has left at this very moment
        while (state := self.at(rank, now)) is not None:
            before = now
            if state.kind == "wait" and rank not in left:
                left.add(rank)
                rank, now = self.released(state, now)
            elif state.name == TURN and rank not in left:
                left.add(rank)
                rank, now = self.handed_on(state, now)
            else:
                self.add(state, state.began, now)
                now = state.began
            if now < before:
                left.clear()
        return self.path[::-1]

    def at(self, rank: int, now: int) -> State | None:
        """What ``rank`` did just before ``now``."""
        index = bisect_left(self.begins[rank], now) - 1
        found = self.states[rank][index] if index >= 0 else None
        return found if found is not None and found.ended >= now else None

    def add(self, state: State, began: int, ended: int) -> None:
        if began < ended:
            self.path.append(state._replace(began=began, ended=ended))

    def released(self, wait: State, now: int) -> Moment:
        """Who ended ``wait``, and when; what lies between then and ``now`` is on the path."""
        given = list(self.given(wait, now))
        last = max(given, key=lambda e: (e.ended, -e.replica), default=None)
        if last is not None:
            rank, moment = last.replica, last.ended
        else:
            rank, moment = self.last_arrival(wait, now)
        self.add(wait, moment, now)
        if last is not None and beside(last, self.devices[last.replica]):
            return self.through(last)
        return rank, moment

    def handed_on(self, turn: State, now: int) -> Moment:
        """Which replica had the device last while ``turn`` was waited for, and until when; the one
        that waited itself, if no other is known. What lies between then and ``now`` is on the path.
        """
        found = [
            (state.began, -rank)
            for rank, lane in enumerate(self.states)
            if rank != turn.replica and self.devices[rank] == self.devices[turn.replica]
            for state in lane if state.kind == "wait" and turn.began < state.began <= now
        ]  # fmt: skip
        moment, rank = max(found, default=(turn.began, -turn.replica))
        self.add(turn, moment, now)
        return -rank, moment

    def given(self, wait: State, now: int) -> Iterator[Event]:
        """The signals that may have ended ``wait``: of others, or of a stream beside the work."""
        for event in self.signals.get(wait.name, ()):
            own = event.replica == wait.replica and not beside(event, self.devices[event.replica])
            if wait.began < event.ended <= now and not own:
                yield event

    def through(self, reduction: Event) -> Moment:
        """Put a reduction that was waited for on the path; it goes on where the bucket was made
        whole last."""
        whole = [e for e in self.signals[reduction.name]
                 if e.kind == "ready" and e.ended <= reduction.ended]  # fmt: skip
        last = max(whole, key=lambda e: (e.ended, -e.replica), default=reduction)
        began = max(reduction.began, last.began)
        state = State(reduction.replica, "reduce", reduction.name, began, reduction.ended)
        self.add(state, began, reduction.ended)
        return last.replica, began

    def last_arrival(self, wait: State, now: int) -> Moment:
        """Which other replica came last to what ``wait`` was for, and when."""
        arrivals = [(wait.began, 0, -wait.replica)]
        for rank, lane in enumerate(self.states):
            before = [state for state in lane if state.began < now]
            if rank != wait.replica and before:
                arrivals.append((*self.arrival(before, wait, now), -rank))
        moment, _, rank = max(arrivals)
        return -rank, moment

    def arrival(self, states: Sequence[State], wait: State, now: int) -> tuple[int, int]:
        """When the replica that went through ``states`` arrived, and since when it had worked (as
        a negative)."""
        waits = [state for state in states if state.kind == "wait"]
        same = [s for s in waits if s.name == wait.name and s.ended > wait.began]
        if same:
            return same[-1].began, 0
        if states[-1].kind == "wait":  # for something else: it is not what ended this
            return wait.began, -now
        return min(now, states[-1].ended), -(waits[-1].ended if waits else states[0].began)
