"""What callers and ``on_step`` may change between steps, and what is refused there."""

from threading import Thread

import pytest
from training import CLASSES, FEATURES, adam, batches, distance, everything, flat, mlp, scheduler

import minidp as dp
from minidp import nn, optim
from minidp.errors import ReplicaError

DATA = batches(9, 6)
LAYOUTS = [{"devices": 1}, {"devices": 3}, {"devices": 2, "store": "device"}]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_options_that_no_optimiser_has_change_nothing(layout):
    model = mlp()
    first, second = [*model[0].parameters()], [*model[2].parameters()]
    optimizer = optim.SGD([{"params": first}, {"params": second}], 0.1, momentum=0.9)
    run = scheduler(model, None, optimizer, **layout)
    run(*DATA[0])
    for name, value in (("lr", None), ("momentum", -1.0)):
        before, kept = everything(run), optimizer.param_groups[0][name]
        optimizer.param_groups[0][name] = value
        with pytest.raises((TypeError, ValueError)) as caught:
            run(*DATA[1])
        assert caught.value.__notes__[0].startswith("in param_groups[0]")
        optimizer.param_groups[0][name] = kept
        assert everything(run) == before


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("assign", [False, True])
def test_parameters_that_are_set_between_steps(layout, assign):
    def clamp(progress):
        for p in run.model.parameters():
            if assign:
                p.data = p.detach().clamp(-0.1, 0.1)
            else:
                p.detach().clamp_(-0.1, 0.1)

    run = scheduler(mlp(), None, adam, **layout)
    for x, y in DATA:
        run(x, y)
        clamp(None)
    expected = flat(run.model)
    run = scheduler(mlp(), None, adam, **layout)
    run.run(DATA, on_step=clamp)
    run.check_replicas()
    assert distance(flat(run.model), expected) < 1e-12


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("capture", [False, True])
def test_parameters_that_are_frozen_between_steps(layout, capture):
    def freeze(progress):
        run.model[0].requires_grad_(progress.steps < 3)

    run = scheduler(mlp(), None, adam, **layout)
    run.run(DATA[:3])
    run.model[0].requires_grad_(False)
    run.run(DATA[3:])
    expected = flat(run.model)
    run = scheduler(mlp(), None, adam, capture=capture, clip_norm=100.0, unused="error", **layout)
    run.run(DATA, on_step=freeze)
    assert distance(flat(run.model), expected) < 1e-12
    run.model[0].requires_grad_(False)
    run(*DATA[0])
    with pytest.raises(ReplicaError, match=r"parameter\(s\) '0.weight', .* from the next run on"):
        run.run(DATA, on_step=lambda progress: run.model[0].requires_grad_(True))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("capture", [False, True])
