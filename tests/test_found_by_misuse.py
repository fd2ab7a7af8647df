"""Programs that a scheduler met when strangers' ways of writing them were tried."""

import copy
import pickle

import numpy as np
import pytest
from test_scheduler_between import Counting
from training import CLASSES, FEATURES, batches, everything, flat, mlp, scheduler

import minidp as dp
from minidp import nn, optim
from minidp.errors import ReplicaError
from minidp.mode import mode

DATA = batches(8, 8)


class Level(nn.Module):
    """Has a parameter without axes, beside others or alone."""

    def __init__(self, *more):
        super().__init__()
        self.before = nn.Sequential(*more)
        self.level = nn.Parameter(dp.tensor(0.5))

    def forward(self, x):
        return self.before(x)[:, :CLASSES] * self.level


@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize("layout", [{}, {"devices": 2}, {"devices": 1, "replicas": 3},
                                    {"devices": 2, "store": "device"}], ids=str)  # fmt: skip
@pytest.mark.parametrize("more", [[], [(FEATURES, 7)]])
def test_a_parameter_without_axes_may_have_a_bucket_of_its_own(more, layout, fuse):
    runs = []
    for capture in (False, True):
        dp.manual_seed(0)
        model = Level(*(nn.Linear(*sizes) for sizes in more)).double()
        run = scheduler(model, bucket_kib=0.01, capture=capture, fuse=fuse and capture, **layout)
        run.run(DATA, on_step=lambda progress: None)
        run.run(DATA)
        runs.append(run)
    assert all(step.replays for step in runs[1].replays.captured)
    assert np.abs(flat(runs[0].model) - flat(runs[1].model)).max() <= (1e-12 if fuse else 0)


def test_schedulers_are_not_copied():
    run = scheduler(mlp(), devices=2)
    for act in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(ReplicaError, match=r"cannot be copied or pickled.*Checkpoints"):
            act(run)
    run.run(DATA)


def through_data(model, mean):
    model.mean.data.copy_(mean)


CHANGES = [
    through_data, lambda model, mean: model.mean.detach().fill_(1.0),
    lambda model, mean: model.mean.view(2, -1)[1].mul_(0.5).add_(1.0),
    lambda model, mean: model.mean.data.__setitem__(0, mean[0]),
    lambda model, mean: setattr(model.mean, "data", mean),
]  # fmt: skip


@pytest.mark.parametrize("devices", ["cpu:0-1", "emu:0-1"])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("capture", [False, True])
def test_the_memory_of_a_buffer_is_not_changed_by_a_forward(change, devices, capture):
    model = Counting(change)
    run = scheduler(model, devices=devices, capture=capture)
    before = everything(run)
    with pytest.raises(ReplicaError, match="forward changes the buffer mean"):
        run(*DATA[0])
    assert everything(run) == before
    alone = scheduler(Counting(change), devices=1)
    alone(*DATA[0])
    assert dp.tensor(alone.model.mean).any()


def test_parameters_are_not_changed_by_a_forward():
    for clamped in (lambda weight: weight.data.clamp_(-0.1, 0.1),
                    lambda weight: weight[0].clamp_(-0.1, 0.1)):  # fmt: skip
        model = Counting(lambda model, mean, f=clamped: f(model.layer.weight))
        with pytest.raises(ReplicaError, match=r"changes the parameter layer\.weight"):
            scheduler(model, devices=2)(*DATA[0])
        scheduler(model, devices=1)(*DATA[0])


def test_what_a_forward_may_change():
    def note(model, mean):
        model.mean.data.clone().add_(1)
        model.kept = model.mean + 1
        model.kept[0] = 2
        model.kept.relu_()

    model = Counting(note)
    run, one = scheduler(model, devices=2), scheduler(Counting(note), devices=1)
    one.model.load_state_dict(model.state_dict())
    run.run(DATA), one.run(DATA)
    assert np.abs(flat(model) - flat(one.model)).max() < 1e-10


def test_hooks_of_parameters_are_refused_in_forward_too():
    model = Counting(lambda model, mean: model.layer.weight.register_hook(lambda g: g * 0))
    run = scheduler(model, devices=2)
    before = everything(run)
    with pytest.raises(ReplicaError, match="has a hook, which replicas would not call"):
        run(*DATA[0])
    assert everything(run) == before


def test_what_is_no_number_of_epochs():
    run = scheduler(mlp())
    for epochs in (-1, 1.5, "2", True):
        with pytest.raises(ReplicaError, match=r"epochs=.*expected a whole number"):
            run.run(DATA, epochs)
    assert run.run(DATA, 0) == [] and len(run.run(DATA, np.int64(2))) == 2


