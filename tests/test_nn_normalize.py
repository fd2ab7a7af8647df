"""Normalisation and dropout: PyTorch's values, and the same for any split of a batch.

Literal expectations were computed once with PyTorch 2.13 from the inputs that `wave` makes.
"""

import copy
import pickle

import numpy as np
import pytest
from waves import leaf, wave

import minidp as dp
from minidp import nn, optim
from minidp.nn import functional as F
from minidp.testing import gradcheck, gradgradcheck


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
    np.testing.assert_allclose(y.array.ravel()[:4], expected, rtol=1e-12)
    np.testing.assert_allclose(layer.running_mean.array,
                               [0.004339741554102785, -0.00043996760955248215])  # fmt: skip
    np.testing.assert_allclose(layer.running_var.array, [0.9133406392727538, 0.9133692738035856])
    assert layer.num_batches_tracked.item() == 2
    slope = (x.grad.array * wave(3, 2, 2, 2, phase=0.3)).sum()
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
    np.testing.assert_array_equal(plain(x).array, plain.eval()(x).array)
    average = nn.BatchNorm1d(2, momentum=None, affine=False, dtype="float64")
    batches = [wave(6, 2, phase=i) for i in range(3)]
    for batch in batches:
        average(dp.tensor(batch))
    np.testing.assert_allclose(average.running_mean.array, np.mean([b.mean(0) for b in batches], 0))
    y = average.eval()(x).array
    expected = (x.array - average.running_mean.array) / np.sqrt(average.running_var.array + 1e-5)
    np.testing.assert_allclose(y, expected, rtol=1e-12)
    assert average.num_batches_tracked.item() == 3
    average.reset_running_stats()
    assert (average.running_var.array == 1).all() and average.num_batches_tracked.item() == 0


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


