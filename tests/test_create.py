"""Creation, random numbers and printing: forms, dtypes and texts are PyTorch's."""

import numpy as np
import pytest

import minidp as dp
from minidp.errors import GraphError, ShapeError

CREATED = [
    (lambda: dp.zeros(size=(2,)), [0.0, 0.0]), (lambda: dp.ones([1, 2]), [[1.0, 1.0]]),
    (lambda: dp.full((2,), 3), [3, 3]), (lambda: dp.full((), 2.5), 2.5),
    (lambda: dp.full((1,), True), [True]), (lambda: dp.arange(1, 10, 3), [1, 4, 7]),
    (lambda: dp.arange(5, 0, -2), [5, 3, 1]), (lambda: dp.arange(end=3), [0, 1, 2]),
    (lambda: dp.arange(0, 1, 0.25), [0.0, 0.25, 0.5, 0.75]), (lambda: dp.arange(2.5), [0.0, 1, 2]),
    (lambda: dp.linspace(0, 1, 5), [0.0, 0.25, 0.5, 0.75, 1.0]),
    (lambda: dp.logspace(0, 2, 3), [1.0, 10.0, 100.0]), (lambda: dp.eye(1, 2), [[1.0, 0.0]]),
    (lambda: dp.tril_indices(2, 3), [[0, 1, 1], [0, 0, 1]]),
    (lambda: dp.triu_indices(2, 2, offset=1), [[0], [1]]),
    (lambda: dp.tensor([True, 2]), [1, 2]), (lambda: dp.tensor([]), []),
    (lambda: dp.tensor([dp.tensor(1), dp.tensor(2)]), [1, 2]),
    (lambda: dp.asarray([1.0], copy=True), [1.0]),
    (lambda: dp.full_like(dp.ones(2, dtype=dp.int64), 7.9), [7, 7]),
    (lambda: dp.zeros_like(dp.ones(1), dtype=dp.bool), [False]),
    (lambda: dp.ones(2, dtype=dp.int64).new_full((2,), 3.7), [3, 3]),
    (lambda: dp.ones(1).new_tensor([1, 2]), [1.0, 2.0]),
    (lambda: dp.ones(1).new_zeros(1, 1), [[0.0]]),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(CREATED)))
def test_creation(case):
    make, expected = CREATED[case]
    kind = np.asarray(expected if np.size(expected) else 0.0).dtype
    assert make().tolist() == expected
    assert make().dtype == (np.float32 if kind == np.float64 else kind)


@pytest.mark.parametrize("wrong, error", [
    (lambda: dp.arange(0, 5, 0), ValueError), (lambda: dp.arange(5, 0), ValueError),
    (lambda: dp.linspace(0, 1, -1), ValueError), (lambda: dp.zeros(2, -1), ShapeError),
    (lambda: dp.tensor("a"), TypeError), (lambda: dp.from_numpy([1]), TypeError),
    (lambda: dp.randint(5, 5, (2,)), ValueError),
    (lambda: dp.bernoulli(dp.ones(1) * 2), ValueError),
    (lambda: dp.normal(dp.zeros(1), -dp.ones(1)), ValueError),
    (lambda: dp.multinomial(dp.tensor([-1.0, 2.0]), 1), ValueError),
    (lambda: dp.multinomial(dp.zeros(2), 1), ValueError),
    (lambda: dp.multinomial(dp.ones(2), 3), ValueError),
    (lambda: dp.ones(1, requires_grad=True).uniform_(), GraphError),
])  # fmt: skip
def test_what_is_refused(wrong, error):
    with pytest.raises(error):
        wrong()


def test_what_is_like_an_image_has_its_order_in_memory():
    image = dp.from_numpy(np.ones((2, 4, 5, 3), np.float32).transpose(0, 3, 1, 2))
    for make in (dp.zeros_like, dp.ones_like, dp.empty_like, lambda x: dp.full_like(x, 3)):
        assert make(image).shape == image.shape
        assert make(image).array.strides == image.array.strides
    assert dp.full_like(image, 3).tolist() == dp.full(image.shape, 3.0).tolist()
    rows = dp.ones(3, 1).expand(3, 4)  # not dense: no order to keep
    assert dp.zeros_like(rows).array.flags.c_contiguous


