"""One thread has others run their tables, with no interpreter between one table and the next."""

import threading
import time

import numpy as np
import pytest
from test_meeting import table

from minidp.backend import get_backend
from minidp.device import Device
from minidp.graph.program import native_calls
from minidp.parallel.bucket import Bucket
from minidp.parallel.total import Total
from minidp.parameter import Parameter
from minidp.tensor import Tensor

native = native_calls()
needs_native = pytest.mark.skipif(native is None, reason="compiled functions are switched off")
NO_ROWS = np.zeros((1, 1), np.int64).ctypes.data


def counting(count, guarded=None):
    """A table that counts in an array; before, it may look whether another one is as it was."""
    notes = []
    if guarded is not None:
        _, found = native.note(lambda xp, x: float(x[0]) and x, [native.origin(guarded)])
        notes += found.taken
    _, found = native.note(lambda xp, c: xp.add(c, 1, out=c), [native.origin(count)])
    return table([*notes, *found.taken])


def serving(orders, place):
    """A thread that serves until it is bid to leave; how often it has waited for long."""
    given_up = []

    def serve():
        while not orders.serve(place):
            given_up.append(place)
            time.sleep(0.001)

    thread = threading.Thread(target=serve)
    thread.start()
    return thread, given_up


@needs_native
@pytest.mark.parametrize("size", [1, 2, 3])
def test_orders_are_carried_out_by_all_one_after_the_other(size):
    orders, counts = native.Orders(size, spins=20), np.zeros((size, 8), np.int64)
    tables, stop = [counting(row[:1]) for row in counts], np.zeros(1, np.int64)
    counts[:] = 0
    threads = [serving(orders, place)[0] for place in range(1, size)]
    for number in range(1, 200):
        orders.give([each.ready(NO_ROWS, number % 3) for each in tables], stop.ctypes.data)
        whole, last = orders.lead(), time.monotonic() + 20
        while not whole and orders.awaited() and time.monotonic() < last:
            time.sleep(0.001)
        assert orders.entries() == [-1] * size and not orders.awaited()
        assert (counts[:, 0] == sum(n % 3 for n in range(1, number + 1))).all()
    orders.give([0] * size)
    assert orders.lead()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert stop[0] == 0


@needs_native
def test_who_has_waited_for_long_gives_up_and_carries_the_order_out_later():
    orders, counts = native.Orders(2, spins=2, patience=0.002), np.zeros((2, 8), np.int64)
    tables, stop = [counting(row[:1]) for row in counts], np.zeros(1, np.int64)
    counts[:] = 0
    assert not orders.serve(1) and not orders.pending(1)
    orders.give([each.ready(NO_ROWS, 1) for each in tables], stop.ctypes.data)
    assert orders.pending(1)
    assert not orders.lead() and orders.awaited() == [1]
    assert counts[:, 0].tolist() == [1, 0]
    assert not orders.serve(1) and not orders.awaited() and counts[:, 0].tolist() == [1, 1]
    thread, given_up = serving(orders, 1)
    time.sleep(0.05)
    orders.give([0, 0])
    orders.lead()
    thread.join(20)
    assert given_up and not thread.is_alive() and not orders.awaited()


@needs_native
@pytest.mark.parametrize("place", [0, 1])
def test_who_stops_says_so_and_where(place):
    orders, counts = native.Orders(2, spins=20), np.zeros((2, 8), np.int64)
    watched, stop = np.ones(1), np.zeros(1, np.int64)
    tables = [counting(counts[i, :1], watched if i == place else None) for i in range(2)]
    counts[:], watched[0] = 0, 2
    thread, _ = serving(orders, 1)
    orders.give([each.ready(NO_ROWS, 1) for each in tables], stop.ctypes.data)
    while orders.awaited():
        orders.lead() if orders.awaited() == [0, 1] else time.sleep(0.001)
    assert orders.entries() == [0 if i == place else -1 for i in range(2)] and stop[0] == 1
    assert counts[:, 0].tolist() == [0 if i == place else 1 for i in range(2)]
    orders.give([0, 0])
    orders.lead()
    thread.join(20)
    assert not thread.is_alive()


@pytest.mark.parametrize("kind", ["cpu", "emu"])
def test_memory_that_somebody_has_is_not_used_again(kind):
    sizes = [(3, 4), (5,)]
    bucket = Bucket(0, [Parameter(Tensor(np.ones(s, "float32"))) for s in sizes], Device("cpu", 0))
    total = Total(bucket, Device(kind, 0))
    first = total.taken()
    assert total.taken() is first and get_backend(kind).get(first[0]).sum() == 0
    assert [view.shape for view in first[1:]] == sizes
    for hold in (lambda p: p[0], lambda p: p[2], lambda p: p[1][1:], lambda p: Tensor(p[2]),
                 lambda p: bucket.views(p[0])[0],
                 lambda p: p[0][2:20].reshape(2, 9)[1]):  # fmt: skip
        held = hold(first)
        second = total.taken()
        assert second is not first and total.taken() is second
        del held
        assert total.taken() is first
    held = first[0]
    one, other = total.several(2)
    assert len({id(first), id(one), id(other)}) == 3 and total.several(2) == [one, other]
    del held
    kept = []
    for _ in range(5):
        flat = total.taken()[0]
        assert all(flat is not each for each in kept)
        kept.append(flat)
