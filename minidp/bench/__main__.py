"""``python -m minidp.bench``: how fast training is on this machine, beside PyTorch.

W1 to W3 train a perceptron, LeNet and a small VGG with batch norm: on one thread, and with some
replicas beside as many threads of PyTorch. W4 is a chain of a hundred small ops. Then come single
ops, forward and backward. Everyone starts from the same weights and data, and runs in turn, in
bursts; losses are compared first. PyTorch is measured plainly and with channels-last memory and
its fused optimiser, and the faster counts. It is left out where it is not installed.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import minidp
from minidp.backend.cpu import blas_threads, keep_freed_memory
from minidp.bench import machine, report
from minidp.bench.measure import Limits, Plan, Row, limits, measure_chain, measure_operations
from minidp.bench.measure import measure_work as train
from minidp.bench.works import WORKS
from minidp.device import cores
from minidp.examples.command_line import PICTURES, Parser, complain, positive, run, writable

QUICK = Plan(seconds=1.0, burst=0.05, least=2, checked=2)
PARTS = (*(work.name for work in WORKS), "W4", "ops")


def parser() -> Parser:
    """The command's options."""
    made = Parser(prog="python -m minidp.bench", description=__doc__)
    many = min(2, cores())
    made.add_argument("--only", type=parts, default=PARTS, metavar="W1,W2",
                      help=f"some of {','.join(PARTS)} (all)")  # fmt: skip
    made.add_argument("--replicas", type=positive(int), default=many, metavar="K",
                      help=f"replicas, or threads of PyTorch, besides 1 ({many})")  # fmt: skip
    made.add_argument("--seconds", type=positive(float), metavar="S",
                      help=f"to measure each training step for ({Plan().seconds:.0f}); an op "
                      "takes a sixth")  # fmt: skip
    made.add_argument("--quick", action="store_true", help="half a minute, and rough")
    made.add_argument("--capture", action="store_true", help="captured steps as well, fused")
    made.add_argument("--busy", action="store_true",
                      help="on a busy machine: rows of one thread count that thread's own time, "
                      "not that of others on its core; rows of several are as before")  # fmt: skip
    made.add_argument("--no-torch", action="store_true", help="without PyTorch")
    made.add_argument("--json", type=Path, metavar="FILE", help="write everything there")
    made.add_argument("--plot", type=Path, metavar="FILE",
                      help=f"draw a roofline there ({', '.join(PICTURES)})")  # fmt: skip
    return made


def parts(text: str) -> tuple[str, ...]:
    """The names of parts, in the order in which they are measured."""
    known = {name.lower(): name for name in PARTS}
    wanted = [known.get(name.strip().lower()) for name in text.split(",")]
    if None in wanted:
        raise argparse.ArgumentTypeError(f"{text!r}: expected some of {','.join(PARTS)}")
    return tuple(name for name in PARTS if name in wanted)


def check_files(options: argparse.Namespace) -> None:
    """Refuse, before minutes pass, files that could not be written at the end."""
    for option in ("json", "plot"):
        path: Path | None = getattr(options, option)
        if path is not None and (path.is_dir() or not writable(path.parent)):
            complain(f"--{option} {path}: cannot be written there")
    if options.plot is None:
        return
    if options.plot.suffix.lower() not in PICTURES:
        complain(f"--plot {options.plot}: expected a name that ends in {', '.join(PICTURES)}")
    if importlib.util.find_spec("matplotlib") is None:
        complain("--plot needs matplotlib: pip install 'minidp[plot]'")


def plan_of(options: argparse.Namespace) -> Plan:
    plan = QUICK if options.quick else Plan()
    return replace(plan, seconds=options.seconds or plan.seconds, capture=options.capture,
                   torch=not options.no_torch, busy=options.busy)  # fmt: skip


def works_of(options: argparse.Namespace, plan: Plan, known: dict[int, Limits]) -> Iterator[Row]:
    """The rows of training steps."""
    for work in WORKS:
        if work.name in options.only:
            for threads in known:
                yield train(work, threads, plan, known[threads])
    if "W4" in options.only:
        yield measure_chain(plan, known[1])


def table(rows: Iterator[Row], plan: Plan, threads: bool) -> list[Row]:
    """Print rows as they come."""
    names = report.columns(plan.capture and threads, plan.peer() is not None, threads)
    found: list[Row] = []
    for row in rows:
        if not found:
            print(f"\n{report.header(names)}")
        found.append(row)
        print(report.row_line(names, row), flush=True)
    return found


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measure and print everything that was asked for; what was found, for JSON."""
    plan, load, here = plan_of(options), machine.load(), machine.describe()
    print(f"minidp {minidp.__version__} on {report.heading(here)}", flush=True)
    known = {k: limits(k, plan) for k in dict.fromkeys((1, options.replicas))}
    print(*[report.limits_line(k, each) for k, each in known.items()], sep="\n", flush=True)
    rows = table(works_of(options, plan, known), plan, threads=True)
    ops: list[Row] = []
    if "ops" in options.only:
        ops = table(measure_operations(plan, known[1]), plan, threads=False)
    told = list(report.warnings([*rows, *ops], load))
    legend = report.legend(plan.peer() is not None, plan.torch)
    print("", legend, *[f"warning: {each}" for each in told], sep="\n")
    return {
        "minidp": minidp.__version__, "machine": here, "load": load,
        "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "seconds": plan.seconds, "busy": plan.busy,
        "limits": {k: {"sgemm_flops_per_second": each.flops,
                       "memory_bytes_per_second": each.bytes} for k, each in known.items()},
        "works": list(map(report.as_json, rows)), "ops": list(map(report.as_json, ops)),
        "warnings": told,
    }  # fmt: skip


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    """Run the command; a SystemExit with 1 when results disagree."""
    options = parser().parse_args(arguments)
    check_files(options)
    keep_freed_memory()  # for all alike, whichever of us comes first
    with blas_threads(1):
        found = measure(options)
    if options.json is not None:
        report.write(options.json, found)
    if options.plot is not None:
        from minidp.bench.picture import draw

        draw(options.plot, found)
    if not all(row["agrees"] for row in [*found["works"], *found["ops"]]):
        raise SystemExit(1)
    return found


if __name__ == "__main__":
    run(main)
