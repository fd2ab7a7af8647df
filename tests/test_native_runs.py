"""Captured steps of a run that stay in native code from step to step: the bytes of eager steps, and
each step as a whole or not at all."""

import importlib
import threading
import time
import tracemalloc
import warnings

import numpy as np
import pytest
from test_capture import MODELS, batches
from training import everything

import minidp as dp
from minidp import nn, optim
from minidp.data import DataLoader, TensorDataset
from minidp.errors import ReplicaError
from minidp.graph.program import native_calls
from minidp.mode import mode
from minidp.parallel.chunk import Chunk
from minidp.parallel.exchange import Exchange
from minidp.parallel.native import NativeRuns
from minidp.parallel.native_table import Table
from minidp.testing import inject

if native_calls() is None:
    pytest.skip("compiled functions are switched off", allow_module_level=True)

OPTIMIZERS = {
    "plain": lambda p: optim.SGD(p, 0.05),
    "momentum": lambda p: optim.SGD(p, 0.05, momentum=0.9),
    "nesterov": lambda p: optim.SGD(p, 0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda p: optim.Adam(p, 0.01),
    "adamw": lambda p: optim.AdamW(p, 0.01, amsgrad=True, maximize=True),
    "nadam": lambda p: optim.NAdam(p, 0.01),
    "radam": lambda p: optim.RAdam(p, 0.01, weight_decay=0.1),
    "rmsprop": lambda p: optim.RMSprop(p, 0.01, momentum=0.5, centered=True),
    "adagrad": lambda p: optim.Adagrad(p, 0.02, lr_decay=0.1),
    "adadelta": lambda p: optim.Adadelta(p, 0.5),
    "adamax": lambda p: optim.Adamax(p, 0.01),
}


def scheduler(name="mlp", optimizer="momentum", loss=None, **options):
    dp.manual_seed(0)
    model = MODELS[name][0]()
    made = OPTIMIZERS[optimizer](model.parameters())
    return dp.Scheduler(model, loss or nn.CrossEntropyLoss(ignore_index=4), made, **options)


def outcome(train, passes):
    """All that the passes leave behind, and what they give."""
    losses = [train.run(data) for data in passes]
    progress = train.progress
    return everything(train), str((losses, progress.loss)), progress.steps, progress.rows


def both(passes, native=None, **options):
    """A captured run, which has run ``native`` steps of its last pass natively, if that is given,
    and leaves behind what the eager one does."""
    train = scheduler(**options, capture=True)
    found = outcome(train, passes)
    assert found == outcome(scheduler(**options), passes)
    assert native is None or train.progress.native == native
    return train


def passes_of(name="mlp", count=2, steps=40, sizes=(6,)):
    data = batches(MODELS[name][1], steps, sizes)
    return [data[i:] for i in range(count)]


@pytest.mark.parametrize("replicas", [1, 2, 3])
@pytest.mark.parametrize("name", ["mlp", "convolution", "batch norm", "dropout", "lstm", "gpt"])
def test_native_steps_equal_eager_ones_byte_for_byte(name, replicas):
    # of the second pass one step is recorded again, call 64
    both(passes_of(name), native=38, name=name, devices=replicas)


def test_updates_begin_with_what_was_computed_last(monkeypatch):
    blocks, append = {}, Table._append_update

    def note(table, update, block):
        blocks.setdefault(table.rank, []).append((update.place, block.start))
        append(table, update, block)

    monkeypatch.setattr(Table, "_append_update", note)
    dp.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 9000), nn.ReLU(), nn.Linear(9000, 5))
    made = optim.SGD(model.parameters(), 0.05, 0.9)
    train = dp.Scheduler(model, nn.CrossEntropyLoss(), made, devices=2, capture=True)
    data = batches("rows", 20, (6,))
    train.run(data)
    assert train.progress.native and set(blocks) == {0, 1}
    for found in blocks.values():
        assert len(found) > 1 and found == sorted(found, reverse=True)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_rule_has_its_numbers_step_by_step(optimizer):
    both(passes_of(), native=38, optimizer=optimizer, devices=2)


@pytest.mark.parametrize("options", [
    {"devices": 2, "workload": [3, 1]}, {"devices": 2, "nan": "raise"},
    {"devices": 2, "nan": "skip", "bucket_kib": 0.1}, {"devices": 3, "unused": "error"},
    {"devices": 6, "bucket_kib": (0.1, 0.2)}, {"devices": 1, "nan": "raise"},
    {"devices": 2, "loss": nn.CrossEntropyLoss(dp.tensor([1.0, 0, 2, 3, 1]), label_smoothing=0.1)},
    {"devices": 2, "loss": lambda scores, y: scores.square().mean()},
    {"devices": 2, "loss": nn.CrossEntropyLoss(reduction="sum")},
], ids=lambda options: str(options).split(" at 0x")[0])  # fmt: skip
def test_in_many_kinds_of_run(options):
    both(passes_of(sizes=(7,)), native=38, **options)


