"""Attention and transformers: PyTorch's values and gradients.

Literal expectations were computed once with PyTorch 2.13 from the inputs that `wave` makes: the
first results, the squared norms of the inputs' gradients, and a sum over those of the weights.
"""

import math

import numpy as np
import pytest
from training import scheduler
from waves import leaf, wave

import minidp as dp
from minidp import nn
from minidp.errors import ShapeError
from minidp.nn import functional as F
from minidp.testing import gradcheck, gradgradcheck

INF = math.inf


def check(y, first, inputs, norms, module=None, of_weights=None):
    (y * dp.tensor(wave(*y.shape, phase=1.0))).sum().backward()
    np.testing.assert_allclose(y.detach().numpy().ravel()[:3], first, rtol=1e-8)
    found = [x.grad.square().sum().item() for x in inputs]
    np.testing.assert_allclose(found, norms, rtol=1e-7, atol=1e-9)
    if module is not None:
        total = sum((p.grad.numpy() * wave(*p.shape)).sum() for p in module.parameters())
        assert total == pytest.approx(of_weights, rel=1e-8)


def filled(module):
    """The module in float64 with weights that anyone can make again."""
    with dp.no_grad():
        for i, p in enumerate(module.double().parameters()):
            p.copy_(wave(*p.shape, phase=0.3 * i))
    return module


def three(value=2):
    return leaf(2, 3, 5), leaf(2, 4, 5, phase=0.5), leaf(2, 4, value, phase=0.9)


