"""The loader's thread: it ends, it stays within its depth, its errors arrive."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import textwrap
import threading
import time
import traceback
from contextlib import suppress

import numpy as np
import pytest

import minidp as dp
from minidp.data import DataLoader, Dataset, TensorDataset


def rows_of(count: int) -> TensorDataset:
    return TensorDataset(np.arange(count))


def threads() -> int:
    return sum(thread.name == "minidp-prefetch" for thread in threading.enumerate())


def wait_for_no_threads(seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while threads() and time.monotonic() < end:
        time.sleep(0.01)
    return not threads()


class Squares(Dataset):
    """A data set of the plain PyTorch kind."""

    def __init__(self, count: int, broken: int = -1) -> None:
        self.count, self.broken = count, broken

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int):
        if index == self.broken:
            raise RuntimeError(f"row {index} is broken")
        return np.full(2, index * index, np.float32), index


def test_thread_ends_with_the_iteration():
    assert wait_for_no_threads()  # of other tests
    loader = DataLoader(rows_of(100), 2, prefetch=3)
    iteration = iter(loader)
    next(iteration)
    assert threads() == 1
    list(iteration)
    assert wait_for_no_threads()


@pytest.mark.parametrize("leave", ["break", "forget", "close"])
def test_thread_ends_when_the_iteration_is_abandoned(leave):
    gc.disable()  # reference counting alone must do
    try:
        iteration = iter(DataLoader(rows_of(1000), 2, prefetch=2))
        for _ in iteration:
            break
        time.sleep(0.02)  # the thread now waits for room
        if leave == "close":
            iteration.close()
        del iteration
        assert wait_for_no_threads()
    finally:
        gc.enable()


@pytest.mark.parametrize("prefetch", [0, 2])
def test_the_thread_has_the_modes_of_who_reads(prefetch):
    class Made(Squares):
        def __getitem__(self, index):
            return dp.tensor([1.5]), dp.is_grad_enabled()

    before = dp.get_default_dtype()
    try:
        dp.set_default_dtype(dp.float64)
        with dp.no_grad():
            x, recording = next(iter(DataLoader(Made(2), 2, prefetch=prefetch)))
    finally:
        dp.set_default_dtype(before)
    assert x.dtype == np.float64 and recording.tolist() == [False, False]


def test_no_thread_without_prefetch():
    assert wait_for_no_threads()
    iteration = iter(DataLoader(rows_of(10), 2, prefetch=0))
    next(iteration)
    assert threads() == 0


def test_thread_stays_within_its_depth():
    made = []
    data = Squares(100)
    data.batch = lambda rows, key: made.append(len(made)) or (rows,)
    iteration = iter(DataLoader(data, 1, prefetch=3))
    next(iteration)
    time.sleep(0.05)
    assert len(made) <= 1 + 3 + 1  # handed out, in the queue, in the thread's hand


@pytest.mark.parametrize("prefetch", [0, 2])
def test_errors_come_in_their_turn_with_their_traceback(prefetch):
    loader = DataLoader(Squares(10, broken=5), 2, prefetch=prefetch)
    seen = []
    with pytest.raises(RuntimeError, match="row 5 is broken") as caught:
        for _, index in loader:
            seen += index.array.tolist()
    assert seen == [0, 1, 2, 3]
    frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert frames[-1] == "__getitem__"
    del caught
    assert wait_for_no_threads()


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_stray_stop_iteration_does_not_end_the_epoch_quietly(prefetch):
    class Stray(Squares):
        def __getitem__(self, index):
            return next(iter([]))

    with pytest.raises(RuntimeError):
        list(DataLoader(Stray(4), 2, prefetch=prefetch))


def test_error_leaves_no_reference_cycle():
    gc.collect()
    gc.disable()
    try:
        loader = DataLoader(Squares(10, broken=0), 2)
        with suppress(RuntimeError):
            next(iter(loader))
        wait_for_no_threads()
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_interrupt_ends_a_waiting_program():
    program = textwrap.dedent("""
        import time
        from minidp.data import DataLoader, Dataset
        class Slow(Dataset):
            def __len__(self):
                return 9
            def __getitem__(self, index):
                print("waiting", flush=True)
                time.sleep(60)
        next(iter(DataLoader(Slow())))
    """)
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)  # fmt: skip
    assert child.stdout.readline() == "waiting\n"
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=10)
    assert child.returncode != 0 and "KeyboardInterrupt" in errors
