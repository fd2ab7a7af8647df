"""A fault drill: all that can go wrong, on two kinds of devices, again and again.

Whatever happens, the run ends at once with the right message, leaves what the last good step left,
and goes on from there as if nothing had happened.
"""

import gc
import random
import re
import signal
import subprocess
import sys
import time
import tracemalloc
from functools import lru_cache
from itertools import chain, islice, repeat
from pathlib import Path

import numpy as np
import pytest
from training import adam, batches, everything, flat, mlp, replica_threads, scheduler

import minidp as dp
from minidp import nn
from minidp.data import DataLoader, TensorDataset
from minidp.errors import ReplicaError
from minidp.parallel.faults import Fault
from minidp.testing import inject

PLACES = {"cpu:0-3": 4, "emu:0-1": 2}
STEPS = 5
"""Steps of an epoch, whose last one has fewer rows."""
LATE, DEADLINE = 2.8, 1.9
"""Seconds; waits look at the clock once in one, and a busy processor may hold a replica up."""


def fresh(place, width=12, norm=True, **options):
    """A scheduler and its loader; equal ones for equal arguments."""
    more = [nn.BatchNorm1d(width), nn.Dropout(0.3)] if norm else []
    model = mlp("float32", width, *more)
    dp.manual_seed(5)
    data = TensorDataset(*(dp.cat(each) for each in zip(*batches(44, 1, "float32"), strict=True)))
    loader = DataLoader(data, 9, shuffle=True, seed=4)
    return scheduler(model, None, adam, devices=place, **options), loader


def state(run, loader):
    """All that a step changes, and where the loader stands."""
    position = loader.state_dict()
    return everything(run), position["epoch"] * STEPS + position["batch"]


@lru_cache(maxsize=32)
def good(place, store, accumulate):
    """What zero, one, ... steps lead to; an epoch and a step."""
    run, loader = fresh(place, store=store, accumulate=accumulate)
    found = [everything(run)]
    for batch in islice(chain.from_iterable(repeat(loader)), STEPS + 1):
        run(*batch)
        found.append(everything(run))
    return found


KINDS = {
    "forward": ("raise", {"at": "forward"}, "an injected fault: replica {}, step {}, forward"),
    "bucket": ("raise", {"at": "bucket"}, "an injected fault: replica {}, step {}, bucket"),
    "update": ("raise", {"at": "update"}, "an injected fault: replica {}, step {}, update"),
    "loader": ("raise", {"at": "loader"}, "an injected fault"),
    "memory": ("raise", {"at": "update"}, "no room"),
    "nan": ("nan", {}, "the gradient of parameter 4.bias is not finite"),
    "drop": ("drop", {}, "replica {} waits for bucket 0, which it dropped"),
    "late": ("delay", {"at": "update", "seconds": LATE}, r"has waited .* for replica.s. .*{}"),
}
"""Kind of fault, where, and what is said."""


def fault(kind, **where):
    """The fault, as a context."""
    how, at, _ = KINDS[kind]
    error = MemoryError("no room") if kind == "memory" else None
    return inject(how, error=error, **{**at, **where})


@pytest.fixture
def moments(monkeypatch):
    """When faults happened."""
    found, happen = [], Fault.happen

    def noted(self, gradient):
        found.append(time.monotonic())
        return happen(self, gradient)

    monkeypatch.setattr(Fault, "happen", noted)
    return found


def choices(seed, place):
    """(options of the scheduler, replica, step) of a trial; the first is the plain one."""
    dice = random.Random(seed)
    replica, step = dice.randrange(PLACES[place]), dice.randint(1, STEPS)
    options = {"store": "local", "accumulate": 1}
    if seed:
        options = {"store": dice.choice(["local", "device"]), "accumulate": dice.choice([1, 2])}
    return {**options, "capture": bool(seed % 2)}, replica, step


def trial(place, kind, seed, moments):
    options, replica, step = choices(seed, place)
    expected = good(place, options["store"], options["accumulate"])
    deadline = DEADLINE if kind == "late" else 60
    run, loader = fresh(place, nan="raise", deadline=deadline, **options)
    error = MemoryError if kind == "memory" else ReplicaError
    message = KINDS[kind][2].format(replica, step)
    with fault(kind, replica=replica, step=step), pytest.raises(error) as caught:
        run.run(loader)
    assert time.monotonic() - moments.pop() < 2 + (LATE if kind == "late" else 0)
    assert replica_threads() == []
    assert re.search(message, str(caught.value), re.DOTALL)
    assert state(run, loader) == (expected[step - 1], step - 1)
    assert run.progress.steps == step - 1
    run.deadline = 60
    run.run(loader)
    assert state(run, loader) == (expected[STEPS], STEPS)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_fault(place, kind, moments):
    trial(place, kind, 0, moments)
    trial(place, kind, 1, moments)


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_twenty_times(place, kind, moments):
    for seed in range(2, 22):
        trial(place, kind, seed, moments)


