"""Learning-rate schedules and averaged weights: PyTorch's values, states, warnings.

Literal expectations were computed once with PyTorch 2.13.
"""

import copy
import io
import math
import pickle
import warnings

import numpy as np
import pytest
from waves import leaf, wave

import minidp as dp
from minidp import nn, optim
from minidp.optim import lr_scheduler as L
from minidp.optim import swa_utils as S

STEPS = [0, 1, 5, 8, 13, 20, 31, 49]
SCHEDULES = [
    (lambda o: L.LambdaLR(o, lambda t: 1 / (1 + t)),
     [0.1, 0.05, 0.0166667, 0.0111111, 0.00714286, 0.0047619, 0.003125, 0.002]),
    (lambda o: L.MultiplicativeLR(o, lambda t: 0.95),
     [0.1, 0.095, 0.0773781, 0.066342, 0.0359339, 0.025094, 0.0142735, 0.00566963]),
    (lambda o: L.StepLR(o, 7, 0.3),
     [0.1, 0.1, 0.1, 0.03, 0.021, 0.0063, 0.000567, 1.5309e-05]),
    (lambda o: L.MultiStepLR(o, [3, 10, 10, 20], 0.5),
     [0.1, 0.1, 0.05, 0.05, 0.00875, 0.004375, 0.004375, 0.004375]),
    (lambda o: L.ConstantLR(o, 0.25, 9),
     [0.025, 0.025, 0.025, 0.025, 0.07, 0.07, 0.07, 0.07]),
    (lambda o: L.LinearLR(o, 0.2, 0.7, 13),
     [0.02, 0.0238462, 0.0392308, 0.0507692, 0.049, 0.049, 0.049, 0.049]),
    (lambda o: L.ExponentialLR(o, 0.9),
     [0.1, 0.09, 0.059049, 0.0430467, 0.0177931, 0.00851037, 0.00267064, 0.000400849]),
    (lambda o: L.PolynomialLR(o, 17, 1.7),
     [0.1, 0.0902071, 0.0553153, 0.0339195, 0.00598187, 0.0, 0.0, 0.0]),
    (lambda o: L.CosineAnnealingLR(o, 10, 0.01),
     [0.1, 0.0977975, 0.055, 0.0185942, 0.0165096, 0.0415836, 0.0122025, 0.0122025]),
    (lambda o: L.CosineAnnealingWarmRestarts(o, 5, 2, 0.01),
     [0.1, 0.0914058, 0.1, 0.0814503, 0.0185942, 0.0868198, 0.0185942, 0.0754296]),
    (lambda o: L.OneCycleLR(o, 0.5, 60),
     [0.02, 0.0240865, 0.115368, 0.237856, 0.437362, 0.493732, 0.375001, 0.0667388, 0.930132]),
    (lambda o: L.OneCycleLR(o, 0.5, epochs=5, steps_per_epoch=10, three_phase=True),
     [0.02, 0.0260173, 0.155868, 0.313405, 0.493983, 0.313405, 0.0190098, 2e-06, 0.921694]),
    (lambda o: L.CyclicLR(o, 0.01, 0.2, 7),
     [0.01, 0.0371429, 0.145714, 0.172857, 0.0371429, 0.172857, 0.0914286, 0.2, 0.828571]),
    (lambda o: L.CyclicLR(o, 0.01, 0.2, 7, 4, mode="triangular2"),
     [0.01, 0.0371429, 0.145714, 0.1525, 0.0371429, 0.0575, 0.03375, 0.0184821, 0.828571]),
    (lambda o: L.CyclicLR(o, 0.01, 0.2, 7, mode="exp_range", gamma=0.95),
     [0.01, 0.0357857, 0.115013, 0.118043, 0.0239336, 0.068382, 0.0266038, 0.025389, 0.84473]),
    (lambda o: L.CyclicLR(o, 0.01, 0.2, 7, scale_fn=lambda x: 1 / x, cycle_momentum=False),
     [0.01, 0.0371429, 0.145714, 0.172857, 0.0371429, 0.0914286, 0.0371429, 0.0575, 0.9]),
    (lambda o: L.SequentialLR(o, [L.LinearLR(o, 0.1), L.StepLR(o, 4, 0.5), L.PolynomialLR(o, 10)],
                              [5, 20]),
     [0.01, 0.028, 0.1, 0.1, 0.0175, 0.1, 0.0, 0.0]),
    (lambda o: L.ChainedScheduler([L.ConstantLR(o, 0.1), L.ExponentialLR(o, 0.9), L.StepLR(o, 20)]),
     [0.01, 0.009, 0.059049, 0.0430467, 0.0177931, 0.000851037, 0.000267064, 4.00849e-06]),
    (lambda o: S.SWALR(o, 0.05, 7),
     [0.1, 0.0975242, 0.0594128, 0.05, 0.05, 0.05, 0.05, 0.05]),
    (lambda o: S.SWALR(o, 0.05, 5, "linear"),
     [0.1, 0.09, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05]),
]  # fmt: skip
"""The rates in STEPS (0.1 at first; times 0.7 by hand after step 12), and a momentum in step 5."""