def test_what_is_no_metric():
    run = scheduler(mlp(), devices=2)
    for given in ([len], {"a": 1}, len):
        with pytest.raises(ReplicaError, match=r"metrics=.*by their names"):
            run.evaluate(DATA, given)
    for metric in (lambda y, t: "right", lambda y, t: y, lambda y, t: None):
        with pytest.raises(ReplicaError, match="not one number per row, or the sum"):
            run.evaluate(DATA, {"a": metric})
    found = run.evaluate(DATA, {"a": lambda y, t: (y**2).sum(1), "b": lambda y, t: (y**2).sum()})
    assert found["a"] == pytest.approx(found["b"])


def test_pixels_are_no_rows():
    model = nn.Conv2d(1, 3, 1)
    run = dp.Scheduler(model, nn.CrossEntropyLoss(), optim.SGD(model.parameters(), 0.1), devices=2)
    data = [(dp.rand(4, 1, 2, 2), dp.randint(0, 3, (4, 2, 2)))]
    with pytest.raises(ReplicaError, match="not one number per row"):
        run.evaluate(data)  # it would be the accuracy multiplied by the number of pixels
    right = {"pixels": lambda y, t: (y.argmax(1) == t).float().mean((1, 2))}
    assert 0 <= run.evaluate(data, right)["pixels"] <= 1


LAYOUTS = [{"devices": 2}, {"devices": 2, "store": "device", "capture": True},
           {"devices": 1, "replicas": 3, "capture": True}, {"devices": "emu:0-1"},
           {"devices": "emu:0-1", "store": "device"}]  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_on_step_sees_the_values_after_the_update_and_computes_as_one(layout):
    def seen(**layout):
        dp.manual_seed(0)
        model = mlp("float64", 9, nn.BatchNorm1d(9))
        run, found = scheduler(model, **layout), []
        average = optim.swa_utils.AveragedModel(model)

        def look(progress):
            average.update_parameters(model)
            loss = nn.functional.cross_entropy(model(DATA[0][0]), DATA[0][1])
            slope = dp.grad(loss, [model[0].weight])[0]
            found.extend([loss.item(), slope.norm().item(), model[0].weight.norm().item()])

        run.run(DATA, on_step=look)
        return np.concatenate([flat(average), flat(model), found])

    np.testing.assert_allclose(seen(**layout), seen(devices=1), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_on_step_may_change_parameters_and_state_in_any_way(layout):
    def states(run):
        return run.optimizer.state.values()

    def clamped(run):
        with dp.no_grad():
            run.model[0].weight.clamp_(-0.2, 0.2)

    for way in [
        clamped, lambda run: run.model[0].weight.data.clamp_(-0.2, 0.2),
        lambda run: [each["momentum_buffer"].mul_(0.5) for each in states(run)],
        lambda run: [each["momentum_buffer"].data.mul_(0.5) for each in states(run)],
    ]:  # fmt: skip
        results = []
        for given in (layout, {"devices": 1}):
            run = scheduler(mlp(), **given)
            run.run(DATA, on_step=lambda progress, way=way, run=run: way(run))
            run.check_replicas()
            results.append(flat(run.model))
        np.testing.assert_allclose(*results, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_loader_may_ask_the_model(layout):
    def given(model):
        for x, y in DATA:
            x = x.detach().requires_grad_()
            (slope,) = dp.grad(nn.functional.cross_entropy(model(x), y), x)
            yield x.detach() + 0.1 * slope.sign(), model(x).argmax(1)

    results = []
    for each in (layout, {"devices": 1}):
        model = mlp("float64", 9, nn.BatchNorm1d(9))
        scheduler(model, **each).run(given(model))
        results.append(flat(model))
    np.testing.assert_allclose(*results, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("layout", [{"devices": 1}, *LAYOUTS], ids=str)
def test_noise_of_a_loader_is_not_that_of_the_step(layout):
    class Noisy(nn.Linear):
        def forward(self, x, noise):
            drawn.append((mode.replica.first_row, mode.replica.step, noise.numpy(),
                          dp.rand(*x.shape, batch_dim=0).numpy()))  # fmt: skip
            return super().forward(x)

    def given():
        for x, y in DATA:
            yield x, dp.rand(*x.shape, batch_dim=0), y

    found = []
    for each in ({**layout, "capture": False}, {"devices": 1}):
        drawn = []
        dp.manual_seed(0)
        run = scheduler(Noisy(FEATURES, CLASSES).double(), **each)
        run.run(given())
        assert all((noise != own).any() for _, _, noise, own in drawn)
        drawn.sort(key=lambda row: (row[1], row[0]))
        found.append([np.concatenate([row[i] for row in drawn]) for i in (2, 3)])
        assert len(np.unique(found[-1])) == 2 * len(DATA) * 8 * FEATURES
    np.testing.assert_array_equal(*found)
