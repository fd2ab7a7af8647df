"""A captured step does, byte for byte, what the step itself does; and knows when it cannot."""

import gc
import weakref

import numpy as np
import pytest

import minidp as dp
from minidp import nn, optim
from minidp.errors import GraphError
from minidp.mode import mode


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.lstm = nn.Embedding(11, 6), nn.LSTM(6, 8, batch_first=True)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        return self.head(self.lstm(self.embedding(x))[0][:, -1])


class Attentive(nn.Module):
    """A small GPT: two blocks, causal."""

    def __init__(self):
        super().__init__()
        self.token, self.place = nn.Embedding(11, 8), nn.Embedding(6, 8)
        block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
        self.head = nn.Linear(8, 5)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(6))

    def forward(self, x):
        h = self.token(x) + self.place.weight
        return self.head(self.blocks(h, mask=self.mask, is_causal=True).mean(1))


def images(*layers):
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), *layers, nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(64, 5))  # fmt: skip


MODELS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 5)), "rows"),
    "convolution": (images, "images"),
    "batch norm": (lambda: images(nn.BatchNorm2d(4)), "images"),
    "dropout": (lambda: images(nn.Dropout(0.3)), "images"),
    "lstm": (Recurrent, "words"),
    "gpt": (Attentive, "words"),
}


def batches(kind, steps, sizes=(6, 7)):
    """Batches of two sizes in turn."""
    rng, found = np.random.default_rng(1), []
    for i in range(steps):
        n = sizes[i % len(sizes)]
        x = {"rows": lambda n=n: rng.standard_normal((n, 6)).astype("float32"),
             "images": lambda n=n: rng.standard_normal((n, 1, 8, 8)).astype("float32"),
             "words": lambda n=n: rng.integers(0, 11, (n, 6))}[kind]()  # fmt: skip
        found.append((x, rng.integers(0, 5, n)))
    return found


def trained(name, steps=50, optimizer=optim.SGD, **options):
    dp.manual_seed(0)
    make, kind = MODELS[name]
    model = make()
    kwargs = {"lr": 0.05, "momentum": 0.9} if optimizer is optim.SGD else {"lr": 0.01}
    train = dp.Scheduler(model, nn.CrossEntropyLoss(ignore_index=4),
                         optimizer(model.parameters(), **kwargs), **options)  # fmt: skip
    losses = [float(train(x, y)) for x, y in batches(kind, 3)]
    train.run(batches(kind, steps))
    state = [*model.parameters(), *model.buffers()]
    return train, b"".join(t.array.tobytes() for t in state), losses


@pytest.mark.parametrize("replicas", [1, 2, 3])
@pytest.mark.parametrize("name", MODELS)
def test_a_replayed_step_equals_the_eager_one_byte_for_byte(name, replicas):
    train, captured, losses = trained(name, devices=replicas, capture=True)
    assert all(step.replays for step in train.replays.captured)
    assert (captured, losses) == trained(name, devices=replicas)[1:]


@pytest.mark.parametrize("options", [
    {"devices": 2, "workload": [3, 1]}, {"devices": 2, "store": "device"},
    {"devices": 1, "replicas": 3}, {"devices": 2, "nan": "raise"},
], ids=str)  # fmt: skip
def test_in_every_kind_of_run(options):
    train, captured, losses = trained("dropout", 12, optim.Adam, capture=True, **options)
    assert all(step.replays for step in train.replays.captured)
    assert (captured, losses) == trained("dropout", 12, optim.Adam, **options)[1:]


def test_replicas_replay_all_or_none():
    class Moody(nn.Linear):
        calls, seen = 0, {0: 0, 1: 0}

        def forward(self, x):
            rank = mode.replica.rank
            Moody.seen[rank] += 1
            if rank == 1 and Moody.seen[1] < 8:
                x = x * float(Moody.seen[1])
            return super().forward(x)

    model = Moody(6, 5)
    train = dp.Scheduler(model, nn.CrossEntropyLoss(), optim.SGD(model.parameters(), lr=0.1),
                         devices=2, capture=True)  # fmt: skip
    data = batches("rows", 12, sizes=(6,))
    train.run(data[:7])
    assert Moody.seen == {0: 7, 1: 7}  # replica 0 was ready, and waited
    train.run(data)
    assert Moody.seen[0] == Moody.seen[1] < 12
    assert all(step.replays for step in train.replays.captured)


def step_of(model, optimizer):
    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return {"loss": loss, "norms": [p.grad.norm() for p in model.parameters()]}

    return step


@pytest.mark.parametrize("name", MODELS)
def test_a_step_of_ones_own(name):
    results = []
    for wrap in (lambda step: step, lambda step: dp.capture(step, fuse=False)):
        dp.manual_seed(0)
        make, kind = MODELS[name]
        model = make()
        optimizer = optim.AdamW(model.parameters(), lr=0.01)
        schedule = optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
        step, found = wrap(step_of(model, optimizer)), []
        for x, y in batches(kind, 12):
            result = step(dp.tensor(x), dp.tensor(y))
            schedule.step()
            found.append([result["loss"].item(), *(n.item() for n in result["norms"])])
        results.append((found, [t.numpy().tolist() for t in model.buffers()]))
    assert step.replays and results[0] == results[1]


def test_gradients_may_add_up():
    x = dp.tensor([1.0, 2.0], requires_grad=True)
    step = dp.capture(lambda: (x * x).sum().backward())
    for k in range(1, 6):
        step()
        assert x.grad.tolist() == [2.0 * k, 4.0 * k]
    assert step.replays