def standard(x, axes, eps=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def test_rows_are_normalised_by_their_own_statistics():
    x, w, b = wave(2, 4, 3, 5), wave(5, phase=1), wave(5, phase=2)
    t, scale = dp.tensor(x), np.array([2.0, -1.0, 0.5, 3.0])
    channel = dp.tensor(scale), dp.tensor(scale + 1)
    affine = scale[:, None, None], scale[:, None, None] + 1
    pairs = [
        (F.layer_norm(t, (5,), dp.tensor(w), dp.tensor(b), 0.1), standard(x, 3, 0.1) * w + b),
        (F.layer_norm(t, (4, 3, 5)), standard(x, (1, 2, 3))),
        (F.rms_norm(t, (3, 5), eps=0.1), x / np.sqrt((x**2).mean((2, 3), keepdims=True) + 0.1)),
        (F.instance_norm(t, weight=channel[0], bias=channel[1]),
         standard(x, (2, 3)) * affine[0] + affine[1]),
        (F.group_norm(t, 2, *channel),
         standard(x.reshape(2, 2, -1), 2).reshape(x.shape) * affine[0] + affine[1]),
        (F.group_norm(t, 1), standard(x, (1, 2, 3))),
    ]  # fmt: skip
    for found, expected in pairs:
        np.testing.assert_allclose(found.array, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("function", [
    lambda x: F.layer_norm(x, (4, 3)), lambda x: F.rms_norm(x, (3,)), lambda x: F.group_norm(x, 2),
    lambda x: F.instance_norm(x), lambda x: F.local_response_norm(x, 3, 0.5),
    lambda x: F.normalize(x, 3.0, 2),
])  # fmt: skip
def test_derivatives_of_first_and_second_order(function):
    assert gradcheck(lambda x: function(x) ** 3, [leaf(2, 4, 3)])
    assert gradgradcheck(lambda x: function(x) ** 3, [leaf(2, 4, 3)], directions=1)


def test_float16_is_normalised_in_float32():
    x = (wave(2, 4, 64) * 3000).astype(np.float16)
    wide = x.astype(np.float64)
    weight = dp.ones(64)  # float32, as PyTorch allows
    for y, axes in ((F.layer_norm(dp.tensor(x), (64,), weight), 2),
                    (F.instance_norm(dp.tensor(x)), 2), (F.group_norm(dp.tensor(x), 1), (1, 2)),
                    (nn.BatchNorm1d(4)(dp.tensor(x)), (0, 2))):  # fmt: skip
        assert y.dtype == dp.float16
        np.testing.assert_allclose(y.detach().numpy(), standard(wide, axes), rtol=2e-3, atol=2e-3)


def test_constant_values_single_values_and_no_values():
    flat = dp.tensor(np.full((2, 3, 4), 2.5), requires_grad=True)
    for f in (lambda x: F.layer_norm(x, (4,)), F.instance_norm, lambda x: F.group_norm(x, 3),
              lambda x: F.batch_norm(x, None, None, training=True)):  # fmt: skip
        y = f(flat)
        assert not y.array.any()
        (y * dp.tensor(wave(2, 3, 4))).sum().backward()
        assert np.isfinite(flat.grad.array).all()
        assert f(dp.ones(0, 3, 4)).shape == (0, 3, 4)
    assert F.layer_norm(dp.ones(2, 1), (1,)).tolist() == [[0], [0]]
    assert F.layer_norm(dp.ones(2, 0), (0,)).shape == (2, 0)
    for f in (lambda: F.instance_norm(dp.ones(2, 3, 1)), lambda: F.group_norm(dp.ones(1, 3, 1), 3),
              lambda: F.batch_norm(dp.ones(1, 3, 1), None, None, training=True)):  # fmt: skip
        with pytest.raises(ValueError, match="Expected more than 1"):
            f()
    assert F.normalize(dp.zeros(2, 3)).tolist() == [[0] * 3] * 2


def test_an_empty_batch_leaves_running_statistics():
    layer = nn.BatchNorm1d(2)
    assert layer(dp.ones(0, 2)).shape == (0, 2)
    assert layer.running_var.tolist() == [1, 1] and layer.num_batches_tracked.item() == 1


def test_what_does_not_fit_is_refused():
    x = dp.ones(2, 4, 3)
    for f in (lambda: F.layer_norm(x, (4,)), lambda: F.layer_norm(x, ()),
              lambda: F.layer_norm(x, (3,), dp.ones(4)), lambda: F.rms_norm(x, (3,), dp.ones(4)),
              lambda: F.group_norm(x, 3), lambda: F.group_norm(x, 2, dp.ones(3)),
              lambda: F.instance_norm(x, weight=dp.ones(3)), lambda: nn.GroupNorm(3, 4),
              lambda: F.instance_norm(x, use_input_stats=False),
              lambda: F.batch_norm(x, dp.zeros(3), dp.ones(3)),
              lambda: F.local_response_norm(x[0], 2), lambda: nn.InstanceNorm2d(4)(x[0]),
              lambda: nn.InstanceNorm1d(3, affine=True)(x)):  # fmt: skip
        with pytest.raises(ValueError):
            f()


def test_instance_norm_tracks_and_local_response_norm_has_pytorchs_values():
    layer = nn.InstanceNorm1d(4, affine=True, track_running_stats=True, dtype="float64")
    for phase in (0, 1):
        layer(dp.tensor(wave(2, 4, 3, phase=phase)))
    np.testing.assert_allclose(
        layer.running_mean.array,
        [-0.02948017406152245, -0.010912978388755703, 0.02123044818620772, 0.026962252153171044],
    )
    np.testing.assert_allclose(
        layer.running_var.array,
        [0.943189945266245, 0.9441905635237966, 0.9437678745982659, 0.9433710807027119],
    )
    x = dp.tensor(wave(2, 4, 3))
    expected = F.batch_norm(x, layer.running_mean, layer.running_var)
    np.testing.assert_allclose(layer.eval()(x).array, expected.array, rtol=1e-12)
    assert layer(x[0]).equal(layer(x)[0]) and layer.num_batches_tracked.item() == 0
    for size, total in ((3, 6.292775857533611), (2, 6.197503268253225)):
        y = F.local_response_norm(x, size, 0.5, 0.75, 2.0) * dp.tensor(wave(2, 4, 3, phase=0.3))
        np.testing.assert_allclose(y.sum().item(), total, rtol=1e-12)


def test_layers_have_pytorchs_names():
    shown = {
        nn.LayerNorm((2, 3), bias=False):
            "LayerNorm((2, 3), eps=1e-05, elementwise_affine=True, bias=False)",
        nn.RMSNorm(3): "RMSNorm((3,), eps=None, elementwise_affine=True)",
        nn.GroupNorm(2, 4): "GroupNorm(2, 4, eps=1e-05, affine=True, bias=True)",
        nn.LocalResponseNorm(2): "LocalResponseNorm(2, alpha=0.0001, beta=0.75, k=1.0)",
        nn.InstanceNorm2d(3): "InstanceNorm2d(3, eps=1e-05, momentum=0.1, affine=False, "
                              "bias=False, track_running_stats=False)",
    }  # fmt: skip
    for layer, text in shown.items():
        assert repr(layer) == text
    names = ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]
    assert list(nn.BatchNorm3d(2).state_dict()) == names
    assert nn.BatchNorm3d(2)(dp.ones(2, 2, 1, 1, 1)).shape == (2, 2, 1, 1, 1)
    model = nn.Sequential(nn.BatchNorm2d(2))
    assert nn.SyncBatchNorm.convert_sync_batchnorm(model) is model
    x = dp.tensor(wave(4, 2, 3).astype(np.float32))
    assert nn.SyncBatchNorm(2)(x).equal(nn.BatchNorm1d(2)(x))


def test_instance_statistics_do_not_depend_on_the_split():
    states = []
    for devices in ("cpu:0", "cpu:0-1"):
        dp.manual_seed(3)
        model = nn.Sequential(nn.Conv1d(1, 2, 3), nn.InstanceNorm1d(2, track_running_stats=True),
                              nn.Flatten(), nn.Linear(8, 3)).double()  # fmt: skip
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        train = dp.Scheduler(model, nn.CrossEntropyLoss(), optimizer, devices)
        train(wave(5, 1, 6), np.arange(5) % 3)
        states.append({name: value.numpy() for name, value in model.state_dict().items()})
    for name, value in states[0].items():
        np.testing.assert_allclose(states[1][name], value, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm_splits_length_and_direction(dim):
    layer = nn.Conv1d(2, 3, 4)
    w, x = layer.weight.detach().numpy().copy(), dp.tensor(wave(1, 2, 6).astype(np.float32))
    before = layer(x).detach().numpy()
    assert nn.utils.weight_norm(layer, dim=dim) is layer
    assert list(layer.state_dict()) == ["bias", "weight_g", "weight_v"]
    axes = {0: (1, 2), 1: (0, 2), None: None}[dim]
    lengths = np.sqrt((w * w).sum(axes, keepdims=dim is not None))
    np.testing.assert_allclose(layer.weight_g.detach().numpy(), lengths, rtol=1e-5)
    np.testing.assert_allclose(layer(x).detach().numpy(), before, rtol=1e-4, atol=1e-6)
    for same in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert same(x).equal(layer(x)) and type(same).__name__ == "Conv1d"
    layer(x).sum().backward()
    along = (layer.weight_v.grad * layer.weight_v.detach()).sum(axes)
    assert abs(along.numpy()).max() < 1e-5  # the direction's gradient is at right angles to it
    with dp.no_grad():
        layer.weight_g.copy_(layer.weight_g.detach() * 2)
    doubled = layer.weight.detach().numpy()
    np.testing.assert_allclose(doubled, 2 * w, rtol=1e-5)
    nn.utils.remove_weight_norm(layer)
    np.testing.assert_array_equal(layer.weight.detach().numpy(), doubled)
    assert type(layer) is nn.Conv1d and set(layer.state_dict()) == {"bias", "weight"}
    with pytest.raises(ValueError, match="not found"):
        nn.utils.remove_weight_norm(layer)


def test_weight_norm_under_its_newer_names_and_over_replicas():
    states = []
    for devices in ("cpu:0", "cpu:0-1"):
        dp.manual_seed(4)
        model = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2)).double()
        train = dp.Scheduler(model, nn.MSELoss(), optim.SGD(model.parameters(), lr=0.1), devices)
        train(wave(5, 3), wave(5, 2, phase=1))
        states.append({name: value.numpy() for name, value in model.state_dict().items()})
    assert list(states[0]) == ["bias", "parametrizations.weight.original0",
                               "parametrizations.weight.original1"]  # fmt: skip
    assert type(model).__name__ == "ParametrizedLinear"
    for name, value in states[0].items():
        np.testing.assert_allclose(states[1][name], value, rtol=1e-9, atol=1e-12)
