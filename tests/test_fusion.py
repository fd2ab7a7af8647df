"""Fused lines of a captured step give what the ops give one by one, at less cost."""

import os
import subprocess
import sys
import threading
from contextlib import contextmanager

import numpy as np
import pytest
from cases import table

import minidp as dp
from minidp import nn, optim
from minidp.backend import CPU
from minidp.graph.formula import evaluate
from minidp.graph.fusion import FusedLine
from minidp.op import OPS

FLOATS = ["float32", "float64"]
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-310, 3e38, -88.0, 1.0, 0.5, -0.5, 2.0]


def replayed(function, *arguments):
    """What a captured function gives, and its fused lines."""
    step = dp.capture(function)
    for _ in range(3):
        result = step(*arguments)
    assert step.replays, step.last.reason
    return result, [
        line for line in step.replayed.lines if isinstance(line, FusedLine)
    ]  # fmt: skip


def close(got, want, dtype="float32"):
    """Equal, special values too, but for last bits."""
    got, want = (x.detach().numpy() if isinstance(x, dp.Tensor) else x for x in (got, want))
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    tolerance = 1e-6 if dtype == "float32" else 1e-13
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * 1e-3)


@contextmanager
def numpy_only(monkeypatch):
    with monkeypatch.context() as change:
        change.setitem(CPU._kernels, "fused", None)
        yield


ELEMENTWISE = [
    *("add", "sub", "mul", "div", "neg", "abs", "sign", "floor", "ceil", "trunc", "round"),
    *("relu", "relu_input", "maximum", "minimum", "clamp", "pow", "exp", "expm1", "log", "log1p"),
    *("log2", "log10", "logaddexp", "log1pexp", "sigmoid", "sqrt", "rsqrt", "erf", "erfc"),
    *("erfinv", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "hypot", "sinh", "cosh"),
    *("tanh", "asinh", "acosh", "atanh", "floor_divide", "remainder", "fmod", "where"),
    *("eq", "ne", "lt", "le", "gt", "ge", "chosen"),
]  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_every_element_wise_op(name, dtype):
    """In a chain, with every sample of its row: shapes, broadcasting, empty arrays, numbers."""
    op = OPS[name]

    def chain(*given):
        y = op(*given, **sample.constants)
        if y.dtype == dp.bool:
            y = OPS["where"](y, 1.0 + 0 * tensor_of(given), -2.0)
        return -(y * 1.5 + 0.25)

    def tensor_of(given):
        return next(g for g in given if isinstance(g, dp.Tensor) and g.dtype != dp.bool)

    fused = 0
    for sample in table.samples(name):
        arrays = [
            a.astype(dtype) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a
            for a in sample.arrays
        ]  # fmt: skip
        given = [dp.tensor(a) if isinstance(a, np.ndarray) else a for a in arrays]
        got, lines = replayed(chain, *given)
        close(got, chain(*given), dtype)
        fused += len(lines)
    assert fused


def chains(rng, depth):
    """A random function of arrays a, b and a 0-d array c, with values that several ops use."""
    one = [lambda x: -x, dp.tanh, dp.exp, dp.sigmoid, dp.relu, dp.abs, dp.sin, dp.erf, dp.sqrt,
           lambda x: x * 0.5, lambda x: 1 - x, lambda x: x**2, lambda x: x.clamp(-1.0, 2.0),
           lambda x: x.reshape(-1).reshape(x.shape), lambda x: x.detach() * 2]  # fmt: skip
    two = [lambda x, y: x + y, lambda x, y: x * y, lambda x, y: x - y, dp.maximum, dp.minimum,
           lambda x, y: x / (y * y + 1), lambda x, y: dp.where(x > y, x, y * 2.0)]  # fmt: skip
    plan = [(rng.random() < 0.5, rng.integers(99), rng.integers(99), rng.integers(99))
            for _ in range(depth)]  # fmt: skip

    def function(a, b, c):
        values = [a, b, a + c]
        for unary, which, i, j in plan:
            x, y = (values[-1 - k % min(len(values), 5)] for k in (i, j))
            values.append(one[which % len(one)](x) if unary else two[which % len(two)](x, y))
        return values[-1], values[-3]

    return function


