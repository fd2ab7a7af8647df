"""Optimisers: PyTorch's trajectories, state dicts, groups, replicas.

Literal expectations were computed once with PyTorch 2.13 from the inputs that `wave` makes.
"""

import copy
import pickle

import numpy as np
import pytest
from waves import leaf, wave

import minidp as dp
from minidp import nn, optim

TRAJECTORIES = [
    ("SGD", {}, [0.47043957276, 0.019482840282, -0.475460086167, 0.103037988438, 0.44890833114]),
    ("SGD", {"momentum": 0.9},
     [-0.384767376338, 0.435295605395, 0.272596492046, -0.505540719723, -0.142324215289]),
    ("SGD", {"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1},
     [-0.342446078762, 0.337699553119, 0.255424622472, -0.403519665745, -0.151442047929]),
    ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
     [-0.215295351058, 0.392637821207, 0.114116908028, -0.422044491818, -0.005360689791]),
    ("SGD", {"maximize": True, "momentum": 0.5},
     [2.869124619953, -1.109145950193, -2.583309921848, 1.774836471171, 2.125954106678]),
    ("Adam", {}, [0.623162998619, 0.114088335824, -0.565836070019, 0.115491193579, 0.454408348134]),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1},
     [0.621637752924, 0.114247984234, -0.563770873719, 0.115095455617, 0.45138674351]),
    ("Adam", {"maximize": True, "betas": (0.5, 0.6), "eps": 0.1},
     [1.363836079641, -0.616155527606, -1.294059072046, 0.866560454132, 1.159800206444]),
    ("AdamW", {"weight_decay": 0.3, "amsgrad": True},
     [0.531141587582, 0.124722138231, -0.482044968892, 0.078482416023, 0.386187951038]),
]  # fmt: skip


def step(optimizer, p, i):
    optimizer.zero_grad()
    (p * dp.tensor(wave(*p.shape, phase=i)) + p * p).sum().backward()
    optimizer.step()


@pytest.mark.parametrize("name, options, expected", TRAJECTORIES)
def test_four_steps_go_where_pytorchs_go(name, options, expected):
    p = leaf(5)
    memory, optimizer = p.data, getattr(optim, name)([p], lr=0.1, **options)
    for i in range(4):
        step(optimizer, p, i)
    assert p.data is memory and p.version[0] > 0
    np.testing.assert_allclose(p.data, expected, rtol=1e-9)


@pytest.mark.parametrize("name, options", [(n, o) for n, o, _ in TRAJECTORIES])
def test_a_loaded_state_goes_on_as_if_nothing_had_happened(name, options):
    kind = getattr(optim, name)
    p = leaf(5)
    through = kind([p], lr=0.1, **options)
    step(through, p, 0)
    step(through, p, 1)
    q = dp.tensor(p, requires_grad=True)
    other = kind([q], lr=0.7)
    other.load_state_dict(pickle.loads(pickle.dumps(through.state_dict())))
    assert other.param_groups[0]["lr"] == 0.1
    for i in (2, 3):
        step(through, p, i)
        step(other, q, i)
    np.testing.assert_array_equal(p.data, q.data)


def test_state_dict_has_pytorchs_layout():
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    optimizer = optim.Adam([{"params": model[0].parameters(), "lr": 0.5},
                            {"params": model[1].parameters()}], amsgrad=True)  # fmt: skip
    assert optimizer.state_dict()["state"] == {}
    model(dp.ones(1, 2)).sum().backward()
    model[1].bias.grad = None
    optimizer.step()
    saved = optimizer.state_dict()
    assert [g["params"] for g in saved["param_groups"]] == [[0, 1], [2, 3]]
    assert [g["lr"] for g in saved["param_groups"]] == [0.5, 1e-3]
    assert list(saved["param_groups"][0]) == [
        "lr", "betas", "eps", "weight_decay", "amsgrad", "maximize", "foreach", "capturable",
        "differentiable", "fused", "decoupled_weight_decay", "params",
    ]  # fmt: skip
    assert list(saved["state"]) == [0, 1, 2]
    assert list(saved["state"][0]) == ["step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"]
    assert saved["state"][0]["step"].item() == 1 and saved["state"][0]["step"].dtype == np.float32
    assert saved["state"][0]["exp_avg"].shape == (3, 2)
    plain = optim.SGD(model.parameters(), lr=0.1)
    plain.step()
    assert plain.state_dict()["state"] == {}


