"""Any number of replicas gives what one gives; equal numbers of replicas give equal bytes."""

import gc
import shutil
import threading
import weakref

import numpy as np
import pytest
from training import adam, batches, distance, everything, flat, gradient, mlp, scheduler, sgd

import minidp as dp
from minidp import Tensor, nn, optim
from minidp.errors import DeviceError, ReplicaError
from minidp.nn import functional as F
from minidp.parallel import host

LAYOUTS = [
    {"devices": 2},
    {"devices": 3, "store": "device"},
    {"devices": 5},
    {"devices": 2, "workload": [3, 1]},
    {"devices": 2, "replicas": 5},
    {"devices": 2, "replicas": 4, "store": "device"},
    {"devices": 1, "replicas": 3, "store": "device"},
]
NAMES = [" ".join(f"{k}={v}" for k, v in layout.items()) for layout in LAYOUTS]


def penalty(model):
    return sum((p * p).sum() for p in model.parameters())


def several_terms(model):
    """Means over different numbers of things, a penalty on weights, a function of a mean."""

    def loss(outputs, targets):
        kept = outputs.detach()[:, 0] > 0
        first = dp.mean(F.cross_entropy(outputs, targets, reduction="none") * kept, kept)
        every = F.cross_entropy(outputs, targets, reduction="none")
        overall = dp.mean(every, Tensor(np.ones(len(targets))))
        bent = (overall * overall).exp() * 0.1
        return first + outputs.square().mean() + 0.01 * penalty(model) + bent

    return loss


CLASS_WEIGHTS = Tensor(np.array([0.5, 2.0, 1.0, 0.25]))
LOSSES = {
    "mean": lambda model: nn.CrossEntropyLoss(),
    "class weights, ignored labels": lambda model: nn.CrossEntropyLoss(
        CLASS_WEIGHTS, ignore_index=1
    ),
    "sum": lambda model: nn.CrossEntropyLoss(reduction="sum"),
    "own mean": lambda model: lambda y, t: F.cross_entropy(y, t, reduction="none").mean(),
    "several terms": several_terms,
}


def train(layout, rows=13, steps=6, loss=None, optimizer=sgd, dtype="float64", model=None):
    model = model or mlp(dtype)
    run = scheduler(model, loss and loss(model), optimizer, **layout)
    for x, y in batches(rows, steps, dtype):
        last = float(run(x, y))
    return flat(model), last


@pytest.mark.parametrize("optimizer", [sgd, adam])
@pytest.mark.parametrize("layout", LAYOUTS, ids=NAMES)
def test_twenty_steps(layout, optimizer):
    for rows in (13, 7, 2, 1):
        ours, loss = train(layout, rows, 20, optimizer=optimizer)
        theirs, expected = train({"devices": 1}, rows, 20, optimizer=optimizer)
        assert distance(ours, theirs) < 1e-12 and abs(loss - expected) < 1e-12


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("layout", LAYOUTS, ids=NAMES)
def test_losses(layout, loss):
    ours, value = train(layout, loss=loss, optimizer=adam)
    theirs, expected = train({"devices": 1}, loss=loss, optimizer=adam)
    assert distance(ours, theirs) < 1e-12 and abs(value - expected) < 1e-9


def plain_loop(rows, steps, loss):
    """The same training without any replica."""
    model = mlp()
    optimizer, criterion = adam(model.parameters()), loss(model)
    for x, y in batches(rows, steps):
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
    return flat(model)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_one_replica_is_the_plain_loop(loss):
    ours, _ = train({"devices": 1}, loss=loss, optimizer=adam)
    assert distance(ours, plain_loop(13, 6, loss)) < 1e-12


def test_a_replica_with_ignored_labels_only():
    (x, _), *_ = batches(6, 1)
    labels = Tensor(np.array([0, 1, 2, -100, -100, -100]))
    results = []
    for devices in (1, 2):
        run = scheduler(mlp(), devices=devices)
        run(x, labels)
        results.append(flat(run.model))
    assert distance(results[1], results[0]) < 1e-12


def deep(kind):
    extra = {"batch norm": nn.BatchNorm1d(9), "dropout": nn.Dropout(0.5)}[kind]
    return mlp("float64", 9, extra)