SHAPES = [(1,), (5,), (31,), (4, 8), (3, 11), (1, 70), (2, 3, 171), (5000,)]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("seed", range(12))
def test_random_chains_with_gradients(seed, dtype):
    rng = np.random.default_rng(seed)
    shape = SHAPES[seed % len(SHAPES)]
    function = chains(rng, 14)
    given = [rng.standard_normal(s).astype(dtype) for s in (shape, shape, ())]
    if seed % 3 == 0:
        given[0].flat[: len(SPECIAL)] = SPECIAL[: given[0].size]

    def step(a, b, c):
        a, b, c = (t.detach().requires_grad_() for t in (a, b, c))
        y, z = function(a, b, c)
        (y * 0.5 + z).sum().backward()
        return [y, z, *(t.grad if t.grad is not None else t * 0 for t in (a, b, c))]

    tensors = [dp.tensor(x) for x in given]
    got, lines = replayed(step, *tensors)
    for one, other in zip(got, step(*tensors), strict=True):
        close(one, other, dtype)
    assert lines


@pytest.mark.parametrize("dtype", FLOATS)
def test_special_values(dtype, monkeypatch):
    values = np.array([*SPECIAL, *np.random.default_rng(0).standard_normal(20) * 30], dtype)
    x = dp.tensor(values)
    y = dp.tensor(values[::-1].copy())
    names = ("exp", "log", "tanh", "sigmoid", "sqrt", "sin", "erf", "floor", "round", "sign")

    def step(x, y):
        single = [getattr(dp, name)(x) * 1.0 for name in names]
        pairs = [f(x, y) * 1.0 for f in (dp.maximum, dp.minimum, dp.fmod, dp.atan2, dp.hypot)]
        masks = [(x < y) & ~(x == y), (x >= y) | x.isnan(), (x != y) ^ (x > 0)]
        return [*single, *pairs, *masks, dp.where(x > y, x, y)]

    got, lines = replayed(step, x, y)
    assert len(lines) == 1
    want = step(x, y)
    for one, other in zip(got, want, strict=True):
        close(one, other, dtype)
        if one.dtype != dp.bool:
            same = np.signbit(one.numpy()) == np.signbit(other.numpy())
            assert (same | np.isnan(other.numpy())).all()
    with numpy_only(monkeypatch):
        for one, other in zip(replayed(step, x, y)[0], want, strict=True):
            close(one, other, dtype)


def test_literals_do_not_widen():
    x = dp.tensor(np.linspace(-2, 2, 40, dtype="float32"))
    got, (line,) = replayed(lambda x: (x * 0.1 + 1) / 3 - 1e-9, x)
    assert got.dtype == dp.float32 and line.op.formula.dtype == np.float32
    assert got.numpy().tobytes() == ((x * 0.1 + 1) / 3 - 1e-9).numpy().tobytes()


def test_layouts():
    rng = np.random.default_rng(0)
    base = rng.standard_normal((2, 5, 6, 3)).astype("float32")
    last = np.moveaxis(base, 3, 1)  # channels last in memory
    other = base.swapaxes(1, 2).copy().swapaxes(1, 2)
    for a, b in ((last, last * 2), (base.T, base.T + 1), (base[:, ::2], base[:, 1:4]),
                 (base[..., :1], base), (base, other)):  # fmt: skip
        x, y = dp.Tensor(a), dp.Tensor(b)
        got, _ = replayed(lambda x, y: (x * 2 + y).tanh() - x, x, y)
        close(got, (x * 2 + y).tanh() - x)
    (one, two), lines = replayed(lambda x: ((x * 2 + 1).tanh(), x.exp() * 3), dp.Tensor(last))
    assert len(lines) == 1 and one.array.strides == last.strides == two.array.strides


def test_what_stays_apart():
    """Other dtypes, other byte orders, rows that are broadcast."""
    half, whole = dp.ones(9, dtype=dp.float16), dp.arange(9)
    swapped = dp.Tensor(np.ones(9, ">f4"))
    table = dp.rand(4, 9)
    for x in (half, whole, swapped):
        got, lines = replayed(lambda x: -(x * 2 + x), x)
        assert not lines and got.tolist() == (-(x * 2 + x)).tolist()
    got, (line,) = replayed(lambda x: (x + x[0]) * 2 - 1, table)
    assert len(line.lines) == 2
    close(got, (table + table[0]) * 2 - 1)


