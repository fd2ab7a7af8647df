"""Tables of vectors by number: PyTorch's values, gradients and refusals."""

import numpy as np
import pytest

import minidp as dp
from minidp import nn
from minidp.errors import DTypeError, ReplicaError, ShapeError
from minidp.nn import functional as F
from minidp.testing import gradcheck, gradgradcheck


def table(rows=4, width=2, **options):
    """0, 1, 2, ... as a table that is trained."""
    values = dp.arange(float(rows * width)).reshape(rows, width)
    return dp.tensor(values.numpy(), requires_grad=True, **options)


def test_rows_and_repeated_numbers():
    weight = table()
    y = F.embedding(dp.tensor([[3, 0], [3, 3]]), weight)
    assert y.tolist() == [[[6, 7], [0, 1]], [[6, 7], [6, 7]]]
    (y * dp.tensor([[[1.0], [2.0]], [[3.0], [4.0]]])).sum().backward()
    assert weight.grad.tolist() == [[2, 2], [0, 0], [0, 0], [8, 8]]
    assert F.embedding(dp.tensor(1), weight).tolist() == [2, 3]
    assert F.embedding(dp.zeros(0, 3, dtype="int64"), weight).shape == (0, 3, 2)
    assert F.embedding(dp.tensor([1], dtype="int32"), table(dtype="float16")).dtype == np.float16


def test_derivatives():
    number = dp.tensor([[3, 0], [3, 3]])
    weight = table(dtype="float64")
    assert gradcheck(lambda w: F.embedding(number, w).square(), weight)
    assert gradgradcheck(lambda w: F.embedding(number, w).square(), weight)


def test_many_gradients_in_half_precision_are_added_in_single():
    weight = dp.zeros(2, 1, dtype="float16", requires_grad=True)
    F.embedding(dp.zeros(4096, dtype="int64"), weight).sum().backward()
    assert weight.grad.tolist() == [[4096], [0]]


def test_padding():
    layer = nn.Embedding(4, 2, padding_idx=-1)
    assert layer.padding_idx == 3 and layer.weight[3].tolist() == [0, 0]
    with dp.no_grad():
        layer.weight.fill_(1)
    y = layer(dp.tensor([3, 1, 3]))
    assert y.tolist() == [[1, 1]] * 3
    y.sum().backward()
    assert layer.weight.grad.tolist() == [[0, 0], [1, 1], [0, 0], [0, 0]]


def test_gradients_by_frequency():
    weight = table()
    F.embedding(dp.tensor([0, 1, 0, 0]), weight, scale_grad_by_freq=True).sum().backward()
    np.testing.assert_allclose(weight.grad.numpy(), [[1, 1], [1, 1], [0, 0], [0, 0]], rtol=1e-6)


def test_longest_norm():
    weight = table()
    y = F.embedding(dp.tensor([1, 3, 1]), weight, max_norm=2.0)
    length = 13**0.5 + 1e-7
    np.testing.assert_allclose(y[0].detach().numpy(), [4 / length, 6 / length], rtol=1e-6)
    np.testing.assert_allclose(weight.detach().numpy()[[0, 2]], [[0, 1], [4, 5]])
    np.testing.assert_array_equal(weight.detach().numpy()[[1, 3]], y.detach().numpy()[:2])
    y.sum().backward()
    assert weight.grad[1].tolist() == [2, 2]

    def replica(world):
        F.embedding(dp.tensor([1]), weight, max_norm=1.0)

    with pytest.raises(ReplicaError, match="all replicas share"):
        dp.launch(replica, devices=2)


def test_pretrained():
    layer = nn.Embedding.from_pretrained(dp.tensor([[1.0, 2.0], [3.0, 4.0]]), padding_idx=0)
    assert not layer.weight.requires_grad
    assert layer(dp.tensor([0, 1])).tolist() == [[1, 2], [3, 4]]
    assert nn.Embedding.from_pretrained(layer.weight, freeze=False).weight.requires_grad
    assert not nn.Embedding(2, 3, _freeze=True).weight.requires_grad


def test_initial_values():
    weight = nn.Embedding(100, 100).weight.array
    assert abs(weight.std() - 1) < 0.02 and abs(weight.mean()) < 0.03
    assert repr(nn.Embedding(5, 2, padding_idx=0, max_norm=2.0)) == (
        "Embedding(5, 2, padding_idx=0, max_norm=2.0)"
    )
    assert repr(nn.EmbeddingBag(5, 2, mode="sum")) == "EmbeddingBag(5, 2, mode='sum')"