@pytest.mark.parametrize("kind", ["batch norm", "dropout"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=NAMES)
def test_layers_that_look_beyond_a_row(layout, kind):
    ours, _ = train(layout, 7, model=deep(kind))
    theirs, _ = train({"devices": 1}, 7, model=deep(kind))
    assert distance(ours, theirs) < 1e-12


@pytest.mark.parametrize("layout", LAYOUTS, ids=NAMES)
def test_first_gradient_in_float32(layout):
    gradients = []
    for each in (layout, {"devices": 1}):
        run = scheduler(mlp("float32", 300), **each)
        run(*batches(13, 1, "float32")[0])
        gradients.append(gradient(run.model))
    assert distance(*gradients) < 1e-6


def test_bytes_depend_on_the_number_of_replicas_alone():
    def result(devices, **more):
        layout = {"devices": devices, "replicas": 6, **more}
        model = mlp("float32", 300, nn.Dropout(0.3))
        return train(layout, dtype="float32", model=model)[0].tobytes()

    first = result(1)
    assert all(result(devices) == first for devices in (1, 2, 3, 6))
    assert result(3, workload=[1, 3, 2]) == first
    for store in ("local", "device"):  # the first device runs no replica
        assert result(3, workload=[0, 1, 2], store=store) == first


def test_large_buckets_are_reduced_in_slices(monkeypatch):
    monkeypatch.setattr(host, "SMALL", 8)
    ours, _ = train({"devices": 3})
    theirs, _ = train({"devices": 1})
    assert distance(ours, theirs) < 1e-12


def test_run_is_a_loop_of_calls():
    data = [*batches(8, 3), *batches(3, 1)]
    one, two = scheduler(mlp(), devices=2), scheduler(mlp(), devices=2)
    called = [float(one(x, y)) for _ in range(2) for x, y in data]
    dp.manual_seed(7)
    seen = []
    means = two.run(data, 2, on_epoch=lambda progress: seen.append((progress.epoch, progress.rows)))
    assert flat(one.model).tobytes() == flat(two.model).tobytes()
    weights = np.array([8, 8, 8, 3])
    expected = [np.average(part, weights=weights) for part in (called[:4], called[4:])]
    assert np.allclose(means, expected, rtol=1e-12) and seen == [(0, 27), (1, 27)]


def test_learning_rates():
    """Groups with rates of their own, changed between steps."""
    results = []
    for layout in ({"devices": 1}, {"devices": 3}, {"devices": 2, "store": "device"}):
        model = mlp()
        parameters = list(model.parameters())
        groups = [{"params": parameters[:2], "lr": 0.01}, {"params": parameters[2:]}]
        run = scheduler(model, optimizer=optim.SGD(groups, lr=0.3, momentum=0.9), **layout)
        for i, (x, y) in enumerate(batches(7, 4)):
            run.optimizer.param_groups[1]["lr"] = 0.3 / (i + 1)
            run(x, y)
        results.append(flat(model))
    assert max(distance(each, results[0]) for each in results[1:]) < 1e-12


def evaluate(layout, data):
    run = scheduler(mlp("float64", 9, nn.Dropout(0.5)), **layout)
    metrics = {"accuracy": lambda y, t: y.argmax(1) == t, "rows": lambda y, t: len(y)}
    run.model[0].eval()
    before = everything(run)
    result = run.evaluate(data, metrics)
    assert everything(run) == before
    assert run.model.training and run.model[2].training and not run.model[0].training
    return result


@pytest.mark.parametrize("layout", LAYOUTS, ids=NAMES)
def test_evaluate_counts_every_row_once(layout):
    data = [*batches(13, 2), *batches(2, 1), *batches(0, 1)]
    found = evaluate(layout, data)
    model = mlp("float64", 9, nn.Dropout(0.5)).eval()
    outputs = [(model(x), y) for x, y in data if len(x)]
    losses = [F.cross_entropy(o, y, reduction="none").detach().numpy() for o, y in outputs]
    right = sum(int((o.argmax(1) == y).sum()) for o, y in outputs)
    assert found["loss"] == pytest.approx(np.concatenate(losses).mean(), rel=1e-12)
    assert found["accuracy"] == right / 28 and found["rows"] == 1.0


def test_batches_of_tuples_and_dicts():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = mlp()

        def forward(self, batch):
            return self.net(batch["left"] + batch["pair"][0])

    def loss(outputs, targets):
        return F.cross_entropy(outputs, targets[0])

    results = []
    for devices in (1, 3):
        run = scheduler(Two(), loss, devices=devices)
        for x, y in batches(7, 2):
            run({"left": x, "pair": (x.numpy(), x)}, (y, y))
        results.append(flat(run.model))
    assert distance(results[1], results[0]) < 1e-12


def test_empty_loaders_and_batches():
    run = scheduler(mlp(), devices=2)
    before = everything(run)
    assert np.isnan(run.run([])[0])
    with pytest.raises(ReplicaError, match="without rows"):
        run(*batches(0, 1)[0])
    with pytest.raises(ReplicaError, match="no rows"):
        run.evaluate([])
    assert everything(run) == before


def test_nothing_piles_up(no_collector):
    run = scheduler(mlp(), devices=2)
    data = batches(5, 100)
    run.run(data)
    threads, objects = threading.active_count(), len(gc.get_objects())
    run.run(data, 2)
    for x, y in data[:20]:
        run(x, y)
    assert threading.active_count() == threads and len(gc.get_objects()) < objects + 200
    gone = [weakref.ref(run), weakref.ref(run.buckets[0]), weakref.ref(run.ends[0][0])]
    del run
    assert [each() for each in gone] == [None] * 3


def test_emulated_devices():
    if shutil.which("g++") is None:
        pytest.skip("the emulator needs g++")
    reference, _ = train({"devices": 2}, dtype="float32")
    for layout in ({}, {"store": "device"}, {"store": "device", "replicas": 3}):
        ours, _ = train({"devices": "emu:0-1", **layout}, dtype="float32")
        assert distance(ours, reference) < 1e-4


def test_what_the_scheduler_refuses():
    model = mlp()
    with pytest.raises(ReplicaError, match="not in the optimizer"):
        scheduler(model, optimizer=sgd(list(model.parameters())[:1]))
    with pytest.raises(ReplicaError, match="expected None, 'raise' or 'skip'"):
        scheduler(model, nan="ignore")
    with pytest.raises(ReplicaError, match="at least 1"):
        scheduler(model, replicas=0)
    assert "2 replica(s) on cpu:0, cpu:1" in repr(scheduler(model, devices=2))


@pytest.mark.parametrize("devices", [0, [], (), "cpu:0,cpu:0", "cpu:0,emu:0", "tpu", 1.5])
def test_devices_that_nobody_has(devices):
    with pytest.raises(DeviceError, match="device"):
        scheduler(mlp(), devices=devices)
