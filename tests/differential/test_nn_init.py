"""What layers and nn.init draw, and nn.utils, against PyTorch: the same distributions."""

import numpy as np
import pytest

import minidp as dp
from differential.common import difference, generator, ours, theirs, torch
from differential.drawing import Draw
from minidp import nn

pytestmark = pytest.mark.slow

FILLS = {
    "uniform_": [{}, {"a": -2.0, "b": 0.5}],
    "normal_": [{}, {"mean": 3.0, "std": 0.1}],
    "trunc_normal_": [{}, {"std": 0.02}, {"mean": 1.0, "std": 2.0, "a": -1.0, "b": 4.0}],
    "xavier_uniform_": [{}, {"gain": 2.0}],
    "xavier_normal_": [{}, {"gain": 0.5}],
    "kaiming_uniform_": [
        {},
        {"a": 1.0},
        {"mode": "fan_out"},
        {"nonlinearity": "relu"},
        {"a": 0.3, "mode": "fan_out"},
    ],
    "kaiming_normal_": [{}, {"nonlinearity": "tanh"}, {"mode": "fan_out", "nonlinearity": "selu"}],
}
SHAPES = [(120, 300), (300, 120), (40, 50, 5), (20, 10, 5, 7), (7, 6, 5, 4, 9)]
LAYERS = [
    ("Linear", (200, 150)),
    ("Bilinear", (30, 40, 50)),
    ("Conv1d", (40, 60, 7)),
    ("Conv2d", (30, 40, 5)),
    ("Conv3d", (10, 20, 3)),
    ("ConvTranspose1d", (40, 60, 7)),
    ("ConvTranspose2d", (30, 20, 5)),
    ("ConvTranspose3d", (10, 20, 3)),
    ("Embedding", (200, 90)),
    ("EmbeddingBag", (200, 90)),
    ("LSTM", (80, 60)),
    ("GRU", (80, 60)),
    ("RNN", (80, 90)),
    ("LSTMCell", (80, 60)),
    ("GRUCell", (80, 60)),
    ("RNNCell", (80, 90)),
    ("MultiheadAttention", (120, 4)),
    ("MultiheadAttention", (120, 4, 0.0, True, True, False, 60, 80)),
    ("LayerNorm", (50,)),
    ("BatchNorm2d", (50,)),
    ("GroupNorm", (5, 50)),
    ("PReLU", (40,)),
    ("TransformerEncoderLayer", (64, 4, 100)),
    ("TransformerDecoderLayer", (64, 4, 100)),
    ("Transformer", (64, 4, 1, 1, 100)),
]


def like(mine, right):
    """The same mean, deviation and bounds, as far as so many numbers tell."""
    if right.size < 2 or np.ptp(right) == 0:
        np.testing.assert_allclose(mine, right, rtol=1e-6)
        return
    spread, count = right.std(), right.size
    assert abs(mine.mean() - right.mean()) < 7 * spread / np.sqrt(count)
    assert abs(mine.std() / spread - 1) < 7 / np.sqrt(count)
    kurtosis = [(((x - x.mean()) / x.std()) ** 4).mean() for x in (mine, right)]
    assert abs(kurtosis[0] - kurtosis[1]) < 40 / np.sqrt(count)
    if kurtosis[1] < 2.2:  # bounded
        edge = np.ptp(right) * 20 / count
        assert abs(mine.min() - right.min()) < edge and abs(mine.max() - right.max()) < edge


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name, options", [(n, o) for n, each in FILLS.items() for o in each])
def test_fills(name, options, shape):
    torch.manual_seed(3), dp.manual_seed(3)
    mine, right = dp.empty(*shape), torch.empty(*shape)
    assert getattr(nn.init, name)(mine, **options) is mine
    like(mine.numpy(), getattr(torch.nn.init, name)(right, **options).numpy())


