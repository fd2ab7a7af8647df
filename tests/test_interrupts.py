"""Ctrl-C at any moment, many times: nothing of the process or the scheduler is left behind."""

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from test_drill import fresh
from training import replica_threads

import minidp as dp


def left(run):
    """What must be the same after each interrupt."""
    modes = [module.training for module in run.model.modules()]
    return (sys.getswitchinterval(), dp.get_num_threads(), replica_threads(), modes,
            run._running.locked())  # fmt: skip


def hammer(times):
    """Interrupt, ``times`` times, runs of whole epochs, single steps and evaluation in turn."""
    dice = random.Random(times)
    run, loader = fresh("cpu:0-1", norm=False, capture=True)
    batches = list(loader)
    deeds = [lambda: run.run(loader, 1000), lambda: run(*batches[0]), lambda: run.evaluate(batches)]
    for deed in deeds[1:]:
        deed()
    run.run(loader, 20)  # compiles what is needed, and runs natively
    before = left(run)
    for turn in range(times):
        timer = threading.Timer(dice.uniform(0.001, 0.03), os.kill, (os.getpid(), signal.SIGINT))
        try:
            timer.start()
            while True:
                deeds[turn % 3]()
        except KeyboardInterrupt:
            timer.join()
        assert left(run) == before, turn
    print("done")


def hammered(times):
    command = f"import test_interrupts; test_interrupts.hammer({times})"
    done = subprocess.run([sys.executable, "-c", command], cwd=Path(__file__).parent, text=True,
                          capture_output=True, timeout=250)  # fmt: skip
    assert done.stdout == "done\n", done.stderr


def test_interrupts():
    hammered(30)


@pytest.mark.slow
def test_very_many_interrupts():
    hammered(1000)
