"""Buckets: where parameters lie, which are used, and what the caller does to them in between."""

import numpy as np
import pytest
from training import adam, batches, distance, everything, flat, mlp, scheduler, sgd

import minidp as dp
from minidp import Tensor, nn, optim
from minidp.device import Device
from minidp.errors import GraphError, ReplicaError
from minidp.parallel.bucket import Bucket, make_buckets
from minidp.parallel.memory import Memory, Slot
from minidp.parameter import Parameter

LAYOUTS = [{"devices": 2}, {"devices": 3, "store": "device"}, {"devices": 2, "replicas": 5}]
DATA = batches(7, 9)
HOME = Device("cpu", 0)
every_layout = pytest.mark.parametrize("layout", LAYOUTS, ids=str)


def parameter(*shape, dtype="float32"):
    return Parameter(np.random.default_rng(3).standard_normal(shape).astype(dtype))


def test_parameters_become_views_and_keep_their_values():
    parameters = [parameter(3, 5), parameter(), parameter(0, 2), parameter(17)]
    before = [p.array.copy() for p in parameters]
    bucket = Bucket(0, parameters, HOME)
    assert bucket.master.data.ctypes.data % 64 == 0 and bucket.size == 16 + 16 + 0 + 32
    for p, value in zip(parameters, before, strict=True):
        assert np.array_equal(p.array, value) and (p.array.base is not None)
        assert np.shares_memory(p.array, bucket.master.data) or not p.numel()


def test_buckets_close_at_their_limit_groups_and_dtypes():
    first, second = [parameter(256) for _ in range(6)], [parameter(4, dtype="float64")]
    frozen = parameter(9)
    frozen.requires_grad_(False)
    buckets = make_buckets([first, [*second, frozen]], HOME, first_kib=1, limit_kib=2)
    assert [len(b.parameters) for b in buckets] == [1, 2, 2, 2]
    listed = [p for b in buckets for p in b.parameters]
    assert [id(p) for p in listed] == [id(p) for p in [*first, *second][::-1]]
    assert all(len({p.dtype for p in b.parameters}) == 1 for b in buckets)
    assert [b.index for b in buckets] == list(range(len(buckets)))


def test_stretches_that_are_updated_alike():
    bucket = Bucket(0, [parameter(16) for _ in range(5)], HOME)
    assert bucket.runs(["a", "a", None, "a", "b"]) == [(0, 32, "a"), (48, 64, "a"), (64, 80, "b")]
    assert bucket.runs([None] * 5) == []


def test_a_slot_takes_over_what_is_kept_elsewhere_once():
    memory = Memory(np.zeros(16), Bucket(0, [parameter(4)], HOME).layout)
    slot = Slot(memory.data, memory.views)
    (view,) = memory.views
    loaded = np.arange(4.0)
    slot.take_over([loaded])
    assert np.array_equal(view, loaded)
    view += 1
    slot.take_over([loaded])  # seen: what was computed since stays
    assert np.array_equal(view, loaded + 1)
    slot.take_over([view])
    slot.take_over([None])  # the state was cleared
    assert not view.any()


class Branches(nn.Module):
    """One layer for all rows, one that only replicas with large rows use, one never used."""

    def __init__(self):
        super().__init__()
        self.base, self.extra, self.never = mlp(), mlp(width=5), mlp(width=3)
        self.frozen = nn.Linear(6, 4).double()
        self.frozen.requires_grad_(False)
        self.threshold = 0.0

    def forward(self, x):
        y = self.base(x) + self.frozen(x)
        large = x.numpy()[:, :1] > self.threshold
        return y + self.extra(x) * Tensor(large.astype("f8")) if large.any() else y


@every_layout
def test_parameters_used_by_some_replicas_or_by_none(layout):
    results = []
    for each in ({"devices": 1}, layout):
        run = scheduler(Branches(), unused="ignore", **each)
        run.model.threshold = 1.2  # a few rows only
        untouched = [p.array.copy() for p in [*run.model.never.parameters(),
                                             *run.model.frozen.parameters()]]  # fmt: skip
        run.run(DATA)
        assert all(p.grad is None and p not in run.optimizer.state
                   for p in run.model.never.parameters())  # fmt: skip
        after = [*run.model.never.parameters(), *run.model.frozen.parameters()]
        assert all(np.array_equal(p.array, q) for p, q in zip(after, untouched, strict=True))
        assert any(p in run.optimizer.state for p in run.model.extra.parameters())
        results.append(flat(run.model))
    assert distance(*results) < 1e-12


@every_layout
def test_a_branch_may_be_left_out_around_other_collectives(layout):
    """Buckets then begin at different places among the sums of batch norm."""

    class Late(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm, self.last = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 4)
            self.head = nn.Linear(4, 4)
            self.double()

        def forward(self, x):
            y = self.last(self.norm(self.first(x)))
            large = x.numpy()[:, :1] > 1.2
            return y + self.head(y) * Tensor(large.astype("f8")) if large.any() else y

    results = []
    for each in ({"devices": 1}, layout):
        dp.manual_seed(0)
        run = scheduler(Late(), unused="ignore", **each)
        groups = [{"params": [p]} for p in run.model.parameters()]  # each in a bucket of its own
        run = scheduler(run.model, optimizer=optim.SGD(groups, lr=0.1, momentum=0.9),
                        unused="ignore", **each)  # fmt: skip
        run.run(DATA)
        results.append(flat(run.model))
    assert distance(*results) < 1e-12


