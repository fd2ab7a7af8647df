"""A captured step and what may change between its calls, and inside of it: as the eager step."""

import copy
import threading
from collections import namedtuple

import numpy as np
import pytest

import minidp as dp
from minidp import nn, optim
from minidp.errors import GraphError

F = nn.functional
Pair = namedtuple("Pair", "a b")


def rows(seed=0, n=4, d=3):
    return dp.tensor(np.random.default_rng(seed).standard_normal((n, d)).astype("float32"))


def labels(seed=0, n=4, count=2):
    return dp.tensor(np.random.default_rng(seed).integers(0, count, n))


def network(*layers):
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), *layers, nn.Linear(8, 2))


def flat(given):
    """The bytes of all tensors in a structure; other things as they are."""
    if isinstance(given, (list, tuple)):
        return [part for each in given for part in flat(each)]
    if isinstance(given, dict):
        return flat(list(given.values()))
    if isinstance(given, dp.Tensor):
        return [(str(given.dtype), given.shape, given.detach().numpy().tobytes())]
    return [given]


def same(run, replays=True):
    """``run(wrap)`` gives the same bytes whether ``wrap`` captures its steps or not."""
    found = []
    for captured in (False, True):
        steps = []

        def wrap(step, captured=captured, steps=steps):
            steps.append(dp.capture(step, fuse=False) if captured else step)
            return steps[-1]

        dp.manual_seed(0)
        found.append(flat(run(wrap)))
    assert found[0] == found[1]
    assert not replays or all(step.replays for step in steps), steps[0].last.reason


def trains(model, optimizer, loss=F.cross_entropy):
    def step(x, y):
        optimizer.zero_grad()
        value = loss(model(x), y)
        value.backward()
        optimizer.step()
        return value

    return step


def gradients(*modules):
    return [p.grad for module in modules for p in module.parameters()]


def test_one_array_given_twice_is_not_two():
    def run(wrap):
        step, x = wrap(lambda a, b: a * b), rows()
        outside = wrap(lambda a: a * x)  # nor is an array that is met inside, too
        found = [(step(x, x), outside(x)) for _ in range(4)]
        return found + [(step(rows(i), rows(i + 1)), outside(rows(i))) for i in range(4)]

    same(run)


def test_numbers_are_told_from_equal_ones():
    def run(wrap):
        step, x = wrap(lambda x, k: x * k), dp.arange(3)
        return [step(x, k) for k in (1, 1, 1, 1.0, 1.0, 1.0, True, 0.0, 0.0, 0.0, -0.0, -0.0, -0.0)]

    same(run)


