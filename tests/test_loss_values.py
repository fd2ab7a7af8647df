"""Losses beside cross-entropy: PyTorch's values, derivatives, special points, and any split.

Literal expectations were computed once with PyTorch 2.13: the loss, and its slope along
`wave(..., phase=0.3)`.
"""

import numpy as np
import pytest
from waves import wave

import minidp as dp
from minidp import nn, optim
from minidp.nn import functional as F
from minidp.testing import gradcheck, gradgradcheck

WEIGHT = dp.tensor(np.array([0.5, 1, 2, 0.25]))
LOSSES = {
    "bce": (nn.BCELoss(), 0.944844353749, 0.345555148289),
    "bce weighted": (nn.BCELoss(WEIGHT, reduction="sum"), 11.4290392031, -3.65310283839),
    "smooth l1": (nn.SmoothL1Loss(beta=0.5), 0.375198491712, 0.169576282085),
    "huber": (nn.HuberLoss("sum", 0.5), 2.25119095027, 1.01745769251),
    "kl": (nn.KLDivLoss(reduction="batchmean"), -1.08632708859, -0.110362163671),
    "kl log": (nn.KLDivLoss(reduction="sum", log_target=True), 2.02872534544, -6.20343212366),
    "hinge": (nn.HingeEmbeddingLoss(0.5), 0.62695701077, 0.536449315624),
    "ranking": (nn.MarginRankingLoss(0.3), 0.895905302916, 0.119458628777),
    "soft margin": (nn.SoftMarginLoss(), 0.65565488148, 0.0151209907483),
    "multi margin": (nn.MultiMarginLoss(2, 0.7, WEIGHT), 0.882303570288, 0.516003718242),
    "multilabel": (nn.MultiLabelMarginLoss(), 0.0312931933543, -0.157350647629),
    "multilabel soft": (nn.MultiLabelSoftMarginLoss(WEIGHT), 0.83995864194, 0.15709152014),
    "cosine": (nn.CosineEmbeddingLoss(-0.5), 0.655099826596, -0.0812082475745),
    "triplet": (nn.TripletMarginLoss(0.8, swap=True), 0.717591213546, 0.379898892714),
    "triplet distance": (
        nn.TripletMarginWithDistanceLoss(margin=2.8), 1.70019766854, -0.628021753072,
    ),
    "poisson": (nn.PoissonNLLLoss(), 0.930742063608, 0.147558847304),
    "poisson full": (nn.PoissonNLLLoss(False, True), 9.95745199249, -0.89040083021),
    "gaussian": (nn.GaussianNLLLoss(full=True), 1.09715792429, 0.225433412807),
}


def probability(*shape, **options):
    return np.abs(wave(*shape, **options)) / 1.1


def arguments(name):
    x, t, other = wave(3, 4), wave(3, 4, phase=1), wave(3, 4, phase=2)
    return {
        "bce": (probability(3, 4) * 0.9 + 0.05, probability(3, 4, phase=1)),
        "bce weighted": (probability(3, 4) * 0.9 + 0.05, probability(3, 4, phase=1)),
        "kl": (x, probability(3, 4, phase=1)),
        "hinge": (x, np.sign(t)),
        "ranking": (x, t, np.sign(other)),
        "soft margin": (wave(3, 4, scale=3), np.sign(t)),
        "multi margin": (x, np.array([3, 0, 2])),
        "multilabel": (wave(2, 4), np.array([[3, 0, -1, 1], [-1, 2, 1, 0]])),
        "multilabel soft": (x, np.array([[1.0, 0, 1, 0], [0, 0, 1, 1], [1, 1, 1, 0]])),
        "cosine": (x, t, np.array([1, -1, 1])),
        "triplet": (x, t, other),
        "triplet distance": (x, t, other),
        "poisson": (x, np.arange(12.0).reshape(3, 4)),
        "poisson full": (probability(3, 4) + 0.1, np.arange(12.0).reshape(3, 4)),
        "gaussian": (x, t, probability(3, 1) + 0.1),
    }.get(name, (x, t))


