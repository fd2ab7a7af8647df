"""Random numbers: counted, so that a key and a place give the same value on every machine."""

import numpy as np
import pytest

import minidp as dp
from minidp import random
from minidp.create import tensor
from minidp.random import Generator


@pytest.mark.parametrize("counter,key,expected", [
    (0, 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    (0xFFFFFFFF, 0xFFFFFFFF, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
])  # fmt: skip
def test_philox_known_answers(counter, key, expected):
    out = random.philox(np, [np.array([counter], np.uint64)] * 4, key, key)
    assert " ".join(f"{int(word[0]):08x}" for word in out) == expected


def test_words_do_not_depend_on_how_rows_are_cut():
    key = (2**40 + 1, 3, 2)
    whole = random.words(np, key, 0, 7, 10)
    parts = [random.words(np, key, 0, 3, 10), random.words(np, key, 3, 4, 10)]
    np.testing.assert_array_equal(whole, np.concatenate(parts))
    np.testing.assert_array_equal(whole[:, :5], random.words(np, key, 0, 7, 5))
    for other in ((2**40 + 2, 3, 2), (1, 3, 2), (2**40 + 1, 4, 2), (2**40 + 1, 3, 1)):
        assert (random.words(np, other, 0, 7, 10) != whole).mean() > 0.9


def test_same_seed_same_values():
    makers = (lambda g: dp.rand(3, 4, generator=g), lambda g: dp.randn(5, generator=g),
              lambda g: dp.randint(0, 9, (8,), generator=g),
              lambda g: dp.randperm(9, generator=g))  # fmt: skip
    for make in makers:
        first, again, other = Generator(5), Generator(5), Generator(6)
        a, b, c = make(first), make(again), make(other)
        assert a.tolist() == b.tolist() != c.tolist()
        assert make(first).tolist() != a.tolist()
    random.manual_seed(3)
    a = dp.rand(4).tolist()
    random.manual_seed(3)
    assert dp.rand(4).tolist() == a


def test_generator_state_goes_back():
    g = Generator(1)
    dp.rand(3, generator=g)
    state = g.get_state()
    a = dp.rand(3, generator=g).tolist()
    g.set_state(state)
    assert dp.rand(3, generator=g).tolist() == a


def test_draws_are_independent():
    g = Generator(0)
    a, b = (dp.randn(20_000, generator=g, dtype="float64").numpy() for _ in range(2))
    for x, y in ((a, b), (a[1:], a[:-1]), (a[::2], a[1::2]), (a[:10_000], a[10_000:])):
        assert abs(np.corrcoef(x, y)[0, 1]) < 0.03  # about four standard errors


def test_uniform_numbers():
    x = dp.rand(50_000, generator=Generator(0))
    values = x.numpy()
    assert x.dtype == np.float32 and values.min() >= 0 and values.max() < 1
    counts = np.histogram(values, 20, (0, 1))[0]
    assert abs(counts - 2500).max() < 250
    assert dp.rand(2, 3, dtype="float64").dtype == np.float64


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_uniform_numbers_never_reach_one(dtype, monkeypatch):
    monkeypatch.setattr(random, "uniforms", lambda key, count: np.full(count, 1 - 2.0**-53))
    assert dp.rand(3, dtype=dtype).numpy().max() < 1


def test_normal_numbers():
    values = dp.randn(50_001, generator=Generator(0), dtype="float64").numpy()
    moments = [(values**k).mean() for k in (1, 2, 3, 4)]
    np.testing.assert_allclose(moments, [0, 1, 0, 3], atol=0.12)
    assert np.isfinite(values).all() and 3.5 < abs(values).max() < 6
    assert dp.randn(3).dtype == np.float32


def test_integers_and_permutations():
    x = dp.randint(-3, 4, (7000,), generator=Generator(0))
    assert x.dtype == np.int64 and sorted(set(x.tolist())) == list(range(-3, 4))
    assert abs(np.bincount(x.numpy() + 3) - 1000).max() < 150
    assert dp.randint(5, (2, 3)).shape == (2, 3)
    assert sorted(dp.randperm(50).tolist()) == list(range(50))


def test_random_like():
    x = tensor(np.zeros((2, 3)))
    for make in (dp.rand_like, dp.randn_like):
        assert (make(x).shape, make(x).dtype) == ((2, 3), np.float64)
