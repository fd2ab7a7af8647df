"""What random comparison with PyTorch 2.13 found in layers, losses and schedules; its numbers."""

import numpy as np
import pytest

import minidp as dp
from minidp import nn, optim
from minidp.errors import DTypeError, ShapeError
from minidp.nn import functional as F


def test_flatten_knows_the_axis_of_a_number():
    assert dp.tensor(2.0).flatten(0, -1).shape == (1,)
    with pytest.raises(ShapeError):
        nn.Flatten()(dp.tensor(2.0))


def test_cosine_similarity_of_vectors_that_broadcast_and_are_short():
    a, b = dp.tensor([[3.0, 4.0]], requires_grad=True), dp.tensor([[2.0]])
    assert F.cosine_similarity(a, b).item() == pytest.approx(7 / 5 / np.sqrt(2))
    short = dp.tensor([[0.3, 0.4]], requires_grad=True)
    F.cosine_similarity(short, dp.tensor([[1.0, 0.0]]), eps=1.0).sum().backward()
    assert np.allclose(short.grad.numpy(), [[1 - 0.3 * 0.6, -0.3 * 0.8]])  # as if not clamped


def test_running_statistics_fit_the_channels():
    with pytest.raises(ShapeError):
        nn.BatchNorm1d(4, affine=False)(dp.rand(3, 1))
    with pytest.raises(ShapeError):
        nn.InstanceNorm1d(3, track_running_stats=True)(dp.rand(2, 1, 4))


@pytest.mark.parametrize("call", [
    lambda x, w: F.prelu(x, w), lambda x, w: F.layer_norm(x, (2,), w, w),
    lambda x, w: F.bilinear(x, x, w.reshape(1, 1, 2).expand(1, 2, 2)),
    lambda x, w: F.cross_entropy(x, dp.tensor([0, 1]), w),
    lambda x, w: F.binary_cross_entropy(x, w.expand(2, 2)),
    lambda x, w: F.embedding_bag(dp.tensor([[0], [1]]), x, mode="sum",
                                 per_sample_weights=w.reshape(2, 1)),
])  # fmt: skip
def test_dtypes_are_not_mixed(call):
    x, w = dp.full((2, 2), 0.5), dp.full((2,), 0.5, dtype=dp.float64)
    with pytest.raises(DTypeError):
        call(x, w)
    call(x, w.float())


def test_float32_scales_go_with_float16():
    assert F.layer_norm(dp.ones(2, 2).half(), (2,), dp.ones(2), dp.ones(2)).dtype == dp.float16


def test_huber_with_weights_divides_by_the_number_of_values():
    x, zero, w = dp.tensor([1.0, 2.0]), dp.zeros(2), dp.tensor([1.0, 3.0])
    assert F.huber_loss(x, zero, weight=w).item() == (0.5 + 3 * 1.5) / 2
    assert F.huber_loss(x, zero, "none", weight=w).tolist() == [0.5, 4.5]


@pytest.mark.parametrize("make", [
    lambda: nn.Hardtanh(1, 1), lambda: nn.TripletMarginLoss(margin=0),
    lambda: nn.TripletMarginWithDistanceLoss(margin=-1), lambda: nn.MultiMarginLoss(p=3),
    lambda: nn.LSTM(0, 2), lambda: nn.RReLU(0.5, 0.1)(dp.ones(1)),
    lambda: nn.Upsample(size=(3,), mode="bilinear")(dp.rand(1, 1, 2, 2)),
    lambda: nn.CrossEntropyLoss(ignore_index=0)(dp.rand(2, 3), dp.rand(2, 3)),
    lambda: F.pad(dp.rand(2, 3), (1, 1), "reflect", 1.0),
    lambda: F.pad(dp.rand(1, 1, 1, 1, 4), (1, 1), "replicate"), lambda: F.pdist(dp.rand(3)),
    lambda: nn.CircularPad1d(1)(dp.rand(1, 1, 1, 3)), lambda: nn.AvgPool3d(2)(dp.rand(1, 1, 2, 2)),
    lambda: nn.AvgPool3d(3, padding=1)(dp.rand(1, 2, 2, 2)),
    lambda: nn.utils.rnn.pad_sequence([dp.ones(2)], padding_side="top"),
])  # fmt: skip
def test_refused(make):
    with pytest.raises(ValueError):
        make()


