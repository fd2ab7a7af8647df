"""What random and hostile use of the scheduler has found, each with its right value."""

import gc

import numpy as np
import pytest
from training import batches, distance, flat, mlp, scheduler

import minidp as dp
from minidp import nn, optim
from minidp.data import DataLoader, TensorDataset
from minidp.errors import ReplicaError
from minidp.nn import functional as F
from minidp.parallel.inspections import LEAST_SCALE, Scale
from minidp.testing import inject

DATA = batches(9, 6)


def root(outputs, targets):
    """A loss that nobody can tell the denominator of."""
    each = F.cross_entropy(outputs, targets, reduction="none")
    return dp.mean(each, weight=targets + 1.0).sqrt()


def trained(data=DATA, loss=None, more=(), **options):
    run = scheduler(mlp("float64", 9, *more), loss, **options)
    losses = [float(run(x, y)) for x, y in data]
    return run, losses


@pytest.mark.parametrize("capture", [False, True])
@pytest.mark.parametrize("scale", [None, 64.0])
def test_parts_with_a_loss_scale_and_equal_batches(capture, scale):
    data = [DATA[0], DATA[0], DATA[0], *DATA[1:], *DATA]  # equal ones made two recordings agree
    alone, expected = trained(data, root)
    run, losses = trained(data, root, devices=2, accumulate=3, capture=capture, loss_scale=scale)
    assert losses == pytest.approx(expected, rel=1e-10)
    assert distance(flat(run.model), flat(alone.model)) < 1e-12
    assert not capture or all(step.replays for step in run.replays.captured)


@pytest.mark.parametrize("capture", [False, True])
def test_parts_on_devices_with_memory_of_their_own(capture):
    alone, _ = trained(loss=root)
    run, _ = trained(loss=root, devices="emu:0-1", accumulate=2, capture=capture)
    assert distance(flat(run.model), flat(alone.model)) < 1e-12


def test_known_denominators_need_one_forward_of_each_part():
    calls = []

    class Counted(nn.Linear):
        def forward(self, x):
            calls.append(len(x))
            return super().forward(x)

    run = scheduler(Counted(6, 2).double(), nn.MSELoss(), devices=1, accumulate=2)
    run(DATA[0][0], dp.zeros(9, 2).double())
    assert calls == [5, 4]


def test_local_statistics_of_parts_are_gathered_once():
    def found(loss):
        run, _ = trained(loss=loss, more=[nn.BatchNorm1d(9, sync=False)], devices=2, accumulate=2)
        return flat(run.model)

    assert np.array_equal(found(F.cross_entropy), found(nn.CrossEntropyLoss()))


@pytest.mark.parametrize("workload", [[1, 8], [8, 1]])
def test_whoever_acts_for_all_has_run_every_part(workload):
    run, _ = trained(more=[nn.BatchNorm1d(9)], devices=2, workload=workload, accumulate=3)
    assert run.model[2].num_batches_tracked.item() == 3 * len(DATA)


def test_denominators_keep_their_digits_in_captured_steps():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            dp.manual_seed(3)
            self.first, self.last = nn.Linear(6, 4).double(), nn.Linear(4, 4).half()

        def forward(self, x):
            return self.first(x) + self.last(self.first(x).half()).double()

    weight, found = dp.tensor([0.1234567, 0.3, 1, 0.7]).double(), []
    for capture in (False, True):
        run = scheduler(Mixed(), nn.CrossEntropyLoss(weight), devices=2, capture=capture)
        found.append([float(run(x, y)) for x, y in DATA])
    assert found[0] == found[1]


