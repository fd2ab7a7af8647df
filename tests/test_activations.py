"""Activations: PyTorch's values and gradients, far out and at kinks; layers made from functions.

Literal expectations were computed once with PyTorch 2.13.
"""

import copy
import inspect
import pickle

import numpy as np
import pytest
from waves import leaf

import minidp as dp
from minidp import nn
from minidp.nn import functional as F
from minidp.testing import gradcheck, gradgradcheck

POINTS = [-1000.0, -3.0, -0.5, 0.0, 0.5, 3.0, 1000.0]
EXPECTED = {  # values and slopes at POINTS
    "CELU(2.0)": ([-2, -1.55373968, -0.442398434, 0, 0.5, 3, 1000],
        [7.12457641e-218, 0.22313016, 0.778800783, 1, 1, 1, 1]),
    "ELU(0.5)": ([-0.5, -0.475106466, -0.19673467, 0, 0.5, 3, 1000],
        [0, 0.0248935342, 0.30326533, 0.5, 1, 1, 1]),
    "GELU()": ([0, -0.00404969409, -0.154268769, 0, 0.345731231, 2.99595031, 1000],
        [0, -0.0119456472, 0.132504875, 0.5, 0.867495125, 1.01194565, 1]),
    'GELU("tanh")': ([0, -0.00363739208, -0.15428599, 0, 0.34571401, 2.99636261, 1000],
        [0, -0.0115841666, 0.132630096, 0.5, 0.867369904, 1.01158417, 1]),
    "Hardshrink()": ([-1000, -3, 0, 0, 0, 3, 1000],
        [1, 1, 0, 0, 0, 1, 1]),
    "Hardsigmoid()": ([0, 0, 0.416666667, 0.5, 0.583333333, 1, 1],
        [0, 0, 0.166666672, 0.166666672, 0.166666672, 0, 0]),
    "Hardswish()": ([0, 0, -0.208333333, 0, 0.291666667, 3, 1000],
        [0, 0, 0.333333333, 0.5, 0.666666667, 1, 1]),
    "Hardtanh(-0.5,3.0)": ([-0.5, -0.5, -0.5, 0, 0.5, 3, 3],
        [0, 0, 0, 1, 1, 0, 0]),
    "LeakyReLU(0.1)": ([-100, -0.3, -0.05, 0, 0.5, 3, 1000],
        [0.1, 0.1, 0.1, 0.1, 1, 1, 1]),
    "LogSigmoid()": ([-1000, -3.04858735, -0.974076984, -0.693147181, -0.474076984,
         -0.0485873516, 0],
        [1, 0.952574127, 0.622459331, 0.5, 0.377540669, 0.0474258732, 0]),
    "Mish()": ([0, -0.145647461, -0.220743775, 0, 0.375245211, 2.986535, 1000],
        [0, -0.0933931145, 0.289510678, 0.6, 0.886424375, 1.02110691, 1]),
    "PReLU()": ([-250, -0.75, -0.125, 0, 0.5, 3, 1000],
        [0.25, 0.25, 0.25, 0.25, 1, 1, 1]),
    "RReLU().eval()": ([-229.166667, -0.6875, -0.114583333, 0, 0.5, 3, 1000],
        [0.229166667, 0.229166667, 0.229166667, 0.229166667, 1, 1, 1]),
    "ReLU()": ([0, 0, 0, 0, 0.5, 3, 1000],
        [0, 0, 0, 0, 1, 1, 1]),
    "ReLU6()": ([0, 0, 0, 0, 0.5, 3, 6],
        [0, 0, 0, 0, 1, 1, 0]),
    "SELU()": ([-1.75809934, -1.67056873, -0.691758188, 0, 0.525350494, 3.15210296, 1050.70099],
        [0, 0.0875306121, 1.06634115, 1.75809934, 1.05070099, 1.05070099, 1.05070099]),
    "SiLU()": ([0, -0.14227762, -0.188770334, 0, 0.311229666, 2.85772238, 1000],
        [0, -0.088104106, 0.260038813, 0.5, 0.739961187, 1.08810411, 1]),
    "Sigmoid()": ([0, 0.0474258732, 0.377540669, 0.5, 0.622459331, 0.952574127, 1],
        [0, 0.0451766597, 0.235003712, 0.25, 0.235003712, 0.0451766597, 0]),
    "Softplus(2,3.0)": ([0, 0.00123784257, 0.156630844, 0.34657359, 0.656630844, 3, 1000],
        [0, 0.00247262316, 0.268941421, 0.5, 0.731058579, 1, 1]),
    "Softshrink()": ([-999.5, -2.5, 0, 0, 0, 2.5, 999.5],
        [1, 1, 0, 0, 0, 1, 1]),
    "Softsign()": ([-0.999000999, -0.75, -0.333333333, 0, 0.333333333, 0.75, 0.999000999],
        [9.98002996e-07, 0.0625, 0.444444444, 1, 0.444444444, 0.0625, 9.98002996e-07]),
    "Tanh()": ([-1, -0.995054754, -0.462117157, 0, 0.462117157, 0.995054754, 1],
        [0, 0.00986603717, 0.786447733, 1, 0.786447733, 0.00986603717, 0]),
    "Tanhshrink()": ([-999, -2.00494525, -0.0378828427, 0, 0.0378828427, 2.00494525, 999],
        [1, 0.990133963, 0.213552267, 0, 0.213552267, 0.990133963, 1]),
    "Threshold(0.5,7.0)": ([7, 7, 7, 7, 7, 3, 1000],
        [0, 0, 0, 0, 0, 1, 1]),
}  # fmt: skip


