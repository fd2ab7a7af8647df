"""Faults on purpose: everything ends at once, with the right message, and nothing has changed."""

import time
import warnings

import numpy as np
import pytest
from training import adam, batches, everything, mlp, replica_threads, scheduler

import minidp as dp
from minidp.errors import ReplicaError
from minidp.testing import inject

LAYOUTS = [{"devices": 2}, {"devices": 3, "store": "device"}, {"devices": 2, "replicas": 4}]
DATA = batches(8, 6)


def fresh(layout, **options):
    dp.manual_seed(3)
    return scheduler(mlp("float64", 300), None, adam, **{"devices": 2, **layout, **options})


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("kind, options, message", [
    ("raise", {"at": "forward"}, "an injected fault: replica 1, step 4, forward"),
    ("raise", {"at": "bucket"}, "an injected fault: replica 1, step 4, bucket"),
    ("raise", {"at": "update"}, "an injected fault: replica 1, step 4, update"),
    ("raise", {"at": "loader"}, "an injected fault"),
    ("nan", {}, "the gradient of parameter 2.bias is not finite"),
    ("drop", {}, "replica 1 waits for bucket 0, which it dropped"),
])  # fmt: skip
def test_a_fault_changes_nothing(layout, kind, options, message):
    run, straight = fresh(layout, nan="raise"), fresh(layout)
    straight.run(DATA)
    dp.manual_seed(3)
    run.run(DATA[:3])
    before, began = everything(run), time.monotonic()
    with inject(kind, replica=1, step=4, **options), pytest.raises(ReplicaError, match=message):
        run.run(DATA[3:])
    assert time.monotonic() - began < 3 and replica_threads() == []
    assert everything(run) == before
    run.run(DATA[3:])
    assert everything(run) == everything(straight)


def test_a_replica_that_is_late():
    run = fresh({}, warn_after=0.1)
    with (
        inject("delay", replica=1, step=2, at="update", seconds=0.5),
        pytest.warns(UserWarning, match="replica 0 has waited .* for replica.s. 1 to reach"),
    ):
        run.run(DATA)
    late = fresh({}, deadline=0.2)
    with (
        inject("delay", replica=1, step=2, at="forward", seconds=1.0),
        pytest.raises(ReplicaError, match="replica 0 has waited"),
    ):
        late.run(DATA)


def test_a_nan_that_is_skipped():
    run = fresh({}, nan="skip", bucket_kib=(1, 8))
    with inject("nan", replica=1, step=2, bucket=1):
        run.run(DATA)
    assert run.progress.skipped == 1 and np.isfinite(run.progress.mean_loss)


def test_an_error_of_ones_own_and_no_fault_afterwards():
    run = fresh({})
    with inject("raise", step=1, error=MemoryError("planned")), pytest.raises(MemoryError):
        run.run(DATA)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run.run(DATA)


def test_what_cannot_be_injected():
    for kind, options in [("explode", {}), ("raise", {"at": "nowhere"}),
                          ("nan", {"at": "forward"}), ("raise", {"bucket": 2})]:  # fmt: skip
        with pytest.raises(ValueError, match="inject"), inject(kind, **options):
            pass
    with (
        pytest.warns(UserWarning, match=r"inject: no replica came by .*bucket=7"),
        inject("nan", step=1, bucket=7),
    ):
        fresh({}).run(DATA)
