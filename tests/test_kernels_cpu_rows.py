"""CPU kernels for rows: softmax, rectifier, normalisation, sums, dropout."""

import math

import numpy as np
import pytest

pytest.importorskip("numba")
from minidp.kernels import cpu
from minidp.kernels.cpu import (
    activation,
    attention,
    average_pool,
    batch_norm,
    conv,
    cross_entropy,
    dropout,
    elementwise,
    embedding,
    gru,
    index,
    linalg,
    lstm,
    machine,
    native,
    norm_conv,
    normalize,
    optim,
    order,
    pool,
    pooled_norm,
    resize,
    rnn,
    scan,
    shared_norm,
    softmax,
)
from minidp.kernels.cpu import reduce as sums

DTYPES = [np.float32, np.float64]
TOLERANCE = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-13}


def values(*shape, dtype=np.float64, seed=0):
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(dtype)


def channels_last(x):
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)


def close(got, want):
    assert got is not NotImplemented and got.shape == np.shape(want)
    np.testing.assert_allclose(got, want, rtol=TOLERANCE[got.dtype], atol=TOLERANCE[got.dtype])


def test_table_names_functions_of_its_modules():
    modules = (activation, attention, average_pool, batch_norm, conv, cross_entropy, dropout,
               elementwise, embedding, gru, index, linalg, lstm, machine, native, norm_conv,
               normalize, optim, order, pool, pooled_norm, sums, resize, rnn, scan, shared_norm,
               softmax)  # fmt: skip
    assert list(cpu.KERNELS) == [module.__name__.rpartition(".")[2] for module in modules]
    for module, names in zip(modules, cpu.KERNELS.values(), strict=True):
        assert all(callable(getattr(module, name)) for name in names)


# Softmax --------------------------------------------------------------------------------------


def reference_log_softmax(x, dim):
    shifted = x.astype(float) - x.max(dim, keepdims=True, initial=-np.inf)
    return shifted - np.log(np.exp(shifted).sum(dim, keepdims=True))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape, dim", [((7, 10), 1), ((3, 5, 4), 1), ((4,), 0), ((3, 4, 5), -3)])
def test_softmax(shape, dim, dtype):
    x = 30 * values(*shape, dtype=dtype)
    want = reference_log_softmax(x, dim)
    close(softmax.log_softmax(x, dim=dim), want)
    close(softmax.softmax(x, dim=dim), np.exp(want))
    assert np.array_equal(
        softmax.softmax(x[::-1], dim=dim), softmax.softmax(x[::-1].copy(), dim=dim)
    )


def test_softmax_of_edges():
    x = np.array([[-np.inf, 0], [1e38, -1e38], [np.nan, 0]], np.float32)
    assert softmax.softmax(x, dim=1)[:2].tolist() == [[0, 1], [1, 0]]
    assert np.isnan(softmax.softmax(x, dim=1)[2]).all()
    assert softmax.softmax(np.ones((0, 3)), dim=1).shape == (0, 3)
    assert softmax.softmax(np.ones((3, 0)), dim=1).shape == (3, 0)
    assert softmax.softmax(np.ones((2, 3), int), dim=1) is NotImplemented


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(8, 10), (3, 5, 4, 2), (0, 4)])
def test_cross_entropy(shape, dtype):
    x, places = 5 * values(*shape, dtype=dtype), shape[:1] + shape[2:]
    target = np.random.default_rng(0).integers(0, shape[1], places).astype(np.int32)
    target.reshape(-1)[::3] = -100
    g, kept = values(*places, dtype=dtype), target != -100
    onehot = np.moveaxis(np.eye(shape[1])[np.where(kept, target, 0)], -1, 1)
    log = reference_log_softmax(x, 1)
    dx = (np.exp(log) - onehot) * (g * kept)[:, None]
    for arrange in (np.ascontiguousarray, channels_last):
        losses = cross_entropy.cross_entropy(arrange(x), target, ignore_index=-100)
        close(losses, -(log * onehot).sum(1) * kept)
        close(cross_entropy.cross_entropy_input(g, arrange(x), target, ignore_index=-100), dx)


