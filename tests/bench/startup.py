"""Seconds from the start of a process to the end of the MNIST example's first step.

    python tests/bench/startup.py [--runs 5] [--cold]

With ``--cold`` the compiled kernels are kept in a fresh folder, so that each run compiles them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

FIRST_STEP = """
import minidp as dp
from minidp import nn
from minidp.data import DataLoader, mnist
from minidp.examples.command_line import since_start
from minidp.examples.mnist import cnn, make_optimizer
model = cnn()
train = dp.Scheduler(model, nn.CrossEntropyLoss(), make_optimizer("sgd", model, None))
x, y = next(iter(DataLoader(mnist("train"), 64, shuffle=True)))
train(x, y)
print(since_start())
"""


def seconds(cold: bool) -> float:
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "MINIDP_OFFLINE": "1"}
        if cold:
            environment["NUMBA_CACHE_DIR"] = folder
        done = subprocess.run([sys.executable, "-c", FIRST_STEP], env=environment, check=True,
                              capture_output=True, text=True)  # fmt: skip
    return float(done.stdout)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=5)
    options.add_argument("--cold", action="store_true")
    given = options.parse_args()
    if not given.cold:
        seconds(False)
    runs = [seconds(given.cold) for _ in range(given.runs)]
    print(json.dumps({"cold": given.cold, "seconds": round(statistics.median(runs), 2),
                      "runs": [round(each, 2) for each in runs]}))  # fmt: skip


if __name__ == "__main__":
    main()