def sgd(*rates, momentum=0.9):
    groups = [{"params": [leaf(2)], "lr": lr} for lr in rates or (0.1,)]
    return optim.SGD(groups, momentum=momentum)


def follow(make, steps=50, interrupt=None):
    """(rate, momentum) in every step; after ``interrupt`` from saved states in new objects."""
    optimizer = sgd()
    schedule, seen = make(optimizer), []
    for t in range(steps):
        group = optimizer.param_groups[0]
        assert schedule.get_last_lr() == [group["lr"]]
        seen.append((group["lr"], group["momentum"]))
        if t == 12:
            group["lr"] *= 0.7
        optimizer.step()
        schedule.step()
        if t == interrupt:
            saved = pickle.loads(pickle.dumps((schedule.state_dict(), optimizer.state_dict())))
            optimizer = sgd()
            schedule = make(optimizer)
            schedule.load_state_dict(saved[0])
            optimizer.load_state_dict(saved[1])
    return seen


@pytest.mark.parametrize("make, expected", SCHEDULES)
def test_rates_are_pytorchs(make, expected):
    seen = follow(make)
    got = [seen[t][0] for t in STEPS] + [seen[5][1]] * (len(expected) > len(STEPS))
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-15)


@pytest.mark.parametrize("make, expected", SCHEDULES)
def test_a_loaded_schedule_goes_on_as_if_nothing_had_happened(make, expected):
    assert follow(make, 50, interrupt=17) == follow(make, 50)


@pytest.mark.parametrize("make, expected", SCHEDULES)
def test_states_of_schedules_fit_into_a_checkpoint(make, expected):
    optimizer = sgd()
    schedule = make(optimizer)
    for _ in range(6):
        optimizer.step()
        schedule.step()
    file = io.BytesIO()
    dp.save(schedule.state_dict(), file)
    file.seek(0)
    again = make(sgd())
    again.load_state_dict(dp.load(file))
    assert again.state_dict() == schedule.state_dict()


def test_a_chain_in_a_sequence_takes_its_first_step_twice():
    """As in PyTorch: the factor of the second step is there from the start."""

    def make(optimizer):
        chain = [L.ConstantLR(optimizer, 0.1), L.ExponentialLR(optimizer, 0.9)]
        return L.SequentialLR(optimizer, [L.ChainedScheduler(chain), L.StepLR(optimizer, 3)], [10])

    with pytest.warns(UserWarning, match="before `optimizer.step"):
        seen = [rate for rate, _ in follow(make)]
    expected = [0.009, 0.0081, 0.0531441, 0.038742, 0.007, 7e-05, 7e-09, 7e-15]
    np.testing.assert_allclose([seen[t] for t in STEPS], expected, rtol=1e-5)


def test_a_constant_rate_without_steps_in_a_sequence_is_the_rate_itself():
    optimizer = sgd(1.0)
    parts = [L.ExponentialLR(optimizer, 0.5), L.ConstantLR(optimizer, 0.25, total_iters=0)]
    schedule, seen = L.SequentialLR(optimizer, parts, [2]), []
    for _ in range(4):
        seen.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    assert seen == [1.0, 0.5, 1.0, 1.0]


def test_groups_have_rates_of_their_own():
    optimizer = sgd(0.1, 0.4)
    schedule = L.LambdaLR(optimizer, [lambda t: 1 / (t + 1), lambda t: 0.5**t])
    optimizer.step()
    schedule.step()
    assert schedule.get_last_lr() == [0.05, 0.2] and schedule.base_lrs == [0.1, 0.4]
    assert [g["initial_lr"] for g in optimizer.param_groups] == [0.1, 0.4]
    cycle = L.CyclicLR(sgd(0.1, 0.4), [0.1, 0.2], [0.3, 0.5], step_size_up=1)
    assert cycle.get_last_lr() == [0.1, 0.2]


def test_a_rate_that_is_a_tensor_is_changed_in_place():
    optimizer = sgd()
    rate = optimizer.param_groups[0]["lr"] = dp.tensor(0.1, dtype="float64")
    schedule = L.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    schedule.step()
    assert optimizer.param_groups[0]["lr"] is rate and rate.item() == 0.05
    assert schedule.get_last_lr() == [0.05]