def test_loading_copies_and_converts_to_the_parameters_dtype():
    p = leaf(5)
    optimizer = optim.Adam([p])
    step(optimizer, p, 0)
    narrow = dp.tensor(p, dtype="float32", requires_grad=True)
    other = optim.Adam([narrow])
    other.load_state_dict(optimizer.state_dict())
    assert other.state[narrow]["exp_avg"].dtype == np.float32
    assert other.state[narrow]["step"].item() == 1
    same = optim.Adam([p])
    same.load_state_dict(optimizer.state_dict())
    assert not np.shares_memory(same.state[p]["exp_avg"].data, optimizer.state[p]["exp_avg"].data)


def test_loading_what_does_not_fit_changes_nothing():
    p, q = leaf(2), leaf(3)
    optimizer = optim.SGD([p, q], lr=0.1, momentum=0.9)
    step(optimizer, p, 0)
    good = optimizer.state_dict()
    groups = good["param_groups"][0]
    wrong = [
        ({**good, "param_groups": [groups, groups]}, "different number of parameter groups"),
        ({**good, "param_groups": [{**groups, "params": [0]}]}, "doesn't match the size"),
        ({**good, "param_groups": [{**groups, "lr": -1.0}]}, "Invalid learning rate"),
        ({**good, "state": {0: {"momentum_buffer": dp.ones(7)}}}, "shape"),
    ]
    buffer = optimizer.state[p]["momentum_buffer"]
    for given, text in wrong:
        with pytest.raises(ValueError, match=text):
            optimizer.load_state_dict(given)
        assert optimizer.param_groups[0]["lr"] == 0.1
        assert optimizer.state[p]["momentum_buffer"] is buffer


def test_groups_have_options_of_their_own():
    p, q = leaf(3), leaf(3)
    optimizer = optim.SGD([{"params": [p], "lr": 1.0}], lr=0.5)
    optimizer.add_param_group({"params": q})
    (p.sum() + q.sum()).backward()
    optimizer.step()
    np.testing.assert_allclose(p.data, wave(3) - 1.0)
    np.testing.assert_allclose(q.data, wave(3) - 0.5)
    optimizer.param_groups[1]["lr"] = 0.0
    optimizer.step()
    np.testing.assert_allclose(q.data, wave(3) - 0.5)
    assert "Parameter Group 1" in repr(optimizer) and "    lr: 0.0" in repr(optimizer)


def test_parameters_are_checked():
    p = leaf(3)
    cases = [
        (lambda: optim.SGD([], lr=0.1), ValueError, "empty parameter list"),
        (lambda: optim.SGD(p, lr=0.1), TypeError, "iterable of Tensors"),
        (lambda: optim.SGD([3.0], lr=0.1), TypeError, "only optimize Tensors"),
        (lambda: optim.SGD([p * 2], lr=0.1), ValueError, "non-leaf"),
        (lambda: optim.SGD([{"params": {p}}], lr=0.1), TypeError, "ordered"),
        (lambda: optim.SGD([{"params": p}, {"params": [p]}]), ValueError, "more than one"),
        (lambda: optim.SGD([p], lr=-0.1), ValueError, "Invalid learning rate: -0.1"),
        (lambda: optim.SGD([p], momentum=-1), ValueError, "Invalid momentum"),
        (lambda: optim.SGD([p], weight_decay=-1), ValueError, "Invalid weight_decay"),
        (lambda: optim.SGD([p], nesterov=True), ValueError, "Nesterov"),
        (lambda: optim.SGD([p], differentiable=True), ValueError, "differentiable"),
        (lambda: optim.Adam([p], betas=(0.9, 1.0)), ValueError, "beta parameter at index 1"),
        (lambda: optim.Adam([p], eps=-1.0), ValueError, "Invalid epsilon"),
        (lambda: optim.AdamW([{"params": p, "lr": float("nan")}]), ValueError, "learning rate"),
        (lambda: optim.SGD([p]).add_param_group([p]), TypeError, "must be a dict"),
    ]
    for call, kind, text in cases:
        with pytest.raises(kind, match=text):
            call()
    with pytest.warns(UserWarning, match="duplicate"):
        assert optim.SGD([p, p]).param_groups[0]["params"] == [p]


