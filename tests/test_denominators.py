"""Means over all rows: where the denominator is known beforehand, and where it is exchanged."""

import numpy as np
import pytest
from training import CLASSES, FEATURES, flat, mlp, scheduler

import minidp as dp
from minidp import Tensor, nn
from minidp.parallel.denominator import total_weight, total_weights
from minidp.parallel.exchange import Exchange

X, Y = dp.randn(11, FEATURES, dtype=dp.float64), dp.randint(0, CLASSES, (11,))
WEIGHT = np.array([1.0, 5.0, 0.5, 2.0])
LOSSES = {
    "plain": lambda: nn.CrossEntropyLoss(),
    "weighted": lambda: nn.CrossEntropyLoss(Tensor(WEIGHT), ignore_index=1),
    "nll": lambda: nn.NLLLoss(Tensor(WEIGHT), ignore_index=2),
    "margin": lambda: nn.MultiMarginLoss(weight=Tensor(WEIGHT)),
    "smoothed": lambda: nn.CrossEntropyLoss(label_smoothing=0.2),
}


def model(name):
    return nn.Sequential(mlp(), nn.LogSoftmax(1)) if name == "nll" else mlp()


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("split", [
    {"devices": 1}, {"devices": 2}, {"devices": 3, "workload": [5, 1, 1]}, {"devices": 13},
], ids=str)  # fmt: skip
def test_known_and_exchanged_denominators_agree(name, split):
    known, loss = scheduler(model(name), LOSSES[name](), **split), LOSSES[name]()
    asked = scheduler(model(name), lambda y, t: loss(y, t), **split)
    for _ in range(3):
        assert abs(float(known(X, Y)) - float(asked(X, Y))) < 1e-12
    assert np.abs(flat(known.model) - flat(asked.model)).max() < 1e-12


def test_a_known_denominator_is_not_exchanged(monkeypatch):
    names = []
    give = Exchange.give

    def noted(self, rank, key, tag, *rest):
        names.append(tag.name)
        return give(self, rank, key, tag, *rest)

    monkeypatch.setattr(Exchange, "give", noted)
    scheduler(mlp(), nn.CrossEntropyLoss(), devices=2)(X, Y)
    assert "weighted mean" not in names and any("bucket" in name for name in names)
    names.clear()
    scheduler(mlp(), lambda y, t: nn.functional.cross_entropy(y, t), devices=2)(X, Y)
    assert names.count("weighted mean") == 2


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("size", [11, 4, 3])
def test_the_evaluated_loss_is_that_of_all_rows_at_once(name, size):
    loss, network = LOSSES[name](), model(name)
    batches = [(X[i : i + size], Y[i : i + size]) for i in range(0, 11, size)]
    with dp.no_grad():
        expected = float(loss(network(X), Y))
    for devices in (1, 2, 3):
        found = scheduler(network, loss, devices=devices).evaluate(batches)
        assert abs(found["loss"] - expected) < 1e-12


def test_all_targets_ignored_is_nan_as_in_one_mean():
    train = scheduler(mlp(), nn.CrossEntropyLoss(ignore_index=3), devices=2)
    targets = Tensor(np.full(11, 3))
    assert np.isnan(train.evaluate([(X, targets)])["loss"])


def test_a_function_of_a_mean_is_exact_too():
    def root(y, t):
        return (nn.functional.mse_loss(y, nn.functional.one_hot(t, CLASSES).double()) + 1).sqrt()

    results = []
    for split in ({"devices": 1}, {"devices": 3, "workload": [1, 5, 2]}):
        train = scheduler(mlp(), root, **split)
        results.append([float(train(X, Y)) for _ in range(3)] + flat(train.model).tolist())
    np.testing.assert_allclose(results[1], results[0], atol=1e-12)


@pytest.mark.parametrize("shape", [(7,), (7, 3, 3)])
@pytest.mark.parametrize("loss", [
    nn.CrossEntropyLoss(ignore_index=2), nn.MSELoss(), nn.NLLLoss(),
    nn.CrossEntropyLoss(dp.tensor([1.0, 2, 3, 4])), nn.CrossEntropyLoss(reduction="sum"), print,
], ids=str)  # fmt: skip
def test_totals_of_many_batches_are_those_of_each(loss, shape):
    rng = np.random.default_rng(0)
    for targets in ([dp.tensor(rng.integers(0, 4, shape)) for _ in range(5)],
                    [rng.integers(0, 4, (n, *shape[1:])) for n in (3, 7)],
                    [rng.random((7, 4)) for _ in range(2)]):  # fmt: skip
        assert total_weights(loss, targets) == [total_weight(loss, each) for each in targets]
