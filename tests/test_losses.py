"""Losses: PyTorch's values and gradients, and exactness for any split over replicas.

Literal expectations were computed once with PyTorch 2.13 from the inputs that `wave` makes: the
loss, and the slope of the loss along `wave(..., phase=0.3)`.
"""

import numpy as np
import pytest
from waves import leaf, wave

import minidp as dp
from minidp import nn, optim
from minidp.nn import functional as F
from minidp.testing import gradcheck, gradgradcheck

TARGET = np.array([0, 3, -100, 1, 3])
WEIGHT = np.array([0.5, 1.0, 2.0, 0.25])


def check(loss, x, value, slope):
    loss.backward()
    assert loss.item() == pytest.approx(value, rel=1e-10)
    assert (x.grad.array * wave(*x.shape, phase=0.3)).sum() == pytest.approx(slope, rel=1e-9)


@pytest.mark.parametrize("reduction, weighted, smoothing, value, slope", [
    ("mean", False, 0.0, 1.943711368745, 0.416787704762),
    ("mean", False, 0.1, 2.03450027716, 0.444938787857),
    ("mean", True, 0.0, 3.170671326914, 0.761062948363),
    ("mean", True, 0.1, 3.500079143207, 0.836990033997),
    ("sum", False, 0.0, 7.774845474981, 1.667150819047),
    ("sum", False, 0.1, 8.138001108641, 1.779755151429),
    ("sum", True, 0.0, 6.341342653828, 1.522125896727),
    ("sum", True, 0.1, 7.000158286413, 1.673980067994),
])  # fmt: skip
def test_cross_entropy_has_pytorchs_values(reduction, weighted, smoothing, value, slope):
    weight = dp.tensor(WEIGHT) if weighted else None
    loss = nn.CrossEntropyLoss(weight, reduction=reduction, label_smoothing=smoothing)
    x = leaf(5, 4, scale=3)
    check(loss(x, dp.tensor(TARGET)), x, value, slope)
    rows = F.cross_entropy(x, dp.tensor(TARGET), weight, reduction="none",
                           label_smoothing=smoothing)  # fmt: skip
    assert rows.shape == (5,) and rows.array[2] == 0
    below = 1 if reduction == "sum" else 2.0 if weighted else 4
    assert rows.sum().item() / below == pytest.approx(value)


def test_other_forms_of_cross_entropy_have_pytorchs_values():
    p = np.abs(wave(5, 4)) + 0.1
    p, weight = dp.tensor(p / p.sum(1, keepdims=True)), dp.tensor(WEIGHT)
    x = leaf(5, 4, scale=3)
    check(F.cross_entropy(x, p, weight, label_smoothing=0.1), x, 3.272975350367, 0.789823317666)
    x = leaf(5, 4, scale=3)
    check(nn.NLLLoss(weight)(x, dp.tensor(TARGET)), x, 0.19335737291, 0.048692915319)
    x, target = leaf(2, 4, 3), dp.tensor([[0, 1, -100], [3, 3, 2]])
    check(F.cross_entropy(x, target, weight), x, 1.576802500757, 0.438276058965)
    flat = x.detach().permute(0, 2, 1).reshape(6, 4)
    same = F.nll_loss(F.log_softmax(flat, 1), target.reshape(6), weight)
    assert same.item() == pytest.approx(1.576802500757, rel=1e-10)


def test_regression_losses_have_pytorchs_values():
    pair = lambda: (leaf(3, 4), dp.tensor(wave(3, 4, phase=1)))  # noqa: E731
    x, t = pair()
    check(nn.MSELoss()(x, t), x, 0.442484196842, 0.254039248372)
    x, t = pair()
    check(F.mse_loss(x, t, weight=dp.tensor(np.abs(wave(3, 4)))), x, 0.370071467268, 0.448796562719)
    x, t = pair()
    check(nn.L1Loss()(x, t), x, 0.595905302916, 0.119458628777)
    assert nn.L1Loss(reduction="sum")(x, t).item() == pytest.approx(12 * 0.595905302916)
    x, t = leaf(3, 4, scale=40), dp.tensor(np.abs(wave(3, 4)))
    loss = nn.BCEWithLogitsLoss(pos_weight=dp.tensor(WEIGHT))(x, t)
    check(loss, x, 15.940079306442, 0.353173133026)


def test_confident_logits_neither_overflow_nor_vanish():
    x, t = dp.tensor(np.array([-800.0, 40.0, 800.0])), dp.tensor(np.array([0.0, 1.0, 0.0]))
    rows = F.binary_cross_entropy_with_logits(x, t, reduction="none").numpy()
    np.testing.assert_allclose(rows, [0, np.exp(-40), 800], rtol=1e-12)
    x = dp.tensor(np.array([[1e4, 0.0]]))
    assert F.cross_entropy(x, dp.tensor([1])).item() == 1e4


def test_one_sample_without_a_batch_axis():
    x, t = leaf(4), dp.tensor(2)
    value = F.cross_entropy(x, t)
    assert value.shape == () and F.cross_entropy(x, t, reduction="none").shape == ()
    rows = F.cross_entropy(x.unsqueeze(0), t.unsqueeze(0))
    assert value.item() == rows.item()
    assert F.nll_loss(x, t).item() == -x.array[2]