def test_betas_are_moved_where_there_is_no_momentum():
    optimizer = optim.Adam([leaf(2)], betas=(0.5, 0.99))
    schedule = L.OneCycleLR(optimizer, 0.1, total_steps=10)
    assert optimizer.param_groups[0]["betas"] == (0.95, 0.99)
    for _ in range(3):
        optimizer.step()
        schedule.step()
    assert optimizer.param_groups[0]["betas"][0] == pytest.approx(0.854951556604879)
    with pytest.raises(ValueError, match="must support momentum or beta1"):
        L.OneCycleLR(optim.Adagrad([leaf(2)]), 0.1, total_steps=10)
    with pytest.raises(ValueError, match="Tried to step 11 times"):
        for _ in range(9):
            schedule.step()


def test_resuming_needs_the_rates_to_begin_with():
    optimizer = sgd()
    with pytest.raises(KeyError, match=r"initial_lr.*param_groups\[0\]"):
        L.StepLR(optimizer, 3, last_epoch=4)
    first = L.ExponentialLR(optimizer, 0.9)
    for _ in range(4):
        optimizer.step()
        first.step()
    again = L.ExponentialLR(optimizer, 0.9, last_epoch=first.last_epoch - 1)
    assert again.last_epoch == 4 and again.get_last_lr() == first.get_last_lr()
    again.step(2)
    assert again.get_last_lr() == [pytest.approx(0.081)]


def test_fractions_of_epochs_of_warm_restarts():
    schedule = L.CosineAnnealingWarmRestarts(sgd(), 5, 2)
    for epoch, cycle, place in ((0.5, 5, 0.5), (7.25, 10, 2.25), (30.1, 20, 15.1)):
        schedule.step(epoch)
        assert (schedule.T_i, schedule.T_cur) == (cycle, pytest.approx(place))
    with pytest.raises(ValueError, match="non-negative epoch"):
        schedule.step(-1)


def test_steps_in_the_wrong_order_are_told():
    optimizer = sgd()
    schedule = L.StepLR(optimizer, 2)
    with pytest.warns(UserWarning, match=r"lr_scheduler.step\(\)` before `optimizer.step"):
        schedule.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer = sgd()
        schedule = L.StepLR(optimizer, 2)
        optimizer.step()
        schedule.step()


PLATEAU = [1.0, 0.9, 0.89, 0.9, 0.9, 0.9, 0.2, float("nan"), 0.3, 0.3, 0.3, 0.3]


@pytest.mark.parametrize("options, expected", [
    ({}, [0.1, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05, 0.025, 0.025, 0.0125, 0.0125]),
    ({"threshold": 0.05, "threshold_mode": "abs", "cooldown": 1},
     [0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05, 0.05, 0.025, 0.025, 0.025, 0.0125]),
    ({"mode": "max", "min_lr": 0.04},
     [0.1, 0.1, 0.05, 0.05, 0.04, 0.04, 0.04, 0.04, 0.04, 0.04, 0.04, 0.04]),
])  # fmt: skip
def test_a_plateau_lowers_the_rate(options, expected):
    optimizer = sgd()
    schedule, seen = L.ReduceLROnPlateau(optimizer, factor=0.5, patience=1, **options), []
    for metric in PLATEAU:
        schedule.step(dp.tensor(metric))
        seen += schedule.get_last_lr()
        other = L.ReduceLROnPlateau(optimizer, factor=0.9)
        other.load_state_dict(schedule.state_dict())
        schedule = other
    np.testing.assert_allclose(seen, expected)


def test_warm_up_for_many_replicas():
    """Goyal et al. 2017: from the rate of one replica to k times that."""
    optimizer = sgd(0.1, 0.2)
    schedule, seen = L.WarmupLR(optimizer, replicas=4, total_iters=3), []
    for _ in range(5):
        seen.append(schedule.get_last_lr())
        optimizer.step()
        schedule.step()
    np.testing.assert_allclose(np.transpose(seen), [[0.1, 0.2, 0.3, 0.4, 0.4],
                                                    [0.2, 0.4, 0.6, 0.8, 0.8]])  # fmt: skip
    with pytest.raises(ValueError, match="replicas=0"):
        L.WarmupLR(optimizer, 0, 3)