def tied():
    """A weight that two layers share, and a parameter reached through a closure."""
    dp.manual_seed(0)
    layer, scale = nn.Linear(6, 6).double(), Parameter(np.ones(()))

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.scale = layer, nn.Linear(6, 6).double(), scale
            self.b.weight = layer.weight

        def forward(self, x):
            return self.b(layer(x).relu() * scale)

    return Tied()


@every_layout
def test_tied_weights_and_closures(layout):
    results = []
    for each in ({"devices": 1}, layout):
        run = scheduler(tied(), **each)
        run.run(DATA)
        assert run.model.b.weight is run.model.a.weight
        results.append(flat(run.model))
    assert distance(*results) < 1e-12


def act_between(layout, act):
    run = scheduler(mlp(), optimizer=adam, **layout)
    run.run(DATA[:3])
    act(run)
    run.evaluate(DATA[:1])
    run.run(DATA[3:6])
    act(run)
    for x, y in DATA[6:]:
        run(x, y)
    return flat(run.model)


def assign(run):
    for p in run.model.parameters():
        p.array = p.array * 0.5


def write(run):
    for p in run.model.parameters():
        p.array[...] *= 0.5


def copy(run):
    with dp.no_grad():
        for p in run.model.parameters():
            p.copy_(p.detach() * 0.5)


def load(run):
    values = {name: value.clone() * 0.5 for name, value in run.model.state_dict().items()}
    run.model.load_state_dict(values)


def load_optimizer(run):
    saved = run.optimizer.state_dict()
    for state in saved["state"].values():
        for name, value in state.items():
            state[name] = value.clone() * 0 + 2
    run.optimizer.load_state_dict(saved)


def clear_optimizer(run):
    run.optimizer.state.clear()


def change_in_place(run):
    for state in run.optimizer.state.values():
        state["exp_avg"].array[...] = 0.25


def freeze(run):
    weight = run.model[0].weight
    weight.requires_grad_(not weight.requires_grad)


def other_scheduler(run):
    scheduler(run.model, optimizer=run.optimizer, devices=2).run(DATA[:2])


def eager_step(run):
    run.optimizer.zero_grad()
    x, y = DATA[0]
    nn.CrossEntropyLoss()(run.model(x), y).backward()
    run.optimizer.step()


ACTS = [assign, write, copy, load, load_optimizer, clear_optimizer, change_in_place, freeze,
        other_scheduler, eager_step]  # fmt: skip


@pytest.mark.parametrize("act", ACTS)
@every_layout
def test_what_the_caller_does_between_steps(layout, act):
    assert distance(act_between(layout, act), act_between({"devices": 1}, act)) < 1e-12


@every_layout
def test_a_parameter_that_is_added_late(layout):
    run = scheduler(mlp(), optimizer=adam, **layout)
    run.run(DATA[:2])
    run.model.append(nn.Linear(4, 4).double())
    before = flat(run.model)
    for train in (lambda: run.run(DATA[:2]), lambda: run(*DATA[0])):
        with pytest.raises(ReplicaError, match=r"'3\.weight' .* is not in the optimizer"):
            train()
    assert np.array_equal(flat(run.model), before)
    run.optimizer.add_param_group({"params": list(run.model[3].parameters())})
    run.run(DATA[:2])
    assert run.model[3].weight.grad is not None and not np.array_equal(flat(run.model), before)


def test_a_gradient_that_is_held_stays():
    run = scheduler(mlp("float64", 3000), devices=2)  # large enough to be reduced in place
    run(*DATA[0])
    held = [p.grad for p in run.model.parameters()]
    before = [g.numpy().copy() for g in held]
    run(*DATA[1])
    run(*DATA[2])
    assert all(np.array_equal(g.numpy(), b) for g, b in zip(held, before, strict=True))


def test_going_back_to_saved_state_repeats_the_bytes():
    run = scheduler(mlp(), devices=2)
    run.run(DATA[:3])
    model = {name: value.clone() for name, value in run.model.state_dict().items()}
    saved = run.optimizer.state_dict()
    for state in saved["state"].values():
        state.update({name: value.clone() for name, value in state.items()})
    step = dp.random.default_generator.get_state()
    run.run(DATA[3:6])
    first = everything(run)
    run.model.load_state_dict(model)
    run.optimizer.load_state_dict(saved)
    dp.random.default_generator.set_state(step)
    run.run(DATA[3:6])
    assert everything(run) == first


def test_a_second_backward_in_one_step_is_refused():
    def loss(y, t):
        nn.functional.cross_entropy(y, t).backward()
        return nn.functional.cross_entropy(y, t)

    run = scheduler(mlp(), loss, sgd, devices=2)
    before = everything(run)
    with pytest.raises(GraphError, match=r"earlier backward|second backward"):
        run(*DATA[0])
    assert everything(run) == before
