"""A failure ends everything, changes nothing, and says where it happened."""

import threading
import time

import numpy as np
import pytest
from training import adam, batches, everything, flat, mlp, replica_threads, scheduler

import minidp as dp
from minidp import Tensor, nn, optim
from minidp.data import DataLoader, TensorDataset
from minidp.errors import ReplicaError
from minidp.mode import mode
from minidp.testing import inject

DATA = batches(8, 9)
LAYOUTS = [{"devices": 2}, {"devices": 3, "store": "device"}, {"devices": 2, "replicas": 4}]


class Planned(Exception):
    pass


class Fragile(nn.Module):
    """A model whose forward fails where ``bad`` says so."""

    def __init__(self):
        super().__init__()
        self.net = mlp("float64", 9, nn.BatchNorm1d(9), nn.Dropout(0.3))
        self.bad = None

    def forward(self, x):
        step, rank = mode.replica.step, mode.replica.rank
        y = self.net(x)
        if self.bad == (step, rank):
            raise Planned("forward")
        return y


def fresh(layout, loss=None, **more):
    return scheduler(Fragile(), loss, adam, **layout, **more)


def reference(layout):
    """Four good steps, and what they and three more lead to."""
    run = fresh(layout)
    run.run(DATA[:4])
    before = everything(run)
    run.run(DATA[5:8])
    return before, everything(run)


def check(layout, prepare, error, note=None, **options):
    """What ``prepare`` returns raises after four good steps; then all goes on as if it had not."""
    before, after = reference(layout)
    run = fresh(layout, **options)
    fail = prepare(run)
    began = time.monotonic()
    with pytest.raises(error) as caught:
        fail()
    assert time.monotonic() - began < 3  # the good steps take some time too
    assert replica_threads() == []
    assert note is None or any(note in each for each in caught.value.__notes__)
    assert everything(run) == before
    run.model.bad = None
    run.run(DATA[5:8])
    assert everything(run) == after
    return caught


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("rank", [0, 1])
def test_a_forward_that_raises(layout, rank):
    def prepare(run):
        run.model.bad = (5, rank)
        return lambda: run.run(DATA)

    place = "cpu:0" if rank == 0 or "replicas" in layout else f"cpu:{rank}"
    note = f"in replica {rank} on {place}, step 5"
    caught = check(layout, prepare, Planned, note)
    assert "forward" in [entry.name for entry in caught.traceback]


def test_a_loader_that_raises():
    def loader():
        yield from DATA[:4]
        raise Planned("loader")

    caught = check(LAYOUTS[0], lambda run: lambda: run.run(loader()), Planned, "step 5")
    assert "loader" in [entry.name for entry in caught.traceback]


def test_a_loss_that_raises():
    def loss(y, t):
        if armed and mode.replica.step == 5 and mode.replica.rank == 1:
            armed.clear()
            raise Planned("loss")
        return nn.functional.cross_entropy(y, t)

    armed = ["once"]
    note = "in replica 1 on cpu:1, step 5"
    check(LAYOUTS[0], lambda run: lambda: run.run(DATA), Planned, note, loss=loss)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_not_a_number(layout):
    bad = DATA[4][0].numpy().copy()
    bad[-1, 0] = np.nan
    data = [*DATA[:4], (Tensor(bad), DATA[4][1])]
    check(layout, lambda run: lambda: run.run(data), ReplicaError, "step 5", nan="raise")


def test_a_gradient_that_is_not_finite():
    def loss(y, t):
        zero = (y * 0).sum() if mode.replica.step == 5 else (y * 0 + 1).sum()
        return nn.functional.cross_entropy(y, t) + 0 * zero.sqrt()

    run = scheduler(mlp(), loss, devices=2, nan="raise")
    run.run(DATA[:4])
    before = everything(run)
    with pytest.raises(ReplicaError, match="the gradient of parameter 2"):
        run.run(DATA[4:])
    assert everything(run) == before