@pytest.fixture
def together(monkeypatch):
    """Replicas update a slice each, also two of a small model."""
    monkeypatch.setattr(importlib.import_module("minidp.parallel.native_copies"), "NEAR", 0)


def meetings(train):
    found = {len(table.meetings) for _, step in train.replays._native.values()
             for table in step.tables}  # fmt: skip
    assert len(found) == 1
    return found.pop()


def test_two_replicas_of_a_small_model_meet_once_in_a_step():
    assert meetings(both(passes_of(), native=38, devices=2)) == 1
    assert meetings(both(passes_of(), native=38, devices=2, nan="skip")) == 1
    assert meetings(both(passes_of(), native=38, devices=3)) == 2


@pytest.mark.parametrize("options", [
    {}, {"name": "lstm"}, {"nan": "raise", "bucket_kib": 0.1}, {"optimizer": "adamw"},
], ids=str)  # fmt: skip
def test_two_replicas_of_a_large_one_update_a_slice_each(together, options):
    name = options.get("name", "mlp")
    train = both(passes_of(name), native=38, devices=2, **options)
    assert meetings(train) == (3 if "nan" in options else 2)


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_parameters_that_a_step_takes_for_constants_are_as_they_are(replicas):
    class Beside(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(6, 16), nn.Linear(16, 5)

        def forward(self, x):
            hidden = self.a(x).relu()
            with dp.no_grad():
                square = (self.a.weight * self.a.weight).sum()
            flat = hidden.sum() * self.b.weight.detach().sum() * 1e-3
            return self.b(hidden) + flat + self.b.bias.data[1:3].sum() * 0.1 + square * 0.01

    def run(capture):
        dp.manual_seed(0)
        model = Beside()
        made = optim.SGD(model.parameters(), 0.05, momentum=0.9)
        train = dp.Scheduler(model, nn.CrossEntropyLoss(), made, replicas, capture=capture)
        found = outcome(train, [batches("rows", 60, (6,))] * 2)
        return found, train.progress.native

    (found, native), (expected, none) = run(True), run(False)
    assert found == expected and native > 50 and none == 0


def test_fused_steps_run_natively_too():
    train = scheduler(devices=2, fuse=True)
    train.run(passes_of()[0])
    assert train.progress.native > 30


@pytest.mark.parametrize("options", [
    {"store": "device"}, {"replicas": 3}, {"accumulate": 2}, {"clip_norm": 1.0},
    {"loss_scale": 8.0},
], ids=str)  # fmt: skip
def test_what_needs_python_between_steps_stays_there(options):
    both(passes_of(steps=20), native=0, devices=2, **options)


def test_who_looks_at_each_step_is_called_between_them():
    train, seen = scheduler(devices=2, capture=True), []
    train.run(passes_of()[0], on_step=lambda progress: seen.append(progress.steps))
    assert seen == [*range(1, 41)] and train.progress.native == 0
    with train.record():
        train.run(passes_of()[0])
    with inject("delay", replica=1, step=train.progress.steps * 2 + 5, at="forward"):
        train.run(passes_of()[0])
    assert train.progress.native == 0


def test_batches_of_several_kinds():
    both(passes_of(steps=60, sizes=(6, 6, 6, 6, 7, 1)), devices=2)
    short = [*passes_of(steps=30)[0], *batches("rows", 1, (3,))]
    both([short, short], devices=2)


def test_inputs_by_name_and_in_tuples():
    class Sum(nn.Linear):
        def forward(self, x, pair, scale=None):
            return super().forward(x + pair[0] * scale - pair[1])

    def run(capture):
        dp.manual_seed(0)
        model, rng = Sum(6, 5), np.random.default_rng(0)
        data = [dp.Batch(*[dp.tensor(rng.standard_normal((6, 6)).astype("float32"))],
                         tuple(rng.standard_normal((2, 6, 6)).astype("float32")), y,
                         scale=rng.standard_normal((6, 1)).astype("float32"))
                for _, y in passes_of()[0]]  # fmt: skip
        train = dp.Scheduler(model, nn.CrossEntropyLoss(), optim.SGD(model.parameters(), 0.1),
                             devices=2, capture=capture)  # fmt: skip
        return outcome(train, [data]), train.progress.native

    (found, native), (expected, none) = run(True), run(False)
    assert found == expected and native > 30 and none == 0


def test_what_changes_between_passes_is_seen():
    def run(capture):
        train, found = scheduler(optimizer="adamw", devices=2, capture=capture), []
        data = passes_of(steps=24)[0]
        group = train.optimizer.param_groups[0]
        saved = train.optimizer.state_dict()
        for change in (
            lambda: None, lambda: train.optimizer.state.clear(),
            lambda: group.update(lr=0.003), lambda: group.update(amsgrad=False),
            lambda: train.model[0].requires_grad_(False), lambda: train.model.eval(),
            lambda: train.model[0].requires_grad_(True), lambda: None,
            lambda: train.optimizer.load_state_dict(saved),
            lambda: train.model.load_state_dict({k: v * 0.5 for k, v in
                                                 train.model.state_dict().items()}),
        ):  # fmt: skip
            change()
            found.append(outcome(train, [data]))
            native.append(train.progress.native)
        return found

    native: list[int] = []
    assert run(True) == run(False)
    assert native[0] > 10 and native[1] > 20 and min(native[6:9]) > 10


def wrong_label(data, at):
    data = list(data)
    data[at] = data[at][0], np.where(np.arange(len(data[at][1])) == 4, 99, data[at][1])
    return data


@pytest.mark.parametrize("replicas", [1, 2, 3])
@pytest.mark.parametrize("at", [20, 21, 39])
def test_a_step_that_fails_is_none_and_those_before_have_happened(at, replicas):
    def run(capture):
        train = scheduler("dropout", devices=replicas, capture=capture)
        with pytest.raises(ValueError, match="class 99") as caught:
            train.run(wrong_label(passes_of("dropout")[0], at))
        assert any(f", step {at + 1}" in note for note in caught.value.__notes__)
        done = train.progress.steps, str(train.progress.loss), train.progress.rows
        state = everything(train)
        return state, done, outcome(train, passes_of("dropout")), train.progress.native > 0

    *found, native = run(True)
    assert found == list(run(False)[:3]) and native


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("policy", ["raise", "skip"])
def test_numbers_that_are_not_finite_are_met_in_python(policy, replicas):
    def run(capture):
        train, data = scheduler(devices=replicas, nan=policy, capture=capture), passes_of()[0]
        for bad in (25, 39):
            data[bad] = data[bad][0] * np.float32(np.inf), data[bad][1]
        if policy == "raise":
            with pytest.raises(ReplicaError, match=r"not finite|the loss is"):
                train.run(data)
        else:
            train.run(data)
        progress = train.progress
        weights = everything(train)
        if policy == "raise":  # then gradients may be gone
            weights = weights[:2] + weights[3:]
        return weights, progress.steps, progress.skipped, progress.loss_times_rows, progress.native

    *found, native = run(True)
    assert found == list(run(False)[:-1]) and native > 20


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("lazy", [False, True])
def test_gradients_that_somebody_keeps_are_not_written_again(replicas, lazy):
    train, kept = scheduler(devices=replicas, capture=True), []

    def data():
        for batch in passes_of()[0]:
            yield batch
            for p in train.model.parameters() if train.progress.steps % 3 else ():
                kept.append((p.grad.numpy(), p.grad.numpy().copy()))

    for _ in range(2):
        train.run(data() if lazy else [*passes_of()[0]])
        kept += [(p.grad.numpy(), p.grad.numpy().copy()) for p in train.model.parameters()]
    assert train.progress.native > 30 and len(kept) > 4
    assert all((now == then).all() and then.any() for now, then in kept)


@pytest.mark.parametrize("at", [0, 1, 30, 31])
@pytest.mark.parametrize("replicas", [1, 2])
def test_a_step_that_fails_leaves_the_gradients_of_the_one_before(replicas, at):
    def run(capture):
        train = scheduler(devices=replicas, capture=capture)
        train.run(passes_of()[0])
        before = [p.grad.numpy().tobytes() for p in train.model.parameters()]
        with pytest.raises(ValueError, match="class 99"):
            train.run(wrong_label(passes_of()[0], at))
        found = [None if p.grad is None else p.grad.numpy().tobytes()
                 for p in train.model.parameters()]  # fmt: skip
        assert found == before or at
        return found

    found = run(True)
    assert found == run(False) or (replicas == 1 and found == [None] * len(found))


@pytest.mark.parametrize("seconds", [float("inf"), 1e12])
def test_there_need_not_be_a_deadline(seconds):
    train = scheduler(devices=2, capture=True, deadline=seconds, warn_after=seconds)
    train.run(passes_of()[0])
    assert train.progress.native > 30


def test_native_steps_are_committed_however_long_it_takes(monkeypatch):
    monkeypatch.setattr(importlib.import_module("minidp.parallel.launch"), "GRACE", 0.0)
    commit, late, raised = Chunk.commit, [], threading.Event()

    def slow(chunk):
        if chunk.first > 10 and not late:
            late.append(chunk.first + chunk.done - 1)
            raised.wait(10)
            time.sleep(0.2)  # until the failure is known
        commit(chunk)

    def watch(progress):
        if late:
            raised.set()
            raise OSError("enough")

    train = scheduler(devices=2, capture=True)
    monkeypatch.setattr(Chunk, "commit", slow)
    with pytest.raises(OSError, match="enough"):
        train.run(passes_of()[0], watch=watch)
    found, alone = everything(train), scheduler(devices=2)
    alone.run(passes_of()[0][: late[0]])
    assert found == everything(alone)


def test_a_wait_inside_of_a_native_call_warns_and_is_counted(monkeypatch):
    orders = importlib.import_module("minidp.kernels.cpu._orders").Orders
    serve, late = orders.serve, []

    def slow(given, rank):
        if not late:
            late.append(given)
            time.sleep(0.8)
        return serve(given, rank)

    train = scheduler(devices=2, capture=True, warn_after=0.3)
    train.run(passes_of()[0])  # compiles what is needed
    monkeypatch.setattr(orders, "serve", slow)
    text = r"(?s)replica 0 has waited .* for replica\(s\) 1 to reach the next meeting of .*in slow"
    with pytest.warns(UserWarning, match=text) as told:
        train.run(passes_of()[0])
    assert sum("native call" in str(each.message) for each in told) == 1
    assert train.progress.native > 30
    first, second = train._stats.exchange.waited
    assert first > 0.6 and first > second + 0.3
    assert train.stats()["busy"][0] == pytest.approx(1 - first / train.stats()["seconds"], abs=0.1)


def test_the_loader_is_where_the_last_step_was():
    def run(capture):
        x, y = map(np.concatenate, zip(*passes_of()[0], strict=True))
        y[6 * 30] = 99
        loader = DataLoader(TensorDataset(dp.tensor(x), dp.tensor(y)), batch_size=6)
        train = scheduler(devices=2, capture=capture)
        with pytest.raises(ValueError, match="class 99"):
            train.run(loader)
        return loader.state_dict(), everything(train), train.progress.native

    found, expected = run(True), run(False)
    assert found[:2] == expected[:2] and found[0]["batch"] == 30 and found[2] > 20


def test_an_error_of_the_loader_comes_behind_the_batches_before_it():
    def loader():
        yield from passes_of()[0]
        raise OSError("no more")

    trains = [scheduler(devices=2, capture=capture) for capture in (True, False)]
    for train in trains:
        with pytest.raises(OSError, match="no more"):
            train.run(loader())
        assert train.progress.steps == 40
    assert everything(trains[0]) == everything(trains[1])


def test_the_first_of_slow_batches_does_not_wait_for_others():
    train, steps = scheduler(devices=2, capture=True), []
    train.run(passes_of()[0])

    def slow():
        for batch in passes_of(steps=6)[0]:
            steps.append(train.progress.steps)
            time.sleep(0.02)
            yield batch

    train.run(slow())
    assert (train.progress.native == 5 and steps == [0, *range(5)]) or steps == [*range(6)]


def test_a_generator_is_asked_for_a_batch_when_it_is_needed():
    def run(capture):
        train = scheduler(devices=2, capture=capture)
        x, y = (array.copy() for array in passes_of()[0][0])

        def refilled():
            for new, labels in passes_of()[0]:
                x[...], y[...] = new, labels
                yield x, y
                train.optimizer.param_groups[0]["lr"] *= 0.95

        return outcome(train, [refilled(), refilled()]), train.progress.native

    (found, native), (expected, _) = run(True), run(False)
    assert found == expected and native == 39


def endless():
    while True:
        yield from passes_of()[0]


def test_ctrl_c_ends_a_native_run_between_steps():
    train, began = scheduler(devices=2, capture=True), []

    def watch(progress):
        if progress.native > 1000:
            began.append(time.monotonic())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train.run(endless(), watch=watch)
    assert time.monotonic() - began[0] < 2
    steps, data = train.progress.steps, endless()
    eager = scheduler(devices=2)
    eager.run(next(data) for _ in range(steps))
    assert everything(train) == everything(eager)


def test_progress_is_told_ten_times_a_second():
    train, seen = scheduler(devices=2, capture=True), []
    until = time.monotonic() + 1.5

    def data():
        while time.monotonic() < until:
            yield from passes_of()[0]

    train.run(data(), watch=lambda progress: seen.append(progress.steps))
    assert len(seen) > 5 and len(set(seen)) > 4


@pytest.mark.parametrize("name", ["mlp", "batch norm"])
def test_a_meeting_that_nobody_comes_to_ends(name):
    train = scheduler(name, devices=2, capture=True)
    train.run(passes_of(name)[0])
    (_, step), = train.replays._native.values()
    step.meeting.ask()
    before, kept = train.progress.steps, everything(train)
    with pytest.raises(ReplicaError, match=r"waited more than 300\.0 s"):
        train.run(passes_of(name)[0])
    assert before == 40 and train.progress.steps == 0
    assert everything(train)[0::2] == kept[0::2]
    train.run(passes_of(name)[0])
    assert train.progress.native > 30


def test_many_steps_leave_nothing_behind():
    train, data = scheduler(devices=2, capture=True), passes_of()[0]
    train.run(data * 5)
    tracemalloc.start()
    train.run(data * 50)
    first = tracemalloc.get_traced_memory()[0]
    train.run(data * 50)
    grown = tracemalloc.get_traced_memory()[0] - first
    tracemalloc.stop()
    assert grown < 100_000 and train.progress.native >= 1995
    assert not [t for t in threading.enumerate() if t.name.startswith("minidp replica")]


def test_replicas_that_leave_out_other_buckets():
    class Halves(nn.Module):
        """Each replica uses one of two layers, the other one in longer batches."""

        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(6, 5), nn.Linear(6, 5)])

        def forward(self, x):
            return self.layers[(mode.replica.rank + len(x)) % 2](x)

    def run(capture):
        dp.manual_seed(0)
        model = Halves()
        train = dp.Scheduler(model, nn.CrossEntropyLoss(), optim.SGD(model.parameters(), 0.1),
                             devices=4, bucket_kib=0.01, capture=capture)  # fmt: skip
        long, short = passes_of(sizes=(12,))[0], passes_of(sizes=(8,))[0]
        return outcome(train, [long, short, long[:20] + short[:20]]), train.progress.native

    (found, native), (expected, _) = run(True), run(False)
    assert found == expected and native > 36