def test_what_is_whole_is_known_by_its_value():
    class Power(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = mlp()

        def forward(self, x, power):
            return self.net(x**power)

    run = scheduler(Power(), devices=2, capture=True)
    for x, y in DATA:
        run(x, dp.Whole(2), y)
    assert [steps.allowed for steps in run.replays._steps.values()] == [True]
    for step in range(30):
        run(x, dp.Whole(step), y)
    assert len(run.replays._steps) < 10
    with pytest.raises(TypeError, match="unhashable type: 'set': the arguments of a captured"):
        run(x, dp.Whole({2}), y)


@pytest.mark.parametrize("options", [{"clip_norm": 0.01}, {"loss_scale": "dynamic"},
                                     {"nan": "skip"}], ids=str)  # fmt: skip
def test_verification_sees_gradients_before_they_are_inspected(options):
    data = batches(8, 3)
    if options.get("nan"):
        data[0][0].numpy()[0] = np.nan
    run = scheduler(mlp(), devices=2, verify=True, **options)
    run.run(data)
    assert run.progress.steps == 3
    good = [each.good for each in run.inspections if hasattr(each, "good")]
    assert good in ([], [3])  # verification has moved no scale


def test_a_loss_that_is_not_finite_is_skipped_too():
    def loss(outputs, targets):
        return F.cross_entropy(outputs, targets) + (float("nan") if len(seen) == 1 else 0.0)

    seen, run = [], scheduler(mlp(), loss, devices=2, nan="skip")
    run.run(DATA[:3], on_step=lambda progress: seen.append(progress.loss))
    assert run.progress.skipped == 1 and np.isfinite(run.progress.mean_loss)


def factor(run):
    return next(each for each in run.inspections if isinstance(each, Scale))


def test_a_dynamic_scale_is_not_mistaken_for_a_bad_gradient():
    run = scheduler(mlp("float16"), devices=2, loss_scale="dynamic", nan="raise")
    scale = factor(run)
    scale.factor = 2.0**24
    run.run(batches(8, 12, "float16"))
    assert 0 < run.progress.skipped < 12 and scale.factor < 2.0**24
    bad = batches(8, 1)
    bad[0][0].numpy()[0] = np.nan
    run = scheduler(mlp(), devices=2, loss_scale="dynamic")
    with pytest.raises(ReplicaError, match="not finite, whatever the loss scale"):
        run.run(bad * 60)
    assert factor(run).factor == LEAST_SCALE


def test_evaluation_reads_all_rows_of_a_loader_that_was_left_midway():
    def leave(progress):
        if progress.steps == 2:
            raise KeyError("enough")

    x, y = batches(20, 1)[0]
    loader = DataLoader(TensorDataset(x, y), batch_size=4, shuffle=True)
    run, rows = scheduler(mlp(), devices=2), []
    with pytest.raises(KeyError):
        run.run(loader, on_step=leave)
    before = loader.state_dict()
    run.evaluate(loader, {"rows": lambda outputs, targets: rows.append(len(targets)) or targets})
    assert sum(rows) == 20 and loader.state_dict() == before


def test_copies_after_a_step_that_failed():
    run = scheduler(mlp(), devices=3, store="device")
    run(*DATA[0])
    step = dp.default_generator.step + 1
    with inject("raise", step=step, at="update"), pytest.raises(ReplicaError):
        run(*DATA[1])
    run.check_replicas()


def test_a_step_without_a_backward_is_refused():
    model = mlp()
    one, two = (optim.SGD(model[i].parameters(), 0.1) for i in (0, 2))

    def program(world):
        net = world.replicate(model)
        for x, y in world.shard(DATA):
            F.cross_entropy(net(x), y).backward()
            one.step()
            two.step()

    with pytest.raises(ReplicaError, match=r"backward\(\) has reached no parameter since"):
        dp.launch(program, devices=2)


def test_norms_below_one_nobody_means():
    def program(world):
        net = world.replicate(model)
        F.cross_entropy(net(x), y).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.1, norm_type=-np.inf)

    model, (x, y) = mlp(), DATA[0]
    with pytest.raises(ReplicaError, match="norm of order -inf: expected one above 0"):
        dp.launch(program, devices=2)


@pytest.mark.parametrize("loss, what", [
    (nn.CrossEntropyLoss(reduction="none"), r"a tensor of shape \(5,\)"),
    (lambda outputs, targets: 1.0, "1.0"),
    (lambda outputs, targets: None, "None"),
])  # fmt: skip
def test_what_is_no_loss(loss, what):
    with pytest.raises(ReplicaError, match=rf"the loss gave {what}: .*reduction='mean'"):
        scheduler(mlp(), loss, devices=1)(DATA[0][0][:5], DATA[0][1][:5])


