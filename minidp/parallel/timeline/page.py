"""The timeline as one page: HTML, style, script and data in one file that needs no network.

The page draws; what it shows is worked out here, by ``analysis.py`` and ``rows.py``.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from minidp.io.whole import write_whole
from minidp.parallel.events import Event, Recording
from minidp.parallel.timeline.analysis import Lane, Step, analyse, totals
from minidp.parallel.timeline.intervals import length
from minidp.parallel.timeline.rows import depths

SCRIPTS = ("data.js", "draw.js", "marks.js", "view.js", "panels.js", "overview.js")


def write_page(recording: Recording, path: str | os.PathLike[str]) -> None:
    """Write the page to ``path``, whole or not at all."""
    write_whole(Path(path), page(recording).encode())


def page(recording: Recording) -> str:
    """The page's text."""
    script = "\n".join(_part(name) for name in SCRIPTS)
    # "<" cannot end the element early, nor start another, whatever a module is called
    data = json.dumps(_data(recording), separators=(",", ":")).replace("<", "\\u003c")
    title = f"Timeline: {recording.meta.get('model', 'a training')}"
    parts = {
        "title": escape(title), "style": _part("page.css"), "data": data,
        "script": f'(() => {{\n"use strict";\n{script}\n}})();',
    }  # fmt: skip
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found.group(1)], _part("page.html"))


def _part(name: str) -> str:
    return (files(__package__) / "web" / name).read_text(encoding="utf-8")


def _data(recording: Recording) -> dict[str, Any]:
    """What the script reads: times in nanoseconds from the first event, words by number."""
    events = sorted(recording.events, key=lambda event: event.began)
    start = events[0].began if events else 0
    steps = analyse(recording)
    kinds, names, details = (_numbered(words) for words in (
        [e.kind for e in events], [e.name for e in events], [e.detail for e in events]
    ))  # fmt: skip
    columns: dict[str, list[int]] = {
        "replica": [e.replica for e in events], "step": [e.step for e in events],
        "kind": [kinds[e.kind] for e in events], "name": [names[e.name] for e in events],
        "began": [e.began - start for e in events], "length": [e.ended - e.began for e in events],
        "size": [e.size for e in events], "detail": [details[e.detail] for e in events],
        "depth": _depths(events, len(recording.replicas)),
    }  # fmt: skip
    return {
        "meta": {name: str(value) for name, value in recording.meta.items()},
        "devices": recording.replicas, "events": columns,
        "totals": asdict(totals(recording, steps)),
        "kinds": list(kinds), "names": list(names), "details": list(details),
        "steps": [_step(step, start) for step in steps],
    }  # fmt: skip


def _numbered(words: Sequence[str]) -> dict[str, int]:
    """Each word once, with its number."""
    return {word: i for i, word in enumerate(dict.fromkeys(words))}


def _depths(events: Sequence[Event], replicas: int) -> list[int]:
    """How deep each event lies in its replica's lane."""
    found = [0] * len(events)
    for rank in range(replicas):
        own = [i for i, event in enumerate(events) if event.replica == rank]
        for index, depth in zip(own, depths([events[i] for i in own])):
            found[index] = depth
    return found


def _step(step: Step, start: int) -> dict[str, Any]:
    return {
        "number": step.number, "began": step.began - start, "ended": step.ended - start,
        "lanes": [_lane(lane, start) for lane in step.lanes], "straggler": step.straggler,
        "path": [(s.replica, s.kind, s.name, s.began - start, s.ended - start) for s in step.path],
    }  # fmt: skip


def _lane(lane: Lane, start: int) -> dict[str, Any]:
    return {
        "replica": lane.replica, "span": lane.span, "time": lane.time, "waits": lane.waits,
        "communication": lane.communication, "uncovered": length(lane.exposed),
        "exposed": [(began - start, ended - start) for began, ended in lane.exposed],
    }  # fmt: skip
