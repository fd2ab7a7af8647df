"""Ops of a user's own: paragraphs in a script, that train on replicas and name themselves."""

import subprocess
import sys

import numpy as np
import pytest
from waves import leaf, wave

import minidp as dp
from minidp import nn, optim
from minidp.op import OPS
from minidp.testing import gradcheck, gradgradcheck


@dp.op("f:n k, i:n, k -> n, n", outputs="value weight",
    x=lambda g, x, at, w, power: spread(g.get(0, 0) * power * (x * w)[rows(at), at] ** (power - 1)
                                        * w[at] + g.get(1, 0), at, x),
    w=lambda g, x, at, w, power: (spread(g.get(0, 0) * power * (x * w)[rows(at), at] ** (power - 1)
                                         * x[rows(at), at], at, x)).sum(0))  # fmt: skip
def chosen_power(xp, x, at, w, *, power: int = 2):
    """value_n = (x_n,at w_at)^power, weight_n = x_n,at: outputs, integers, a constant."""
    one = xp.take_along_axis(x, at[:, None], 1)[:, 0]
    return (one * w[at]) ** power, one * 1


def rows(at):
    return np.arange(len(at))


def spread(values, at, like):
    """``values`` at (n, at_n) of zeros of the shape of ``like``."""
    here = dp.eye(like.shape[1], dtype=str(like.dtype)).array[np.asarray(at)]
    return values.reshape(-1, 1) * here


def straight_body(xp, x, scale):
    return xp.sign(x) * scale


straight = dp.op("..., ... -> ...", x=lambda g: g)(straight_body)
"""The straight-through sign: a rule that is no derivative, and none for ``scale``."""


@pytest.fixture(autouse=True)
def registry():
    before = dict(OPS)
    yield
    OPS.clear()
    OPS.update(before)


def test_outputs_integers_and_constants_have_derivatives_of_both_orders():
    x, w, at = leaf(4, 3), leaf(3, phase=1), dp.tensor([0, 2, 1, 2])
    for power in (2, 3):

        def both(x, w, power=power):
            value, weight = chosen_power(x, at, w, power=power)
            return value * weight

        assert gradcheck(both, [x, w]) and gradgradcheck(both, [x, w])
        assert gradcheck(lambda x, w: chosen_power(x, at, w)[0], [x, w])
        assert gradcheck(lambda x: chosen_power(x, at, w)[1], x)


def test_an_argument_without_a_rule_gets_no_gradient():
    x, scale = leaf(3), leaf(3)
    y = straight(x, scale)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.ones(3))
    assert scale.grad is None
    assert not straight(x.detach(), scale).requires_grad
    with pytest.raises(dp.errors.GraphError, match="input 1 was not used"):
        dp.grad(straight(x, scale).sum(), [x, scale])


class Binary(nn.Module):
    """A layer whose weights are signs in forward."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(dp.tensor(wave(2, 4)))
        self.scale = nn.Parameter(dp.tensor(wave(2, phase=1)))

    def forward(self, x):
        y = x @ straight(self.weight, 1.0).T
        value, weight = chosen_power(y, y.argmax(1).detach(), self.scale)
        return (value + weight).reshape(-1, 1)


@pytest.mark.parametrize("devices", ["cpu:0", "cpu:0-2"])
def test_they_train_in_replicas_as_in_a_loop_of_ones_own(devices):
    results = []
    for many in (False, True):
        model = Binary()
        optimizer = optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        train = dp.Scheduler(model, nn.MSELoss(), optimizer, devices) if many else None
        for i in range(3):
            x, y = wave(7, 4, phase=i), wave(7, 1)
            if many:
                train(x, y)
            else:
                optimizer.zero_grad()
                nn.MSELoss()(model(dp.tensor(x)), dp.tensor(y)).backward()
                optimizer.step()
        results.append([p.detach().numpy().copy() for p in model.parameters()])
    for a, b, start in zip(*results, Binary().parameters(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
        assert not np.array_equal(a, start.detach().numpy())


@dp.op("..., ..., ... -> ", writes="p m")
def user_lion(xp, p, g, m, *, lr, beta1, beta2):
    """Chen et al. 2023, arXiv 2302.06675."""
    p -= lr * xp.sign(beta1 * m + (1 - beta1) * g)
    m[...] = beta2 * m + (1 - beta2) * g


class Lion(optim.Optimizer):
    rule = user_lion
    arrays = ("exp_avg",)
    nonnegative = ("lr",)

    def __init__(self, params, lr=1e-4, beta1=0.9, beta2=0.99):
        super().__init__(params, {"lr": lr, "beta1": beta1, "beta2": beta2})


@pytest.mark.parametrize("devices", ["cpu:0-2", "emu:0-1"])
def test_an_update_of_ones_own_is_an_optimizer(devices):
    """Alone, and on slices of buckets in replicas; with options that change, and a state."""
    results = []
    for many in (False, True):
        dp.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1)).double()
        optimizer = Lion(model.parameters(), lr=0.1)
        train = dp.Scheduler(model, nn.MSELoss(), optimizer, devices) if many else None
        for i in range(4):
            x, y = wave(7, 4, phase=i), wave(7, 1)
            optimizer.param_groups[0]["lr"] = 0.1 / (i + 1)
            if many:
                train(x, y)
            else:
                optimizer.zero_grad()
                nn.MSELoss()(model(dp.tensor(x)), dp.tensor(y)).backward()
                optimizer.step()
        state = optimizer.state_dict()["state"]
        assert list(state[0]) == ["step", "exp_avg"] and state[0]["step"].item() == 4
        arrays = [*model.parameters(), *(each["exp_avg"] for each in state.values())]
        results.append([a.detach().numpy().copy() for a in arrays])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
    with pytest.raises(ValueError, match="Invalid learning rate: -1"):
        Lion(model.parameters(), lr=-1)


def test_a_gradient_penalty_goes_through_them():
    """Second derivatives inside training: the norm of an input's gradient."""
    x, w, at = leaf(4, 3), leaf(3, phase=1), dp.tensor([0, 2, 1, 2])

    def penalty(x, w):
        (g,) = dp.grad(chosen_power(x, at, w, power=3)[0].sum(), x, create_graph=True)
        return (g * g).sum()

    assert gradcheck(penalty, [x, w])