@pytest.mark.parametrize("used", [False, True])
def test_parameters_that_are_added_between_steps(layout, capture, used):
    class Growing(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.more, self.grown = mlp(), mlp(), False

        def forward(self, x):
            return self.net(x) + self.more(x) if self.grown else self.net(x)

    def grow(progress):
        if progress.steps == 4:
            run.model.more.requires_grad_(True)
            run.optimizer.add_param_group({"params": run.model.more.parameters(), "lr": 0.03})
            run.model.grown = used

    def fresh():
        model = Growing()
        model.more.requires_grad_(False)
        optimizer = optim.SGD(model.net.parameters(), 0.1, momentum=0.9)
        return scheduler(model, None, optimizer, capture=capture, unused="ignore", **layout)

    run = fresh()
    run.run(DATA[:4])
    run.progress.steps = 4
    grow(run.progress)
    run.run(DATA[4:])
    expected, run = everything(run), fresh()
    with pytest.raises(ReplicaError, match=r"parameter\(s\) 'more.0.weight', .* two runs"):
        run.run(DATA, on_step=grow)
    assert run.progress.steps == 4
    run.run(DATA[4:])
    assert everything(run) == expected
    run = fresh()
    run.run(DATA[:4], on_epoch=lambda progress: grow(progress))
    run.run(DATA[4:])
    assert everything(run) == expected


def test_one_run_at_a_time():
    run, found = scheduler(mlp(), devices=2), []

    def other():
        with pytest.raises(ReplicaError, match="running already"):
            run(*DATA[0])
        found.append("refused")

    def meanwhile(progress):
        thread = Thread(target=other)
        thread.start()
        thread.join()
        other()  # nor here

    run.run(DATA[:2], on_step=meanwhile)
    assert found == ["refused"] * 4
    with pytest.raises(ReplicaError, match="running already"):
        run.run(DATA[:2], watch=lambda progress: run.evaluate(DATA))
    run(*DATA[0])


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_evaluating_between_steps_changes_nothing(layout):
    plain, run, found = (scheduler(mlp(), **layout), scheduler(mlp(), **layout), [])
    plain.run(DATA)
    run.run(DATA, on_step=lambda progress: found.append(run.evaluate(DATA)["loss"]))
    assert flat(run.model).tobytes() == flat(plain.model).tobytes()
    assert found[-1] == plain.evaluate(DATA)["loss"] and run.stats()["steps"] == len(DATA)


@pytest.mark.parametrize("layout", [{}, {"capture": True}, {"devices": "emu:0-1"}])
def test_parameters_of_another_model_are_used_without_a_gradient(layout):
    """As those of a teacher, or of a generator while the discriminator is trained."""
    dp.manual_seed(0)
    teacher = nn.Linear(FEATURES, CLASSES)

    def loss(outputs, inputs):
        with dp.no_grad():
            wanted = teacher(inputs)
        return ((outputs - wanted) ** 2).mean()

    run = scheduler(mlp("float32"), loss, **{"devices": 2, **layout})
    alone = scheduler(mlp("float32"), loss, devices=1)
    for x, _ in batches(8, 6, "float32"):
        assert float(run(x, x)) == pytest.approx(float(alone(x, x)), rel=1e-4)
        with dp.no_grad():
            teacher.weight *= 1.5  # seen in the next step
    assert teacher.weight.grad is None
    with pytest.raises(ReplicaError, match="used under no_grad"):
        scheduler(mlp("float32"), lambda y, x: (teacher(x) - y).mean(), devices=2)(x, x)


def test_hooks_of_parameters_are_refused():
    run = scheduler(mlp(), devices=2)
    run.run(DATA)
    before = everything(run)
    hook = run.model[0].weight.register_hook(lambda g: g * 0)
    for act in (lambda: run.run(DATA), lambda: run(*DATA[0]), lambda: scheduler(run.model),
                lambda: dp.launch(lambda world: world.replicate(run.model), 2)):  # fmt: skip
        with pytest.raises(ReplicaError, match=r"parameter 0\.weight has a hook"):
            act()
    assert everything(run) == before
    hook.remove()
    run.run(DATA)


class Counting(nn.Module):
    """Notes something of its own in a buffer, in one of several ways."""

    def __init__(self, note):
        super().__init__()
        self.layer, self.note = nn.Linear(FEATURES, CLASSES), note
        self.register_buffer("mean", dp.zeros(FEATURES))
        self.double()

    def forward(self, x):
        with dp.no_grad():
            self.note(self, x.mean(0))
        return self.layer(x + self.mean)


def assigned(model, mean):
    model.mean = 0.9 * model.mean + 0.1 * mean


def one_place(model, mean):
    model.mean[0] = mean[0]


NOTES = [
    assigned, one_place, lambda model, mean: model.mean.copy_(mean),
    lambda model, mean: model.mean.mul_(0.9).add_(mean),
    lambda model, mean: model.mean.fill_(1.0), lambda model, mean: model.mean.zero_(),
]  # fmt: skip


@pytest.mark.parametrize("note", NOTES)
@pytest.mark.parametrize("layout", [{"devices": 2}, {"devices": 2, "store": "device"},
                                    {"devices": 1, "replicas": 2}], ids=str)  # fmt: skip
@pytest.mark.parametrize("capture", [False, True])
def test_a_buffer_that_forward_changes_is_refused_with_several_replicas(note, layout, capture):
    model = Counting(note)
    run = scheduler(model, None, optim.SGD(model.parameters(), 0.1), capture=capture, **layout)
    before = everything(run)
    with pytest.raises(ReplicaError, match="forward changes the buffer mean") as caught:
        run(*DATA[0])
    assert str(caught.value).startswith("in Counting (Counting), ")
    assert everything(run) == before and not dp.tensor(model.mean).any()


@pytest.mark.parametrize("note", NOTES)
def test_one_replica_may_change_a_buffer_and_so_may_on_step(note):
    model, expected, row = Counting(note), Counting(note), dp.ones(FEATURES, dtype=dp.float64)
    run = scheduler(model, None, optim.SGD(model.parameters(), 0.1), devices=1)
    run(*DATA[0])
    model.mean, model.note = dp.zeros_like(row), lambda *given: None
    run = scheduler(model, None, optim.SGD(model.parameters(), 0.1), devices=2)
    run.run(DATA, on_step=lambda progress: note(model, row))
    for _ in DATA:
        note(expected, row)
    assert dp.equal(model.mean, expected.mean)
