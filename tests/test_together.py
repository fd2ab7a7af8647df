"""Sums and updates in one native call leave the bytes of those one after the other; and lines that
other cores have are taken over, or asked for beforehand."""

import time

import numpy as np
import pytest
from test_native_runs import OPTIMIZERS
from training import everything

import minidp as dp
from minidp import nn, optim
from minidp.graph.program import native_calls
from minidp.mode import mode
from minidp.parallel import groups, native_copies, native_lines, together

if native_calls() is None:
    pytest.skip("compiled functions are switched off", allow_module_level=True)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(together, "LARGE", 1)


def batches(count=6, rows=7):
    rng = np.random.default_rng(0)
    return [(dp.tensor(rng.standard_normal((rows, 20)).astype("float32")),
             dp.tensor(rng.integers(0, 5, rows))) for _ in range(count)]  # fmt: skip


def mlp():
    return nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 5))


def scheduler(optimizer="momentum", make=mlp, **options):
    dp.manual_seed(0)
    model = make()
    made = OPTIMIZERS[optimizer](model.parameters())
    return dp.Scheduler(model, nn.CrossEntropyLoss(), made, **{"devices": 2, **options})


def native(train):
    """For each replica and bucket, whether its last update was one native call."""
    found = [end.together for ends in train.ends for end in ends]
    return {each is not None and any(table.bound is not None for table in each._tables.values())
            for each in found}  # fmt: skip


def both(monkeypatch, run, expected=True, **options):
    """What ``run(scheduler)`` leaves behind is the same where nothing is done together."""
    train = scheduler(**options)
    run(train)
    assert native(train) == {expected}
    monkeypatch.setattr(together, "LARGE", 2**40)
    apart = scheduler(**options)
    run(apart)
    assert native(apart) == {False} and everything(train) == everything(apart)
    return train


@pytest.mark.parametrize("replicas", [1, 2, 3, 5])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_rule_on_any_number_of_replicas(monkeypatch, optimizer, replicas):
    both(monkeypatch, lambda train: train.run(batches()), optimizer=optimizer, devices=replicas)


@pytest.mark.parametrize("options", [
    {"devices": 2, "replicas": 4}, {"bucket_kib": (0.1, 0.5)}, {"accumulate": 2},
    {"workload": [3, 1]},
], ids=str)  # fmt: skip
def test_in_many_kinds_of_run(monkeypatch, options):
    both(monkeypatch, lambda train: train.run(batches()), **options)


class Late(nn.Sequential):
    """A model that the second replica begins with later."""

    def forward(self, x):
        time.sleep(0.02 * (mode.replica is not None and mode.replica.rank))
        return super().forward(x)


def test_sums_made_during_backward_are_updated_in_the_same_call(monkeypatch):
    calls, run_all = [], native_calls().run_all
    monkeypatch.setattr(native_calls(), "run_all", lambda h: (calls.append(len(h)), run_all(h)))
    train = both(monkeypatch, lambda train: train.run(batches(6)), bucket_kib=0.01,
                 make=lambda: Late(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 32)))  # fmt: skip
    first, second = ([{*end.together._tables} for end in ends] for ends in train.ends)
    assert all(2 in made for made in first) and 1 in second[0] and 2 in second[-1]
    assert calls[-2:] == [4, 4]  # all buckets, of each replica


def test_an_optimiser_is_looked_at_once_a_step(monkeypatch):
    looks, look = [], groups.Groups.look
    monkeypatch.setattr(groups.Groups, "look", lambda own: (looks.append(1), look(own)))
    scheduler(devices=3).run(batches(4))
    assert len(looks) == 4


@pytest.mark.parametrize("rate", [0.1, dp.tensor(0.1)], ids=str)
def test_an_option_that_has_become_wrong_is_refused_in_the_next_step(rate):
    train = scheduler()
    group = train.optimizer.param_groups[0]
    group["lr"] = rate

    def spoil(progress):
        group["momentum"] = -0.5 if progress.steps == 3 else 0.5

    with pytest.raises(ValueError, match="Invalid momentum value"):
        train.run(batches(), on_step=spoil)
    assert train.progress.steps == 3


@pytest.mark.parametrize("options", [
    {"nan": "raise"}, {"clip_norm": 1.0}, {"loss_scale": 8.0}, {"store": "device"},
], ids=str)  # fmt: skip
def test_sums_that_are_looked_at_are_there_before(monkeypatch, options):
    both(monkeypatch, lambda train: train.run(batches()), expected=False, **options)


def test_a_timeline_shows_sums_and_updates_apart():
    train = scheduler()
    with train.record() as recording:
        train.run(batches())
    kinds = {event.kind for event in recording.events}
    assert native(train) == {False} and {"reduce", "update"} <= kinds


def test_numbers_move_and_options_are_put_back(monkeypatch):
    def run(train):
        group, kept = train.optimizer.param_groups[0], train.optimizer.state_dict()
        for step, batch in enumerate(batches()):
            group["lr"] = 0.1 / (1 + step)
            train(*batch)
        train.optimizer.load_state_dict(kept)  # groups are other dicts from now on
        train.optimizer.param_groups[0]["lr"] = 0.5
        train.run(batches())

    both(monkeypatch, run, optimizer="adam")