def test_cross_entropy_names_a_class_that_does_not_exist():
    x = np.zeros((2, 3), np.float32)
    for bad in (3, -1):
        with pytest.raises(ValueError, match=rf"class {bad} at row 1 .* 0 to 2; .*ignore_index"):
            cross_entropy.cross_entropy(x, np.array([0, bad]), ignore_index=-100)
    assert cross_entropy.cross_entropy(x, np.array([0, 3]), ignore_index=3)[1] == 0
    assert cross_entropy.cross_entropy(x, np.zeros(2), ignore_index=3) is NotImplemented


# Rectifier and normalisation ------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("arrange", [np.ascontiguousarray, channels_last, np.asfortranarray])
def test_relu_keeps_any_dense_layout(arrange, dtype):
    x, g = arrange(values(2, 3, 4, 5, dtype=dtype)), values(2, 3, 4, 5, dtype=dtype, seed=1)
    y = elementwise.relu(x)
    assert np.array_equal(y, np.maximum(x, 0)) and y.strides == x.strides and y is not x
    dx = elementwise.relu_input(g, y)
    assert np.array_equal(dx, np.where(x > 0, g, 0)) and dx.strides == x.strides


def test_relu_of_edges():
    x = np.array([np.nan, -np.inf, np.inf, -0.0], np.float32)
    np.testing.assert_array_equal(elementwise.relu(x), [np.nan, 0, np.inf, 0])
    np.testing.assert_array_equal(elementwise.relu_input(np.ones_like(x), x), [1, 0, 1, 0])
    assert elementwise.relu(np.float32([[1, 2, 3]])[:, ::2]) is NotImplemented
    assert elementwise.relu(np.arange(3)) is NotImplemented
    assert elementwise.relu(np.zeros((0, 3))).shape == (0, 3)
    assert elementwise.relu(np.array(-2.0)).shape == ()
    frozen = np.broadcast_to(np.float32(1), (2, 2))
    assert np.array_equal(elementwise.relu_input(frozen, np.eye(2, dtype=np.float32)), np.eye(2))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("arrange", [np.ascontiguousarray, channels_last])
@pytest.mark.parametrize("shape", [(4, 3, 5, 6), (7, 3), (0, 3, 2, 2)])
def test_batch_norm(shape, arrange, dtype):
    x = arrange(values(*shape, dtype=dtype))
    mean, var, weight, bias = (np.abs(values(3, dtype=dtype, seed=s)) for s in range(4))
    m, v, w, b = (
        u.astype(float).reshape(1, 3, *[1] * (x.ndim - 2)) for u in (mean, var, weight, bias)
    )
    normal = (x - m) / np.sqrt(v + 1e-5)
    y = batch_norm.batch_norm(x, mean, var, weight, bias, eps=1e-5)
    close(y, normal * w + b)
    close(batch_norm.batch_norm(x, mean, var, None, None, eps=1e-5), normal)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("arrange", [np.ascontiguousarray, channels_last])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (31, 1, 37), (3, 300), (1, 1), (9000, 1)])
def test_sum_over_all_axes_but_the_last_in_memory(shape, arrange, dtype):
    x = arrange(values(*shape, dtype=dtype))
    kept = 1 if arrange is channels_last else x.ndim - 1
    dim = tuple(axis for axis in range(x.ndim) if axis != kept)
    for keepdim in (False, True):
        y, want = sums.sum(x, dim=dim, keepdim=keepdim), x.sum(dim, float, keepdims=keepdim)
        if y is not NotImplemented or dense_in_one_way(x):
            assert y.shape == want.shape and y.dtype == dtype
            limit = TOLERANCE[y.dtype] * np.abs(x).sum()
            np.testing.assert_allclose(y, want, rtol=0, atol=limit)


def dense_in_one_way(x):
    return 1 not in x.shape


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
@pytest.mark.parametrize("dim", [None, (), (0,), (1,), 2, (0, 2), (1, 2), (0, 1, 2), (-1, 0)])
def test_sum_over_any_axes_of_any_order(dim, order):
    back = sorted(range(3), key=order.__getitem__)
    x = np.ascontiguousarray(values(5, 7, 130).transpose(order)).transpose(back)
    for keepdim in (False, True):
        want = x.sum(None if dim in (None, ()) else dim, keepdims=keepdim)
        close(sums.sum(x, dim=dim, keepdim=keepdim), want)
        near = sums.sum(x.astype("float32"), dim=dim, keepdim=keepdim)
        np.testing.assert_allclose(near, want, rtol=1e-4, atol=1e-4)


