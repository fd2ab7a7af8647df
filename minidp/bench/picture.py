"""The roofline (Williams, Waterman and Patterson 2009): how near everything is to the limits.

Across: operations per byte that the work must move. Up: operations per second. No one gets above
the slope, which is memory's speed, or above the flat part, which is arithmetic's, but by needing
fewer operations (Winograd) or by staying in a cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minidp.bench.machine import SGEMM
from minidp.bench.trainers import CAPTURED, OURS
from minidp.types import Array

COLOURS = {"minidp": "#2166ac", "PyTorch": "#d6604d"}
INK, FAINT, GRID = "#222222", "#666666", "#dddddd"
SHAPES, DASHES = "osD^v", ("-", "--", "-.", ":")
"""Of points and roofs, by how many threads there were: the first for one."""
CLOSE = 1.2
"""How many times as high a roof is at least that leaves room for the name of the one below."""


def draw(path: Path, report: Mapping[str, Any]) -> None:
    """Draw what ``main`` found: training steps on the left, ops on the right."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(13, 5.6), width_ratios=(1, 1.15),
                                  layout="constrained", facecolor="white")  # fmt: skip
    limits = {int(threads): each for threads, each in report["limits"].items()}
    steps = [row for row in report["works"] if row["flops"]]
    draw_panel(panels[0], "training steps", steps, limits)
    draw_panel(panels[1], "ops, forward and backward, one thread", report["ops"], {1: limits[1]})
    name_points(panels[0], steps)
    number_points(panels[1], report["ops"])
    panels[0].set_ylabel("GFLOP/s, operations of the direct algorithm")
    figure.suptitle(f"{report['machine']['processor']}, {report['when'][:10]}", fontsize=9,
                    color=FAINT)  # fmt: skip
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_panel(
    axes: Any, title: str, rows: Sequence[Mapping[str, Any]],
    limits: Mapping[int, Mapping[str, float]],
) -> None:  # fmt: skip
    """Roofs, points and a legend."""
    across = span(rows)
    axes.set(xscale="log", yscale="log", xlim=(across[0], across[-1]), title=title,
             xlabel="operations per byte that must be moved")  # fmt: skip
    for place, each in enumerate(limits.values()):
        draw_roof(axes, each, across, place)
    name_roofs(axes, limits)
    for row in rows:
        draw_row(axes, row, list(limits).index(row["threads"]))
    low, high = axes.get_ylim()
    roof = max(each["sgemm_flops_per_second"] for each in limits.values()) / 1e9
    axes.set_ylim(min(low, roof / 30), max(high, roof * 2))
    plain_numbers(axes.yaxis)
    axes.grid(color=GRID, lw=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    draw_legend(axes, list(limits), any("PyTorch" in rates(row) for row in rows))


def plain_numbers(axis: Any) -> None:
    """Ticks of a logarithmic axis at 1, 2 and 5 times powers of ten, written out."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def span(rows: Sequence[Mapping[str, Any]]) -> Array:
    """Where the roofs are drawn: around the points and the corner."""
    found = [intensity(row) for row in rows]
    return np.geomspace(min([*found, 1.0]) / 2, max([*found, 16.0]) * 4, 200)


def draw_roof(
    axes: Any, limits: Mapping[str, float], across: Array, place: int
) -> None:  # fmt: skip
    """The slope of memory and the flat roof of sgemm; memory's name, of the first."""
    flops, memory = (limits[f"{name}_per_second"] / 1e9 for name in ("sgemm_flops", "memory_bytes"))
    axes.plot(across, np.minimum(flops, memory * across), color="#444444", lw=1.3, zorder=1,
              ls=DASHES[place % len(DASHES)])  # fmt: skip
    if place == 0:
        axes.text(0.5 * flops / memory * 1.2, 0.5 * flops, f"memory {memory:.0f} GB/s",
                  fontsize=8.5, va="top", color="#444444")  # fmt: skip


def name_roofs(axes: Any, limits: Mapping[int, Mapping[str, float]]) -> None:
    """Each flat roof's name, where it begins: over it; under it where another is near above."""
    found = sorted((each["sgemm_flops_per_second"] / 1e9, each["memory_bytes_per_second"] / 1e9, k)
                   for k, each in limits.items())  # fmt: skip
    above = [flops for flops, _, _ in found[1:]] + [float("inf")]
    for (flops, memory, threads), following in zip(found, above, strict=True):
        side, way = ("bottom", 2) if following > CLOSE * flops else ("top", -2)
        many = f", {threads} threads" if threads > 1 else ""
        axes.annotate(f"sgemm {flops:.0f} GFLOP/s{many}", (flops / memory, flops), va=side,
                      xytext=(3, way), textcoords="offset points", fontsize=8.5,
                      color="#444444")  # fmt: skip


def intensity(row: Mapping[str, Any]) -> float:
    """Operations per byte."""
    found: float = row["flops"] / row["bytes"]
    return found


def rates(row: Mapping[str, Any]) -> dict[str, float]:
    """GFLOP/s of the fastest of ours and of the others."""
    best: dict[str, float] = {}
    for name, entrant in row["entrants"].items():
        ours = "minidp" if name in (OURS, CAPTURED) else "PyTorch"
        if name != SGEMM:
            best[ours] = max(best.get(ours, 0.0), row["flops"] / entrant["ms"] / 1e6)
    return best


def draw_row(axes: Any, row: Mapping[str, Any], place: int) -> None:
    """A point for ours, a ring for the peer, a line between them."""
    found, x = rates(row), intensity(row)
    axes.plot([x, x], [min(found.values()), max(found.values())], lw=1, color="#999999", zorder=2)
    shape = SHAPES[place % len(SHAPES)]
    axes.scatter([x], [found["minidp"]], s=90, marker=shape, color=COLOURS["minidp"], zorder=3)
    if "PyTorch" in found:
        axes.scatter([x], [found["PyTorch"]], s=150, marker=shape, zorder=3, facecolors="none",
                     edgecolors=COLOURS["PyTorch"], linewidths=1.5)  # fmt: skip


def draw_legend(axes: Any, threads: Sequence[int], peer: bool) -> None:
    """Which colour is whose, and which shape is how many threads."""
    for name, filled in (("minidp", True), ("PyTorch", False))[: 1 + peer]:
        axes.scatter([], [], s=60 if filled else 110, edgecolors=COLOURS[name], label=name,
                     linewidths=1.5, facecolors=COLOURS[name] if filled else "none")  # fmt: skip
    if len(threads) > 1:
        for place, many in enumerate(threads):
            label = f"{many} threads or replicas" if many > 1 else "1 thread"
            axes.scatter([], [], s=40, marker=SHAPES[place % len(SHAPES)], color="#888888",
                         label=label)  # fmt: skip
    axes.legend(loc="lower right", frameon=False, fontsize=9)


def name_points(axes: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    """The name of a training step beside each of its points."""
    for row in rows:
        axes.annotate(row["name"], (intensity(row), rates(row)["minidp"]), xytext=(8, 0),
                      textcoords="offset points", fontsize=9, va="center", color=INK)  # fmt: skip


def number_points(axes: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    """A number in each point, and the list of their names at the side."""
    for number, row in enumerate(rows, 1):
        axes.annotate(str(number), (intensity(row), rates(row)["minidp"]), ha="center",
                      va="center_baseline", fontsize=6.5, color="white", zorder=5)  # fmt: skip
    names = "\n".join(f"{number:2d}  {row['name']}" for number, row in enumerate(rows, 1))
    axes.text(1.02, 1, names, transform=axes.transAxes, va="top", fontsize=8.5, color=INK,
              linespacing=1.6)  # fmt: skip