def test_parameters_that_a_branch_does_not_use():
    def run(wrap):
        a, b = nn.Linear(3, 2), nn.Linear(3, 2)
        optimizer = optim.AdamW([*a.parameters(), *b.parameters()], lr=0.1)

        def step(x, first, keep):
            optimizer.zero_grad(set_to_none=not keep)
            loss = ((a if first else b)(x) ** 2).sum()
            loss.backward()
            optimizer.step()
            return loss

        step = wrap(step)
        found = [step(rows(i), i // 2 % 2 == 0, i > 20) for i in range(40)]
        return found, gradients(a, b), [*a.parameters(), *b.parameters()]

    same(run)


def test_gradients_forgotten_at_the_end_are_gone():
    def run(wrap):
        model = network()
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        def step(x):
            model(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

        step, found = wrap(step), []
        for i in range(5):
            step(rows(i))
            (model(rows(i)) ** 3).sum().backward()
            found.append(gradients(model))
            model.zero_grad()
        return found

    same(run)


def test_gradients_add_up_over_calls_and_are_read():
    def run(wrap):
        model = network()
        optimizer = optim.Adam(model.parameters(), lr=0.01)

        def update():
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.3)
            optimizer.step()
            optimizer.zero_grad()
            return norm

        add = wrap(lambda x, y: F.cross_entropy(model(x), y).backward())
        update, found = wrap(update), []
        for i in range(30):
            add(rows(i), labels(i))
            if i % 3 == 2:
                found.append(update())
        return found, [*model.parameters()]

    same(run)


def test_a_gradient_that_is_kept_set_or_an_arguments():
    def run(wrap):
        p = dp.ones(3, requires_grad=True)

        def step(x):
            before = p.grad
            (p * x).sum().backward()
            p.grad = p.grad * 0.5
            return before * 1, p.grad

        step, found = wrap(step), []
        (p * 1).sum().backward()
        found = [step(dp.ones(3) * i) for i in range(6)]
        own = wrap(lambda x: (x**2).sum().backward())
        for i in range(3):
            x = rows(i).requires_grad_()
            own(x)
            found.append(x.grad)
        for _ in range(3):
            own(x)
        return found, p.grad, x.grad

    same(run)


def test_an_argument_with_a_graph_of_its_own():
    x = rows().requires_grad_()
    step = dp.capture(lambda x: dp.grad((x**2).sum(), x)[0])
    for i in range(4):
        assert np.allclose(step(x * i).numpy(), 2 * i * x.detach().numpy())
    with pytest.raises(GraphError, match="an argument that was computed outside"):
        dp.capture(lambda x: x.sum().backward())(x * 1)


@pytest.mark.parametrize("inside", [False, True])
def test_switches_between_calls(inside):
    def run(wrap):
        model = network(nn.BatchNorm1d(8), nn.Dropout(0.5))
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        def step(x, y):
            if inside:
                model.eval()
                model(x)
                model.train()
            return trains(model, optimizer)(x, y)

        step, found = wrap(step), []
        for i in range(24):
            found.append(step(rows(i), labels(i)))
            if i % 4 == 3:
                model.train(i % 8 == 7)
                model[0].requires_grad_(i % 3 == 0)
        return found, gradients(model), [*model.parameters(), *model.buffers()]

    same(run, replays=False)


def test_memory_that_is_replaced():
    def run(wrap):
        model, average = network(), network()
        optimizer = optim.Adam(model.parameters(), lr=0.01)
        leaf = dp.ones(2, requires_grad=True)

        def step(x, y):
            loss = trains(model, optimizer)(x, y) * leaf.sum()
            for a, b in zip(average.parameters(), model.parameters(), strict=True):
                a.data = a.data * 0.9 + b.data * 0.1
            return loss

        step, found = wrap(step), []
        second = wrap(lambda x: (x[:, :2] * leaf).sum())
        for i in range(9):
            found += [step(rows(i), labels(i)), second(rows(i))]
            if i == 4:
                leaf.data = dp.tensor([3.0, 4.0])
        return found, [*average.parameters()]

    same(run, replays=False)


def test_states_that_are_loaded():
    def run(wrap):
        model = network(nn.BatchNorm1d(8))
        optimizer = optim.Adam(model.parameters(), lr=0.01)
        step = wrap(trains(model, optimizer))
        found = [step(rows(i), labels(i)) for i in range(5)]
        kept = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
        found += [step(rows(i), labels(i)) for i in range(5)]
        model.load_state_dict(kept[0])
        optimizer.load_state_dict(kept[1])
        optimizer.param_groups[0]["lr"] = 0.5
        return found + [step(rows(i), labels(i)) for i in range(5)], [*model.buffers()]

    same(run)


def test_schedules_and_averages_inside():
    def run(wrap):
        model = network()
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        average = optim.swa_utils.AveragedModel(model)
        schedule = optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        plateau = optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)

        def step(x, y):
            loss = trains(model, optimizer)(x, y)
            average.update_parameters(model)
            schedule.step()
            plateau.step(loss)
            return loss

        step = wrap(step)
        found = [step(rows(i), labels(i)) for i in range(12)]
        return found, optimizer.param_groups[0]["lr"], [*average.parameters(), *average.buffers()]

    same(run)


def test_arrays_made_in_the_step_and_changed_or_given_away():
    def run(wrap):
        def step(x):
            y, z = dp.zeros(3), dp.arange(3.0)
            y += x
            y[0] = y[1] + x[2]
            return y, z.reshape(3, 1)

        step, kept, found = wrap(step), [], []
        for i in range(8):
            kept.append(step(dp.ones(3) * (i // 4)))
            kept[-1][1].add_(i)
            found += [each.clone() for each in kept[-1]]
        return found, kept

    same(run)


def test_values_before_a_change_in_place_are_the_steps_own():
    def run(wrap):
        model = nn.Linear(3, 2)

        def step(x):
            model.zero_grad()
            y = model(x)
            y.sigmoid_()
            y *= y.exp()
            y.masked_fill_(y > 0.9, 0.0)
            (y + dp.tensor(x)[:, :2]).sum().backward()
            return y

        step = wrap(step)
        return [(step(rows(max(i - 3, 0))), gradients(model)) for i in range(8)]

    same(run)


def test_what_needs_no_gradient_is_computed_anew():
    """A rule's arithmetic on arrays that were only read, such as x - mean, belongs to the step."""

    def run(wrap):
        model = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2))

        def step(x):
            model.zero_grad()
            first = dp.grad(model(x).pow(2).sum(), [*model.parameters()], create_graph=True)
            sum(g.pow(2).sum() for g in first).backward()

        step, found = wrap(step), []
        for i in range(8):
            step(rows(max(i - 3, 0)))
            found.append(gradients(model))
        return found

    same(run)


def test_random_draws_that_are_repeated_or_missed():
    def run(wrap):
        model = network(nn.Dropout(0.5))
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        def step(x, y):
            optimizer.zero_grad()
            hidden = dp.checkpoint(model[:3], x)
            loss = F.cross_entropy(model[3](hidden), y) + F.dropout(x).sum() * 0
            loss.backward()
            optimizer.step()
            return loss

        step, found = wrap(step), []
        for i in range(12):
            y = labels(i) + 5 * (i % 5 == 4)
            if i % 5 == 4:
                with pytest.raises(ValueError, match="class"):
                    step(rows(i), y)
            else:
                found.append(step(rows(i), y))
        return found, [*model.parameters()]

    same(run)
    with pytest.raises(GraphError, match="seeded"):
        dp.capture(lambda: dp.manual_seed(1))()


def test_a_captured_step_in_another():
    def run(wrap):
        inner = wrap(lambda x: x.exp() * 2)
        outer = wrap(lambda x: inner(x) + 1)
        return [outer(rows(max(i - 3, 0))) for i in range(8)]

    same(run, replays=False)


def test_state_that_python_looks_at():
    def run(wrap):
        count = dp.zeros(())
        step, found = wrap(lambda x: x * 2 if count.item() < 3 else -x), []
        for i in range(9):
            found.append(step(rows(i)))
            count += 1 if i > 3 else 0
        return found

    same(run)
    written = dp.zeros(())
    with pytest.raises(GraphError, match="read in Python"):
        dp.capture(lambda: written.add_(1).item())()


def test_modes_are_part_of_a_call():
    def run(wrap):
        step, found = wrap(lambda x: x * dp.ones(3) * 1.5), []
        for dtype in (dp.float32, dp.float64, dp.float32):
            dp.set_default_dtype(dtype)
            found += [step(dp.arange(3)) for _ in range(4)]
        return found

    same(run)


def test_arguments_and_results_of_other_kinds():
    def run(wrap):
        step = wrap(lambda pair, *, scale=1.0, more: (Pair(pair.a * scale, more[0]["x"] + 1), 7))
        return [step(Pair(rows(i), 1), scale=2.0, more=[{"x": rows(i)}]) for i in range(5)]

    same(run)
    ints = dp.capture(lambda x, k: x * k)(dp.arange(2), np.float64(2.5))
    assert ints.dtype == dp.float32
    count = iter(range(9))
    step = dp.capture(lambda x: (x * 1, next(count)))
    assert [step(dp.ones(1))[1] for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(GraphError, match="returned a object"):
        dp.capture(lambda x: object())(dp.ones(1))
    with pytest.raises(TypeError, match="can be hashed"):
        dp.capture(lambda x: 1)({1, 2})


def test_weighted_losses_and_frozen_parts_in_replicas():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.frozen, self.last = nn.BatchNorm1d(6), nn.Linear(6, 6), nn.Linear(6, 5)
            self.frozen.requires_grad_(False)

        def forward(self, x):
            return self.last(self.frozen(self.norm(x)))

    def state(devices, **options):
        dp.manual_seed(0)
        model, random = Model(), np.random.default_rng(0)
        loss = nn.CrossEntropyLoss(weight=dp.tensor([1.0, 2.0, 3.0, 4.0, 5.0]))
        train = dp.Scheduler(model, loss, optim.SGD(model.parameters(), lr=0.05), devices=devices,
                             **options)  # fmt: skip
        for _ in range(3):  # the last batch gives a replica one row
            train.run([(random.standard_normal((n, 6)).astype("float32"),
                        random.integers(0, 5, n)) for n in (6, 6, 6, 3)])  # fmt: skip
            with dp.no_grad():
                model.frozen.weight.mul_(1.5)
        return [t.numpy().tolist() for t in [*model.state_dict().values()]]

    for devices in (2, "emu:0-1"):
        assert state(devices, capture=True) == state(devices)


def test_threads_copies_and_pickles():
    step, wrong = dp.capture(lambda x: (x + 1).sum()), []

    def work(n):
        for _ in range(300):
            if step(dp.ones(n)).item() != 2 * n:
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    model = nn.Linear(3, 2)
    model.step = dp.capture(model.forward)
    for _ in range(3):
        model.step(rows())
    other = copy.deepcopy(model)
    with dp.no_grad():
        other.weight.zero_()
    assert other.step(rows()).tolist() == [other.bias.tolist()] * 4