@pytest.mark.parametrize("name, args", LAYERS)
def test_layers(name, args):
    torch.manual_seed(4), dp.manual_seed(4)
    mine, right = getattr(nn, name)(*args), getattr(torch.nn, name)(*args)
    for (key, x), y in zip(mine.state_dict().items(), right.state_dict().values()):
        assert x.dtype == y.numpy().dtype, key
        like(np.asarray(x.numpy()), y.numpy())


@pytest.mark.parametrize("seed", range(30))
def test_tools(seed):
    """Clipping, norms and vectors, with the values they return."""
    d = Draw(generator("tools", seed), ["float64", "float32"][seed % 2])
    values = [d.normal(*d.shape(0, 3)) for _ in range(d.size(1, 4))]
    grads = [d.normal(*v.shape) if d.chance(0.8) else None for v in values]
    kind, limit = d.pick(2.0, 1.0, 3.0, float("inf"), 0.5), d.pick(0.1, 1.0, 100.0)
    found = []
    for library, convert in ((nn, ours), (torch.nn, theirs)):
        params = [library.Parameter(convert(v)) for v in values]
        for p, g in zip(params, grads):
            p.grad = convert(g)
        tools = library.utils
        out = [
            tools.clip_grad_norm_(params, limit, kind),
            tools.parameters_to_vector(params),
            tools.get_total_norm([p.grad for p in params if p.grad is not None], kind),
        ]
        if any(g is not None for g in grads):
            tools.clip_grad_value_(params, limit / 2)
        vector = out[1].detach() * 2 + 1
        tools.vector_to_parameters(vector, params)
        out += params + [p.grad for p in params if p.grad is not None]
        found.append([np.asarray(x.detach().numpy()) for x in out])
    assert [difference(x, y) for x, y in zip(*found)] == [""] * len(found[1])


@pytest.mark.parametrize("seed", range(40))
def test_packing(seed):
    d = Draw(generator("packing", seed))
    lengths = [d.size(1, 5) for _ in range(d.size(1, 4))]
    values = [d.normal(n, d.size(2, 2)) for n in lengths]
    first, side, fill = d.chance(0.5), d.pick("left", "right"), d.pick(0.0, -1.5)
    found = []
    for library, convert in ((nn, ours), (torch.nn, theirs)):
        rnn, each = library.utils.rnn, convert(values)
        padded = rnn.pad_sequence(each, first, fill, side)
        packed = rnn.pack_sequence(each, enforce_sorted=False)
        back, sizes = rnn.pad_packed_sequence(packed, first, fill, max(lengths) + 1)
        out = [
            padded,
            packed.data,
            packed.batch_sizes,
            packed.sorted_indices,
            packed.unsorted_indices,
            back,
            sizes,
            *rnn.unpack_sequence(packed),
            *rnn.unpad_sequence(padded + 0, sizes, first),
        ]
        found.append([np.asarray(x.numpy()) for x in out])
    assert [difference(x, y) for x, y in zip(*found)] == [""] * len(found[1])


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4), (3, 2, 4), (6, 2, 1, 2)])
def test_orthogonal(shape):
    value = nn.init.orthogonal_(dp.empty(*shape), gain=2.0).numpy().reshape(shape[0], -1)
    small = value @ value.T if value.shape[0] <= value.shape[1] else value.T @ value
    np.testing.assert_allclose(small, 4 * np.eye(len(small)), atol=1e-5)


@pytest.mark.parametrize(
    "make",
    [
        lambda init, t: init.eye_(t(3, 5)),
        lambda init, t: init.dirac_(t(4, 2, 3)),
        lambda init, t: init.dirac_(t(4, 2, 3, 4), 2),
        lambda init, t: init.dirac_(t(6, 3, 2, 2, 2), 3),
        lambda init, t: init.constant_(t(2, 2), 0.25),
        lambda init, t: init.zeros_(t(3)),
        lambda init, t: (init.sparse_(t(10, 4), 0.35) == 0).sum(0),
    ],
)
def test_shapes_that_are_not_drawn(make):
    mine, right = make(nn.init, dp.ones), make(torch.nn.init, torch.ones)
    assert mine.tolist() == right.tolist()