def test_constructors_take_pytorchs_names():
    assert len(nn.ModuleList(modules=[nn.ReLU()])) == len(nn.ModuleDict(modules={"a": nn.ReLU()}))
    assert list(nn.ParameterDict(parameters={"a": nn.Parameter(dp.ones(1))})) == ["a"]
    assert nn.Parameter().shape == nn.Buffer().shape == (0,)
    assert nn.SyncBatchNorm(3, process_group=None).num_features == 3
    module = nn.Module()
    module.kept, module.lost = nn.Buffer(dp.ones(1)), nn.Buffer(dp.ones(1), persistent=False)
    assert list(module.state_dict()) == ["kept"] and len(list(module.buffers())) == 2
    parameter = nn.Parameter(dp.ones(1))
    parameter.grad = dp.ones(1)
    nn.utils.clip_grad_value_(parameter, 0.5, foreach=False)
    assert nn.utils.clip_grad_norm_(parameter, 1.0, foreach=False).item() == 0.5


def test_text_of_attention():
    assert "NonDynamicallyQuantizableLinear(in_features=4" in repr(nn.MultiheadAttention(4, 2))
    assert repr(nn.Unflatten(1, [2, 3])) == "Unflatten(dim=1, unflattened_size=[2, 3])"


def test_an_optimiser_is_resumed_with_a_rate_that_rounding_left_below_zero():
    optimizer = optim.SGD([nn.Parameter(dp.ones(1))], lr=0.1)
    state = optimizer.state_dict()
    state["param_groups"][0]["lr"] = -1e-17
    optimizer.load_state_dict(state)
    assert optimizer.param_groups[0]["lr"] == -1e-17


LOSSES = [2.4477191273058647, 1.6782816950187993]
GRADIENTS = [[0.021118728, -0.0644330399, 0.0433143119],
             [0.0072354884, 0.070005935, -0.0772414234], [0.0, 0.0, 0.0]]  # fmt: skip
"""PyTorch's, at three of the places (step, sequence)."""


def test_ctc_loss():
    logits = np.sin(np.arange(24.0).reshape(4, 2, 3) * 1.7)
    values = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    x = dp.tensor(values, requires_grad=True)
    targets, steps, lengths = dp.tensor([[1, 1], [2, 0]]), dp.tensor([4, 3]), dp.tensor([2, 1])
    losses = nn.CTCLoss(reduction="none")(x, targets, steps, lengths)
    assert np.allclose(losses.detach().numpy(), LOSSES)
    F.ctc_loss(x, targets, steps, lengths).backward()
    assert np.allclose(x.grad.numpy()[[0, 1, 3], [0, 1, 1]], GRADIENTS)
    flat = F.ctc_loss(x, dp.tensor([1, 1, 2]), steps, lengths)
    assert flat.item() == pytest.approx((LOSSES[0] / 2 + LOSSES[1]) / 2)
    impossible = [x[:, :1], dp.tensor([[1, 1, 1]]), dp.tensor([4]), dp.tensor([3])]
    assert F.ctc_loss(*impossible).item() == np.inf
    assert F.ctc_loss(*impossible, zero_infinity=True).item() == 0


def test_activations_of_integers_give_floats():
    x = dp.tensor([1, -2])
    for name in ("elu", "gelu", "silu", "mish", "softplus", "hardswish", "leaky_relu"):
        y = getattr(F, name)(x)
        assert y.dtype == np.float32 and dp.allclose(y, getattr(F, name)(x.float())), name
    assert F.gelu(dp.ones(1, dtype=dp.float16)).dtype == np.float16


def test_modules_are_inserted_where_there_is_a_place():
    model = nn.Sequential(nn.ReLU(), nn.Tanh())
    for index in (-3, 3):
        with pytest.raises(IndexError, match="out of range"):
            model.insert(index, nn.ELU())
    model.insert(-1, nn.ELU()).insert(3, nn.GELU())
    assert [type(each).__name__ for each in model] == ["ReLU", "ELU", "Tanh", "GELU"]