def test_sum_declines_what_it_does_not_serve():
    x = np.ones((2, 3, 4))
    for dim in ((0, 0), 3, (1, -4)):
        assert sums.sum(x, dim=dim, keepdim=False) is NotImplemented
    for unfit in (x[:, ::2], np.ones((0, 3)), np.ones((2, 3), int), np.ones(())):
        assert sums.sum(unfit, dim=None, keepdim=False) is NotImplemented


# Dropout --------------------------------------------------------------------------------------


def reference_philox(counter, key):
    counter, key = list(counter), list(key)
    for _ in range(10):
        p, q = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        high, low = q >> 32 ^ counter[1] ^ key[0], q & 0xFFFFFFFF
        counter = [high, low, p >> 32 ^ counter[3] ^ key[1], p & 0xFFFFFFFF]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return counter


@pytest.mark.parametrize(
    "word, want",
    [
        (0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (0xFFFFFFFF, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ],
)
def test_philox_gives_the_known_answers(word, want):
    words, word = np.empty((4, 1), np.uint64), np.uint64(word)
    dropout.philox(word, word, word, word, word, word, words)
    assert tuple(words[:, 0]) == want == tuple(reference_philox([int(word)] * 4, [int(word)] * 2))


def reference_keep(rows, size, p, key, row):
    (seed, step, draw), threshold = key, math.floor(p * 2**32)
    keep = np.empty((rows, size), bool)
    for i in range(rows):
        for e in range(size):
            counter = (e // 4, row + i & 0xFFFFFFFF, draw, step)
            keep[i, e] = (
                reference_philox(counter, (seed & 0xFFFFFFFF, seed >> 32))[e % 4] >= threshold
            )
    return keep


KEY = (0x123456789ABCDEF, 7, 3)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 5), (2, 3, 3, 3), (2, 1300), (4,), (0, 3)])
def test_dropout(shape, dtype):
    x = values(*shape, dtype=dtype)
    keep = reference_keep(shape[0], x[:1].size, 0.3, KEY, 40).reshape(shape)
    want = np.where(keep, x * dtype(1 / 0.7), 0)
    options = {"p": 0.3, "key": KEY, "row": 40}
    for arrange in (
        np.ascontiguousarray,
        channels_last if x.ndim > 1 else np.array,
        np.asfortranarray,
    ):
        assert np.array_equal(dropout.dropout(arrange(x), **options, batch_dim=0), want)
    turned = dropout.dropout(np.moveaxis(x, 0, -1), **options, batch_dim=x.ndim - 1)
    assert np.array_equal(turned, np.moveaxis(want, 0, -1))
    part = dropout.dropout(x[1:], p=0.3, key=KEY, row=41, batch_dim=0)
    assert np.array_equal(part, want[1:])


def test_dropout_of_edges():
    x = np.array([[1, np.nan, np.inf, 2, 3]], np.float32)
    assert np.array_equal(dropout.dropout(x, p=1, key=KEY, row=0, batch_dim=0), np.zeros_like(x))
    kept = dropout.dropout(x, p=0.0, key=KEY, row=0, batch_dim=0)
    np.testing.assert_array_equal(kept, x)
    whole = dropout.dropout(values(3, 4), p=0.5, key=KEY, row=9, batch_dim=None)
    assert np.array_equal(whole != 0, reference_keep(1, 12, 0.5, KEY, 0).reshape(3, 4))
    assert dropout.dropout(np.array(2.0), p=0.0, key=KEY, row=0, batch_dim=None).shape == ()
    wide = dropout.dropout(np.ones((2, 3)), p=0.5, key=KEY, row=2**32 - 1, batch_dim=0)
    assert np.array_equal(wide != 0, reference_keep(2, 3, 0.5, KEY, 2**32 - 1))