def test_what_makes_no_sense_is_refused():
    optimizer, other = sgd(), sgd()
    plateau, step = L.ReduceLROnPlateau(optimizer), L.StepLR(optimizer, 3)
    cases = [
        (lambda: L.StepLR(3, 3), TypeError, "int is not an Optimizer"),
        (lambda: L.LambdaLR(optimizer, [abs, abs]), ValueError, "lr_lambda has 2 values"),
        (lambda: L.MultiplicativeLR(optimizer, 0.9), TypeError, "should be a function"),
        (lambda: L.ConstantLR(optimizer, 1.5), ValueError, "between 0 and 1"),
        (lambda: L.LinearLR(optimizer, 0), ValueError, "greater than 0"),
        (lambda: L.LinearLR(optimizer, 0.5, 2), ValueError, "Ending multiplicative"),
        (lambda: L.CosineAnnealingWarmRestarts(optimizer, 0), ValueError, "T_0, but got 0"),
        (lambda: L.CosineAnnealingWarmRestarts(optimizer, 1, 0.5), ValueError, "T_mult"),
        (lambda: L.CyclicLR(optimizer, 0.1, 1, mode="round"), ValueError, "mode is invalid"),
        (lambda: L.OneCycleLR(optimizer, 0.1), ValueError, "either total_steps OR"),
        (lambda: L.OneCycleLR(optimizer, 0.1, 1.5), ValueError, "positive integer total_steps"),
        (lambda: L.OneCycleLR(optimizer, 0.1, 9, pct_start=2.0), ValueError, "pct_start"),
        (lambda: L.OneCycleLR(optimizer, 0.1, 9, anneal_strategy="x"), ValueError, "strategy"),
        (lambda: L.SequentialLR(optimizer, [step], [3]), ValueError, "one milestone less"),
        (lambda: L.SequentialLR(optimizer, [plateau], []), ValueError, "ReduceLROnPlateau"),
        (lambda: L.SequentialLR(other, [step], []), ValueError, "same optimizer"),
        (lambda: L.ChainedScheduler([]), ValueError, "at least one"),
        (lambda: L.ReduceLROnPlateau(optimizer, factor=1.0), ValueError, "Factor should be"),
        (lambda: L.ReduceLROnPlateau(optimizer, "mean"), ValueError, "mode mean is unknown"),
        (lambda: S.SWALR(optimizer, 0.1, -1), ValueError, "anneal_epochs"),
        (lambda: S.get_ema_avg_fn(1.1), ValueError, "Invalid decay value 1.1"),
    ]
    for call, kind, text in cases:
        with pytest.raises(kind, match=text):
            call()


def test_only_objects_with_a_state_of_their_own_are_saved_of_functions():
    class Power:
        def __init__(self, base):
            self.base = base

        def __call__(self, t):
            return self.base**t

    schedule = L.LambdaLR(sgd(0.1, 0.1), [Power(0.5), lambda t: 1.0])
    assert schedule.state_dict()["lr_lambdas"] == [{"base": 0.5}, None]
    other = L.LambdaLR(sgd(0.1, 0.1), [Power(0.9), lambda t: 1.0])
    other.load_state_dict(schedule.state_dict())
    assert other.lr_lambdas[0].base == 0.5


@pytest.mark.parametrize("devices", ["cpu:0", "cpu:0-2"])
def test_a_schedule_moves_the_rate_of_a_scheduler(devices):
    """Rates that change from step to step, and in ``on_epoch``, are those of the update."""

    def train(many):
        dp.manual_seed(0)
        model = nn.Linear(4, 2).double()
        optimizer = optim.SGD(model.parameters(), lr=0.2, momentum=0.5)
        schedule = L.OneCycleLR(optimizer, 0.3, total_steps=9)
        run = dp.Scheduler(model, nn.MSELoss(), optimizer, devices) if many else None
        for i in range(5):
            x, y = wave(6, 4, phase=i), wave(6, 2, phase=2 * i)
            if many:
                run(x, y)
            else:
                optimizer.zero_grad()
                nn.MSELoss()(model(dp.tensor(x)), dp.tensor(y)).backward()
                optimizer.step()
            schedule.step()
        if many:
            batches = [(wave(6, 4), wave(6, 2))]
            run.run(batches, epochs=2, on_epoch=lambda progress: schedule.step())
            assert schedule.last_epoch == 7
        else:
            for _ in range(2):
                optimizer.zero_grad()
                nn.MSELoss()(model(dp.tensor(wave(6, 4))), dp.tensor(wave(6, 2))).backward()
                optimizer.step()
                schedule.step()
        return [p.detach().numpy().copy() for p in model.parameters()]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for a, b in zip(train(True), train(False), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9)


