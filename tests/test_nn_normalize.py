"""Batch normalisation and dropout: PyTorch's values, and the same for any split of a batch.

Literal expectations were computed once with PyTorch 2.13 from the inputs that `wave` makes.
"""

import numpy as np
import pytest
from waves import leaf, wave

import minidp as dp
from minidp import nn, optim
from minidp.nn import functional as F
from minidp.testing import gradcheck


def test_dropout_scales_and_stops_in_evaluation():
    dp.manual_seed(1)
    layer, x = nn.Dropout(0.25), dp.ones(400, 50)
    y = layer(x).numpy()
    assert set(np.unique(y)) == {0.0, np.float32(1 / 0.75)}
    assert abs((y == 0).mean() - 0.25) < 0.01
    assert not (layer(x).numpy() == y).all()
    assert layer.eval()(x) is x and F.dropout(x, 0.0) is x
    assert not F.dropout(x, 1.0).numpy().any()
    dp.manual_seed(1)
    np.testing.assert_array_equal(layer.train()(x).numpy(), y)
    with pytest.raises(ValueError, match="between 0 and 1"):
        nn.Dropout(1.5)


def test_batch_norm_has_pytorchs_values():
    layer = nn.BatchNorm2d(2, dtype="float64")
    for step in range(2):
        x = leaf(3, 2, 2, 2, phase=step)
        y = layer(x)
    (y * dp.tensor(wave(3, 2, 2, 2) ** 2)).sum().backward()
    expected = [0.605031622842214, -1.347044293079507, -0.2578317416634857, 1.413566093523165]
    np.testing.assert_allclose(y.data.ravel()[:4], expected, rtol=1e-12)
    np.testing.assert_allclose(layer.running_mean.data,
                               [0.004339741554102785, -0.00043996760955248215])  # fmt: skip
    np.testing.assert_allclose(layer.running_var.data, [0.9133406392727538, 0.9133692738035856])
    assert layer.num_batches_tracked.item() == 2
    slope = (x.grad.data * wave(3, 2, 2, 2, phase=0.3)).sum()
    np.testing.assert_allclose(slope, 0.19016340946130317, rtol=1e-12)


def test_batch_norm_gradients():
    def f(x, w, b):
        return F.batch_norm(x, None, None, w, b, training=True).square()

    assert gradcheck(f, [leaf(4, 2, 3), leaf(2, phase=1), leaf(2)])


def test_batch_norm_variance_of_large_numbers_keeps_its_digits():
    x = wave(64, 1).astype(np.float32) + np.float32(4096)
    y = nn.BatchNorm1d(1)(dp.tensor(x)).detach().numpy()
    wide = x.astype(np.float64)
    np.testing.assert_allclose(y, (wide - wide.mean()) / wide.std(), rtol=2e-3, atol=2e-3)


def test_batch_norm_modes():
    x = dp.tensor(wave(6, 2))
    plain = nn.BatchNorm1d(2, track_running_stats=False, dtype="float64")
    assert list(plain.state_dict()) == ["weight", "bias"]
    np.testing.assert_array_equal(plain(x).data, plain.eval()(x).data)
    average = nn.BatchNorm1d(2, momentum=None, affine=False, dtype="float64")
    batches = [wave(6, 2, phase=i) for i in range(3)]
    for batch in batches:
        average(dp.tensor(batch))
    np.testing.assert_allclose(average.running_mean.data, np.mean([b.mean(0) for b in batches], 0))
    y = average.eval()(x).data
    expected = (x.data - average.running_mean.data) / np.sqrt(average.running_var.data + 1e-5)
    np.testing.assert_allclose(y, expected, rtol=1e-12)
    assert average.num_batches_tracked.item() == 3
    average.reset_running_stats()
    assert (average.running_var.data == 1).all() and average.num_batches_tracked.item() == 0


def test_batch_norm_refuses_one_value_and_wrong_ranks():
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        nn.BatchNorm1d(3)(dp.ones(1, 3))
    layer = nn.BatchNorm1d(3)
    assert layer.eval()(dp.ones(1, 3)).shape == (1, 3)
    with pytest.raises(ValueError, match="2D or 3D"):
        layer(dp.ones(1, 3, 2, 2))
    with pytest.raises(ValueError, match="4D"):
        nn.BatchNorm2d(3)(dp.ones(1, 3))
    with pytest.raises(ValueError, match="training=False"):
        F.batch_norm(dp.ones(2, 3), None, None)


def net_with_everything():
    dp.manual_seed(5)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Dropout(0.3), nn.Linear(36, 8), nn.BatchNorm1d(8, momentum=None), nn.Linear(8, 3),
    ).double()  # fmt: skip


@pytest.mark.parametrize("devices, workload", [("cpu:0-1", [3, 1]), ("cpu:0-2", None)])
def test_batch_norm_and_dropout_do_not_depend_on_the_split(devices, workload):
    """Two steps on several replicas leave what two steps on one leave, statistics included."""
    x, y = wave(7, 1, 6, 6), np.arange(7) % 3
    states = []
    for places, load in (("cpu:0", None), (devices, workload)):
        model = net_with_everything()
        optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        train = dp.Scheduler(model, nn.CrossEntropyLoss(), optimizer, places, load)
        losses = [train(x, y).item() for _ in range(2)]
        states.append({**{k: v.numpy() for k, v in model.state_dict().items()}, "loss": losses})
    for name in states[0]:
        np.testing.assert_allclose(states[1][name], states[0][name], rtol=1e-9, atol=1e-12)
    assert states[1]["1.num_batches_tracked"] == 2


def test_batch_norm_counts_rows_over_replicas():
    """One row per replica is enough for the variance; one row everywhere is not."""
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    train = dp.Scheduler(model, nn.MSELoss(), optimizer, devices=2)
    train(np.float32(wave(2, 3)), np.float32(wave(2, 2)))
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        train(np.float32(wave(1, 3)), np.float32(wave(1, 2)))
    assert model[1].num_batches_tracked.item() == 1
