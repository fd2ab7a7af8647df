"""The same events as a Chrome trace, for chrome://tracing and Perfetto.

Format: "Trace Event Format", JSON object form: complete events ("X") with ``ts`` and ``dur`` in
microseconds, instants ("i"), names of processes and threads ("M"), and flows ("s", "f") that link
the last ``ready`` of a bucket to each replica's reduction of it. A replica is a process; its rows
are threads of it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from minidp.io.whole import write_whole
from minidp.parallel.events import Event, Recording
from minidp.parallel.timeline.rows import COMMUNICATION, COMPUTE, WAITING, row_of

ROWS = {COMPUTE: "compute", COMMUNICATION: "communication", WAITING: "waiting"}


def write_trace(recording: Recording, path: str | os.PathLike[str]) -> None:
    """Write the trace to ``path``, whole or not at all."""
    write_whole(Path(path), json.dumps(trace(recording)).encode())


def trace(recording: Recording) -> dict[str, Any]:
    """The trace as what ``json.dumps`` takes. Times count from the first event."""
    start = min((event.began for event in recording.events), default=0)
    events = [*_names(recording), *(_event(e, start) for e in recording.events),
              *_flows(recording, start)]  # fmt: skip
    meta = {name: str(value) for name, value in recording.meta.items()}
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": meta}


def _names(recording: Recording) -> Iterator[dict[str, Any]]:
    for rank, device in enumerate(recording.replicas):
        name = {"name": f"replica {rank} on {device}"}
        yield {"ph": "M", "pid": rank, "name": "process_name", "args": name}
        yield {"ph": "M", "pid": rank, "name": "process_sort_index", "args": {"sort_index": rank}}
        for row, title in ROWS.items():
            yield {"ph": "M", "pid": rank, "tid": row, "name": "thread_name",
                   "args": {"name": title}}  # fmt: skip


def _event(event: Event, start: int) -> dict[str, Any]:
    args: dict[str, Any] = {"step": event.step}
    args |= {"bytes": event.size} if event.size else {}
    args |= {"detail": event.detail} if event.detail else {}
    common = {
        "name": f"{event.kind} {event.name}".rstrip(), "cat": event.kind, "pid": event.replica,
        "tid": row_of(event.kind), "ts": (event.began - start) / 1000, "args": args,
    }  # fmt: skip
    if event.kind == "ready":
        return {"ph": "i", "s": "t", **common}
    return {"ph": "X", "dur": (event.ended - event.began) / 1000, **common}


def _flows(recording: Recording, start: int) -> Iterator[dict[str, Any]]:
    """An arrow from where a bucket was made whole last, in backward, to each reduction of it."""
    last: dict[tuple[int, str], Event] = {}
    for event in recording.events:
        key = event.step, event.name
        if event.kind == "ready" and (key not in last or event.began > last[key].began):
            last[key] = event
    for number, event in enumerate(e for e in recording.events if e.kind == "reduce"):
        source = last.get((event.step, event.name))
        if source is not None and source.began <= event.ended:
            common = {"name": event.name, "cat": "bucket", "id": number}
            yield {"ph": "s", "pid": source.replica, "tid": COMPUTE,
                   "ts": (source.began - start) / 1000, **common}  # fmt: skip
            yield {"ph": "f", "bp": "e", "pid": event.replica, "tid": COMMUNICATION,
                   "ts": (max(event.began, source.began) - start) / 1000, **common}  # fmt: skip