def test_an_array_in_another_layout_than_foreseen():
    _, (line,) = replayed(lambda x: (x * 2 + 1).exp(), dp.ones(3, 4))
    x = np.arange(12, dtype="float32").reshape(4, 3).T / 9
    close(line.op(x), np.exp(x * 2 + 1))
    with pytest.raises(ValueError, match=r"float32\[3\].*float32\[3, 4\]"):
        line.op(x[:, 0])


def test_values_that_are_known_are_numbers():
    """The gradient of a sum needs no array of ones, and no sum."""
    x = dp.tensor([1.0, 2.0, 3.0], requires_grad=True)

    def step():
        x.grad = None
        (x * x * 0.5).sum().backward()

    step = dp.capture(step)
    for _ in range(4):
        step()
    assert x.grad.tolist() == [1.0, 2.0, 3.0]
    names = [line.op.name for line in step.replayed.lines if line.op is not None]
    assert names == ["fused"]


def test_only_what_is_needed_outside_reaches_memory():
    _, (line,) = replayed(lambda x: ((x * 2).tanh() + 1).exp(), dp.ones(9))
    assert len(line.lines) == 4 and len(line.outputs) == 1
    text = str(line)
    assert text.startswith("v3 = fused(x0): v0 = mul(x0, 2); v1 = tanh(v0); v2 = add(v1, 1)")


def test_a_group_does_not_cross_what_it_depends_on():
    weight = dp.ones(4, 4)

    def step(x):
        a = (x * 2).exp()
        b = a @ weight
        return (a + b).tanh() * a, b.relu() + x

    x = dp.tensor(np.random.default_rng(0).standard_normal((4, 4)).astype("float32"))
    got, lines = replayed(step, x)
    assert len(lines) == 2
    for one, other in zip(got, step(x), strict=True):
        close(one, other)


def test_changes_in_place_keep_their_order():
    total = dp.zeros(5)

    def step(x):
        y = (x + total) * 2
        total.add_(x)
        z = (x + total) * 2
        total.mul_(0.5)
        return y - 1, z - 1, (total + 0) * 3

    x, found = dp.arange(5.0), []
    for wrap in (lambda step: step, dp.capture):
        total.zero_()
        captured = wrap(step)
        found.append([[t.tolist() for t in captured(x)] for _ in range(5)])
    assert captured.replays and found[0] == found[1]


def test_dropout_between():
    results = []
    for wrap in (lambda step: step, dp.capture):
        dp.manual_seed(0)
        x = dp.ones(64, requires_grad=True)

        def step(x=x):
            x.grad = None
            y = (nn.functional.dropout((x * 2).tanh(), 0.4) * 3).exp().sum()
            y.backward()
            return y

        run = wrap(step)
        results.append([(run().item(), x.grad.tolist()) for _ in range(6)])
    np.testing.assert_allclose([r[0] for r in results[0]], [r[0] for r in results[1]], rtol=1e-6)
    np.testing.assert_allclose(results[0][5][1], results[1][5][1], rtol=1e-6)


