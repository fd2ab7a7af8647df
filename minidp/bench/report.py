"""What was measured, as tables to read and as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from minidp.bench.machine import SGEMM
from minidp.bench.measure import Limits, Row
from minidp.bench.rounds import Times, quartiles
from minidp.bench.trainers import CAPTURED, OURS

NOISY = 0.1
"""How far apart the quartiles of a machine's own speed may be before ratios are doubtful."""

WIDTHS = {"name": 31, "threads": 3, "minidp": 9, "captured": 9, "PyTorch": 9, "ratio": 19,
          "GF/s": 7, "of limit": 16}  # fmt: skip


def heading(machine: Mapping[str, Any]) -> str:
    """The machine and the versions in two lines."""
    versions = ", ".join(f"{name} {machine[name]}" for name in ("python", "numpy", "numba", "torch")
                         if name in machine)  # fmt: skip
    return f"{machine['processor']}, {machine['cores']} core(s), {machine['system']}\n{versions}"


def limits_line(threads: int, limits: Limits) -> str:
    return (f"{threads} thread(s) reach {limits.flops / 1e9:.0f} GF/s (sgemm) and "
            f"{limits.bytes / 1e9:.0f} GB/s (memory)")  # fmt: skip


def columns(capture: bool, peer: bool, threads: bool) -> list[str]:
    """The columns that have something to show."""
    left_out = {"captured": capture, "PyTorch": peer, "ratio": peer, "threads": threads}
    return [name for name in WIDTHS if left_out.get(name, True)]


def header(names: Sequence[str]) -> str:
    """The names of the columns, times in milliseconds."""
    titles = {"name": "ms per step", "threads": "T"}
    cells = [titles.get(name, name) for name in names]
    return line(names, dict(zip(names, cells, strict=True)))


def line(names: Sequence[str], cells: Mapping[str, str]) -> str:
    first, *rest = names
    return cells[first].ljust(WIDTHS[first]) + "".join(
        cells[name].rjust(WIDTHS[name] + 1) for name in rest
    )


def row_line(names: Sequence[str], row: Row) -> str:
    """One row of a table; a ``!`` where results were too far apart to count."""
    ours, theirs = row.best(True), row.best(False)
    share = None if ours is None or row.bound is None else row.share(ours)
    cells = {
        "name": "! " * (not row.agrees) + f"{row.name} {row.what}".strip(),
        "threads": str(row.threads), "minidp": _ms(row.times.get(OURS)),
        "captured": _ms(row.times.get(CAPTURED)), "PyTorch": _ms(theirs),
        "ratio": str(row.ratio or "-"), "GF/s": _rate(row, ours),
        "of limit": "-" if share is None or row.bound is None else f"{share:.0%} {row.bound[1]}",
    }  # fmt: skip
    return line(names, cells)


def _ms(times: Times | None) -> str:
    if times is None:
        return "-"
    value = 1000 * times.median
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


def _rate(row: Row, times: Times | None) -> str:
    if times is None or row.cost is None:
        return "-"
    return f"{row.cost.flops / times.median / 1e9:.1f}"


LEGEND = """\
GF/s: operations of the direct algorithms per second. of limit: the time that sgemm or memory
allow, over ours; above 100 % by fewer operations or from a cache."""
RATIO = """\
ratio: the fastest minidp over the fastest PyTorch, of medians (quartiles over rounds);
below 1 minidp is faster."""
ALONE = "beside PyTorch it measures where that is installed: pip install torch"


def legend(peer: bool, wanted: bool) -> str:
    """What the columns mean; and what is not there, if it was ``wanted``."""
    return "\n".join([*[RATIO] * peer, LEGEND, *[ALONE] * (wanted and not peer)])


def noise(rows: Sequence[Row]) -> float:
    """How far apart the quartiles of the machine's own speed were, over all rounds of all rows
    with as many threads, in parts of the median."""
    found: dict[int, list[float]] = {}
    for row in rows:
        found.setdefault(row.threads, []).extend(row.times[SGEMM].rounds)
    return max((Times(tuple(each)).spread for each in found.values()), default=0.0)


def warnings(rows: Sequence[Row], load: float | None) -> Iterator[str]:
    """What a reader of the tables must know."""
    if (varied := noise(rows)) > NOISY:
        yield (
            "this machine is too noisy to tell small differences: its own product of matrices "
            f"varied by {varied:.0%}; close other programs, or measure longer with --seconds"
        )
    if load is not None and load > 0.5:
        yield f"other work was running when this began (load {load:.1f})"
    doubtful = [f"{row.name} ({row.threads} T)" for row in rows if _doubtful(row)]
    if doubtful:
        yield f"rounds disagree on who is faster: {', '.join(doubtful)}"
    for row in rows:
        if not row.agrees:
            yield f"{row.name}: results are {row.apart:.1e} apart; its times do not count"


def _doubtful(row: Row) -> bool:
    return row.ratio is not None and row.ratio.low < 1 < row.ratio.high


def as_json(row: Row) -> dict[str, Any]:
    """A row with every round."""
    ratio = row.ratio
    return {
        "name": row.name, "what": row.what, "threads": row.threads,
        "flops": row.cost and row.cost.flops, "bytes": row.cost and row.cost.bytes,
        "sgemm_flops_per_second": row.limits.flops,
        "memory_bytes_per_second": row.limits.bytes,
        "bound": row.bound and row.bound[1], "apart": row.apart, "agrees": row.agrees,
        "ratio": ratio and {"median": ratio.median, "low": ratio.low, "high": ratio.high},
        "entrants": {name: _entrant(row, times) for name, times in row.times.items()},
    }  # fmt: skip


def _entrant(row: Row, times: Times) -> dict[str, Any]:
    low, high = quartiles(times.rounds)
    return {"ms": 1e3 * times.median, "low": 1e3 * low, "high": 1e3 * high,
            "share": row.share(times), "rounds": [1e3 * each for each in times.rounds]}  # fmt: skip


def write(path: Path, found: dict[str, Any]) -> None:
    """Write JSON whole or not at all."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(json.dumps(found, indent=1) + "\n")
    os.replace(part, path)