@pytest.mark.parametrize("name", ["SGD", "Adagrad", "NAdam"])
def test_each_replica_may_have_optimizer_and_schedule_of_its_own(name):
    """With the warm-up for as many replicas as there are."""
    batches = [(wave(6, 4, phase=i), wave(6, 2, phase=2 * i)) for i in range(4)]

    def steps(net, world=None):
        optimizer = getattr(optim, name)(net.parameters(), lr=0.02)
        schedule = L.WarmupLR(optimizer, replicas=2, total_iters=3)
        for x, y in batches if world is None else world.shard(batches):
            optimizer.zero_grad()
            nn.MSELoss()(net(dp.as_tensor(x)), dp.as_tensor(y)).backward()
            optimizer.step()
            schedule.step()
        return schedule.get_last_lr()

    dp.manual_seed(0)
    model = nn.Linear(4, 2).double()
    other = copy.deepcopy(model)
    assert dp.launch(lambda world: steps(world.replicate(model), world), devices=2) == [[0.04]] * 2
    assert steps(other) == [0.04]
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9)


def test_schedule_model_and_optimizer_are_copied_together():
    optimizer = sgd()
    schedule = L.ExponentialLR(optimizer, 0.5)
    twin, other = copy.deepcopy((optimizer, schedule))
    twin.step()
    other.step()
    assert other.optimizer is twin and twin.param_groups[0]["lr"] == 0.05
    assert optimizer.param_groups[0]["lr"] == 0.1


# Averaged weights -----------------------------------------------------------------------------


def averaged(**options):
    """An average over three models with weights 0, 1, 3 and running means 0, 1, 3."""
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    average = S.AveragedModel(model, **options)
    for value in (0.0, 1.0, 3.0):
        with dp.no_grad():
            model[0].weight.fill_(value)
            model[1].running_mean.fill_(value)
        average.update_parameters(model)
    return average


def test_averages_of_weights():
    third = [4 / 3, 3.0]
    ema = [0.75 * 0.25 + 0.25 * 3, 3.0]
    for options, expected in [
        ({}, third), ({"avg_fn": S.get_swa_avg_fn()}, third),
        ({"multi_avg_fn": S.get_swa_multi_avg_fn()}, third),
        ({"avg_fn": S.get_ema_avg_fn(0.75)}, ema),
        ({"multi_avg_fn": S.get_ema_multi_avg_fn(0.75)}, ema),
        ({"use_buffers": True}, [4 / 3, 4 / 3]),
    ]:  # fmt: skip
        average = averaged(**options)
        got = [average.module[0].weight[0, 0].item(), average.module[1].running_mean[0].item()]
        np.testing.assert_allclose(got, expected, rtol=1e-6)
        assert average.n_averaged.item() == 3
    assert list(average.state_dict())[:2] == ["n_averaged", "module.0.weight"]
    with pytest.raises(ValueError, match="Only one of"):
        S.AveragedModel(nn.Linear(1, 1), avg_fn=S.get_swa_avg_fn(),
                        multi_avg_fn=S.get_swa_multi_avg_fn())  # fmt: skip


def test_statistics_are_made_anew_for_averaged_weights():
    average = averaged()
    average.module[0] = nn.Flatten()
    average.eval()
    batches = [(dp.tensor([[1.0, 2.0], [3.0, 6.0]]), 0), (dp.tensor([[5.0, 0.0], [7.0, 0.0]]), 0)]
    S.update_bn(batches, average)
    layer = average.module[1]
    np.testing.assert_allclose(layer.running_mean.numpy(), [4.0, 2.0])
    np.testing.assert_allclose(layer.running_var.numpy(), [2.0, 4.0])
    assert layer.momentum == 0.1 and not average.training
    assert math.isfinite(average(batches[0][0]).sum().item())


@pytest.mark.parametrize("second, expected", [
    (lambda o: L.OneCycleLR(o, 1.0, 10, anneal_strategy="linear"), [0.02, 0.04, 0.52, 1, 0.857143]),
    (lambda o: L.CyclicLR(o, 0.1, 1.0, step_size_up=3), [0.2, 0.1, 0.4, 0.7, 1]),
    (lambda o: S.SWALR(o, 0.05, 4, "linear"), [0.2, 0.2, 0.1625, 0.125, 0.0875]),
])  # fmt: skip
def test_schedules_without_a_formula_come_second(second, expected):
    """At the milestone they have no closed form of the initial rate."""
    optimizer = optim.SGD([nn.Parameter(dp.ones(1))], lr=0.4, momentum=0.9)
    schedule = L.SequentialLR(optimizer, [L.ExponentialLR(optimizer, 0.5), second(optimizer)], [2])
    seen = []
    for _ in expected:
        optimizer.step()
        schedule.step()
        seen += schedule.get_last_lr()
    assert seen == pytest.approx(expected, abs=1e-6)