def test_labels_out_of_range():
    data = [*DATA[:4], (DATA[4][0], Tensor(np.full(8, 77)))]
    check(LAYOUTS[0], lambda run: lambda: run.run(data), ValueError, "step 5")


def test_ranks_that_go_separate_ways():
    def model(kind):
        class Odd(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = mlp()

            def forward(self, x):
                replica = mode.replica
                if replica.step == 2 and replica.rank == 1:
                    if kind == "another":
                        replica.comm.broadcast(np.zeros(3), "odd").wait()
                    else:
                        replica.comm.all_reduce(np.zeros(3), "more").wait()
                elif replica.step == 2 and kind == "another":
                    replica.comm.all_reduce(np.zeros(3), "odd").wait()
                return self.net(x)

        return Odd()

    for kind in ("another", "one more"):
        run = scheduler(model(kind), devices=2)
        run.run(DATA[:1])
        before = everything(run)
        began = time.monotonic()
        with pytest.raises(ReplicaError, match=r"must go through the same collectives"):
            run.run(DATA)
        assert time.monotonic() - began < 2.5 and replica_threads() == []
        assert everything(run) == before


def test_a_replica_in_a_long_forward_cannot_disturb_the_next_run():
    """Its thread cannot be ended, but it holds nothing that a later run uses."""
    release = threading.Event()

    class Slow(Fragile):
        def forward(self, x):
            replica = mode.replica
            if replica.step == 5 and replica.rank == 1 and not release.is_set():
                release.wait(5)
            return super().forward(x)

    expected = reference(LAYOUTS[0])[1]
    run = scheduler(Slow(), None, adam, devices=2)
    run.model.bad = (5, 0)
    with pytest.raises(BaseException) as caught:  # batch norm waits for the other: watch ends it
        began = time.monotonic()
        run.run(DATA, watch=lambda p: (_ for _ in ()).throw(Planned()) if p.steps == 4 else None)
    assert caught.type is Planned and time.monotonic() - began < 4
    release.set()
    run.model.bad = None
    run.run(DATA[5:8])
    assert everything(run) == expected
    assert replica_threads() == []


def test_a_late_replica_is_named_with_its_stack():
    def straggler(x):
        if mode.replica.rank == 1 and mode.replica.step == 2:
            time.sleep(1.2)
        return net(x)

    net = mlp()
    make = lambda **more: dp.Scheduler(  # noqa: E731
        straggler, nn.CrossEntropyLoss(), optim.SGD(net.parameters(), lr=0.1), 2, **more
    )
    with pytest.warns(UserWarning, match=r"(?s)for replica\(s\) 1 to reach.*straggler"):
        make(warn_after=0.3).run(DATA[:2])
    before = flat(net).tobytes()
    dp.manual_seed(0)
    began = time.monotonic()
    with pytest.raises(ReplicaError, match=r"(?s)for replica\(s\) 1 to reach.*straggler"):
        make(warn_after=5, deadline=0.4).run(DATA[:2])
    assert time.monotonic() - began < 2.5
    assert flat(net).tobytes() != before  # the first step was good


def test_evaluation_that_fails_leaves_the_modes():
    run = fresh(LAYOUTS[0])
    before = everything(run)
    with pytest.raises(Planned):
        run.evaluate(DATA, {"odd": lambda y, t: (_ for _ in ()).throw(Planned())})
    assert everything(run) == before and all(m.training for m in run.model.modules())


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_the_loader_stays_at_the_step_that_failed(layout):
    data = TensorDataset(*(dp.cat(each) for each in zip(*batches(8, 4), strict=True)))
    loader, whole = (DataLoader(data, 5, shuffle=True, seed=4) for _ in range(2))
    straight = fresh(layout)
    straight.run(whole)
    run = fresh(layout)
    with inject("raise", replica=1, step=4, at="update"), pytest.raises(ReplicaError):
        run.run(loader)
    assert loader.state_dict()["batch"] == 3 and run.progress.steps == 3
    run.run(loader)
    assert everything(run) == everything(straight) and loader.state_dict() == whole.state_dict()
