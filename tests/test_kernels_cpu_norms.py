"""Normalisation by rows, groups and channels: awkward sizes, long sums, memory of its own."""

import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("numba")
from minidp.kernels.cpu import batch_norm, normalize

EPS = 1e-5


def drawn(*shape, dtype=np.float32, mean=0.0, seed=0):
    return (np.random.default_rng(seed).standard_normal(shape) + mean).astype(dtype)


def channels_last(x):
    return np.ascontiguousarray(x.transpose(0, 2, 1)).transpose(0, 2, 1)


def by_channels(x, weight, bias, g):
    """y, dx, dweight and dbias of batch norm of (n, c, places), in float64."""
    x, weight, bias, g = (np.asarray(a, np.float64) for a in (x, weight, bias, g))
    column = (slice(None), None)
    mean, var = x.mean((0, 2)), x.var((0, 2))
    r = 1 / np.sqrt(var + EPS)
    v = (x - mean[column]) * r[column]
    along = (g * v).mean((0, 2))[column]
    dx = (g - g.mean((0, 2))[column] - v * along) * (weight * r)[column]
    return v * weight[column] + bias[column], dx, (g * v).sum((0, 2)), g.sum((0, 2))


@pytest.mark.parametrize("memory", [np.ascontiguousarray, channels_last])
@pytest.mark.parametrize("shape", [(5, 1, 300), (3, 45, 49), (2, 3, 1024), (2, 5, 1500), (7, 6, 1),
                                   (1, 33, 16), (4, 1, 1)])  # fmt: skip
def test_batch_norm_by_its_own_statistics(shape, memory):
    x, g = memory(drawn(*shape, mean=3.0)), memory(drawn(*shape, seed=1))
    weight, bias = drawn(shape[1], seed=2), drawn(shape[1], seed=3)
    y, mean, var = batch_norm.batch_norm_own(x, weight, bias, eps=EPS)
    found = batch_norm.batch_norm_own_back(g, x, mean, var, weight, eps=EPS)
    for one, other in zip((y, *found), by_channels(x, weight, bias, g), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=2e-4)
    cut, *_, shift = batch_norm.batch_norm_own_relu(x, weight, bias, eps=EPS)
    assert np.array_equal(cut, np.maximum(y, 0)) and np.array_equal(shift, bias)
    masked = np.where(y > 0, g, 0)
    found = batch_norm.batch_norm_own_relu_back(g, x, mean, var, shift, weight, eps=EPS)
    for one, other in zip(found, by_channels(x, weight, bias, masked)[1:], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=2e-4)


def test_one_channel_is_a_row():
    """Side by side, its values would be rows of one."""
    for shape in ((4, 1, 3, 5), (6, 1)):
        rows, is_last = batch_norm.rows_of(drawn(*shape))
        assert not is_last and rows.shape == (1, 1, rows.size)
    assert batch_norm.rows_of(drawn(6, 2))[1]


@pytest.mark.parametrize("mean", [0.0, 1000.0])
def test_long_rows_lose_no_digits(mean):
    x = drawn(3, 5001, mean=mean)
    y, level, r = normalize.group_norm(x, None, None, groups=1, eps=EPS, center=True)
    exact = x.astype(np.float64)
    np.testing.assert_allclose(level[:, 0], exact.mean(1), rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(r[:, 0], 1 / np.sqrt(exact.var(1) + EPS), rtol=1e-6)
    want = (exact - exact.mean(1, keepdims=True)) * r
    np.testing.assert_allclose(y, want, atol=2e-4 if mean else 2e-6)


@pytest.mark.parametrize("shape, groups", [((9, 40), 1), ((9, 40, 7), 4)])
def test_cotangents_of_weight_and_bias_have_memory_of_their_own(shape, groups):
    x, g, weight = drawn(*shape), drawn(*shape, seed=1), drawn(shape[1], seed=2)
    _, mean, r = normalize.group_norm(x, weight, None, groups=groups, eps=EPS, center=True)
    _, dweight, dbias = normalize.group_norm_back(g, x, mean, r, weight, center=True)
    assert dweight.base is None and dbias.base is None
    np.testing.assert_allclose(dbias, g.sum((0, *range(2, g.ndim))), rtol=1e-5, atol=1e-5)


def test_large_results_begin_at_cache_lines():
    x = drawn(40, 1031)
    results = [normalize.layer_norm(x, axes=1, eps=EPS, center=True)[0] for _ in range(5)]
    assert all(y.ctypes.data % 64 == 0 and y.flags.writeable for y in results)


WITHOUT = """
import numpy as np
from minidp.kernels.cpu import _batch_passes, batch_norm
_batch_passes.NEAR = 64  # bytes: what is larger would be asked for
x = np.random.default_rng(0).standard_normal((9, 5)).astype(np.float32)
y, mean, var = batch_norm.batch_norm_own(x, eps=1e-5)
assert np.allclose(y, (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5), atol=1e-5)
dx, *_ = batch_norm.batch_norm_own_back(np.ones_like(x), x, mean, var, eps=1e-5)
assert np.allclose(dx, 0, atol=1e-5)
"""


def test_large_arrays_without_the_compiler():
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    subprocess.run([sys.executable, "-c", WITHOUT], env=environment, check=True, timeout=120)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape, groups", [((2, 8, 5, 7), 2), ((1, 33, 3, 4), 3), ((3, 16, 9), 16),
                                           ((2, 9, 13), 1), ((0, 8, 3, 3), 2), ((2, 64, 11, 9), 32),
                                           ((1, 8, 70, 3), 4)])  # fmt: skip
def test_groups_of_channels_that_lie_side_by_side(shape, groups, dtype):
    """As in other memory, and again side by side; the bytes of an image do not depend on others."""
    x, g = drawn(*shape, mean=3.0, dtype=dtype), drawn(*shape, seed=1, dtype=dtype)
    last = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
    weight, bias = drawn(shape[1], seed=2, dtype=dtype), drawn(shape[1], seed=3, dtype=dtype)
    near = {"rtol": 1e-4, "atol": 1e-4} if dtype == np.float32 else {"rtol": 1e-9, "atol": 1e-10}
    for scale, shift, center in ((weight, bias, True), (weight, None, False), (None, bias, True)):
        options = {"groups": groups, "eps": EPS, "center": center}
        found = normalize.group_norm(last, scale, shift, **options)
        back = normalize.group_norm_back(g, last, *found[1:], scale, center=center)
        want = normalize.group_norm(x, scale, shift, **options)
        others = normalize.group_norm_back(g, x, *want[1:], scale, center=center)
        for one, other in zip((*found, *back), (*want, *others), strict=True):
            np.testing.assert_allclose(one, other, **near)
        assert np.moveaxis(found[0], 1, -1).flags.c_contiguous
        alone = normalize.group_norm(last[:1], scale, shift, **options)
        assert np.array_equal(alone[0], found[0][:1])