@pytest.mark.parametrize("name", LOSSES)
def test_values_and_derivatives(name):
    loss, value, slope = LOSSES[name]
    first, *rest = arguments(name)
    x, rest = dp.tensor(first, requires_grad=True), [dp.tensor(each) for each in rest]
    found = loss(x, *rest)
    found.backward()
    assert found.item() == pytest.approx(value, rel=1e-10)
    assert (x.grad.array * wave(*x.shape, phase=0.3)).sum() == pytest.approx(slope, rel=1e-10)
    call = lambda x: loss(x, *rest)  # noqa: E731
    assert gradcheck(call, x) and gradgradcheck(call, x)
    if name == "multi margin":  # whose float64 weights do not go with float32, as in PyTorch
        return
    small = loss(x.detach().float(), *(t.float() if t.dtype == np.float64 else t for t in rest))
    assert small.dtype == np.float32 or name in ("bce weighted", "multilabel soft")


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", LOSSES)
def test_reductions_agree(name, reduction):
    loss, *_ = LOSSES[name]
    given = [dp.tensor(each) for each in arguments(name)]
    options = {option: getattr(loss, option) for option in loss.options}
    each = type(loss).function(*given, **{**options, "reduction": "none"})
    found = type(loss).function(*given, **{**options, "reduction": reduction})
    expected = {"mean": each.mean(), "sum": each.sum(), "none": each}[reduction]
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-12)


SPLIT = ["bce", "bce weighted", "smooth l1", "huber", "kl", "kl log", "hinge", "soft margin",
         "multi margin", "multilabel", "multilabel soft", "poisson"]  # fmt: skip


@pytest.mark.parametrize("name", SPLIT)
def test_any_split_gives_the_loss_of_one_replica(name):
    loss, (first, target) = LOSSES[name][0], arguments(name)
    results = []
    for split in ({"devices": 1}, {"devices": 2}, {"devices": 3, "workload": [1, 5, 1]}):
        for own in (loss, lambda y, t: loss(y, t)):
            model = nn.Sequential(nn.Linear(4, 4), *[nn.Sigmoid()] * name.startswith("bce"))
            with dp.no_grad():
                model.double()[0].weight.copy_(np.eye(4) + 0.1)
                model[0].bias.fill_(0.0)
            train = dp.Scheduler(model, own, optim.SGD(model.parameters(), lr=0.0), **split)
            value = train(first, target).item()
            grads = [p.grad.numpy() for p in model.parameters()]
            results.append([np.array(value), *grads])
            if name == "kl" or loss.reduction == "mean":
                batches = [(first[i : i + 2], target[i : i + 2]) for i in (0, 2)]
                evaluated = train.evaluate(batches, {})
                assert evaluated["loss"] == pytest.approx(value, rel=1e-12)
    for result in results:
        for got, wanted in zip(result, results[0], strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-14)


def slopes(loss, x, *rest):
    """Losses one by one, and the gradient of their sum."""
    x = dp.tensor(np.array(x), requires_grad=True)
    rest = [dp.tensor(np.array(each)) for each in rest]
    each = loss(x, *rest)
    each.sum().backward()
    return each.tolist(), x.grad.tolist()


def test_special_points_are_pytorchs():
    none = {"reduction": "none"}
    y, g = slopes(lambda x, t: F.binary_cross_entropy(x, t, **none),
                  [0.0, 0.0, 1.0, 1.0], [0.0, 1.0, 0.0, 1.0])  # fmt: skip
    assert y == [0, 100, 100, 0] and g == pytest.approx([0, -1e12, 1e12, 0])
    y, g = slopes(lambda x, t: F.huber_loss(x, t, "none", 2.0),
                  [2.0, 0.0, -2.0, np.inf, -np.inf], [0.0] * 5)  # fmt: skip
    assert y == [2, 0, 2, np.inf, np.inf] and g == [2, 0, -2, 2, -2]
    y, g = slopes(lambda x, t: F.smooth_l1_loss(x, t, beta=0.0, **none), [-3.0, 0.0], [0.0, 0.0])
    assert y == [3, 0] and g == [-1, 0]
    y, g = slopes(lambda x, t: F.kl_div(x, t, **none), [-1.0, -2.0], [0.0, 0.5])
    assert y == pytest.approx([0, 0.6534264097200273]) and g == [0, -0.5]
    y, g = slopes(lambda x, t: F.hinge_embedding_loss(x, t, **none),
                  [1.0, 1.0, 0.5, 0.5, 1.0], [1.0, -1.0, -1.0, 2.0, 0.0])  # fmt: skip
    assert y == [1, 0, 0.5, 1, 1] and g == [1, -1, -1, 0, 0]
    y, g = slopes(lambda x, t: F.multi_margin_loss(x, t, **none), [[1.0, 0.0, 0.5]], [0])
    assert y == [pytest.approx(1 / 6)] and g[0] == pytest.approx([-1 / 3, 0, 1 / 3])
    y, g = slopes(lambda v: F.gaussian_nll_loss(dp.ones(2), dp.zeros(2), v, **none), [0.0, 1.0])
    assert y == pytest.approx([499993.092244721, 0.5])
    assert g == pytest.approx([-499999500000.0, 0.0])
    y, g = slopes(lambda x, t: F.soft_margin_loss(x, t, **none), [-1000.0, 1000.0], [1.0, 1.0])
    assert y == [1000, 0] and g == [-1, 0]