def test_a_name_that_the_library_uses_is_free():
    """Neither the kernel of that name is taken for it, nor it for the engine's op."""

    @dp.op("... -> ...", x=lambda g: g * 5)
    def relu(xp, x):
        return x * 5

    @dp.op("... -> ...", x=lambda g: g * 7)
    def sum(xp, x):
        return x * 7

    x = dp.tensor([-1.0, 2.0], requires_grad=True)
    y = sum(relu(x)) + dp.zeros(3, 2)  # backward of + sums over the three
    y.sum().backward()
    assert y[0].tolist() == [-35.0, 70.0] and x.grad.tolist() == [105.0, 105.0]
    assert dp.relu(x).tolist() == [0.0, 2.0]
    assert relu(dp.tensor([-1.0], device="emu:0")).tolist() == [-5.0]


def test_declaring_an_op_again_is_no_mistake():
    """As in a notebook, where a cell is run twice."""
    for factor in (2.0, 3.0):

        @dp.op("... -> ...", x=lambda g, factor=factor: g)
        def user_scaled(xp, x, *, factor=factor):
            return x * factor

        assert user_scaled(dp.ones(1)).item() == factor


@pytest.mark.parametrize("call, kind, text", [
    (lambda: chosen_power(dp.ones(2, 3), dp.tensor([0, 1, 2]), dp.ones(3)), ValueError,
     r"chosen_power\(\(2, 3\), \(3,\), \(3,\)\): axis 'n' is 2 .* and 3"),
    (lambda: chosen_power(dp.ones(2, 3), dp.ones(2), dp.ones(3)), TypeError,
     "chosen_power: expected integers, got float32"),
    (lambda: chosen_power(dp.ones(2, 3)), TypeError, r"chosen_power: expected chosen_power\(x, at"),
    (lambda: chosen_power(dp.ones(2, 3), dp.tensor([0, 1]), dp.ones(3), strength=2), TypeError,
     "chosen_power.*'strength'"),
    (lambda: straight(dp.ones(2), dp.ones(3)), ValueError, "straight_body"),
    (lambda: dp.op("n -> n", y=lambda g: g)(straight_body), TypeError,
     "straight_body: a rule for 'y', which is no argument"),
    (lambda: dp.op("n, n -> n", x=lambda g, z: g)(straight_body), TypeError,
     "straight_body: a rule asks for 'z'; known are g, x, scale"),
    (lambda: dp.op("n n")(straight_body), ValueError, "no '->'"),
])  # fmt: skip
def test_mistakes_name_the_op(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


def test_a_rule_may_ask_for_all_constants():
    @dp.op("... -> ...", x=lambda g, constants: stretched(g, **constants))
    def stretched(xp, x, by, times=1):
        return x * by**times

    for constants, slope in (({"by": 3.0}, 3), ({"by": 3.0, "times": 2}, 9)):
        x = leaf(2, 3)
        stretched(x, **constants).sum().backward()
        assert x.grad.tolist() == [[slope] * 3] * 2
        assert gradgradcheck(lambda x, c=constants: stretched(x, **c) ** 2, [leaf(4)])


def test_a_tensor_among_the_constants_of_a_captured_step_is_named():
    @dp.op("... -> ...", x=lambda g, by: g * by.array)
    def scaled(xp, x, *, by):
        return x * by.array

    step = dp.capture(lambda x: scaled(x, by=x.detach().mean(0)))
    with pytest.raises(dp.errors.GraphError, match=r"tensor \(3,\) as a constant, at "):
        step(dp.ones(2, 3))


SCRIPT = """
import minidp as dp
from minidp import nn, optim

@dp.op("... -> ...", x=lambda g, y: g * (1 - y * y))
def squashed(xp, x):
    return xp.tanh(x)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 1)

    def forward(self, x):
        return squashed(self.layer(x))

dp.manual_seed(0)
model = Net()
train = dp.Scheduler(model, nn.MSELoss(), optim.Adam(model.parameters(), lr=0.1), devices=2)
x = dp.randn(16, 3)
losses = [train(x, x.sum(1, keepdim=True).tanh()).item() for _ in range(30)]
assert losses[-1] < losses[0] / 5, losses
print("trained")
"""


def test_a_script_with_an_op_of_its_own(tmp_path):
    (tmp_path / "own.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, "own.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "trained\n", done.stderr
