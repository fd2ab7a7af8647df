"""What a scheduler finds out for its user: unused parameters, differences, costs, events."""

import json
import warnings
from contextlib import ExitStack
from functools import partial

import numpy as np
import pytest
from training import adam, batches, distance, everything, flat, mlp, scheduler, sgd

from minidp import nn, optim
from minidp.errors import ReplicaError
from minidp.parallel.timeline import analyse
from minidp.random import default_generator
from minidp.testing import inject

LAYOUTS = [{"devices": 1}, {"devices": 2}, {"devices": 3, "store": "device"}]


class Idle(nn.Module):
    """A model that leaves a layer out."""

    def __init__(self):
        super().__init__()
        self.net, self.spare = mlp(), nn.Linear(2, 2).double()

    def forward(self, x):
        return self.net(x)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_parameters_that_nothing_uses(layout):
    data = batches(7, 3)
    run = scheduler(Idle(), optimizer=sgd, **layout)
    before = flat(run.model.spare)
    with pytest.warns(UserWarning, match=r"spare\.(weight|bias), spare\.(weight|bias): they stay"):
        run.run(data[:1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run.run(data[1:])  # told once
        scheduler(Idle(), unused="ignore", **layout).run(data)
    assert np.array_equal(flat(run.model.spare), before) and run.model.spare.weight.grad is None
    strict = scheduler(Idle(), unused="error", **layout)
    state = everything(strict)
    with pytest.raises(ReplicaError, match=r"spare\.weight.*unused='error'"):
        strict.run(data)
    assert everything(strict) == state


def coupled(outputs, targets):
    """A loss that looks at several rows at once."""
    return ((outputs - outputs.mean(0)) ** 2).mean()


@pytest.mark.parametrize("layout", LAYOUTS[1:], ids=str)
def test_the_first_step_is_compared_with_one_replica(layout):
    data = batches(7, 3)
    run = scheduler(mlp(), coupled, adam, verify=True, **layout)
    before = everything(run)
    with pytest.raises(ReplicaError, match=r"verify: the gradient of parameter \S+ differs"):
        run.run(data)
    assert everything(run) == before
    checked, plain = (scheduler(mlp(), None, adam, verify=v, **layout) for v in (True, False))
    checked.run(data)
    plain.run(data)
    assert np.array_equal(flat(checked.model), flat(plain.model))


def test_copies_are_compared():
    run = scheduler(mlp("float32", 300), None, adam, devices=3, store="device")
    run.run(batches(7, 3, "float32"))
    run.check_replicas()
    end = run.ends[2][0]
    end.bucket.views(end.memory.data)[1][3] += 1
    with pytest.raises(ReplicaError, match=f"parameter {end.bucket.names[1]} differs between "
                                           "replicas 1 and 2, by up to 1"):  # fmt: skip
        run.check_replicas()


def note(run, prints, progress):
    prints.append(run.fingerprint())


def test_fingerprints_after_each_step():
    found = []
    for layout in ({"devices": 1}, {"devices": 2}, {"devices": 3}):
        run = scheduler(mlp("float32"), None, adam, replicas=3, **layout)
        found.append([])
        run.run(batches(7, 4, "float32"), on_step=partial(note, run, found[-1]))
    assert found[0] == found[1] == found[2] and len(set(found[0])) == 4


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_schedule_moves_between_steps(layout):
    def trained(**options):
        run = scheduler(mlp(), None, adam, **options)
        schedule = optim.lr_scheduler.LinearLR(run.optimizer, 0.1, total_iters=5)
        steps = []
        run.run(batches(7, 6), on_step=lambda p: (steps.append(p.steps), schedule.step()))
        assert steps == [1, 2, 3, 4, 5, 6]
        return flat(run.model)

    assert distance(trained(**layout), trained(devices=1)) < 1e-12


def test_what_raises_between_steps_leaves_whole_ones():
    run, straight = (scheduler(mlp(), None, adam, devices=2) for _ in range(2))
    data = batches(7, 5)

    def fail(progress):
        if progress.steps == 3:
            raise KeyError("planned")

    with pytest.raises(KeyError, match="planned"):
        run.run(data, on_step=fail)
    straight.run(data[:3])
    assert everything(run)[:3] == everything(straight)[:3]


def test_stats_and_the_log(tmp_path):
    run = scheduler(mlp("float64", 300), devices=2)
    assert run.stats() == {}
    before = default_generator.step
    run.run(batches(7, 20), 2, log=tmp_path / "log.jsonl")
    stats = run.stats()
    assert stats["steps"] == 20 and stats["rows"] == 140 and stats["skipped"] == 0
    assert stats["rows_per_second"] == pytest.approx(140 / stats["seconds"], abs=0.1)
    assert len(stats["busy"]) == 2 and all(0 <= share <= 1 for share in stats["busy"])
    assert stats["reduced"] == 20 * sum(b.master.data.nbytes for b in run.buckets)
    assert 0 < stats["exposed"] < stats["seconds"] and stats["peak_memory"] > 1e6
    assert stats["device_memory"] == {}  # CPU devices have no memory of their own
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    ends = [line for line in lines if line["steps"] == 20]
    assert [line["epoch"] for line in ends] == [0, 1]
    assert [line["step"] - before for line in ends] == [20, 40]
    assert ends[-1]["loss"] == run.progress.mean_loss
    alone = scheduler(mlp(), devices=1)
    alone.run(batches(7, 3))
    assert alone.stats()["reduced"] == 0


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_events_of_a_timeline(layout):
    data = batches(7, 3)
    run, plain = (scheduler(mlp("float64", 300), None, adam, **layout) for _ in range(2))
    with run.record() as recording:
        run.run(data)
    plain.run(data)
    assert np.array_equal(flat(run.model), flat(plain.model))  # to be watched changes nothing
    assert run.recording is None and len(recording.replicas) == layout["devices"]
    for rank in range(layout["devices"]):
        mine = [e for e in recording.events if e.replica == rank and e.step == 2]
        assert all(e.began <= e.ended for e in mine)
        forward = [e.name for e in mine if e.kind == "forward"]
        backward = [e.name for e in mine if e.kind == "backward"]
        assert sorted(forward) == ["", "0", "1", "2", "CrossEntropyLoss"]
        assert set(backward) >= {"", "0", "1", "2", "CrossEntropyLoss"}
        assert {e.detail for e in mine if e.name == "1"} == {"ReLU"}
        ready, updated = ({e.name for e in mine if e.kind == k} for k in ("ready", "update"))
        assert ready == updated
        (whole,) = [e for e in mine if e.kind == "forward" and e.name == ""]
        inner = [e for e in mine if e.kind == "forward" and e.name]
        assert all(whole.began <= e.began and e.ended <= whole.ended for e in inner)
    assert {e.kind for e in recording.events} >= {"load", "copy", "commit", "update"}
    if layout["devices"] > 1:
        assert {"reduce", "wait"} <= {e.kind for e in recording.events}


def test_only_steps_that_were_made_are_recorded():
    run = scheduler(mlp(), devices=2, replicas=3)
    run.run(batches(7, 2))
    with run.record() as recording:
        run.run(batches(7, 3))
        run.evaluate(batches(7, 2))
    assert {e.step for e in recording.events} == {3, 4, 5}
    assert sum(e.kind == "load" for e in recording.events) == 3


def test_steps_in_the_middle_of_a_pass_are_recorded():
    run, opened = scheduler(mlp(), devices=3), ExitStack()
    found = []

    def on_step(progress):
        if progress.steps == 2:
            found.append(opened.enter_context(run.record()))
        elif progress.steps == 4:
            opened.close()

    run.run(batches(7, 6), on_step=on_step)
    assert {e.step for e in found[0].events} == {3, 4}
    assert {e.replica for e in found[0].events} == {0, 1, 2}


def test_waits_bear_the_names_of_buckets_and_a_turn_on_a_device_is_a_stall():
    run = scheduler(mlp("float64", 300), None, adam, devices=2, replicas=4, bucket_kib=(1, 8))
    late = inject("delay", replica=3, step=2, at="bucket", bucket=1, seconds=0.1)
    with late, run.record() as recording:
        run.run(batches(8, 3))
    buckets = {e.name for e in recording.events if e.kind == "ready"}
    waits = [e for e in recording.events if e.kind == "wait"]
    assert {e.name for e in waits} - buckets <= {"end of step", "inspections", "loss"} | {
        e.name for e in waits if e.name.startswith("batch ")}
    longest = max((e for e in waits if e.replica == 0), key=lambda e: e.ended - e.began)
    assert longest.name in buckets and longest.ended - longest.began > 5e7
    stalls = {e.name for e in recording.events if e.kind == "stall"}
    assert stalls <= {"its turn on the device"} and stalls
    for rank in range(4):
        states = [e for e in waits if e.replica == rank]
        turns = [e for e in recording.events if (e.replica, e.kind) == (rank, "stall")]
        assert all(t.began >= w.ended or t.ended <= w.began for t in turns for w in states)


def test_a_captured_step_is_recorded_as_a_replay():
    run = scheduler(mlp(), devices=2, capture=True)
    with run.record() as recording:
        run.run(batches(8, 4))
    for step in range(1, 5):
        kinds = [e.kind for e in recording.events if e.step == step]
        assert kinds.count("replay") == 2 and "forward" not in kinds
    assert all(lane.time["compute"] > 0 for lane in analyse(recording)[2].lanes)


def test_next_to_nothing_is_recorded_otherwise():
    run = scheduler(mlp(), devices=2)
    with run.record() as recording:
        pass
    run.run(batches(7, 3))
    assert recording.events == []
