"""Kernels of a layer and its rectifier give what the two give one after the other."""

import numpy as np
import pytest

from minidp.kernels.cpu import (
    _batch_passes,
    _direct,
    _dots,
    _machine_code,
    _product,
    batch_norm,
    conv,
    elementwise,
    linalg,
    pool,
    pooled_norm,
    shared_norm,
)

HASWELL = _machine_code.Target("haswell", "+avx2,+fma", bytes=32, rows=6)
needs_vectors = pytest.mark.skipif(_machine_code.host() is None,
                                   reason="needs AVX2, and Numba's compiler")  # fmt: skip


def values(*shape, dtype, seed=0):
    """Rounded, so that there are ties and zeros."""
    return np.round(np.random.default_rng(seed).standard_normal(shape), 1).astype(dtype)


WINDOWS = [  # kernel, stride, padding, dilation, size of x (2, 37, 6, 5)'s windows
    ((3, 2), (1, 2), (2, 1), (2, 3)), ((5, 5), (3, 1), (4, 4), (1, 1)),
    ((20, 17), (1, 1), (9, 8), (1, 1)), ((16, 16), (1, 1), (8, 8), (1, 1)),
    ((2, 2), (2, 2), (0, 0), (1, 1)), ((2, 2), (2, 2), (3, 3), (1, 1)),
]  # fmt: skip


