"""What random programs found where a captured step was not the eager one."""

import numpy as np
import pytest

import minidp as dp
from minidp import nn
from minidp.ops.gru import gru
from minidp.ops.lstm import lstm


def rows(*shape, seed=0):
    return dp.tensor(np.random.default_rng(seed).standard_normal(shape).astype("f4"))


def bytes_of(given):
    return [(str(t.dtype), t.shape, t.detach().numpy().tobytes()) for t in given]


def same(step, batches, fuse=False):
    """The captured step gives the bytes of the eager one, and is replayed."""
    captured = dp.capture(step, fuse=fuse)
    for batch in batches:
        assert bytes_of(captured(*batch)) == bytes_of(step(*batch))
    assert captured.replays, captured.last.reason


@pytest.mark.parametrize("of", ["view", "fold"])
def test_views_without_elements_may_be_given_away(of):
    fold = nn.Fold((7, 3), 2, padding=(2, 1))

    def step(x):
        x = x.detach().requires_grad_()
        y = dp.cartesian_prod(x[::2], x) if of == "view" else fold(x.reshape(0, 4, 40))
        (y * 2).sum().backward()
        return y, x.grad

    same(step, [(dp.zeros(0),)] * 5)


@pytest.mark.parametrize("batch", [1, 2])
def test_a_plain_recurrent_net_goes_back_by_the_same_products(batch):
    dp.manual_seed(0)
    net = nn.RNN(1, 4, num_layers=2)

    def step(x, h):
        h = h.detach().requires_grad_()
        net.zero_grad()
        y, last = net(x, h)
        (y.exp().sum() + last.sum()).backward()
        return [y, h.grad, *[p.grad for p in net.parameters()]]

    same(step, [(rows(3, batch, 1, seed=i), rows(2, batch, 4, seed=i)) for i in range(5)])


def test_an_lstm_with_a_projection_goes_back_by_the_same_products():
    dp.manual_seed(0)
    net = nn.LSTM(3, 40, proj_size=33)

    def step(x):
        x = x.detach().requires_grad_()
        net.zero_grad()
        net(x)[0].exp().sum().backward()
        return [x.grad, *[p.grad for p in net.parameters()]]

    same(step, [(rows(4, 4, 3, seed=i),) for i in range(5)])


@pytest.mark.parametrize("op", [gru, lstm])
def test_gates_that_something_else_uses_go_back_by_the_same_products(op):
    count = 3 if op is gru else 4
    w, states = rows(count * 40, 40, seed=9), [rows(4, 40, seed=8)] * (count - 2)

    def step(x):
        x = x.detach().requires_grad_()
        y, *_, gates = op(x, *states, w / 6, None, sizes=(4, 4, 4), reverse=False)
        (y.exp().sum() + gates.sin().sum()).backward()
        return y, x.grad

    same(step, [(rows(12, count * 40, seed=i),) for i in range(5)])


MIXED = {
    "atan2": lambda x, k: dp.atan2(k, x),
    "pow": lambda x, k: (x.abs() + 1) ** k,
    "summed product": lambda x, k: x[0] * (k * 77777777),
    "float64 number": lambda x, k: dp.hypot(x, dp.tensor(0.41211789, dtype=dp.float64)),
}


@pytest.mark.parametrize("name", MIXED)
def test_rules_of_mixed_dtypes_round_as_where_they_are_recorded(name):
    def step(x, k):
        x = x.detach().requires_grad_()
        y = MIXED[name](x, k)
        y.sum().backward()
        again, = dp.grad(MIXED[name](x, k).sum(), x, create_graph=True)
        assert x.grad.dtype == dp.float32
        return y, x.grad, again

    k = dp.arange(1, 13).reshape(4, 3)
    same(step, [(rows(4, 3, seed=i), k) for i in range(5)])
    _, found, again = step(rows(4, 3), k)
    assert bytes_of([found]) == bytes_of([again])


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.left, self.right = nn.Linear(4, 6), nn.Linear(6, 3), nn.Linear(6, 4)

    def forward(self, x):
        h = self.body(x).tanh()
        return self.left(h), self.right(h)