@pytest.mark.parametrize("text", EXPECTED)
def test_values_and_slopes(text):
    layer = eval(f"nn.{text}").double()
    x = dp.tensor(np.array(POINTS), requires_grad=True)
    y = layer(x)
    y.sum().backward()
    values, slopes = EXPECTED[text]
    np.testing.assert_allclose(y.detach().numpy(), values, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(x.grad.numpy(), slopes, rtol=1e-7, atol=1e-12)
    assert gradcheck(layer, leaf(3, 4, scale=2)) and gradgradcheck(layer, leaf(3, 4, scale=2))
    for dtype in ("float16", "float32"):
        layer = eval(f"nn.{text}").to(dtype)
        y = layer(dp.tensor(POINTS).to(dtype))
        assert y.dtype == dtype
        np.testing.assert_allclose(y.detach().numpy(), values, rtol=3e-3, atol=1e-6)
    assert layer(dp.ones(0, 3).to(dtype)).shape == (0, 3)


def test_infinities_and_nan():
    x = dp.tensor([-np.inf, np.inf, np.nan])
    for function, expected in (
        (F.relu6, [0, 6]), (F.elu, [-1, np.inf]), (F.hardtanh, [-1, 1]),
        (F.logsigmoid, [-np.inf, 0]), (F.softplus, [0, np.inf]), (F.hardshrink, [-np.inf, np.inf]),
        (F.softshrink, [-np.inf, np.inf]), (F.hardsigmoid, [0, 1]),
        (F.tanhshrink, [-np.inf, np.inf]), (lambda x: F.threshold(x, 1.0, 5.0), [5, np.inf]),
    ):  # fmt: skip
        np.testing.assert_allclose(function(x).numpy(), [*expected, np.nan])
    x = dp.tensor([np.inf], requires_grad=True)
    w = dp.tensor([0.5], requires_grad=True)
    (F.elu(x) + F.celu(x) + F.selu(x) + F.prelu(x, w)).backward(dp.ones(1))
    assert x.grad.item() == pytest.approx(3 + 1.0507009873554805) and w.grad.item() == 0


def test_prelu_learns_one_slope_or_one_for_each_channel():
    layer = nn.PReLU(3)
    assert layer.weight.tolist() == [0.25] * 3 and repr(layer) == "PReLU(num_parameters=3)"
    y = layer(dp.tensor([[[-1.0], [2.0], [-4.0]]]))
    assert y.tolist() == [[[-0.25], [2.0], [-1.0]]]
    y.sum().backward()
    assert layer.weight.grad.tolist() == [-1, 0, -4]
    assert nn.PReLU()(dp.tensor(-2.0)).item() == -0.5
    with pytest.raises(ValueError, match="expected 1 or 4"):
        layer(dp.ones(2, 4))


def test_softmax_and_its_kin():
    x = dp.tensor([[0.0, np.log(3.0)]])
    np.testing.assert_allclose(nn.Softmax(dim=-1)(x).numpy(), [[0.25, 0.75]], rtol=1e-6)
    np.testing.assert_allclose(nn.Softmin(1)(x).numpy(), [[0.75, 0.25]], rtol=1e-6)
    np.testing.assert_allclose(nn.LogSoftmax(1)(x).exp().numpy(), [[0.25, 0.75]], rtol=1e-6)
    y = nn.Softmax2d()(dp.zeros(2, 4, 1, 3))
    assert y.shape == (2, 4, 1, 3) and y.numpy().ravel().tolist() == [0.25] * 24
    assert F.softmax(dp.tensor([-np.inf, 0.0]), 0).tolist() == [0, 1]
    wide = F.softmax(dp.zeros(1, 5000).half(), 1)
    assert wide.dtype == np.float16 and wide.numpy().max() == np.float16(1 / 5000)
    with pytest.raises(ValueError, match="3D or 4D"):
        nn.Softmax2d()(x)
    with pytest.warns(UserWarning, match="dim"):
        F.softmin(dp.ones(2, 3))


def test_glu_gates_one_half_by_the_other():
    y = nn.GLU()(dp.tensor([[1.0, 2.0, 0.0, 0.0]]))
    assert y.tolist() == [[0.5, 1.0]] and nn.GLU(0)(dp.ones(4, 3)).shape == (2, 3)
    with pytest.raises(ValueError, match="even size"):
        F.glu(dp.ones(2, 3))
    assert gradcheck(F.glu, leaf(3, 4))


def test_options_are_checked():
    for call in (lambda: F.hardtanh(dp.ones(1), 1.0, -1.0), lambda: F.softshrink(dp.ones(1), -1.0),
                 lambda: F.celu(dp.ones(1), 0.0), lambda: F.gelu(dp.ones(1), "fast"),
                 lambda: nn.Dropout2d(1.5)):  # fmt: skip
        with pytest.raises(ValueError):
            call()


# Layers that are functions


def test_a_layer_takes_keeps_prints_and_hands_on_what_its_function_takes():
    layer = nn.LeakyReLU(0.5, inplace=True)
    assert repr(layer) == "LeakyReLU(negative_slope=0.5, inplace=True)"
    assert repr(nn.Hardshrink(0.3)) == "Hardshrink(0.3)" and repr(nn.ReLU()) == "ReLU()"
    layer.negative_slope = 0.25
    assert layer(dp.tensor(-4.0)).item() == -1 and layer(input=dp.tensor(-4.0)).item() == -1
    assert str(inspect.signature(nn.Softmax)) == "(dim: 'int | None' = None)"
    assert nn.GELU.__doc__ == F.gelu.__doc__ and nn.GELU.__module__ == "minidp.nn.activation"
    with pytest.raises(TypeError, match=r"Softplus\(.*too many"):
        nn.Softplus(1.0, 2.0, 3.0)
    with pytest.raises(TypeError, match=r"Threshold\(.*'value'"):
        nn.Threshold(1.0)


def test_layers_are_classes_like_any_other():
    class Steep(nn.LeakyReLU):
        """Mine."""

        def __init__(self, percent):
            super().__init__(percent / 100)

        def forward(self, x):
            return super().forward(x) + 1

    layer = Steep(50)
    assert layer(dp.tensor(-4.0)).item() == -1 and Steep.__doc__ == "Mine."
    assert str(inspect.signature(Steep)) == "(percent)" and isinstance(layer, nn.LeakyReLU)
    model = nn.Sequential(nn.ELU(0.5), nn.CrossEntropyLoss(dp.ones(3)))
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert repr(twin) == repr(model) and twin[0].alpha == 0.5
        assert list(twin.state_dict()) == ["1.weight"]


# Noise


@pytest.mark.parametrize("layer, shape, axes", [
    (nn.Dropout1d(0.4), (50, 20, 6), (2,)), (nn.Dropout2d(0.4), (50, 20, 3, 2), (2, 3)),
    (nn.Dropout3d(0.4), (50, 20, 2, 1, 3), (2, 3, 4)), (nn.Dropout1d(0.4), (900, 6), (1,)),
], ids=repr)  # fmt: skip
def test_dropout_of_channels(layer, shape, axes):
    y = layer(dp.ones(shape)).numpy()
    assert (y.min(axes) == y.max(axes)).all()
    assert set(np.unique(y)) == {0, np.float32(1 / 0.6)} and abs((y > 0).mean() - 0.6) < 0.06
    assert layer.eval()(dp.ones(shape)).numpy().min() == 1
    with pytest.raises(ValueError, match="expected"):
        layer.train()(dp.ones(2, 1, 1, 1, 1, 1))


def test_alpha_dropout_keeps_mean_and_variance():
    x = dp.randn(200, 500)
    y = nn.AlphaDropout(0.3)(x).numpy()
    assert abs(y.mean()) < 0.02 and abs(y.std() - 1) < 0.02
    assert F.alpha_dropout(x, 1.0, True).numpy().any() == 0
    assert F.feature_alpha_dropout(x, 0.3) is x
    y = F.feature_alpha_dropout(dp.ones(9, 4, 50), 0.5, True).numpy()
    assert (y.std(2) < 1e-6).all() and len(np.unique(y)) == 2


def test_random_slopes_and_random_choices():
    layer = nn.RReLU(0.1, 0.3)
    y = layer(-dp.ones(100, 50)).numpy()
    assert -0.3 <= y.min() < -0.29 and -0.11 < y.max() <= -0.1 and abs(y.mean() + 0.2) < 0.01
    assert layer.eval()(-dp.ones(2)).numpy() == pytest.approx(-0.2)
    logits = dp.tensor(np.log([[0.2, 0.3, 0.5]])).expand(4000, 3)
    chosen = F.gumbel_softmax(logits, hard=True)
    assert np.unique(chosen.numpy()).tolist() == [0, 1]
    np.testing.assert_allclose(chosen.numpy().mean(0), [0.2, 0.3, 0.5], atol=0.03)
    x = leaf(5, 4)
    (F.gumbel_softmax(x, 0.5, hard=True) * dp.arange(4.0)).sum().backward()
    assert np.abs(x.grad.array).max() > 0 and np.abs(x.grad.array.sum(1)).max() < 1e-12
