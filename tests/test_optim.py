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
    ("NAdam", {},
     [0.747917738264, 0.012173738843, -0.693993053953, 0.225268589578, 0.585824452285]),
    ("NAdam", {"weight_decay": 0.3, "decoupled_weight_decay": True, "momentum_decay": 0.1},
     [0.656629973118, 0.022066695956, -0.610456744164, 0.189367054605, 0.516980224306]),
    ("RAdam", {"betas": (0.5, 0.6)},
     [0.315882936659, 0.070884434043, -0.334149074774, 0.015222103074, 0.330226506429]),
    ("RAdam", {"weight_decay": 0.1, "maximize": True},
     [2.101681359677, -0.70641004607, -1.919647269374, 1.201082009367, 1.610141661166]),
    ("Adamax", {}, [0.68399858852, 0.0569435823, -0.633444390671, 0.159673337989, 0.526601937481]),
    ("Adamax", {"weight_decay": 0.1, "maximize": True},
     [1.337712991548, -0.586938213242, -1.258188599089, 0.840480644061, 1.11547742871]),
    ("RMSprop", {},
     [0.360527438377, -0.194028227693, -0.402745646755, 0.248856404144, 0.416067457688]),
    ("RMSprop", {"momentum": 0.5, "centered": True, "weight_decay": 0.1},
     [0.137777568198, -0.440669695429, -0.294050593038, 0.292836515716, 0.48193491985]),
    ("Adagrad", {},
     [0.787322146372, -0.022183636951, -0.731878814799, 0.264003863346, 0.620868487516]),
    ("Adagrad", {"lr_decay": 0.2, "initial_accumulator_value": 0.5, "weight_decay": 0.1},
     [0.812415971077, -0.07762547187, -0.754554972315, 0.302589962223, 0.640081283428]),
    ("Adadelta", {},
     [0.990715596166, -0.254309283671, -0.924912402678, 0.49296756614, 0.797651621863]),
    ("Adadelta", {"rho": 0.5, "weight_decay": 0.1, "maximize": True},
     [0.992176531458, -0.256149394986, -0.926303697986, 0.494699177425, 0.798940367162]),
]  # fmt: skip


def step(optimizer, p, i):
    optimizer.zero_grad()
    (p * dp.tensor(wave(*p.shape, phase=i)) + p * p).sum().backward()
    optimizer.step()


@pytest.mark.parametrize("name, options, expected", TRAJECTORIES)
def test_four_steps_go_where_pytorchs_go(name, options, expected):
    p = leaf(5)
    memory, optimizer = p.array, getattr(optim, name)([p], lr=0.1, **options)
    moments = [p.version[0]]
    for i in range(4):
        step(optimizer, p, i)
        moments.append(p.version[0])
    assert p.array is memory and moments == sorted(set(moments))  # each step is a change
    np.testing.assert_allclose(p.array, expected, rtol=1e-9)


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
    np.testing.assert_array_equal(p.array, q.array)


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


STATES = [
    ("SGD", {"momentum": 0.9}, ["momentum_buffer"]),
    ("RMSprop", {"centered": True, "momentum": 0.9},
     ["step", "square_avg", "grad_avg", "momentum_buffer"]),
    ("RMSprop", {}, ["step", "square_avg"]),
    ("Adagrad", {}, ["step", "sum"]),
    ("Adadelta", {}, ["step", "square_avg", "acc_delta"]),
    ("Adamax", {}, ["step", "exp_avg", "exp_inf"]),
    ("RAdam", {}, ["step", "exp_avg", "exp_avg_sq"]),
    ("NAdam", {}, ["step", "mu_product", "exp_avg", "exp_avg_sq"]),
]  # fmt: skip