@pytest.mark.parametrize("options", [
    {"warn_after": "soon"}, {"warn_after": 0}, {"deadline": None}, {"deadline": -1},
    {"replicas": True}, {"store": ["local"]}, {"workload": 3}, {"bucket_kib": (1, 2, 3)},
], ids=str)  # fmt: skip
def test_options_that_are_refused(options):
    with pytest.raises(ReplicaError, match=next(iter(options))):
        scheduler(mlp(), **{"devices": 2, **options})


def test_failures_leave_no_cycles(no_collector):
    run = scheduler(mlp(), devices=2)
    run.run(DATA)
    gc.collect()
    for number in range(20):
        step = dp.default_generator.step + 1
        try:
            with inject("raise", replica=number % 2, step=step, at="update"):
                run.run(DATA[:2])
        except ReplicaError:
            continue
    assert gc.collect() == 0


def test_a_rule_that_raises_says_that_the_step_may_not_be_whole():
    class Rule(optim.SGD):
        def update(self, *given):
            if run.progress.steps == 2:
                raise MemoryError("no room")
            super().update(*given)

    model = mlp()
    run = dp.Scheduler(model, nn.CrossEntropyLoss(), Rule(model.parameters(), 0.1), devices=2)
    with pytest.raises(MemoryError, match="no room") as caught:
        run.run(DATA)
    assert "optimizer's rule" in caught.value.__notes__[0] and run.progress.steps == 2


def test_loaders_that_cannot_be_run():
    run = scheduler(mlp(), devices=2)
    with pytest.raises(ReplicaError, match=r"generator, epochs=2.*gives its batches once"):
        run.run((each for each in DATA), 2)
    with pytest.raises(ReplicaError, match=r"run\(None\): expected a loader"):
        run.run(None)
    assert len(run.run(iter(DATA))) == 1


def test_the_default_metric_is_of_classes():
    model = nn.Sequential(*mlp(), nn.Flatten(0))
    run = scheduler(model, lambda outputs, targets: (outputs**2).mean(), devices=2)
    with pytest.raises(ReplicaError, match=r"outputs \(rows, classes\).*shape \((16|20),\)"):
        run.evaluate(DATA)
    assert run.evaluate(DATA, {})["loss"] > 0


class Normed(nn.Module):
    """Rows divided by a mean over all rows, which may be detached."""

    def __init__(self, detached):
        super().__init__()
        self.body, self.detached = mlp(), detached

    def forward(self, x):
        size = dp.mean(self.body(x) ** 2, dp.ones(len(x), 4, dtype=x.dtype))
        return self.body(x) / (size.detach() if self.detached else size)


@pytest.mark.parametrize("capture", [False, True])
def test_means_in_a_model_whose_loss_is_known_are_those_of_all_parts(capture):
    def run(detached, **options):
        train = scheduler(Normed(detached), nn.CrossEntropyLoss(), **options)
        losses = [float(train(*DATA[i % 2])) for i in range(5)]
        return np.array([*losses, *flat(train.model)])

    options = {"devices": 2, "accumulate": 3, "capture": capture}
    assert distance(run(True, **options), run(True)) < 1e-11
    with pytest.raises(ReplicaError, match="depend on sum 1 over all rows in a way of their own"):
        run(False, **options)
    assert distance(run(False, devices=2, capture=capture), run(False)) < 1e-11


SPLITS = [{"devices": 3}, {"accumulate": 2, "devices": 2},
          {"devices": 2, "workload": [3, 1], "capture": True}]  # fmt: skip


@pytest.mark.parametrize("options", SPLITS)
def test_frequencies_of_rows_of_a_table_are_those_in_the_whole_batch(options):
    def run(**options):
        dp.manual_seed(0)
        model = nn.Sequential(nn.Embedding(7, 4, scale_grad_by_freq=True), nn.Flatten(),
                              nn.Linear(12, 2)).double()  # fmt: skip
        train = scheduler(model, nn.CrossEntropyLoss(), **options)
        numbers = np.random.default_rng(0).integers(0, 7, (9, 3))
        for _ in range(4):
            train(dp.tensor(numbers), dp.tensor(numbers[:, 0] % 2))
        return flat(model)

    assert distance(run(**options), run()) < 1e-12