@pytest.mark.parametrize("options,first,norms", [
    ({}, [0.2820175278, -0.2787894329, -0.0434273172], [0.588537912, 0.776982337, 1.621462386]),
    ({"is_causal": True}, [0.5155013718, -0.9161659367, -0.1300981804],
     [0.576828428, 0.419912839, 2.156501444]),
    ({"attn_mask": wave(3, 4) > 0}, [0.3962565749, -0.1389266326, 0.3426603701],
     [0.069351029, 1.834907561, 0.986837153]),
    ({"attn_mask": wave(3, 4)}, [0.3942000271, -0.3558742502, 0.1687585749],
     [0.39983303, 1.066771175, 0.938440156]),
    ({"scale": 0.3}, [0.244193882, -0.2197479534, 0.0170574272],
     [0.299684697, 0.404365465, 1.03021321]),
])  # fmt: skip
def test_scaled_dot_product_attention(options, first, norms):
    inputs = three()
    given = {k: dp.tensor(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    check(F.scaled_dot_product_attention(*inputs, **given), first, inputs, norms)


@pytest.mark.parametrize("blind", [False, -INF])
def test_what_may_look_at_nothing_gives_zero(blind):
    mask = np.ones((3, 4), bool) if blind is False else np.zeros((3, 4))
    mask[1] = blind
    inputs = three()
    y = F.scaled_dot_product_attention(*inputs, dp.tensor(mask))
    assert not y[:, 1].detach().numpy().any()
    free = F.scaled_dot_product_attention(*inputs)
    np.testing.assert_allclose(y[:, 2].detach().numpy(), free[:, 2].detach().numpy())
    y.sum().backward()
    assert not inputs[0].grad[:, 1].numpy().any() and np.isfinite(inputs[1].grad.numpy()).all()


def test_leading_axes_groups_and_empty_ones():
    q, k, v = leaf(2, 6, 3, 4), leaf(2, 2, 5, 4, phase=0.3), leaf(2, 2, 5, 3, phase=0.8)
    y = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    for head in range(6):
        alone = F.scaled_dot_product_attention(q[:, head], k[:, head // 3], v[:, head // 3])
        np.testing.assert_allclose(y[:, head].detach().numpy(), alone.detach().numpy())
    one = F.scaled_dot_product_attention(q[0, 0], k[0, 0], v[0, 0])
    np.testing.assert_allclose(y[0, 0].detach().numpy(), one.detach().numpy())
    assert F.scaled_dot_product_attention(q, k[:, :1], v[:, :1]).shape == (2, 6, 3, 3)
    none = F.scaled_dot_product_attention(q[0, 0], k[0, 0, :0], v[0, 0, :0])
    assert none.tolist() == [[0, 0, 0]] * 3
    empty = F.scaled_dot_product_attention(q[:0], k[:0], v[:0], enable_gqa=True)
    assert empty.shape == (0, 6, 3, 3)
    single = [x.detach().float() for x in three()]
    assert F.scaled_dot_product_attention(*single).dtype == np.float32


def test_derivatives_of_attention():
    mask = leaf(3, 4)
    assert gradcheck(F.scaled_dot_product_attention, [*three(), mask])
    assert gradgradcheck(F.scaled_dot_product_attention, [*three(), mask])


@pytest.mark.parametrize("options,weights,first,norms,total", [
    ({}, [0.030039068, 0.442472577, 0.527488355, 0, 0],
     [2.24904833, 1.4788238647, 2.1514337892], [0.27570753, 9.315175385, 10.677114832],
     -6.043717805),
    ({"kdim": 3, "vdim": 5, "bias": False}, [0.526223379, 0.466505037, 0.007271583, 0, 0],
     [0.5880592484, 0.5104583027, 0.2995230861], [6.639731489, 11.975016242, 43.867701493],
     0.142762022),
    ({"add_bias_kv": True, "add_zero_attn": True},
     [0.029648982, 0.436542514, 0.5099433, 0, 0, 0.015904987, 0.007960217],
     [2.3547325586, 1.3337440369, 1.92582577], [0.25888736, 0.946372665, 2.381390093],
     -9.945660599),
])  # fmt: skip
@pytest.mark.parametrize("batch_first", [False, True])
def test_multihead_attention(options, weights, first, norms, total, batch_first):
    module = filled(nn.MultiheadAttention(4, 2, **options, batch_first=batch_first))
    q, k, v = leaf(3, 2, 4), leaf(5, 2, module.kdim, phase=0.5), leaf(5, 2, module.vdim, phase=0.9)
    padding = dp.tensor([[False] * 5, [False] * 3 + [True] * 2])
    given = [x.transpose(0, 1) if batch_first else x for x in (q, k, v)]
    y, found = module(*given, key_padding_mask=padding, attn_mask=dp.tensor(wave(3, 5)))
    np.testing.assert_allclose(found[1, 0].detach().numpy(), weights, rtol=1e-7, atol=1e-12)
    same, none = module(*given, padding, False, dp.tensor(wave(3, 5)))
    assert none is None
    np.testing.assert_allclose(same.detach().numpy(), y.detach().numpy(), rtol=1e-12)
    check(y.transpose(0, 1) if batch_first else y, first, (q, k, v), norms, module, total)


def test_multihead_attention_of_one_sequence_to_itself():
    module, x = filled(nn.MultiheadAttention(4, 2)), leaf(3, 2, 4)
    y, weights = module(x, x, x, average_attn_weights=False)
    other, _ = module(x, x.clone(), x.clone())
    np.testing.assert_allclose(y.detach().numpy(), other.detach().numpy(), rtol=1e-12)
    alone, own = module(x[:, 1], x[:, 1], x[:, 1])
    np.testing.assert_allclose(alone.detach().numpy(), y[:, 1].detach().numpy(), rtol=1e-12)
    assert weights.shape == (2, 2, 3, 3) and own.shape == (3, 3)
    hidden = dp.tensor(np.triu(np.ones((3, 3), bool), 1))
    causal, _ = module(x, x, x, attn_mask=hidden)
    each = dp.tensor(np.repeat(hidden.numpy()[None], 4, 0))
    same, _ = module(x, x, x, attn_mask=each, key_padding_mask=dp.tensor([[0.0] * 3] * 2))
    np.testing.assert_allclose(same.detach().numpy(), causal.detach().numpy(), rtol=1e-12)
    all_hidden = dp.tensor([[True] * 3, [False] * 3])
    assert np.isnan(module(x, x, x, all_hidden)[0][:, 0].detach().numpy()).all()
    blind = module(x, x, x, all_hidden, need_weights=False)[0][:, 0]
    np.testing.assert_allclose(blind.detach().numpy(), [module.out_proj.bias.tolist()] * 3)


def test_names_and_initial_values():
    module = nn.MultiheadAttention(64, 4, add_bias_kv=True)
    assert list(module.state_dict()) == [
        "in_proj_weight", "in_proj_bias", "bias_k", "bias_v", "out_proj.weight", "out_proj.bias"
    ]  # fmt: skip
    bound = (6 / 256) ** 0.5
    assert 0.95 * bound < abs(module.in_proj_weight.array).max() <= bound
    assert not module.in_proj_bias.array.any() and not module.out_proj.bias.array.any()
    assert list(nn.MultiheadAttention(4, 2, kdim=3).state_dict())[:3] == [
        "q_proj_weight", "k_proj_weight", "v_proj_weight"
    ]  # fmt: skip


def test_errors():
    x, module = dp.zeros(3, 2, 4), nn.MultiheadAttention(4, 2)
    for call, error, text in (
        (lambda: F.scaled_dot_product_attention(x, x, x, x, is_causal=True), ValueError, "mask"),
        (lambda: F.scaled_dot_product_attention(x, x[:, :, :3], x), ShapeError, "expected"),
        (lambda: F.scaled_dot_product_attention(
            dp.zeros(4, 2, 2), dp.zeros(3, 2, 2), dp.zeros(3, 2, 2), enable_gqa=True),
         ShapeError, "divide"),
        (lambda: nn.MultiheadAttention(5, 2), ValueError, "divisible"),
        (lambda: module(x, x, x, is_causal=True), ValueError, "Need attn_mask"),
        (lambda: module(x, x, x, attn_mask=dp.zeros(2, 2)), ShapeError, r"should be \(3, 3\)"),
        (lambda: module(x, x, x, dp.zeros(3, 2)), ShapeError, r"should be \(2, 3\)"),
        (lambda: module(x, x[0], x), ShapeError, "2-D or of 3-D"),
        (lambda: module(x, x[:, :1], x[:, :1]), ShapeError, "one batch"),
        (lambda: nn.Transformer(4, 2, 1, 1, 8)(x, x[:, :1]), ShapeError, "batch number"),
        (lambda: nn.TransformerEncoderLayer(4, 2, activation="sin"), ValueError, "relu/gelu"),
    ):  # fmt: skip
        with pytest.raises(error, match=text):
            call()


@pytest.mark.parametrize("norm_first,first,norms,total", [
    (False, [1.5133345222, 0.1084261984, -0.0584906599], [5.2e-08, 0.008865227], -11.417242235),
    (True, [0.491889399, 0.306478026, -0.4817039898], [0.000193554, 3.075566996], -8.137442083),
])  # fmt: skip
@pytest.mark.parametrize("batch_first", [False, True])
def test_transformer(norm_first, first, norms, total, batch_first):
    model = filled(nn.Transformer(4, 2, 2, 1, 6, 0.0, "gelu", norm_first=norm_first,
                                  batch_first=batch_first))  # fmt: skip
    src, tgt = leaf(3, 2, 4), leaf(4, 2, 4, phase=0.5)
    given = [x.transpose(0, 1) if batch_first else x for x in (src, tgt)]
    padding = dp.tensor([[False] * 3, [False, False, True]])
    y = model(*given, tgt_mask=model.generate_square_subsequent_mask(4).double(),
              src_key_padding_mask=padding, memory_key_padding_mask=padding)  # fmt: skip
    y = y.transpose(0, 1) if batch_first else y
    check(y, first, (src, tgt), norms, model, total)


def test_transformer_state_is_named_as_pytorchs():
    model = nn.Transformer(4, 2, 1, 1, 8)
    names = list(model.state_dict())
    assert len(names) == 12 + 2 + 18 + 2
    parts = ("in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias")
    assert names[:4] == [f"encoder.layers.0.self_attn.{part}" for part in parts]
    parts = ("linear1", "linear2", "norm1", "norm2")
    assert names[4:12:2] == [f"encoder.layers.0.{part}.weight" for part in parts]
    assert "decoder.layers.0.multihead_attn.in_proj_weight" in names
    assert names[-1] == "decoder.norm.bias"
    plain = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, bias=False), 2)
    assert not [name for name in plain.state_dict() if "bias" in name]
    a, b = plain.layers[0].linear1.weight, plain.layers[1].linear1.weight
    assert a is not b and a.tolist() == b.tolist()
    mask = nn.Transformer.generate_square_subsequent_mask(3).tolist()
    assert mask == [[0, -INF, -INF], [0, 0, -INF], [0, 0, 0]]


class Classifier(nn.Module):
    def __init__(self, batch_first):
        super().__init__()
        self.batch_first, self.table = batch_first, nn.Embedding(11, 8)
        self.positions = nn.SinusoidalPositions(8, 5, batch_first)
        layer = nn.TransformerEncoderLayer(8, 2, 16, 0.3, batch_first=batch_first)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.top = nn.Linear(8, 4)

    def forward(self, text):
        rows = self.table(text if self.batch_first else text.t())
        padding = text == 0
        y = self.encoder(self.positions(rows), src_key_padding_mask=padding)
        return self.top(y.mean(1 if self.batch_first else 0))


@pytest.mark.parametrize("batch_first", [False, True])
def test_dropout_does_not_depend_on_the_split(batch_first):
    random = np.random.default_rng(2)
    text = random.integers(1, 11, (7, 5)) * (np.arange(5) < random.integers(1, 6, (7, 1)))
    found = []
    for replicas in (1, 3):
        dp.manual_seed(3)
        train = scheduler(Classifier(batch_first).double(), devices=replicas)
        found.append([float(train(dp.tensor(text), dp.tensor(text[:, 0] % 4))) for _ in range(3)])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-10)
