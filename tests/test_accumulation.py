"""Gradients that accumulate over the parts of a batch are those of the whole batch."""

import numpy as np
import pytest
from training import adam, batches, distance, everything, flat, mlp, scheduler

import minidp as dp
from minidp import nn
from minidp.errors import ReplicaError
from minidp.nn import functional as F

WEIGHT = np.array([1.0, 3.0, 0.5, 2.0])


def several_terms(model):
    """A weighted, ignoring cross-entropy, a plain mean, a penalty, a function of means."""
    parameters = list(model.parameters())

    def loss(outputs, targets):
        weight = dp.tensor(WEIGHT)[targets] * (targets != 3)
        entropy = F.cross_entropy(outputs, targets, reduction="none")
        squares = dp.mean(outputs**2, dp.ones_like(outputs))
        penalty = sum((p**2).sum() for p in parameters)
        return (dp.mean(entropy * weight, weight) + squares.sqrt() + outputs.abs().mean()
                + 0.01 * penalty)  # fmt: skip

    return loss


def own_mean(outputs, targets):
    return (F.cross_entropy(outputs, targets, reduction="none") * 2).mean()


LOSSES = {
    "cross entropy": lambda model: nn.CrossEntropyLoss(),
    "weighted": lambda model: nn.CrossEntropyLoss(dp.tensor(WEIGHT), ignore_index=2),
    "sum": lambda model: nn.CrossEntropyLoss(reduction="sum"),
    "the user's mean": lambda model: own_mean,
    "several terms": several_terms,
}  # fmt: skip


def trained(loss, accumulate, rows=13, **layout):
    model = mlp("float64", 9, nn.Dropout(0.4))
    run = scheduler(model, loss(model), adam, **layout)
    last = 0.0
    for x, y in batches(rows, 4):
        last = float(run(x, y, accumulate=accumulate))
    return flat(model), last


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("layout", [{"devices": 1}, {"devices": 2, "workload": [3, 1]},
                                    {"devices": 3, "store": "device"}], ids=str)  # fmt: skip
def test_parts_are_the_whole_batch(loss, layout):
    expected, value = trained(loss, None, devices=1)
    for accumulate in (1, 2, 5, 20):
        ours, found = trained(loss, accumulate, **layout)
        assert distance(ours, expected) < 1e-11, accumulate
        assert found == pytest.approx(value, rel=1e-10)


def test_captured_parts_are_the_eager_ones():
    results = []
    for options in ({}, {"capture": True}):
        model = mlp("float32", 9, nn.Dropout(0.4))
        run = scheduler(model, None, adam, devices=2, accumulate=3, **options)
        run.run(batches(12, 30, "float32"))
        results.append(flat(model))
    assert run.replays.captured[0].replays and np.array_equal(*results)


def test_a_bucket_of_one_parameter_is_captured():
    model = nn.Linear(6, 4, bias=False).double()
    run = scheduler(model, None, adam, devices=2, capture=True)
    plain = scheduler(nn.Linear(6, 4, bias=False).double(), None, adam, devices=2)
    plain.model.load_state_dict(model.state_dict())
    for train in (run, plain):
        train.run(batches(12, 5))
    assert run.replays.captured[0].replays and np.array_equal(flat(model), flat(plain.model))


def test_a_failing_part_changes_nothing():
    model = mlp()
    run = scheduler(model, devices=2, accumulate=2)
    (x, y), *_ = batches(8, 1)
    run(x, y)
    before = everything(run)
    bad = y.numpy().copy()
    bad[3] = 77
    with pytest.raises(Exception, match="77"):
        run(x, dp.tensor(bad))
    assert everything(run) == before
    with pytest.raises(ReplicaError, match="accumulate=0: expected a whole number"):
        run(x, y, accumulate=0)


@pytest.mark.parametrize("loss", [nn.MSELoss(), nn.SmoothL1Loss()], ids=str)
def test_a_plain_mean_of_values_needs_no_forward_beforehand(loss):
    rows, results = [], []
    x, y = dp.rand(11, 6).double(), dp.rand(11, 4).double()
    for accumulate in (1, 3):
        model = mlp("float64")
        model.register_forward_hook(lambda module, given, result: rows.append(len(result)))
        run = scheduler(model, loss, adam, devices=2)
        results.append((float(run(x, y, accumulate=accumulate)), flat(model)))
    assert sorted(rows) == [1, 2, 2, 2, 2, 2, 5, 6]
    assert results[1][0] == pytest.approx(results[0][0], rel=1e-12)
    assert distance(results[1][1], results[0][1]) < 1e-11