def test_one_sample_without_a_batch_axis():
    x = dp.tensor(wave(4))
    for loss, target in ((F.multi_margin_loss, dp.tensor(2)),
                         (F.multilabel_margin_loss, dp.tensor([3, 0, -1, 1]))):  # fmt: skip
        rows = loss(x.unsqueeze(0), target.unsqueeze(0), reduction="none")
        assert loss(x, target).item() == rows.item()
        assert loss(x, target, reduction="none").shape == ()


def test_arguments_are_checked():
    x, wrong = dp.ones(2, 3), dp.tensor([0, 3])
    for call, message in (
        (lambda: F.binary_cross_entropy(dp.tensor([1.5]), dp.tensor([1.0])), r"input 1\.5 .*0 and"),
        (lambda: F.binary_cross_entropy(dp.tensor([0.5]), dp.tensor([-1.0])), r"target -1\.0"),
        (lambda: F.binary_cross_entropy(x, dp.ones(3)), "same size as the input"),
        (lambda: F.huber_loss(x, x, delta=0.0), "positive"),
        (lambda: F.smooth_l1_loss(x, x, beta=-1.0), "not negative"),
        (lambda: F.multi_margin_loss(x, wrong), r"multi_margin_loss: target 3 .*0 to 2"),
        (lambda: F.multi_margin_loss(x, dp.tensor([0, 1]), p=3), "p=3"),
        (lambda: F.multilabel_margin_loss(x, dp.tensor([[3, -1, -1]] * 2)), "target 3"),
        (lambda: F.multilabel_margin_loss(x, wrong), r"\(n, c\)"),
        (lambda: F.margin_ranking_loss(x, x, dp.ones(2)), "number of axes"),
        (lambda: F.cosine_embedding_loss(x, x, x), r"\(n, c\)"),
        (lambda: F.triplet_margin_loss(x, x, dp.ones(3)), "number of axes"),
        (lambda: F.triplet_margin_loss(x, x, x, margin=0.0), "greater than 0"),
        (lambda: F.gaussian_nll_loss(x, x, -x), "negative"),
        (lambda: F.gaussian_nll_loss(x, x, dp.ones(5)), "size of the input"),
        (lambda: F.l1_loss(x, x, reduction="batchmean"), "not a valid value"),
        (lambda: nn.KLDivLoss(reduction="max"), "batchmean"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    assert F.gaussian_nll_loss(x, x, 2.0).item() == pytest.approx(0.34657359)
    with pytest.raises(TypeError, match="size_average"):
        nn.MSELoss(size_average=False)


def test_losses_are_modules_with_pytorchs_repr_and_state():
    assert repr(nn.BCELoss()) == "BCELoss()" and repr(nn.HuberLoss("sum")) == "HuberLoss()"
    assert list(nn.MultiMarginLoss(weight=WEIGHT).state_dict()) == ["weight"]
    assert list(nn.BCEWithLogitsLoss(pos_weight=WEIGHT).state_dict()) == ["pos_weight"]
    assert repr(nn.TripletMarginWithDistanceLoss()) == (
        "TripletMarginWithDistanceLoss(\n  (distance_function): PairwiseDistance()\n)"
    )
    assert nn.loss.Loss("sum")(dp.tensor([1.0, 2.0])).item() == 3