def test_options_that_move_each_step_need_no_new_calls(monkeypatch):
    made = []
    make = together._Table.make
    monkeypatch.setattr(together._Table, "make", lambda *a: (made.append(1), make(*a)))

    def run(train):
        for step, batch in enumerate(batches()):
            train.optimizer.param_groups[0]["momentum"] = 0.9 - 0.01 * step
            train(*batch)

    both(monkeypatch, run, expected=False)
    assert not made


class Half(nn.Module):
    """One of its layers is not used."""

    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.Linear(20, 5), nn.Linear(20, 5)

    def forward(self, x):
        return self.used(x)


def test_parameters_that_are_not_reached_stay_as_they_are(monkeypatch):
    def run(train):
        before = train.model.unused.weight.array.copy()
        train.run(batches())
        assert (train.model.unused.weight.array == before).all()
        assert train.model.unused.weight.grad is None

    both(monkeypatch, run, make=Half, unused="ignore")


class Mine(optim.SGD):
    """An optimiser of the user's own."""

    def update(self, data, grad, state, group, taken):
        data -= 0.1 * grad


def test_an_update_of_the_users_own_is_called():
    train = scheduler()
    own = dp.Scheduler(train.model, nn.CrossEntropyLoss(), Mine(train.model.parameters(), 0.1),
                       devices=2)  # fmt: skip
    before = train.model[0].weight.array.copy()
    for batch in batches():
        own(*batch)
        weight = train.model[0].weight
        assert np.array_equal(weight.array, before - 0.1 * weight.grad.numpy())
        before = weight.array.copy()
    assert native(own) == {False}


def test_state_that_is_kept_already_is_not_made_anew():
    train = scheduler()
    train.run(batches())
    parameter = train.model[0].weight
    kept = train.optimizer.state[parameter]["momentum_buffer"]
    train.run(batches())
    assert train.optimizer.state[parameter]["momentum_buffer"] is kept


class Counts(optim.SGD):
    """Counts parameters whose step it is told of."""

    told = 0

    def advance(self, parameter, arrays, group, steps=1):
        self.told += steps
        super().advance(parameter, arrays, group, steps)


def test_an_optimiser_of_the_users_own_is_told_of_each_step():
    model = mlp()
    own = Counts(model.parameters(), 0.1, momentum=0.9)
    dp.Scheduler(model, nn.CrossEntropyLoss(), own, devices=2).run(batches(5))
    assert own.told == 5 * 4


def test_optimisers_of_replicas_have_all_the_state_of_the_first():
    made = {}

    def program(world):
        net = world.replicate(model)
        own = made[world.rank] = optim.SGD(net.parameters(), 0.1, momentum=0.9)
        for step, (x, y) in enumerate(world.shard(batches(4))):
            nn.functional.cross_entropy(net(x), y).backward()
            if world.rank == 1:
                while ("optimizer", 0) not in world.exchange.shared:  # the other's is the first
                    time.sleep(1e-3)
                if step == 2:
                    own.load_state_dict(own.state_dict())  # which is a copy
            own.step()

    model = mlp()
    dp.launch(program, devices=2)
    first, second = ([made[rank].state[p]["momentum_buffer"].array for p in model.parameters()]
                     for rank in range(2))  # fmt: skip
    assert all(a is b for a, b in zip(first, second, strict=True))


# Cache lines


def texts(train):
    (_, step), *_ = train.replays._native.values()
    return [[note.text for note in table.placing.notes] for table in step.tables], step


def captured(near, monkeypatch, devices=2):
    monkeypatch.setattr(native_copies, "NEAR", near)
    train = scheduler(capture=True, devices=devices)
    data = batches(20)
    train.run(data)
    train.run(data)
    assert train.progress.native > 15
    return train


def test_lines_are_taken_over_where_they_stay_in_cache(monkeypatch):
    near, far = captured(2**17, monkeypatch), captured(0, monkeypatch)
    assert everything(near) == everything(far)
    for notes in texts(near)[0]:
        assert notes.count("take lines") == 1  # the other's gradients
    assert not any("take lines" in notes for notes in texts(far)[0])


def test_three_replicas_take_over_what_they_update_and_their_gradients_back(monkeypatch):
    near, far = captured(2**17, monkeypatch, 3), captured(0, monkeypatch, 3)
    assert everything(near) == everything(far)
    rows = texts(far)[0][0].count("fetch lines")
    for rank, notes in enumerate(texts(near)[0]):
        others = 2 if rank == 1 else 1  # what lies before its slice, and behind it
        assert notes.count("take lines") == 1 + others
        assert notes.count("fetch lines") == rows + others


def test_gradients_of_native_steps_begin_at_cache_lines(monkeypatch):
    for near, pieces in ((0, 1), (2**17, 2)):
        _, step = texts(captured(near, monkeypatch))
        gradients = [each for own in step.gradients for turns in own for each in turns]
        assert len(gradients) == 2 * pieces
        assert all(native_calls().start(each) % 64 == 0 for each in gradients)


def test_rows_of_the_next_step_are_asked_for_where_they_are_few(monkeypatch):
    assert all(notes.count("fetch lines") == 2 for notes in texts(captured(0, monkeypatch))[0])
    monkeypatch.setattr(native_lines, "ROWS", 100)
    assert not any("fetch lines" in notes for notes in texts(captured(0, monkeypatch))[0])
