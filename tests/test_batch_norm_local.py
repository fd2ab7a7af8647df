"""Batch norm by each replica's own rows: no exchange in forward, one set of statistics kept."""

import numpy as np
import pytest
from training import batches, distance, everything, mlp, scheduler

import minidp as dp
from minidp import Tensor, nn
from minidp.errors import ReplicaError
from minidp.parallel.host import HostCommunicator

LAYOUTS = [{"devices": 2, "workload": [3, 1]}, {"devices": 3, "store": "device"}, {"devices": 1},
           {"devices": 2, "accumulate": 2}, {"devices": 2, "capture": True}]  # fmt: skip


def net(dtype="float64", **options):
    return mlp(dtype, 9, nn.BatchNorm1d(9, **options))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_running_statistics_are_those_of_all_rows(layout):
    """The mean and variance of what the layer was given, whatever each replica made of it."""
    run = scheduler(net(sync=False), **layout)
    first = run.model[0]
    for x, y in batches(13, 3):
        before = [b.detach().numpy().copy() for b in run.model[2].buffers()]
        given = first(x).relu().detach().numpy()
        run(x, y)
        expected = [given.mean(0), given.var(0, ddof=1)]
        for running, batch, old in zip(run.model[2].buffers(), expected, before, strict=False):
            assert distance(running.detach().numpy(), 0.9 * old + 0.1 * batch) < 1e-12
    assert int(run.model[2].num_batches_tracked) == 3


def test_rows_are_normalised_by_their_own_replica():
    (x, y), *_ = batches(8, 1)
    run = scheduler(net(sync=False), nn.CrossEntropyLoss(reduction="sum"), devices=2)
    expected = 0.0
    for rows in (slice(0, 4), slice(4, 8)):
        model = net(sync=False)
        expected += float(nn.CrossEntropyLoss(reduction="sum")(model(x[rows]), y[rows]))
    loss = float(run(x, y))
    assert loss == pytest.approx(expected, rel=1e-12)
    synced = scheduler(net(), nn.CrossEntropyLoss(reduction="sum"), devices=2)
    assert abs(float(synced(x, y)) - loss) > 1e-6


def test_one_exchange_a_step(monkeypatch):
    named = []
    whole = HostCommunicator.all_reduce

    def noted(self, array, name, *args, **options):
        named.append(name)
        return whole(self, array, name, *args, **options)

    monkeypatch.setattr(HostCommunicator, "all_reduce", noted)
    two = nn.BatchNorm1d(9, sync=False), nn.BatchNorm1d(9, sync=False)
    run = scheduler(mlp("float64", 9, *two), devices=2)
    run.run(batches(8, 3))
    assert named.count("sums at commit") == 2 * 3
    assert not [name for name in named if "batch norm" in name]


def test_bytes_do_not_depend_on_devices():
    found = set()
    for devices in (1, 2, 3):
        run = scheduler(net("float32", sync=False), devices=devices, replicas=3)
        run.run(batches(8, 3, "float32"))
        found.add(everything(run)[0])
    assert len(found) == 1


def test_a_replica_of_one_row():
    run = scheduler(net(sync=False), devices=2)
    before = everything(run)
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        run(*batches(2, 1)[0])
    assert everything(run) == before
    synced = scheduler(net(), devices=2)
    assert np.isfinite(float(synced(*batches(2, 1)[0])))


class Torn(nn.Module):
    """Replicas that go through different layers."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.BatchNorm1d(6).double(), nn.BatchNorm1d(6).double()
        self.net = mlp()

    def forward(self, x):
        return self.net(self.left(x) if float(x[0, 0]) > 0 else self.right(x))


def test_diverging_replicas_name_both_modules():
    x = np.ones((6, 6))
    x[3:] = -1
    run = scheduler(Torn(), devices=2, unused="ignore")
    with pytest.raises(ReplicaError) as caught:
        run(Tensor(x), Tensor(np.zeros(6, int)))
    assert "'left: batch norm'" in str(caught.value)
    assert "'right: batch norm'" in str(caught.value)


def test_how_it_is_said():
    assert "sync=False" in repr(nn.BatchNorm2d(3, sync=False))
    assert "sync" not in repr(nn.BatchNorm2d(3))
    model = nn.Sequential(nn.BatchNorm2d(3, sync=False))
    assert nn.SyncBatchNorm.convert_sync_batchnorm(model)[0].sync


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_a_captured_step_replays_and_has_the_bytes_of_the_eager_one(replicas):
    rng, found = np.random.default_rng(0), []
    batches = [(rng.standard_normal((7, 5)).astype("f4"), rng.integers(0, 3, 7)) for _ in range(12)]
    for capture in (False, True):
        dp.manual_seed(0)
        model = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8, sync=False), nn.Linear(8, 3))
        train = dp.Scheduler(model, nn.CrossEntropyLoss(), dp.optim.SGD(model.parameters(), 0.1),
                             devices=replicas, capture=capture)  # fmt: skip
        train.run(batches)
        state = model.state_dict().values()
        found.append([np.asarray(value.detach()).tobytes() for value in state])
    assert found[0] == found[1]
    assert all(step.replays for step in train.replays.captured)
