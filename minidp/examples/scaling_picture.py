"""The picture of ``minidp.examples.scaling``: throughput, efficiency, breakdown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minidp.examples.scaling import Row

COLOURS = ("#4477aa", "#cc6677", "#228833", "#aa7711", "#8855aa", "#117788")


def draw(path: Path, rows: list[Row]) -> None:
    """Write one picture with three parts."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (speed, efficiency, parts) = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    draw_curves(speed, efficiency, rows)
    draw_breakdown(parts, rows)
    for axes in (speed, efficiency, parts):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.3, axis="y")
        axes.set_axisbelow(True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_curves(speed: Any, efficiency: Any, rows: list[Row]) -> None:
    """A curve per batch size, over the number of replicas; in grey what would be ideal."""
    counts = sorted({row.replicas for row in rows})
    for place, batch in enumerate(sorted({row.batch for row in rows})):
        own = [row for row in rows if row.batch == batch]
        style = {"ms": 4, "color": COLOURS[place % len(COLOURS)], "label": f"batch {batch}"}
        speed.plot(counts, [row.rows_per_second for row in own], "o-", **style)
        speed.plot(counts, [k * own[0].rows_per_second for k in counts], color="0.85", lw=1)
        efficiency.plot(counts, [100 * row.efficiency for row in own], "o-", **style)
    efficiency.axhline(100, color="0.7", lw=1)
    speed.set(title="rows per second (grey: ideal)", xlabel="replicas", ylim=0, xticks=counts)
    efficiency.set(title="efficiency", xlabel="replicas", ylabel="%", ylim=0, xticks=counts)
    efficiency.legend(frameon=False)


def draw_breakdown(axes: Any, rows: list[Row]) -> None:
    """A bar per setting: what a replica's share takes alone, and what being many adds."""
    names = [f"{row.replicas} × {row.batch // row.replicas}" for row in rows]
    share = [100 * min(row.share / row.step, 1) for row in rows]
    places = range(len(rows))
    axes.bar(places, share, color=COLOURS[0], label="a replica's own share")
    axes.bar(places, [100 - each for each in share], bottom=share, color=COLOURS[1],
             label="the rest: reducing, waiting, contention")  # fmt: skip
    axes.set_xticks(places, names, rotation=60)
    axes.set(title="a step's time", xlabel="replicas × rows", ylabel="%", ylim=(0, 125))
    axes.legend(frameon=False, loc="upper left", fontsize=8)