def test_a_value_that_is_read_raises_and_names_the_line():
    def step(x):
        y = x * 2
        return y if y.sum() > 0 else -y

    with pytest.raises(GraphError) as caught:
        dp.capture(step)(dp.ones(2))
    line = step.__code__.co_firstlineno + 2
    assert f"test_capture.py:{line}" in str(caught.value) and "dp.where" in str(caught.value)
    for read in (float, bool, dp.Tensor.numpy, dp.Tensor.tolist, lambda t: dp.arange(3)[t.long()]):
        with pytest.raises(GraphError, match="read in Python"):
            dp.capture(lambda x, read=read: read(x * 1))(dp.tensor(1.0))


def test_python_that_changes_its_mind_is_noticed():
    state = {"scale": 2.0}
    step = dp.capture(lambda x: x * state["scale"])
    assert [step(dp.ones(1)).item() for _ in range(4)] == [2.0] * 4 and step.replays
    state["scale"] = 3.0
    seen = [step(dp.ones(1)).item() for _ in range(40)]
    assert seen[0] == 2.0 and seen[-1] == 3.0  # told apart by a recording, after a while


def test_a_step_that_never_repeats_itself_runs_eagerly():
    count = iter(range(100))
    step = dp.capture(lambda x: x * float(next(count)))
    assert [step(dp.ones(1)).item() for _ in range(6)] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert not step.replays and "mul(x0, 4.0) in one run, v0 = mul(x0, 5.0)" in step.last.reason


def test_random_draws_go_on():
    def draws(wrap):
        dp.manual_seed(3)
        step = wrap(lambda x: nn.functional.dropout(x))
        return [step(dp.ones(20)).tolist() for _ in range(6)]

    captured = draws(dp.capture)
    assert captured == draws(lambda step: step) and captured[4] != captured[5]


def test_parameters_that_move_are_recorded_anew():
    model = nn.Linear(2, 1, bias=False)
    step = dp.capture(lambda x: model(x))
    x = dp.ones(1, 2)
    for _ in range(3):
        step(x)
    assert step.replays
    model.weight.array = np.full((1, 2), 3, "float32")
    assert step(x).item() == 6.0


def test_constants_made_in_the_step_are_constants():
    step = dp.capture(lambda x: x * dp.arange(3) + np.float32(1))
    for _ in range(4):
        assert step(dp.ones(3)).tolist() == [1.0, 2.0, 3.0]
    assert step.replays


def test_recordings_are_kept_per_kind_of_arguments_and_bounded():
    step = dp.capture(lambda x, times: x * times)
    for _ in range(3):
        for n in (1, 2):
            assert step(dp.ones(n), 2.0).tolist() == [2.0] * n
            assert step(dp.ones(n), 5.0).tolist() == [5.0] * n
    assert step.replays
    for n in range(40):
        step(dp.ones(n), 1.0)
    assert len(step._recordings) <= 8


def test_an_error_in_a_replay_says_where():
    step = dp.capture(lambda x, i: (x * 2)[0].sum() + nn.functional.cross_entropy(x, i))
    good = dp.tensor([0, 1])
    for _ in range(3):
        step(dp.ones(2, 3), good)
    with pytest.raises(ValueError, match="class 7") as caught:
        step(dp.ones(2, 3), dp.tensor([0, 7]))
    assert any("in the captured step, at v" in note for note in caught.value.__notes__)
    assert step(dp.ones(2, 3), good).item() > 0


def test_the_program_prints():
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    step = dp.capture(lambda x: model(x).sum().backward())
    step(dp.ones(4, 2))
    text = str(step.graph)
    assert "step(x0: float32[4, 2]):" in text and "# backward" in text
    assert "v0 = linear(x0, 0.weight, 0.bias)" in text and "gradient of 0.weight = " in text
    assert "frees" in text


def test_what_is_not_needed_is_left_out():
    step = dp.capture(lambda x: (x.exp(), x * 2)[1])
    step(dp.ones(2))
    assert [line.op.name for line in step.graph.lines] == ["mul"]


def test_equal_lines_are_one_unless_something_changes_between():
    step = dp.capture(lambda x: (x.exp() * 2, x.exp() + 1), fuse=False)
    step(dp.ones(2))
    assert [line.op.name for line in step.graph.lines] == ["exp", "mul", "add"]

    def changing(x):
        before = x * 2
        y = x * 2
        y += 1
        return before, x * 2, y

    def updating():
        loss = (weight * weight).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss, (weight * weight).sum()

    weight = dp.ones(3, requires_grad=True)
    optimizer = optim.SGD([weight], lr=0.25)
    for step, arguments in ((dp.capture(changing), (dp.ones(2),)), (dp.capture(updating), ())):
        for _ in range(5):
            results = [result.tolist() for result in step(*arguments)]
        assert step.replays
        if arguments:
            assert results == [[2.0, 2.0], [2.0, 2.0], [3.0, 3.0]]
        else:
            assert results[1] == results[0] / 4 == 3 / 4**5


def test_signs_of_zero_are_kept_and_told_apart():
    step = dp.capture(lambda x: (x * 0.0, x * -0.0), fuse=False)
    for _ in range(3):
        signs = [np.signbit(y.numpy()).tolist() for y in step(dp.ones(1))]
    assert step.replays and signs == [[False], [True]]
    factor = {"it": 0.0}
    step = dp.capture(lambda x: x * factor["it"])
    step(dp.ones(1))
    factor["it"] = -0.0
    step(dp.ones(1))
    assert not step.replays and "mul(x0, -0.0)" in step.last.reason


def test_a_captured_step_can_be_let_go(no_collector):
    x = dp.ones(3, requires_grad=True)
    step = dp.capture(lambda: (x * 2).sum().backward())
    for _ in range(3):
        step()
    program = weakref.ref(step.last.program)
    del step
    gc.collect()
    assert program() is None
