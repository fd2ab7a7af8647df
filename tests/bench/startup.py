"""Seconds from the start of a process to the end of a first training step.

    python tests/bench/startup.py [--step mnist | lenet | captured] [--runs 5] [--cold]

Steps: the MNIST example's (`mnist`), LeNet's by a scheduler that captures it (`lenet`), and the
same as `dp.capture` of a function (`captured`). Printed are the median by the clock, the least
processor time of the process, which other processes disturb less, and both again for the end of
the third step, the first one that is bound and replayed natively. With ``--cold`` the compiled
kernels are kept in a fresh folder, so that each run compiles them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

MNIST = """
import minidp as dp
from minidp import nn
from minidp.data import DataLoader, mnist
from minidp.examples.mnist import cnn, make_optimizer
model = cnn()
step = dp.Scheduler(model, nn.CrossEntropyLoss(), make_optimizer("sgd", model, None))
x, y = next(iter(DataLoader(mnist("train"), 64, shuffle=True)))
"""
LENET = """
import minidp as dp
from minidp import nn, optim
from minidp.bench.works import MOMENTUM, RATE, WORKS, batches, model
lenet, loss_of = model(WORKS[1]), nn.CrossEntropyLoss()
optimizer = optim.SGD(lenet.parameters(), RATE, momentum=MOMENTUM)
x, y = batches(WORKS[1])[0]
"""
SCHEDULED = """
step = dp.Scheduler(lenet, loss_of, optimizer, "cpu:0", capture=True)
"""
CAPTURED = """
x, y = dp.tensor(x), dp.tensor(y)
@dp.capture
def step(x, y):
    optimizer.zero_grad()
    loss = loss_of(lenet(x), y)
    loss.backward()
    optimizer.step()
    return loss
"""
TIMED = """
import json, time
from minidp.examples.command_line import since_start
def now():
    return since_start(), time.process_time()
step(x, y)
first = now()
step(x, y), step(x, y)
print(json.dumps([*first, *now()]))
"""
STEPS = {"mnist": MNIST, "lenet": LENET + SCHEDULED, "captured": LENET + CAPTURED}


def measured(step: str, cold: bool) -> list[float]:
    """By the clock and of the processor until the end of the first step, and of the third."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "MINIDP_OFFLINE": "1"}
        if cold:
            environment["NUMBA_CACHE_DIR"] = folder
        done = subprocess.run([sys.executable, "-c", STEPS[step] + TIMED], env=environment,
                              check=True, capture_output=True, text=True)  # fmt: skip
    return [float(each) for each in json.loads(done.stdout)]


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    options = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    options.add_argument("--step", choices=STEPS, default="mnist")
    options.add_argument("--runs", type=int, default=5)
    options.add_argument("--cold", action="store_true")
    given = options.parse_args()
    if not given.cold:
        measured(given.step, False)
    runs = [measured(given.step, given.cold) for _ in range(given.runs)]
    clock, processor, third_clock, third_processor = zip(*runs, strict=True)
    print(json.dumps({
        "step": given.step, "cold": given.cold,
        "seconds": round(statistics.median(clock), 2), "processor": round(min(processor), 2),
        "third": round(statistics.median(third_clock), 2),
        "third_processor": round(min(third_processor), 2),
        "runs": [round(each, 2) for each in clock],
    }))  # fmt: skip


if __name__ == "__main__":
    main()