def test_parameters_that_are_not_reached_stay_as_they_are():
    class Spare(nn.Sequential):
        def __init__(self):
            super().__init__(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 5))
            self.spare = nn.Linear(3, 3)

        def forward(self, x):
            return self[2](self[1](self[0](x)))

    def run(capture):
        dp.manual_seed(0)
        model = Spare()
        train = dp.Scheduler(model, nn.CrossEntropyLoss(), optim.AdamW(model.parameters(), 0.01),
                             devices=2, capture=capture)  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = outcome(train, passes_of())
        return found, train.progress.native

    (found, native), (expected, _) = run(True), run(False)
    assert found == expected and native == 38


@pytest.mark.parametrize("late", ["runs", "ended"])
def test_a_failure_does_not_keep_who_leads_from_committing_what_others_still_run(late):
    """Ctrl-C while the first replica waits in Python: the others' tables end first."""

    class Awaited:
        looks = 0

        def awaited(self):
            self.looks += 1
            if late == "ended" and self.looks == 5:
                exchange.ended[1].set()
            return [] if late == "runs" and self.looks > 5 else [1]

    exchange, orders = Exchange(2, deadline=60.0), Awaited()
    exchange.fail(KeyboardInterrupt())
    NativeRuns._wait_for_others(None, exchange, orders)
    assert orders.looks >= 5


def test_an_error_of_the_loader_behind_native_steps_names_the_step():
    class Breaking(TensorDataset):
        def batch(self, rows, key):
            if 5 * 59 in rows:
                raise OSError("disk gone")
            return super().batch(rows, key)

    x, y = np.random.default_rng(0).standard_normal((400, 6)).astype("f4"), np.arange(400) % 3
    for capture in (False, True):
        dp.manual_seed(0)
        model = nn.Linear(6, 3)
        train = dp.Scheduler(model, nn.CrossEntropyLoss(), optim.SGD(model.parameters(), 0.1),
                             devices=2, capture=capture)  # fmt: skip
        loader = DataLoader(Breaking(x, y), 5)
        with pytest.raises(OSError, match="disk gone") as found:
            train.run(loader)
        assert found.value.__notes__[0].endswith(", step 60")
        assert train.progress.steps == loader.state_dict()["batch"] == 59
        assert not capture or train.progress.native or native_calls() is None