def test_random_numbers():
    generator = dp.Generator().manual_seed(3)
    many = {"generator": generator}
    u, z = dp.rand(20_000, **many), dp.randn(20_000, **many)
    assert abs(u.mean().item() - 0.5) < 0.01 and u.min().item() >= 0 and u.max().item() < 1
    assert abs(z.std().item() - 1) < 0.02
    k = dp.randint(2, 5, (3000,), **many)
    assert sorted(set(k.tolist())) == [2, 3, 4]
    assert sorted(dp.randperm(9, **many).tolist()) == list(range(9))
    assert dp.randint_like(u, 3).dtype == dp.float32 and dp.randint(high=2, size=(4,)).shape == (4,)
    n = dp.normal(dp.tensor([5.0, -5.0]), 0.1, **many)
    assert n[0] > 4 and n[1] < -4 and dp.normal(0, 1, (2, 3)).shape == (2, 3)
    p = dp.tensor([0.25, 0.0, 0.75])
    drawn = dp.multinomial(p, 20_000, replacement=True, **many)
    assert np.allclose(np.bincount(drawn.numpy()) / 20_000, p.numpy(), atol=0.02)
    first = [dp.multinomial(p, 2, **many).tolist() for _ in range(400)]
    assert abs(sum(pair[0] == 2 for pair in first) / 400 - 0.75) < 0.07
    assert dp.multinomial(dp.eye(3), 1).tolist() == [[0], [1], [2]]
    assert dp.bernoulli(dp.tensor([0.0, 1.0])).tolist() == [0, 1]


def test_random_numbers_in_place():
    x = dp.zeros(4000)
    view = x[:]
    assert x.uniform_(2, 3) is x and view.min().item() >= 2 and view.max().item() < 3
    assert abs(x.normal_(1, 2).mean().item() - 1) < 0.2
    assert abs(x.exponential_(2).mean().item() - 0.5) < 0.05
    assert abs(x.bernoulli_(0.3).mean().item() - 0.3) < 0.05
    assert set(x.random_(2, 4).tolist()) == {2, 3} and set(x.random_(1).tolist()) == {0}
    assert dp.zeros(3).bernoulli_(dp.tensor([0.0, 1, 0])).tolist() == [0, 1, 0]


TEXTS = [
    ([1e-5, 1.0], "tensor([1.0000e-05, 1.0000e+00])"), ([1.0, 2.5], "tensor([1.0000, 2.5000])"),
    ([1.0, -2.0], "tensor([ 1., -2.])"), ([0.1, 100.5], "tensor([1.0000e-01, 1.0050e+02])"),
    ([123456.0, 1.0], "tensor([1.2346e+05, 1.0000e+00])"), ([1e-4], "tensor([1.0000e-04])"),
    ([12345.678], "tensor([12345.6777])"), ([1e9], "tensor([1.0000e+09])"), (3.0, "tensor(3.)"),
    ([float("nan"), 1.5], "tensor([   nan, 1.5000])"), ([0.0, float("-inf")], "tensor([0., -inf])"),
    ([True, False], "tensor([ True, False])"), (7, "tensor(7)"), ([-1, 10], "tensor([-1, 10])"),
    ([[1, 2], [3, 4]], "tensor([[1, 2],\n        [3, 4]])"), ([], "tensor([])"),
    ([[[1.0]], [[2.0]]], "tensor([[[1.]],\n\n        [[2.]]])"),
    (range(1001), "tensor([   0,    1,    2,  ...,  998,  999, 1000])"),
    ([list(range(40))] * 30, "tensor([[ 0,  1,  2,  ..., 37, 38, 39],\n" + (
        "        [ 0,  1,  2,  ..., 37, 38, 39],\n" * 2 + "        ...,\n"
        + "        [ 0,  1,  2,  ..., 37, 38, 39],\n" * 3)[:-2] + "])"),
    (range(20, 45), "tensor([20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, "
                    "37,\n        38, 39, 40, 41, 42, 43, 44])"),
]  # fmt: skip


@pytest.mark.parametrize("values, text", TEXTS, ids=[text for _, text in TEXTS])
def test_printing(values, text):
    assert repr(dp.tensor(values)) == text


def test_notes_behind_the_values():
    assert repr(dp.zeros(0, 3, dtype=dp.int64)) == "tensor([], size=(0, 3), dtype=minidp.int64)"
    assert repr(dp.ones(1, dtype=dp.float16)) == "tensor([1.], dtype=minidp.float16)"
    assert repr(dp.ones(1, device="emu:1")) == "tensor([1.], device='emu:1')"
    wide = repr(dp.arange(1, 8, dtype=dp.float64, requires_grad=True) / 3)
    assert wide.endswith("2.3333],\n       dtype=minidp.float64, grad_fn=<div>)")