def test_fused_steps_of_replicas_exchange_in_one_order():
    first, second = nn.CrossEntropyLoss(ignore_index=2), nn.L1Loss()

    def loss(outputs, targets):
        (a, b), (labels, places) = outputs, targets
        return first(a, labels) + 0.3 * second(b, places) + dp.sqrt(first(a, labels) + 1)

    def trained(**options):
        dp.manual_seed(0)
        model = TwoHeads()
        train = dp.Scheduler(model, loss, dp.optim.SGD(model.parameters(), 0.1), **options)
        for i in range(5):  # of one row other lines fit together than of six
            rng = np.random.default_rng(i)
            train(rows(7, 4, seed=i), (dp.tensor(rng.integers(0, 2, 7)), rows(7, 4, seed=i + 50)))
        return np.concatenate([p.detach().numpy().ravel() for p in model.parameters()])

    split = {"devices": 2, "workload": [5, 1], "capture": True}
    expected = trained(devices=1)
    for fuse in (False, True):
        np.testing.assert_allclose(trained(**split, fuse=fuse), expected, atol=1e-6)


def swapped(model):
    model[1] = nn.Tanh()


def reassigned(model):
    model[0].weight = nn.Parameter(model[0].weight.detach() * 2)


CHANGES = {
    "probability": lambda model: setattr(model[2], "p", 0.75),
    "momentum": lambda model: setattr(model[3], "momentum", 0.5),
    "module": swapped,
    "parameter": reassigned,
    "list of modules": lambda model: model.more.__setitem__(0, nn.Linear(2, 2, bias=False)),
    "deleted": lambda model: delattr(model, "flag"),
    "hook": lambda model: model[0].register_forward_hook(lambda module, given, y: y * 2),
    "hook before": lambda model: model[4].register_forward_pre_hook(lambda module, x: -x[0]),
}


class Changing(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(3, 8), nn.ReLU(), nn.Dropout(0.25), nn.BatchNorm1d(8),
                         nn.Linear(8, 2))  # fmt: skip
        self.register_module("more", None)
        self.more, self.flag, self.calls = nn.ModuleList([nn.Linear(2, 2)]), 1, 0

    def forward(self, x):
        self.calls += 1  # what a forward sets itself is no change
        for layer in [self[i] for i in range(5)]:
            x = layer(x)
        return self.more[0](x) * (2 if hasattr(self, "flag") else 3)

    def __getitem__(self, place):
        return vars(self)[str(place)]


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_module_is_set_to_between_steps_is_noticed_in_the_next(name):
    def trained(captured):
        dp.manual_seed(0)
        model, ran = Changing(), []

        def step(x):
            ran.append(1)
            model.zero_grad()
            y = model(x)
            y.pow(2).mean().backward()
            return [y, *[p.grad for p in model.parameters()]]

        run, found = dp.capture(step, fuse=False) if captured else step, []
        for i in range(12):
            if i == 6:
                CHANGES[name](model)
            found += [*bytes_of(run(rows(8, 3, seed=i))), *bytes_of(model.buffers())]
        return found, len(ran)

    (expected, _), (found, ran) = trained(False), trained(True)
    assert found == expected
    assert ran < 8


def test_why_a_step_stays_eager_is_told():
    before = [rows(4, 3)]

    def carried(x):
        y = x * before[0]
        before[0] = y
        return y

    class Square(dp.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g

    def squared(x):
        return Square.apply(x.detach().requires_grad_())

    for function, told in ((carried, "the array from outside s1 (float32[4, 3]) is another in"),
                           (squared, "computed by a dp.autograd.Function")):  # fmt: skip
        step = dp.capture(lambda x, function=function: function(x))
        for _ in range(4):
            step(rows(4, 3))
        assert not step.replays and told in step.last.reason

    count = []

    def loss(outputs, targets):
        count.append(1)
        return (outputs - targets).pow(2).mean() * len(count)

    for criterion, told in ((loss, "runs eagerly, because "), (nn.MSELoss(), "captured, replays)")):
        model = nn.Linear(3, 3)
        train = dp.Scheduler(model, criterion, dp.optim.SGD(model.parameters(), 0.1), devices=2,
                             capture=True)  # fmt: skip
        train.run([(rows(4, 3), rows(4, 3))] * 5)
        assert told in repr(train)


@pytest.mark.parametrize("kind", ["instance", "functional"])
def test_statistics_that_a_layer_is_given_follow_in_a_replay(kind):
    def made():
        norm = nn.InstanceNorm2d(3, track_running_stats=True)

        def step(x):
            if kind == "instance":
                return norm(x)
            return nn.functional.batch_norm(x, norm.running_mean, norm.running_var, training=True)

        return norm, step

    (eager, plain), (norm, function) = made(), made()
    captured = dp.capture(function)
    for seed in range(6):
        x = rows(2, 3, 4, 4, seed=seed)
        assert bytes_of([captured(x), *norm.buffers()]) == bytes_of([plain(x), *eager.buffers()])
    assert captured.replays, captured.last.reason