def test_closure_is_run_with_gradients_and_its_loss_returned():
    p = leaf(3)
    optimizer = optim.SGD([p], lr=1.0)

    def closure():
        optimizer.zero_grad()
        loss = p.sum()
        loss.backward()
        return loss

    with dp.no_grad():
        loss = optimizer.step(closure)
    assert loss.item() == pytest.approx(wave(3).sum())
    np.testing.assert_allclose(p.data, wave(3) - 1)


def test_parameters_without_gradient_and_zero_grad():
    p, q = leaf(3), leaf(3)
    optimizer = optim.Adam([p, q], weight_decay=0.1)
    p.sum().backward()
    optimizer.step()
    np.testing.assert_array_equal(q.data, wave(3))
    assert q not in optimizer.state
    optimizer.zero_grad(set_to_none=False)
    assert not p.grad.numpy().any()
    optimizer.zero_grad()
    assert p.grad is None


def test_state_follows_the_parameters_dtype_and_starts_at_zero_beside_nan():
    model = nn.Linear(3, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(dp.ones(1, 3)).sum().backward()
    optimizer.step()
    model.double()
    optimizer.step()
    assert optimizer.state[model.weight]["momentum_buffer"].dtype == np.float64
    np.testing.assert_allclose(optimizer.state[model.weight]["momentum_buffer"].data, 1.9)
    p = dp.tensor([np.nan, 1.0], requires_grad=True)
    optimizer = optim.Adam([p])
    p.grad = dp.ones(2)
    optimizer.step()
    assert np.isfinite(optimizer.state[p]["exp_avg"].data).all()


def test_a_graph_recorded_before_the_step_notices_it():
    p = leaf(3)
    loss = (p * p).sum()
    p.grad = dp.ones(3, dtype="float64")
    optim.SGD([p], lr=0.1).step()
    with pytest.raises(RuntimeError, match="changed in place"):
        loss.backward()


def test_model_and_optimizer_are_copied_together():
    p = leaf(3)
    optimizer = optim.Adam([p])
    step(optimizer, p, 0)
    (q,), twin = copy.deepcopy(([p], optimizer))
    step(twin, q, 1)
    assert twin.state[q]["step"].item() == 2 and optimizer.state[p]["step"].item() == 1
    step(optimizer, p, 1)
    np.testing.assert_array_equal(p.data, q.data)


@pytest.mark.parametrize("name, options", [(n, o) for n, o, _ in TRAJECTORIES[1::2]])
def test_replicas_take_the_same_steps(name, options):
    """Through flat buckets, in slices, with a parameter that no row ever reaches."""
    results = []
    for devices in (None, "cpu:0", "cpu:0-2"):
        dp.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)).double()
        model.unused = nn.Parameter(dp.ones(3, dtype="float64"))
        optimizer = getattr(optim, name)(
            [{"params": model[0].parameters(), "lr": 0.02},
             {"params": [*model[1].parameters(), model.unused]}], lr=0.1, **options)  # fmt: skip
        train = dp.Scheduler(model, nn.MSELoss(), optimizer, devices) if devices else None
        for i in range(3):
            x, y = wave(5, 4, phase=i), wave(5, 2)
            if train is not None:
                train(x, y)
                continue
            optimizer.zero_grad()
            nn.MSELoss()(model[1](model[0](dp.tensor(x))), dp.tensor(y)).backward()
            optimizer.step()
        state = optimizer.state_dict()["state"]
        flat = [v.numpy() for values in state.values() for v in values.values()]
        results.append([p.numpy() for p in (q.detach() for q in model.parameters())] + flat)
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
