"""A recording as text: a table for one step, a summary of all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from minidp.parallel.events import Recording
from minidp.parallel.timeline.analysis import Lane, Step, analyse, totals
from minidp.parallel.timeline.intervals import length

GROUPS = ("compute", "data", "reduce", "wait", "stall", "other")


def step_table(recording: Recording, number: int | None = None) -> str:
    """One step (the middle one unless told) in milliseconds: where each replica's time went, the
    critical path, and what was waited for. A KeyError names a step that was not recorded."""
    steps = {step.number: step for step in analyse(recording)}
    if not steps:
        return "nothing was recorded"
    step = steps[list(steps)[len(steps) // 2] if number is None else number]
    lines = [f"step {step.number}: {ms(step.ended - step.began)} ms", ""]
    lines += aligned([("replica", "device", "span", *GROUPS, "busy", "exposed"),
                      *(_row(lane, recording.replicas) for lane in step.lanes)])  # fmt: skip
    return "\n".join([*lines, "", *_notes(step)])


def summary(recording: Recording) -> str:
    """The whole recording: steps, shares, exposed communication, and the slowest step."""
    steps = analyse(recording)
    found = totals(recording, steps)
    if not steps:
        return "nothing was recorded"
    spans = sorted(step.ended - step.began for step in steps)
    slowest = max(steps, key=lambda step: step.ended - step.began)
    share = found.exposed / found.seconds if found.seconds else 0.0
    lines = [
        f"{found.steps} step(s) on {len(recording.replicas)} replica(s) in {found.seconds:.3f} s: "
        f"median {ms(spans[len(spans) // 2])} ms, slowest {ms(spans[-1])} ms "
        f"(step {slowest.number})",
        f"communication: {found.reduced / 1e6:,.1f} MB reduced; {1000 * found.exposed:.2f} ms "
        f"exposed ({share:.1%} of the time), {1000 * found.hidden:.2f} ms hidden, per replica",
        "",
    ]
    rows = [("replica", "device", "busy", "last in")]
    rows += [(str(r), device, f"{busy:.1%}", f"{last} step(s)") for r, (device, busy, last) in
             enumerate(zip(recording.replicas, found.busy, found.stragglers))]  # fmt: skip
    return "\n".join([*lines, *aligned(rows)])


def _row(lane: Lane, devices: Sequence[str]) -> tuple[str, ...]:
    times = (ms(lane.time.get(group, 0)) for group in GROUPS)
    return (str(lane.replica), devices[lane.replica], ms(lane.span), *times,
            f"{lane.busy:.0%}", ms(length(lane.exposed)))  # fmt: skip


def _notes(step: Step) -> Iterator[str]:
    span = max(1, step.ended - step.began)
    parts = [f"{kind} {ms(time)} ({time / span:.0%})" for kind, time in step.on_path().items()]
    yield "critical path: " + ", ".join(parts)
    waits: dict[str, int] = {}
    for lane in step.lanes:
        for name, time in lane.waits.items():
            waits[name] = waits.get(name, 0) + time
    if waits:
        longest = sorted(waits.items(), key=lambda item: -item[1])
        yield "waited for: " + ", ".join(f"{name} {ms(time)}" for name, time in longest[:6])
    if step.straggler is not None:
        yield f"last: replica {step.straggler}, {ms(step.behind)} ms behind the others"


def ms(nanoseconds: float) -> str:
    """Milliseconds with two or three places."""
    return f"{nanoseconds / 1e6:.3f}" if nanoseconds < 1e6 else f"{nanoseconds / 1e6:.2f}"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns beside each other, the first two to the left, the others to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows)]
    return ["  ".join(cell.ljust(width) if i < 2 else cell.rjust(width)
                      for i, (cell, width) in enumerate(zip(row, widths))).rstrip()
            for row in rows]  # fmt: skip
