"""Renews the tables and pictures of docs/performance.md from what the other scripts found.

    python tests/bench/publish.py FOLDER [--measure] [--only bench,sweep]

With ``--measure`` it first runs them, about ten minutes on a machine that does nothing else, and
keeps what they found in FOLDER. A table stands between two comments in the page, ``<!-- name -->``
and ``<!-- end -->``; pictures go to docs/pictures. What FOLDER has no file for stays as it is.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from datetime import date
from pathlib import Path

from sweep import draw as draw_sweeps
from sweep import known

from minidp.bench.picture import draw as draw_roofline

ROOT = Path(__file__).parent.parent.parent
PAGE, PICTURES = ROOT / "docs/performance.md", ROOT / "docs/pictures"
COMMANDS = {
    "bench": "-m minidp.bench --capture --json {file}",
    "sweep": "tests/bench/sweep.py --torch --json {file}",
    "ddp": "tests/bench/ddp.py --capture --json {file}",
    "reduce_update": "tests/bench/reduce_update.py --json {file}",
    "scaling": "tests/bench/scaling.py --capture --models W1,W2,W3,W3-local --json {file}",
    "long_run": "tests/bench/long_run.py --json {file}",
}


def measure(folder, names):
    """Run the scripts, one after the other."""
    for name in names:
        words = COMMANDS[name].format(file=folder / f"{name}.json").split()
        print("python", *words, flush=True)
        if subprocess.run([sys.executable, *words], cwd=ROOT).returncode:
            print(f"{name}: it ended with an error or found something; see above")


def table(head, rows):
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, cells)) + " |" for cells in lines)


def number(value):
    """Three digits that count."""
    return "" if value is None else f"{value:.3g}" if value < 100 else f"{value:.0f}"


def ms(row, *names):
    """The fastest of some entrants."""
    found = [row["entrants"][name]["ms"] for name in names if name in row["entrants"]]
    return min(found, default=None)


def ratio(median, low, high):
    """With the quartiles over rounds."""
    return f"{median:.2f} ({low:.2f} to {high:.2f})"


def cells(row):
    """What both tables show: times, the ratio, and of which limit how much was reached."""
    ours = min((row["entrants"][n] for n in ("minidp", "captured") if n in row["entrants"]),
               key=lambda each: each["ms"])  # fmt: skip
    share = "" if ours["share"] is None else f"{ours['share']:.0%} of {row['bound']}"
    theirs = number(ms(row, "PyTorch", "PyTorch tuned"))
    return theirs, ratio(**row["ratio"]) if row["ratio"] else "", share


def bench(found):
    """The tables of training steps and of ops, and the line that says where and when."""
    here, many = found["machine"], found["limits"]
    reached = "; ".join(
        f"{k} thread(s): {each['sgemm_flops_per_second'] / 1e9:.0f} GFLOP/s (sgemm), "
        f"{each['memory_bytes_per_second'] / 1e9:.0f} GB/s (memory)" for k, each in many.items()
    )  # fmt: skip
    versions = ", ".join(f"{name} {here[name]}" for name in ("python", "numpy", "numba", "torch")
                         if name in here)  # fmt: skip
    busy = " Rows of one thread count that thread's own time (`--busy`)." * found["busy"]
    warned = "".join(f"\nWarning of the command: {each}." for each in found["warnings"])
    yield "machine", (f"Measured on {found['when'][:10]}: {here['processor']}, {here['cores']} "
                      f"cores; {versions}. It reached, with {reached}.{busy}{warned}")  # fmt: skip
    yield "works", table(
        ["work", "threads", "eager, ms", "captured, ms", "PyTorch, ms", "ratio", "reached"],
        [(f"{row['name']}, {row['what']}", row["threads"], number(ms(row, "minidp")),
          number(ms(row, "captured")), *cells(row)) for row in found["works"]],
    )  # fmt: skip
    if found["ops"]:
        yield "ops", table(
            ["op", "minidp, ms", "PyTorch, ms", "ratio", "reached"],
            [(row["name"], number(ms(row, "minidp")), *cells(row)) for row in found["ops"]],
        )
    draw_roofline(PICTURES / "roofline.png", found)


def sweep(found):
    """Where there are cliffs, and the picture."""
    results = list(known(found["costs"]))
    lines = [f"- {sweep.name}: between {a} and {b}, {factor:.2f} times"
             for sweep, _, cliffs in results for a, b, factor in cliffs]  # fmt: skip
    yield "cliffs", "\n".join(lines) or f"On {found['when']} there was no cliff."
    draw_sweeps(PICTURES / "sweep.png", [(sweep, costs) for sweep, costs, _ in results])


def ddp(found):
    """Beside DistributedDataParallel."""
    rows = [(name, number(each["ms"]["minidp"]),
             number(min(value for who, value in each["ms"].items() if who.startswith("DDP"))),
             ratio(each["ratio"], *each["quartiles"]))
            for name, each in found["works"].items()]  # fmt: skip
    yield "ddp", table(["work", "minidp, ms", "DDP, ms", "ratio"], rows)


def reduce_update(found):
    rows = [(name, number(each["median"]), number(each["best"]))
            for name, each in found["ms"].items()]  # fmt: skip
    yield "reduce_update", table(["", "median, ms", "best, ms"], rows)


def scaling(found):
    """Rows per second of several replicas and of one."""
    rows = [(each["model"], each["batch"], f"{each['rows_per_second_1']:,.0f}",
             f"{each['rows_per_second_k']:,.0f}", f"{each['ratio']:.2f}")
            for each in found["models"]]  # fmt: skip
    yield "scaling", table(["work", "batch", "one replica, rows/s", "two replicas, rows/s",
                            "ratio"], rows)  # fmt: skip


def long_run(found):
    yield "long_run", (
        f"{found['steps']:,} steps of {found['ms_per_step']} ms: memory stays at "
        f"{found['memory_mib']:.0f} MiB (growth {found['memory_growth_mib']} MiB), the time of a "
        f"step changes by {found['step_growth']:.1%} (the machine's own speed by "
        f"{found['sgemm_growth']:.1%})."
    )


def renewed(text, name, content):
    """The page with this between the comments of ``name``."""
    place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    assert place.search(text), f"{PAGE}: there is no <!-- {name} --> ... <!-- end -->"
    return place.sub(lambda found: f"{found[1]}{content}\n{found[2]}", text)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--measure", action="store_true")
    options.add_argument("--only", default=",".join(COMMANDS))
    given = options.parse_args()
    folder, names = given.folder.resolve(), given.only.split(",")
    folder.mkdir(parents=True, exist_ok=True)
    if given.measure:
        measure(folder, names)
    text, writers = PAGE.read_text(), (bench, sweep, ddp, reduce_update, scaling, long_run)
    for writer in writers:
        file = folder / f"{writer.__name__}.json"
        if file.exists() and writer.__name__ in names:
            for name, content in writer(json.loads(file.read_text())):
                text = renewed(text, name, content)
            print(f"{file.name}, of {date.fromtimestamp(file.stat().st_mtime)}: taken over")
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