@pytest.mark.parametrize("name, options, names", STATES)
def test_states_have_pytorchs_names(name, options, names):
    p = dp.tensor(leaf(5), dtype="float32", requires_grad=True)
    optimizer = getattr(optim, name)([p], **options)
    p.sum().backward()
    optimizer.step()
    optimizer.step()
    state = optimizer.state_dict()["state"][0]
    assert list(state) == names
    for each in names:
        scalar = each in ("step", "mu_product")
        assert state[each].shape == (() if scalar else (5,)) and state[each].dtype == np.float32
    if "step" in names:
        assert state["step"].item() == 2


def test_the_sums_of_adagrad_begin_with_the_optimizer():
    p, q = leaf(3), leaf(2)
    optimizer = optim.Adagrad([p], initial_accumulator_value=0.5)
    optimizer.add_param_group({"params": q})
    state = optimizer.state_dict()["state"]
    assert state[0]["sum"].tolist() == [0.5] * 3 and state[1]["sum"].tolist() == [0.5] * 2
    assert state[1]["step"].item() == 0


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
    assert not np.shares_memory(same.state[p]["exp_avg"].array, optimizer.state[p]["exp_avg"].array)


def test_loading_what_does_not_fit_changes_nothing():
    p, q = leaf(2), leaf(3)
    optimizer = optim.SGD([p, q], lr=0.1, momentum=0.9)
    step(optimizer, p, 0)
    good = optimizer.state_dict()
    groups = good["param_groups"][0]
    wrong = [
        ({**good, "param_groups": [groups, groups]}, "different number of parameter groups"),
        ({**good, "param_groups": [{**groups, "params": [0]}]}, "doesn't match the size"),
        ({**good, "param_groups": [{**groups, "momentum": -1.0}]}, "Invalid momentum value"),
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
    np.testing.assert_allclose(p.array, wave(3) - 1.0)
    np.testing.assert_allclose(q.array, wave(3) - 0.5)
    optimizer.param_groups[1]["lr"] = 0.0
    optimizer.step()
    np.testing.assert_allclose(q.array, wave(3) - 0.5)
    assert "Parameter Group 1" in repr(optimizer) and "    lr: 0.0" in repr(optimizer)


def test_parameters_may_come_with_their_names():
    model = nn.Linear(2, 1)
    group = optim.SGD(model.named_parameters()).param_groups[0]
    assert group["params"][0] is model.weight and group["param_names"] == ["weight", "bias"]
    with pytest.raises(TypeError, match=r"only optimize Tensors.*tuple"):
        optim.SGD([("weight", model.weight), model.bias])


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
        (lambda: optim.RMSprop([p], alpha=-1.0), ValueError, "Invalid alpha value"),
        (lambda: optim.RMSprop([p], momentum=-1.0), ValueError, "Invalid momentum value"),
        (lambda: optim.Adagrad([p], lr_decay=-1.0), ValueError, "Invalid lr_decay value"),
        (lambda: optim.Adagrad([p], initial_accumulator_value=-1.0), ValueError, "accumulator"),
        (lambda: optim.Adadelta([p], rho=1.1), ValueError, "Invalid rho value: 1.1"),
        (lambda: optim.Adamax([p], betas=(-0.1, 0.9)), ValueError, "beta parameter at index 0"),
        (lambda: optim.NAdam([p], momentum_decay=-1.0), ValueError, "Invalid momentum_decay"),
        (lambda: optim.RAdam([p], eps=-1.0), ValueError, "Invalid epsilon value"),
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
    np.testing.assert_allclose(p.array, wave(3) - 1)


def test_parameters_without_gradient_and_zero_grad():
    p, q = leaf(3), leaf(3)
    optimizer = optim.Adam([p, q], weight_decay=0.1)
    p.sum().backward()
    optimizer.step()
    np.testing.assert_array_equal(q.array, wave(3))
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
    np.testing.assert_allclose(optimizer.state[model.weight]["momentum_buffer"].array, 1.9)
    p = dp.tensor([np.nan, 1.0], requires_grad=True)
    optimizer = optim.Adam([p])
    p.grad = dp.ones(2)
    optimizer.step()
    assert np.isfinite(optimizer.state[p]["exp_avg"].array).all()


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
    np.testing.assert_array_equal(p.array, q.array)


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