def test_threads_may_replay_one_step():
    step = dp.capture(lambda x: (x * 2).tanh() + x)
    xs = [dp.tensor(np.full(3000, i, "float32")) for i in range(4)]
    for _ in range(3):
        step(xs[0])
    program, wrong = step.last.program, []

    def work(x):
        want = (x * 2).tanh() + x
        for _ in range(300):
            (y,) = program([x.array])
            if y.array.tobytes() != want.array.tobytes():
                wrong.append(x)

    threads = [threading.Thread(target=work, args=(x,)) for x in xs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def models():
    mlp = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 16), nn.GELU(),
                        nn.Linear(16, 16), nn.SiLU(), nn.Linear(16, 5))  # fmt: skip
    lenet = nn.Sequential(nn.Unflatten(1, (1, 3, 4)), nn.Conv2d(1, 4, 3, padding=1), nn.Softplus(),
                          nn.MaxPool2d(2), nn.Conv2d(4, 6, 1), nn.ELU(), nn.Dropout(0.2),
                          nn.Flatten(), nn.Linear(12, 5))  # fmt: skip
    return {"mlp": mlp, "lenet": lenet}


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("name", ["mlp", "lenet"])
def test_training(name, replicas):
    """One step's gradients agree within 1e-6, twenty steps end at the same place."""
    rng, ends = np.random.default_rng(0), []
    batches = [(rng.standard_normal((8, 12)).astype("float32"), rng.integers(0, 5, 8))
               for _ in range(20)]  # fmt: skip
    for options in ({}, {"fuse": True}):
        dp.manual_seed(0)
        model = models()[name]
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        train = dp.Scheduler(model, nn.CrossEntropyLoss(), optimizer, devices=replicas, **options)
        for x, y in batches[:3]:
            train(x, y)
        gradients = [p.grad.numpy().copy() for p in model.parameters()]
        for x, y in batches[3:]:
            train(x, y)
        ends.append((gradients, [p.detach().numpy().copy() for p in model.parameters()]))
    assert any(isinstance(line, FusedLine) for line in train.replays.captured[0].replayed.lines)
    for mine, its in zip(*[end[0] for end in ends], strict=True):
        assert np.linalg.norm(mine - its) <= 1e-6 * np.linalg.norm(its)
    for mine, its in zip(*[end[1] for end in ends], strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", FLOATS)
def test_on_the_emulated_gpu(dtype):
    """One kernel for each group, written from the same formula."""
    values = np.array([*SPECIAL, *np.random.default_rng(0).standard_normal(300) * 3], dtype)
    x, y = (dp.tensor(v, device="emu:1") for v in (values, values[::-1].copy()))
    one = dp.tensor(np.array(0.3, dtype), device="emu:1")
    names = ("exp", "log", "tanh", "sigmoid", "sqrt", "sin", "erf", "floor", "round", "sign",
             "expm1", "log1p", "asinh", "atan", "relu")  # fmt: skip

    def step(x, y, one):
        single = [getattr(dp, name)(x) * one for name in names]
        pairs = [dp.maximum, dp.minimum, dp.fmod, dp.atan2, dp.hypot, dp.remainder,
                 dp.floor_divide, dp.logaddexp]  # fmt: skip
        masks = [(x < y) & ~(x == y), (x >= y) | x.isnan(), (x != y) ^ (x > 0)]
        return [*single, *[f(x, y) * 1.5 for f in pairs], *masks, dp.where(x > y, x, y)]

    got, lines = replayed(step, x, y, one)
    assert len(lines) == 1 and lines[0].op.formula.compiled[1]
    host = step(x.cpu(), y.cpu(), one.cpu())
    for each, want in zip(got, host, strict=True):
        assert str(each.device) == "emu:1"
        limit = {"rtol": 3e-6, "atol": 1e-37} if dtype == "float32" else {"rtol": 1e-13}
        np.testing.assert_allclose(each.cpu().numpy(), want.numpy(), **limit)


def test_a_layer_of_images_on_the_emulated_gpu():
    x = dp.rand(2, 3, 4, 5).to("emu:0").permute(0, 3, 1, 2)
    got, lines = replayed(lambda x: (x * 2 + 1).tanh() - x, x)
    want = ((x * 2 + 1).tanh() - x).cpu().numpy()
    np.testing.assert_allclose(got.cpu().numpy(), want, rtol=0, atol=1e-6)
    assert len(lines) == 1 and got.array.strides == x.array.strides


def test_fusion_is_a_choice():
    step = dp.capture(lambda x: (x * 2).tanh() + x, fuse=False)
    for _ in range(3):
        step(dp.ones(4))
    assert [line.op.name for line in step.replayed.lines] == ["mul", "tanh", "add"]


def test_the_formula_by_numpy_is_the_same():
    x = np.random.default_rng(0).standard_normal((3, 7)).astype("float32")
    _, (line,) = replayed(lambda x: dp.where(x > 0, dp.erfc(x), x.exp() - 1), dp.tensor(x))
    assert line.op(x).tobytes() == evaluate(line.op.formula, [x], np).tobytes()


def test_without_a_compiler():
    program = (
        "import minidp as dp\n"
        "step = dp.capture(lambda x: ((x * 2).tanh() + 1).exp())\n"
        "for _ in range(4): y = step(dp.ones(3))\n"
        "assert step.replays, step.last.reason\n"
        "assert abs(y[0].item() - 7.1277) < 1e-3\n"
    )
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=120)