def skipped(place, seed):
    """A step that is skipped is as if its batch had not been there; only counters move."""
    options, replica, step = choices(seed, place)
    run, loader = fresh(place, norm=False, nan="skip", **options)
    with inject("nan", replica=replica, step=step):
        run.run(loader)
    assert run.progress.skipped == 1 and np.isfinite(run.progress.mean_loss)
    assert state(run, loader)[1] == STEPS and dp.default_generator.step == STEPS
    plain, loader = fresh(place, norm=False, **options)
    plain.run(batch for number, batch in enumerate(loader, 1) if number != step)
    assert flat(run.model).tobytes() == flat(plain.model).tobytes()


@pytest.mark.parametrize("place", PLACES)
def test_a_skipped_step(place):
    skipped(place, 0)
    skipped(place, 1)


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_a_skipped_step_twenty_times(place):
    for seed in range(2, 22):
        skipped(place, seed)


@pytest.mark.parametrize("place", PLACES)
def test_a_callback_after_a_step_that_raises(place):
    """The step has happened."""
    run, loader = fresh(place)

    def on_step(progress):
        if progress.steps == 3:
            raise ReplicaError("enough")

    with pytest.raises(ReplicaError, match="enough"):
        run.run(loader, on_step=on_step)
    assert replica_threads() == []
    assert state(run, loader) == (good(place, "local", 1)[3], 3)
    run.run(loader)
    assert state(run, loader) == (good(place, "local", 1)[STEPS], STEPS)


def leaks(place, rounds):
    """Bytes that remain of ``rounds`` of all faults, of a model whose gradient takes 176 KiB."""

    def play():
        for kind in KINDS:
            run, loader = fresh(place, 4096, nan="raise", deadline=0.3)
            late = {"seconds": 0.6} if kind == "late" else {}
            with pytest.raises((ReplicaError, MemoryError)), fault(kind, step=2, **late):
                run.run(loader)
            assert replica_threads() == [], kind
            del run, loader
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        play()
        before = play()
        return max(play() for _ in range(rounds)) - before
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("place", ["cpu:0-3"])
def test_nothing_leaks(place):
    assert leaks(place, 1) < 50_000


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_nothing_leaks_in_twenty_rounds(place):
    assert leaks(place, 20) < 100_000


# Ctrl-C: in a process of its own, which trains until it is interrupted, checks itself, trains again


def interrupted(place, times, native):
    """``native``: captured steps; on CPU devices they are interrupted when they run natively."""
    run, loader = fresh(place, norm=not native, capture=native)
    run.run(loader, epochs=3)  # compiles what is needed
    interval = sys.getswitchinterval()
    for _ in range(times):
        run, loader = fresh(place, norm=not native, capture=native)
        ready = iter(["ready"])

        def tell(progress=None, ready=ready):
            for word in ready if progress is None or progress.native else ():
                print(word, flush=True)

        try:
            if not native or place.startswith("emu"):
                tell()
            run.run(loader, epochs=10**6, on_epoch=tell)
        except KeyboardInterrupt:
            print("stopped", flush=True)
        found, number = state(run, loader)
        assert replica_threads() == []
        assert sys.getswitchinterval() == interval
        assert number == dp.default_generator.step
        run.run(loader)
        after, more = everything(run), dp.default_generator.step - number
        assert 0 < more <= STEPS
        plain, loader = fresh(place, norm=not native)
        given = chain.from_iterable(repeat(loader))
        plain.run_batches(islice(given, number))
        assert everything(plain) == found
        plain.run_batches(islice(given, more))
        assert everything(plain) == after
        print("right", number, flush=True)


def interrupt(place, times, native, seed=0):
    """Steps after which the process was interrupted, each time."""
    dice = random.Random(seed)
    command = f"import test_drill; test_drill.interrupted({place!r}, {times}, {native})"
    process = subprocess.Popen([sys.executable, "-c", command], cwd=Path(__file__).parent,
                               text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)  # fmt: skip
    counts = []
    for _ in range(times):
        if process.stdout.readline() != "ready\n":
            break
        time.sleep(dice.uniform(0.02, 0.3))
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        if process.stdout.readline() != "stopped\n":
            break
        assert time.monotonic() - began < 3
        counts += [int(word) for word in process.stdout.readline().split()[1:]]
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    return counts


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("place", PLACES)
def test_ctrl_c(place, native):
    assert len(interrupt(place, 3, native)) == 3


@pytest.mark.slow
@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("place", PLACES)
def test_ctrl_c_twenty_times(place, native):
    counts = interrupt(place, 20, native, seed=1)
    assert len(counts) == 20 and max(counts) > 3