@pytest.mark.parametrize("way", ["vectors", "loops"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_max_pool_relu_is_both(way, dtype, monkeypatch):
    if way == "loops":
        monkeypatch.setattr(pool, "host", lambda: None)
    for kernel, stride, padding, dilation in WINDOWS:
        x = np.array(values(2, 37, 6, 5, dtype=dtype)) - dtype(1)
        x[0, 3, 2, 2:], x[1, 2, 0], x[1, 4] = np.nan, -0.0, -np.inf
        lengths = zip(x.shape[2:], kernel, stride, padding, dilation, strict=True)
        size = tuple((h + 2 * p - d * (k - 1) - 1) // s + 1 for h, k, s, p, d in lengths)
        grid = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}
        y, index = pool.max_pool2d_relu(x, **grid, size=size)
        largest, places = pool.max_pool2d(x, **grid, size=size)
        assert y.tobytes() == np.where(largest <= 0, dtype(0), largest).tobytes()
        none = np.array(-1).astype(index.dtype)
        want = np.where(largest <= 0, none, places.astype(index.dtype))
        assert index.dtype == (np.uint8 if kernel[0] * kernel[1] < 256 else np.int32)
        assert np.array_equal(index, want)
        g = np.array(values(*y.shape, dtype=dtype, seed=2))
        kept = np.where(largest <= 0, dtype(0), g)
        back = {"shape": x.shape, **grid}
        assert np.array_equal(pool.max_pool2d_input(g, index, **back),
                              pool.max_pool2d_input(kept, places, **back))  # fmt: skip


LAYERS = [  # x, w, stride, padding, dilation, groups
    ((2, 3, 9, 8), (20, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((2, 32, 13, 12), (40, 32, 3, 3), (1, 1), (1, 1), (1, 1), 1),  # Winograd
    ((2, 16, 14, 13), (17, 16, 5, 5), (1, 1), (2, 2), (1, 1), 1),
    ((2, 300, 7, 7), (20, 300, 3, 3), (2, 2), (1, 1), (1, 1), 1),  # sums in several chunks
    ((2, 24, 9, 9), (24, 1, 3, 3), (1, 1), (1, 1), (2, 2), 24),  # depthwise
    ((3, 8, 5, 5), (10, 8, 5, 5), (1, 1), (0, 0), (1, 1), 1),  # a product of matrices
    ((3, 6, 3, 3), (10, 3, 1, 1), (1, 1), (0, 0), (1, 1), 2),
    ((0, 3, 9, 8), (20, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", LAYERS, ids=str)
def test_convolution_relu_is_both(case, dtype):
    x, w = (values(*shape, dtype=dtype, seed=k) for k, shape in enumerate(case[:2]))
    options = dict(zip(("stride", "padding", "dilation", "groups"), case[2:], strict=True))
    for b in (None, values(case[1][0], dtype=dtype, seed=3)):
        y = conv.conv2d(x, w, b, **options)
        got = conv.conv2d_relu(x, w, b, **options)
        assert y.size == 0 or (y < 0).any()
        assert np.array_equal(got, np.maximum(y, 0))


SIZES = [  # rows, sums, columns: a few rows, turned products, several chunks, blocks of each kind
    (1, 30, 20), (3, 17, 16), (7, 1030, 33), (2, 5, 3), (20, 70, 90), (128, 784, 512),
    (40, 1537, 65), (600, 40, 12), (15, 1, 9), (1, 1, 1),
]  # fmt: skip


def check_product(rows, sums, columns, dtype):
    """Both ends of products, the same bytes but for the sign of a 0."""
    x, w = values(rows, sums, dtype=dtype), values(columns, sums, dtype=dtype, seed=1)
    y = values(rows, columns, dtype=dtype, seed=2)
    x[0, 0], y[0, -1], y[-1, 0] = np.nan if columns % 2 else 0, np.nan, -0.0
    for b in (None, values(columns, dtype=dtype, seed=3)):
        got, plain = linalg.linear_relu(x, w, b), linalg.linear(x, w, b)
        if sums == 1:
            assert got is plain is NotImplemented
            continue
        assert np.array_equal(got, elementwise.relu(plain), equal_nan=True)
    for a, b in ((x, w.T), (x, np.ascontiguousarray(w.T)), (np.asfortranarray(x), w.T)):
        want = elementwise.relu_input(linalg.matmul(a, b), y)
        assert np.array_equal(linalg.matmul_relu_input(a, b, y), want, equal_nan=True)
        turned = linalg.matmul_relu_input(a, b, np.asfortranarray(y))
        assert np.array_equal(turned, want, equal_nan=True)


@needs_vectors
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_products_with_a_rectifier_are_both(sizes, dtype):
    check_product(*sizes, dtype)


@needs_vectors
def test_products_with_a_rectifier_and_other_vectors(monkeypatch):
    for module in (_product, _dots, linalg):
        monkeypatch.setattr(module, "host", lambda: HASWELL)
    monkeypatch.setattr(_product, "product_of", _product.Product)
    monkeypatch.setattr(_product, "BLOCK", 1 << 14)
    for sizes in ((3, 530, 17), (13, 5, 33), (43, 1537, 165)):
        check_product(*sizes, np.float32)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(4, 3), (3, 37, 5), (2, 3, 4, 5), (1, 1), (2, 17, 1, 1)])
@pytest.mark.parametrize("last", [False, True])
def test_batch_norm_relu_is_both(shape, last, dtype):
    x, dy = (values(*shape, dtype=dtype, seed=k) for k in range(2))
    if last:
        x = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
    weight, bias = (values(shape[1], dtype=dtype, seed=k) for k in (2, 3))
    for w, b in ((weight, bias), (None, None), (weight, None)):
        y, mean, var = batch_norm.batch_norm_own(x, w, b, eps=1e-5)
        got = batch_norm.batch_norm_own_relu(x, w, b, eps=1e-5)
        want = np.maximum(y, 0), mean, var, np.zeros(shape[1], dtype) if b is None else b
        assert all(np.array_equal(p, q) for p, q in zip(got, want, strict=True))
        back = batch_norm.batch_norm_own_relu_back(dy, x, *got[1:], w, eps=1e-5)
        masked = np.where(y <= 0, dtype(0), dy)
        plain = batch_norm.batch_norm_own_back(masked, x, mean, var, w, eps=1e-5)
        assert all(np.array_equal(p, q) for p, q in zip(back, plain, strict=True))


@pytest.mark.parametrize("shift", [0.0, 1e4, -1e6])
def test_one_pass_statistics_lose_nothing_to_the_mean(shift):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4000, 5)) + shift
    x[0, 0] += 1e5  # the row that sums are taken from is far off
    _, mean, var = batch_norm.batch_norm_own(x, eps=1e-5)
    np.testing.assert_allclose(mean, x.mean(0), rtol=1e-15, atol=1e-12 * x[:, 0].std())
    np.testing.assert_allclose(var, x.var(0), rtol=1e-8)


@pytest.mark.parametrize("row", [0, 17, 3999])
@pytest.mark.parametrize("shift", [0.0, 1e3, -1e6])
def test_one_pass_statistics_of_float32_hold_far_from_zero(shift, row):
    """Sums of a few rows are in float32: of what differs from the first of these rows."""
    x = (np.random.default_rng(0).standard_normal((4000, 5)) + shift).astype(np.float32)
    x[row, 0] += 1e4
    wide, (_, mean, var) = x.astype(np.float64), batch_norm.batch_norm_own(x, eps=1e-5)
    np.testing.assert_allclose(mean, wide.mean(0), rtol=1e-6, atol=1e-6 * wide[:, 0].std())
    np.testing.assert_allclose(var, wide.var(0), rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(4, 3), (3, 37, 5), (2, 3, 4, 5), (1, 1), (2, 17, 1, 1)])
@pytest.mark.parametrize("last", [False, True])
def test_shared_passes_are_the_own_ones(shape, last, dtype):
    """With all values on one replica: the same bytes, but for sums that are handed over."""
    x, dy = (values(*shape, dtype=dtype, seed=k) for k in range(2))
    if last:
        x = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
    w, b = (values(shape[1], dtype=dtype, seed=k) for k in (2, 3))
    y, mean, var, shift = batch_norm.batch_norm_own_relu(x, w, b, eps=0.1)
    want = batch_norm.batch_norm_own_relu_back(dy, x, mean, var, shift, w, eps=0.1)
    moments = shared_norm.batch_moments(x)
    assert all(np.array_equal(*pair) for pair in zip(moments, (mean, var), strict=True))
    count, options = np.array([x.size // shape[1]], dtype), {"eps": 0.1, "rectify": True}
    found, r = shared_norm.batch_norm_shared(x, mean, var, count, w, b, **options)
    assert np.array_equal(found, y)
    total, along = shared_norm.batch_norm_sums(dy, x, mean, var, w, b, **options)
    both = np.concatenate([total, along])
    dx = shared_norm.batch_norm_back(dy, x, mean, var, both, count, w, b, **options)
    tolerance = {"rtol": 1e-5, "atol": 1e-6} if dtype is np.float32 else {"atol": 1e-13}
    for a, b in zip((dx, along * r, total), want, strict=True):
        np.testing.assert_allclose(a, b, **tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(2, 37, 6, 4), (3, 64, 40, 36), (1, 5, 4, 4)])
@pytest.mark.parametrize("window", WINDOWS[:1] + WINDOWS[-2:] + [((2, 2), (1, 1), (0, 0), (1, 1))])
def test_pooled_norm_is_its_parts(window, shape, dtype):
    kernel, stride, padding, dilation = window
    x = np.moveaxis(values(shape[0], *shape[2:], shape[1], dtype=dtype), -1, 1)
    w, b = (values(shape[1], dtype=dtype, seed=k) for k in (2, 3))
    lengths = zip(shape[2:], kernel, stride, padding, dilation, strict=True)
    size = tuple((h + 2 * p - d * (k - 1) - 1) // s + 1 for h, k, s, p, d in lengths)
    grid = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}
    normal, mean, var = batch_norm.batch_norm_own(x, w, b, eps=0.1)
    found = pooled_norm.batch_norm_pool(x, mean, var, w, b, eps=0.1, **grid, size=size)
    if found is NotImplemented:  # no vectors here: the parts themselves are run
        pytest.skip("this CPU, or its compiler, has no vectors")
    y, index, _ = found
    want = pool.max_pool2d_relu(normal, **grid, size=size)
    assert np.array_equal(y, want[0]) and np.array_equal(index, want[1])
    g = np.array(values(*y.shape, dtype=dtype, seed=4))
    options = {"eps": 0.1, "shape": shape, **grid}
    dy = pool.max_pool2d_input(g, index, shape=shape, **grid)
    back = pooled_norm.batch_norm_own_pool_back(g, index, x, mean, var, w, **options)
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if dtype is np.float32 else {"atol": 1e-11}
    parts = batch_norm.batch_norm_own_back(dy, x, mean, var, w, eps=0.1)
    for a, b in zip(back, parts, strict=True):
        np.testing.assert_allclose(a, b, **tolerance)
    sums = pooled_norm.batch_norm_pool_sums(g, index, x, mean, var, **options)
    count = np.array([x.size // shape[1]], dtype)
    dx = pooled_norm.batch_norm_pool_back(g, index, x, mean, var, np.concatenate(sums), count, w,
                                          **options)  # fmt: skip
    np.testing.assert_allclose(dx, back[0], **tolerance)


@pytest.mark.parametrize("wide", [(1, 64, 7, 60), (3, 40, 33, 4), (2, 700, 13, 12)])
def test_strips_of_winograd_are_whole_at_every_width(wide):
    """Several strips in a row of tiles, tiles that end beyond the image; each image by itself."""
    n, c, _, _ = wide
    x, w = values(*wide, dtype=np.float32), values(20, c, 3, 3, dtype=np.float32, seed=1)
    layer = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    y = conv.conv2d(x, w, **layer)
    want = conv.conv2d(x.astype(float), w.astype(float), **layer)
    assert np.sqrt(np.mean((y - want) ** 2) / np.mean(want**2)) < 5e-6
    alone = [conv.conv2d(x[k : k + 1], w, **layer) for k in range(n)]
    assert np.array_equal(np.concatenate(alone), y)


@pytest.mark.parametrize("stride", [1, 2])
def test_an_image_whose_results_are_far_gives_the_bytes_of_a_near_one(stride):
    x, w = values(64, 3, 33, 31, dtype=np.float32), values(67, 3, 3, 3, dtype=np.float32, seed=1)
    layer = {"stride": (stride,) * 2, "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    y = conv.conv2d(x, w, **layer)
    assert y.nbytes > _direct.NEAR > y[:1].nbytes
    alone = [conv.conv2d(x[k : k + 1], w, **layer) for k in range(len(x))]
    assert np.array_equal(np.concatenate(alone), y)


@pytest.mark.parametrize("channels", [16, 70, 1500])
def test_images_that_are_far_are_normalised_as_near_ones(channels):
    n, h = 6, 2 * int(120 / channels**0.5)  # 1.3 megabytes; an image is near
    x, g = (values(n, h, h, channels, dtype=np.float32, seed=k).transpose(0, 3, 1, 2)
            for k in (0, 1))  # fmt: skip
    assert x.nbytes > _batch_passes.NEAR > x[:1].nbytes
    w, b = (values(channels, dtype=np.float32, seed=k) for k in (2, 3))
    mean, var = shared_norm.batch_moments(x)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(mean, wide.mean((0, 2, 3)), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(var, wide.var((0, 2, 3)), rtol=1e-5)
    sums = np.concatenate(shared_norm.batch_norm_sums(g, x, mean, var, w, b, eps=1e-5,
                                                      rectify=True))  # fmt: skip
    count, places = np.array([x.size // channels], np.float32), {"size": (h // 2, h // 2)}
    grid = {"kernel": (2, 2), "stride": (2, 2), "padding": (0, 0), "dilation": (1, 1)}
    kept = np.where(batch_norm.batch_norm(x, mean, var, w, b) > 0, g, 0).astype(np.float64)
    along = (kept * (wide - mean[:, None, None])).sum((0, 2, 3))
    np.testing.assert_allclose(sums, [*kept.sum((0, 2, 3)), *along], rtol=1e-4, atol=1e-2)

    def passes(x, g):
        y, index, _ = pooled_norm.batch_norm_pool(x, mean, var, w, b, eps=1e-5, **places, **grid)
        back = pooled_norm.batch_norm_pool_back(y, index, x, mean, var, sums, count, w, eps=1e-5,
                                                shape=x.shape, **grid)  # fmt: skip
        return y, index, back, shared_norm.batch_norm_shared(
            x, mean, var, count, w, b, eps=1e-5, rectify=True)[0], shared_norm.batch_norm_back(
            g, x, mean, var, sums, count, w, b, eps=1e-5, rectify=True)  # fmt: skip

    each = [passes(x[i : i + 1], g[i : i + 1]) for i in range(n)]
    for far, near in zip(passes(x, g), zip(*each, strict=True), strict=True):
        assert np.array_equal(far, np.concatenate(near))