def test_targets_of_small_integer_dtypes():
    x = leaf(3, 4)
    for dtype in ("uint8", "int32", "bool"):
        target = dp.tensor(np.array([1, 0, 1]).astype(dtype))
        assert F.cross_entropy(x, target).item() == F.cross_entropy(x, dp.tensor([1, 0, 1])).item()


def test_all_targets_ignored():
    x, t = leaf(2, 3), dp.tensor([-100, -100])
    assert np.isnan(F.cross_entropy(x, t).item())
    assert F.cross_entropy(x, t, reduction="sum").item() == 0
    assert F.cross_entropy(x, dp.tensor([7, 7]), ignore_index=7, reduction="sum").item() == 0


@pytest.mark.parametrize("loss", [F.cross_entropy, F.nll_loss])
def test_wrong_targets_are_named(loss):
    x = leaf(2, 3)
    with pytest.raises(ValueError, match=r"3 .*0 to 2.*ignore_index="):
        loss(x, dp.tensor([0, 3]))
    with pytest.raises(ValueError, match=r"-1 .*0 to 2"):
        loss(x, dp.tensor([0, -1]))
    with pytest.raises(ValueError, match=r"\(2, 3\)"):
        loss(x, dp.tensor([0, 1, 2]))
    with pytest.raises((TypeError, ValueError)):
        loss(x, dp.ones(2))
    with pytest.raises(ValueError, match="one weight for each"):
        loss(x, dp.tensor([0, 1]), dp.ones(4))
    with pytest.raises(ValueError, match="not a valid value for reduction"):
        loss(x, dp.tensor([0, 1]), reduction="average")


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="label_smoothing"):
        F.cross_entropy(leaf(2, 3), dp.tensor([0, 1]), label_smoothing=1.5)
    with pytest.raises(ValueError, match="reduction"):
        nn.MSELoss(reduction="max")
    with pytest.warns(UserWarning, match="broadcast"):
        F.mse_loss(dp.ones(3, 1), dp.ones(3))
    with pytest.raises(ValueError, match="same"):
        F.binary_cross_entropy_with_logits(dp.ones(3, 1), dp.ones(3))
    with pytest.raises(ValueError, match="same size"):
        F.l1_loss(dp.ones(3), dp.ones(3), weight=dp.ones(1))


@pytest.mark.parametrize("loss", [
    lambda x: F.cross_entropy(x, dp.tensor(TARGET), dp.tensor(WEIGHT), label_smoothing=0.2),
    lambda x: F.cross_entropy(x, dp.tensor(np.abs(wave(5, 4))), dp.tensor(WEIGHT)),
    lambda x: F.nll_loss(F.log_softmax(x, 1), dp.tensor(TARGET), dp.tensor(WEIGHT)),
    lambda x: F.mse_loss(x, dp.tensor(wave(5, 4, phase=1))),
    lambda x: F.binary_cross_entropy_with_logits(
        x, dp.tensor(np.abs(wave(5, 4))), pos_weight=dp.tensor(WEIGHT), reduction="none"),
])  # fmt: skip
def test_first_and_second_derivatives(loss):
    assert gradcheck(loss, leaf(5, 4))
    assert gradgradcheck(loss, leaf(5, 4))


def test_gradient_reaches_target_probabilities():
    assert gradcheck(lambda x, t: F.cross_entropy(x, t), [leaf(3, 4), leaf(3, 4, phase=1)])


SPLITS = [("cpu:0-1", None), ("cpu:0-1", [5, 1]), ("cpu:0-3", None)]
SPLIT_LOSSES = {
    "plain": (nn.CrossEntropyLoss(), TARGET),
    "weighted": (nn.CrossEntropyLoss(dp.tensor(WEIGHT[:3]), label_smoothing=0.1), TARGET),
    "sum": (nn.CrossEntropyLoss(dp.tensor(WEIGHT[:3]), reduction="sum"), TARGET),
    "probabilities": (nn.CrossEntropyLoss(), np.abs(wave(5, 3))),
    "mse": (nn.MSELoss(), wave(5, 3)),
    "mse sum": (nn.MSELoss(reduction="sum"), wave(5, 3)),
    "l1 weighted": (lambda x, t: F.l1_loss(x, t, weight=t.abs()), wave(5, 3)),
    "bce": (nn.BCEWithLogitsLoss(), np.abs(wave(5, 3))),
}


@pytest.mark.parametrize("name", SPLIT_LOSSES)
def test_any_split_gives_the_loss_and_gradients_of_one_replica(name):
    """Ignored labels sit in one replica's rows only, so a mean of means would be wrong."""
    loss, target = SPLIT_LOSSES[name]
    target = np.where(target == 3, 2, target) if target.dtype.kind == "i" else target
    results = []
    for devices, workload in [("cpu:0", None), *SPLITS]:
        dp.manual_seed(0)
        model = nn.Linear(4, 3).double()
        train = dp.Scheduler(model, loss, optim.SGD(model.parameters(), lr=0.0), devices, workload)
        value = train(wave(5, 4), target).item()
        results.append([np.array(value), model.weight.grad.numpy(), model.bias.grad.numpy()])
    x = model(dp.tensor(wave(5, 4)))
    alone = loss(x, dp.tensor(target))
    model.zero_grad()
    alone.backward()
    expected = [alone.detach().numpy(), model.weight.grad.numpy(), model.bias.grad.numpy()]
    assert np.abs(expected[1]).max() > 1e-3
    for result in results:
        for got, wanted in zip(result, expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-14)
