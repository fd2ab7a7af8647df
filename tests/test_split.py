"""Who gets which rows: sums, fairness, ties, containers, errors."""

from collections import namedtuple
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minidp import Tensor
from minidp.device import Device
from minidp.errors import DeviceError, ReplicaError
from minidp.parallel.batch import cut, rows_of
from minidp.parallel.communicator import bounds
from minidp.parallel.launch import assign, check_devices, check_store
from minidp.parallel.split import Share, check_workload, counts, parts, shares

EVEN = [Fraction(1)] * 3
WEIGHTS = st.lists(st.integers(0, 9), min_size=1, max_size=7).filter(any)


@settings(deadline=None, max_examples=150)
@given(rows=st.integers(0, 200), weights=WEIGHTS)
def test_every_row_goes_to_one_replica_and_none_gets_more_than_its_share_rounded_up(rows, weights):
    fractions = [Fraction(w) for w in weights]
    parts = shares(rows, fractions)
    assert parts[0].start == 0 and parts[-1].stop == rows
    assert all(a.stop == b.start for a, b in pairwise(parts))
    for part, weight in zip(parts, fractions, strict=True):
        exact = rows * weight / sum(fractions)
        assert exact - 1 < part.rows < exact + 1 or part.rows == exact


@pytest.mark.parametrize(
    ("rows", "weights", "expected"),
    [
        (64, EVEN, [22, 21, 21]),
        (10, [Fraction(1)] * 4, [3, 3, 2, 2]),
        (6, [Fraction(1)] * 4, [2, 2, 1, 1]),
        (64, [Fraction(3), Fraction(1)], [48, 16]),
        (2, [Fraction(3), Fraction(1)], [2, 0]),
        (1, EVEN, [1, 0, 0]),
        (0, EVEN, [0, 0, 0]),
        (7, [Fraction(0), Fraction(1)], [0, 7]),
        (3, [Fraction("0.1"), Fraction("0.2")], [1, 2]),
    ],
)
def test_counts(rows, weights, expected):
    assert counts(rows, weights) == expected


def test_weights_are_exact():
    assert check_workload([0.1, 0.2, 0.7], 3) == [Fraction(1, 10), Fraction(1, 5), Fraction(7, 10)]
    assert check_workload(None, 2) == [1, 1]


@pytest.mark.parametrize(
    "workload", [[1], [1, 2, 3], [0, 0], [-1, 2], [], ["a", 1], [float("nan"), 1]]
)
def test_workloads_that_make_no_sense(workload):
    with pytest.raises(ReplicaError, match=r"workload .* does not fit 2 device"):
        check_workload(workload, 2)


Pair = namedtuple("Pair", "left right")


def test_batches_of_every_kind_are_cut_alike():
    x = np.arange(10.0).reshape(5, 2)
    share = Share(1, 3, 5)
    batch = {"a": Tensor(x), "b": (x, [x]), "c": Pair(x, x)}
    part = cut(batch, share, Device("cpu", 1))
    assert rows_of(batch) == 5
    assert type(part["c"]) is Pair and type(part["b"]) is tuple and type(part["b"][1]) is list
    for each in (part["a"], part["b"][0], part["b"][1][0], part["c"].left, part["c"].right):
        assert np.array_equal(each.array, x[1:3])


def test_arrays_of_different_lengths_are_refused():
    with pytest.raises(ReplicaError, match="5 rows holds an array of 4 rows"):
        cut((np.zeros(5), np.zeros(4)), Share(0, 2, 5), Device("cpu", 0))
    with pytest.raises(ReplicaError, match="empty batch"):
        rows_of(())


def test_parts_of_a_share():
    cuts = [(each.start, each.stop, each.total) for each in parts(Share(3, 8, 20), 3)]
    assert cuts == [(3, 5, 20), (5, 7, 20), (7, 8, 20)]
    assert [each.rows for each in parts(Share(3, 4, 20), 3)] == [1, 0, 0]


def test_share():
    assert Share(1, 3, 4).fraction == 0.5
    assert Share(0, 0, 0).fraction == 0.0


@given(size=st.integers(0, 5000), parts=st.integers(1, 9))
def test_slices_cover_everything_and_start_at_blocks(size, parts):
    cuts = bounds(size, parts)
    assert cuts[0] == 0 and cuts[-1] == size and [*cuts] == sorted(cuts) and len(cuts) == parts + 1
    assert all(c % 16 == 0 for c in cuts[:-1] if c < size)


def test_neighbouring_replicas_share_a_device():
    devices = [Device("cpu", 0), Device("cpu", 1)]
    assert [d.index for d in assign(devices, 5)] == [0, 0, 0, 1, 1]


def test_unknown_stores_and_devices():
    with pytest.raises(ReplicaError, match="expected one of local"):
        check_store("remote")
    with pytest.raises(ReplicaError, match="later version"):
        check_store("dist_sync")
    with pytest.raises(DeviceError):
        check_devices("tpu:0")
