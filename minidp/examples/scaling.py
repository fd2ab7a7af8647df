"""How much faster more replicas are: rows per second, efficiency, and where a step's time goes.

    python -m minidp.examples.scaling                    # 1 to all cores, several batch sizes
    python -m minidp.examples.scaling --model mlp --batch-sizes 32,512 --plot scaling.png

Settings are measured in turn, in short bursts, so that a busy moment of the machine hits all of
them; each counts with the median of its bursts. A step's time is broken down into that of a share
(one replica alone, on as many rows) and the rest: reducing, waiting, sharing caches and memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import minidp as dp
from minidp import nn, optim
from minidp.examples import command_line as cl
from minidp.examples.mnist import MODELS


class Row(NamedTuple):
    """What was measured for a batch size and a number of replicas; times are seconds."""

    batch: int
    replicas: int
    step: float
    share: float
    alone: float
    """A step of one replica on the whole batch."""

    @property
    def rows_per_second(self) -> float:
        return self.batch / self.step

    @property
    def efficiency(self) -> float:
        """alone / (replicas * step): 1 if k replicas are k times as fast."""
        return self.alone / (self.replicas * self.step)

    def line(self) -> str:
        return (f"{self.batch:5}  {self.replicas:8}  {self.rows_per_second:8,.0f}  "
                f"{self.efficiency:10.0%}  {1e3 * self.step:8.2f}  {1e3 * self.share:9.2f}  "
                f"{1e3 * (self.step - self.share):8.2f}")  # fmt: skip


HEAD = "batch  replicas    rows/s  efficiency   step ms  share ms   rest ms"


def parser() -> cl.Parser:
    """The command line."""
    options = cl.Parser(prog="python -m minidp.examples.scaling", description=__doc__)
    options.add_argument("--model", choices=MODELS, default="cnn", help="the network (cnn)")
    options.add_argument("--batch-sizes", type=cl.numbers, default=[32, 128, 512],
                         help="rows a step, of all replicas together (32,128,512)")  # fmt: skip
    options.add_argument("--most", type=cl.positive(int), help="replicas, at most (all cores)")
    options.add_argument("--rounds", type=cl.positive(int), default=5, help="bursts a setting (5)")
    options.add_argument("--rows", type=cl.positive(int), default=512, help="rows a burst (512)")
    options.add_argument("--plot", metavar="FILE.png", type=Path, help="draw what was measured")
    options.set_defaults(save=None, keep=None)
    return options


def burst(model: str, replicas: int, batch: int, rows: int) -> Callable[[], float]:
    """A function that trains on at least ``rows`` rows and gives the seconds of a step."""
    dp.manual_seed(0)
    network = MODELS[model]()
    optimizer = optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    train = dp.Scheduler(network, nn.CrossEntropyLoss(), optimizer, replicas)
    batches = [(dp.randn(batch, 1, 28, 28), dp.randint(0, 10, (batch,)))] * max(2, rows // batch)
    train.run_batches(batches[:1])  # kernels are compiled, memory is there

    def run() -> float:
        began = time.perf_counter()
        train.run_batches(batches)
        return (time.perf_counter() - began) / len(batches)

    return run


def measure(
    model: str, sizes: Sequence[int], most: int, rounds: int = 5, rows: int = 512
) -> list[Row]:  # fmt: skip
    """A row for each batch size with 1 to ``most`` replicas."""
    settings = [(batch, k) for batch in sizes for k in range(1, most + 1)]
    alone = {(-(-batch // k), 1) for batch, k in settings}
    bursts = {(batch, k): burst(model, k, batch, rows)
              for batch, k in sorted(alone.union(settings))}  # fmt: skip
    times = [{setting: run() for setting, run in bursts.items()} for _ in range(rounds)]
    seconds = {setting: median(each[setting] for each in times) for setting in bursts}
    return [Row(batch, k, seconds[batch, k], seconds[-(-batch // k), 1], seconds[batch, 1])
            for batch, k in settings]  # fmt: skip


def main(arguments: list[str] | None = None) -> list[Row]:
    """Measure, print, draw."""
    options = parser().parse_args(arguments)
    cl.check_files(options)
    sizes = sorted({int(size) for size in options.batch_sizes})
    if sizes[0] < 1:
        cl.complain(f"--batch-sizes {sizes[0]}: expected at least one row")
    most = options.most or len(dp.device_list("cpu"))
    print(f"{options.model}, 1 to {most} replica(s), {options.rounds} bursts each", flush=True)
    found = measure(options.model, sizes, most, options.rounds, options.rows)
    print("\n".join([HEAD, *(row.line() for row in found)]))
    if options.plot is not None:
        from minidp.examples.scaling_picture import draw

        draw(options.plot, found)
        print(f"drew {options.plot}")
    return found


if __name__ == "__main__":
    cl.run(main)