@pytest.mark.parametrize("number", [4, -1, 2**40])
def test_numbers_out_of_range(number):
    for device in ("cpu:0", "emu:0"):
        weight = table().detach().to(device)
        with pytest.raises(IndexError, match=f"index {number} is out of range .* 0 to 3"):
            F.embedding(dp.tensor([0, number, 1]).to(device), weight)


def test_errors():
    for call, error, text in (
        (lambda: F.embedding(dp.tensor([True]), table()), DTypeError, "integers"),
        (lambda: F.embedding(dp.tensor([1.0]), table()), DTypeError, "integers"),
        (lambda: nn.Embedding(3, 2, padding_idx=3), ValueError, "within num_embeddings"),
        (lambda: nn.Embedding(3, 2, _weight=dp.zeros(2, 2)), ShapeError, "does not match"),
        (lambda: nn.Embedding.from_pretrained(dp.zeros(3)), ShapeError, "2-dimensional"),
        (lambda: F.embedding_bag(dp.tensor([1]), table()), ShapeError, "where each bag starts"),
        (lambda: F.embedding_bag(dp.tensor([1]), table(), [1]), ValueError, "has to be 0"),
        (lambda: F.embedding_bag(dp.tensor([[1]]), table(), mode="min"), ValueError, "mode"),
        (lambda: F.embedding_bag(dp.tensor([[1]]), table(), per_sample_weights=dp.ones(1, 1)),
         ShapeError, "mode='sum'"),
        (lambda: nn.SinusoidalPositions(2, 3)(dp.zeros(4, 2)), ShapeError, "at most 3"),
    ):  # fmt: skip
        with pytest.raises(error, match=text):
            call()


@pytest.mark.parametrize("mode,expected,gradient", [
    ("sum", [[8, 10], [6, 7], [0, 0]], [0, 1, 0, 2]),
    ("mean", [[4, 5], [6, 7], [0, 0]], [0, 0.5, 0, 1.5]),
    ("max", [[6, 7], [6, 7], [0, 0]], [0, 0, 0, 2]),
])  # fmt: skip
def test_bags(mode, expected, gradient):
    weight = table()
    y = F.embedding_bag(dp.tensor([1, 3, 3]), weight, dp.tensor([0, 2, 3]), mode=mode)
    assert y.tolist() == expected
    y.sum().backward()
    assert weight.grad[:, 0].tolist() == gradient
    last = F.embedding_bag(dp.tensor([1, 3, 3]), weight, [0, 2, 3, 3], mode=mode,
                           include_last_offset=True)  # fmt: skip
    assert last.tolist() == expected
    rows = F.embedding_bag(dp.tensor([[1, 3], [3, 3]]), weight, mode=mode)[0]
    assert rows.tolist() == expected[0]
    without = F.embedding_bag(dp.tensor([[1, 3], [3, 3]]), weight, mode=mode, padding_idx=3)
    assert without.tolist() == [[2, 3], [0, 0]]
    assert F.embedding_bag(dp.zeros(0, dtype="int64"), weight, [0, 0], mode=mode).tolist() == (
        [[0, 0], [0, 0]]
    )
    assert nn.EmbeddingBag(4, 2, mode=mode, _weight=weight)(dp.tensor([[1, 3]])).tolist() == [
        expected[0]
    ]


def test_weights_in_a_bag():
    weight, factors = table(), dp.tensor([[2.0, 3.0]], requires_grad=True)
    y = F.embedding_bag(dp.tensor([[1, 3]]), weight, mode="sum", per_sample_weights=factors)
    assert y.tolist() == [[22, 27]]
    y.sum().backward()
    assert factors.grad.tolist() == [[5, 13]] and weight.grad[3].tolist() == [3, 3]


def test_sinusoidal_positions():
    table = nn.SinusoidalPositions(5, 10)(dp.zeros(10, 5)).numpy()
    step = np.arange(10)
    for i, power in enumerate([0, 0, 0.4, 0.4, 0.8]):
        expected = (np.cos if i % 2 else np.sin)(step / 10000**power)
        np.testing.assert_allclose(table[:, i], expected, atol=1e-6)
    x = dp.tensor(np.random.default_rng(0).standard_normal((3, 2, 5)).astype("float32"))
    first, later = nn.SinusoidalPositions(5), nn.SinusoidalPositions(5, batch_first=True)
    np.testing.assert_array_equal(first(x).numpy(), x.numpy() + table[:3, None])
    np.testing.assert_array_equal(later(x).numpy(), x.numpy() + table[:2])
    assert not first.state_dict()
