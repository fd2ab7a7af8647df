"""CPU kernels for images against short NumPy references: awkward shapes, any memory layout."""

import ctypes
import functools

import numpy as np
import pytest

pytest.importorskip("numba")
from minidp.kernels import cpu
from minidp.kernels.cpu import _blas, _by_columns, _tiling, average_pool, conv, pool

TOLERANCE = {np.dtype(np.float32): 2e-5, np.dtype(np.float64): 1e-12}
DTYPES = [np.float32, np.float64]
LAYOUTS = {
    "first": np.ascontiguousarray,
    "last": lambda x: np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1),
    "reversed": lambda x: np.ascontiguousarray(x[..., ::-1])[..., ::-1],
    "gaps": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "fortran": np.asfortranarray,
    "frozen": lambda x: np.frombuffer(x.tobytes(), x.dtype).reshape(x.shape),
}


def values(*shape, dtype=np.float64, seed=0):
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(dtype)


def close(got, want, scale=1.0):
    assert got is not NotImplemented
    assert got.shape == np.shape(want)
    tolerance = TOLERANCE[got.dtype] * scale
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


# Convolution ----------------------------------------------------------------------------------


def taps(x, kernel, stride, padding, dilation, size, fill=0.0):
    """Windows of x (n, c, h, w) as (n, c, o, p, i, j), `fill` outside the image."""
    (kh, kw), (sh, sw), (ph, pw), (dh, dw), (o, p) = kernel, stride, padding, dilation, size
    high = (max(0, (o - 1) * sh + (kh - 1) * dh + 1), max(0, (p - 1) * sw + (kw - 1) * dw + 1))
    wide = np.full((*x.shape[:2], high[0] + x.shape[2] + ph, high[1] + x.shape[3] + pw), fill)
    wide[:, :, ph : ph + x.shape[2], pw : pw + x.shape[3]] = x
    out = np.empty((*x.shape[:2], o, p, kh, kw))
    for i in range(kh):
        for j in range(kw):
            rows = slice(i * dh, i * dh + o * sh, sh)
            out[..., i, j] = wide[:, :, rows, j * dw : j * dw + p * sw : sw][:, :, :o, :p]
    return out


def reference_conv(x, w, b, stride, padding, dilation, groups):
    k, size, *kernel = w.shape
    lengths = zip(x.shape[2:], padding, dilation, kernel, stride, strict=True)
    output = [max(0, (h + 2 * p - d * (i - 1) - 1) // s + 1) for h, p, d, i, s in lengths]
    columns = taps(x.astype(float), kernel, stride, padding, dilation, output)
    columns = columns.reshape(len(x), groups, size, *columns.shape[2:])
    weights = w.astype(float).reshape(groups, k // groups, size, *kernel)
    y = np.einsum("ngcopij,gkcij->ngkop", columns, weights).reshape(len(x), k, *output)
    return y if b is None else y + b[:, None, None]


def check_conv(x, w, b, **options):
    """Forward against the reference; gradients by <g, conv(x, w)> = <dx, x> = <dw, w>."""
    want = reference_conv(x, w, b, *options.values())
    y = conv.conv2d(x, w, b, **options)
    close(y, want, 10)
    assert np.moveaxis(y, 1, -1).flags.c_contiguous
    g = values(*y.shape, dtype=x.dtype, seed=5)
    dx = conv.conv2d_input(g, w, shape=x.shape, **options)
    dw = conv.conv2d_weight(g, x, shape=w.shape, **options)
    assert dw.flags.c_contiguous and dx.dtype == dw.dtype == x.dtype
    tolerance = TOLERANCE[x.dtype] * 30 * max(1, y.size) ** 0.5
    for seed in range(3):
        u, v = values(*x.shape, seed=seed + 10), values(*w.shape, seed=seed + 20)
        one, other = (reference_conv(p, q, None, *options.values()) for p, q in ((u, w), (x, v)))
        np.testing.assert_allclose(np.sum(dx * u), np.sum(g * one), rtol=1e-4, atol=tolerance)
        np.testing.assert_allclose(np.sum(dw * v), np.sum(g * other), rtol=1e-4, atol=tolerance)
    return y, dx, dw


CONVOLUTIONS = [  # x, w, stride, padding, dilation, groups
    ((3, 1, 28, 28), (8, 1, 5, 5), (1, 1), (2, 2), (1, 1), 1),
    ((2, 32, 14, 14), (16, 32, 5, 5), (1, 1), (2, 2), (1, 1), 1),
    ((2, 3, 9, 7), (5, 3, 3, 2), (2, 3), (1, 2), (1, 1), 1),
    ((2, 16, 9, 7), (4, 16, 3, 3), (3, 2), (0, 0), (1, 1), 1),
    ((2, 2, 5, 5), (3, 2, 3, 3), (1, 1), (4, 5), (1, 1), 1),
    ((2, 4, 11, 10), (6, 2, 3, 3), (1, 2), (2, 2), (2, 3), 2),
    ((2, 24, 6, 6), (24, 8, 3, 3), (1, 1), (1, 1), (1, 1), 3),
    ((2, 6, 7, 7), (6, 1, 3, 3), (1, 1), (1, 1), (1, 1), 6),
    ((2, 3, 7, 7), (6, 1, 3, 3), (2, 2), (1, 1), (1, 1), 3),
    ((3, 8, 5, 4), (7, 8, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((3, 8, 5, 4), (6, 4, 1, 1), (1, 1), (0, 0), (1, 1), 2),
    ((3, 8, 5, 4), (7, 8, 1, 1), (2, 2), (1, 0), (1, 1), 1),
    ((2, 3, 1, 1), (4, 3, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((2, 3, 1, 1), (4, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((0, 3, 6, 6), (4, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((0, 3, 6, 6), (4, 3, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((2, 3, 2, 6), (4, 3, 3, 3), (1, 1), (0, 0), (1, 1), 1),
    (
        (1, 64, 90, 91),
        (2, 64, 3, 3),
        (1, 1),
        (1, 1),
        (1, 1),
        1,
    ),  # more columns than the buffer holds
    ((1, 2, 300, 301), (2, 2, 3, 3), (2, 1), (1, 1), (1, 1), 1),
    ((2, 40, 6, 5), (40, 1, 3, 3), (1, 1), (1, 1), (1, 1), 40),  # depthwise, in two blocks
    ((2, 35, 9, 8), (35, 1, 3, 2), (2, 3), (1, 0), (2, 1), 35),
    ((2, 5, 7, 7), (10, 1, 3, 3), (1, 1), (1, 1), (1, 1), 5),
    ((2, 34, 5, 33), (66, 17, 2, 3), (1, 2), (0, 2), (1, 1), 2),
    ((2, 33, 13, 12), (34, 33, 3, 3), (3, 2), (1, 2), (2, 3), 1),  # phases of several taps
    ((2, 3, 17, 5), (4, 3, 2, 2), (3, 4), (0, 0), (1, 1), 1),  # phases of no taps
    ((2, 600, 3, 3), (3, 600, 3, 3), (1, 1), (1, 1), (1, 1), 1),  # sums in chunks
    ((1, 2, 1, 4000), (40, 2, 1, 9), (1, 4), (0, 4), (1, 1), 1),  # a sequence
    ((1, 64, 1, 1500), (8, 64, 1, 3), (1, 1), (0, 1), (1, 1), 1),
    ((5, 7, 3, 4), (6, 7, 3, 4), (2, 1), (0, 0), (1, 1), 1),  # one window
    ((0, 7, 3, 4), (6, 7, 3, 4), (1, 1), (0, 0), (1, 1), 1),
    ((5, 70, 2, 2), (33, 70, 1, 1), (1, 1), (0, 0), (1, 1), 1),  # pixels of several images
    ((3, 64, 9, 8), (40, 32, 1, 1), (2, 3), (0, 0), (1, 1), 2),  # picked pixels, in groups
    ((2, 600, 9, 7), (33, 600, 1, 1), (1, 2), (0, 0), (2, 3), 1),
]
OPTIONS = ("stride", "padding", "dilation", "groups")


@pytest.mark.parametrize("way", ["tiles", "columns"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_conv(case, dtype, way, monkeypatch):
    monkeypatch.setattr(cpu.switches, "winograd", False)  # see test_winograd.py
    if way == "columns":
        monkeypatch.setattr(conv, "host", lambda: None)
    x, w = values(*case[0], dtype=dtype), values(*case[1], dtype=dtype, seed=1)
    options = dict(zip(OPTIONS, case[2:], strict=True))
    check_conv(x, w, values(len(w), dtype=dtype), **options)


@pytest.mark.parametrize("case", [CONVOLUTIONS[i] for i in (2, 5, 9, -2)], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_conv_gives_the_same_bytes_for_any_layout(layout, case):
    x, w = values(*case[0], dtype=np.float32), values(*case[1], dtype=np.float32, seed=1)
    options, change = dict(zip(OPTIONS, case[2:], strict=True)), LAYOUTS[layout]
    want = conv.conv2d(x, w, **options)
    g = values(*want.shape, dtype=np.float32)
    assert np.array_equal(conv.conv2d(change(x), change(w), **options), want)
    for kernel, shape, other in (
        (conv.conv2d_input, x.shape, w),
        (conv.conv2d_weight, w.shape, x),
    ):
        plain = kernel(g, other, shape=shape, **options)
        assert np.array_equal(kernel(change(g), change(other), shape=shape, **options), plain)


@pytest.mark.skipif(conv.host() is None, reason="needs AVX2, and Numba's compiler")
@pytest.mark.parametrize("stride", [1, 2])
def test_images_that_share_wide_weights_are_convolved_together(stride):
    """One or many: an image gives the same bytes, and the right ones."""
    x, w = values(23, 130, 5, 6, dtype=np.float32), values(260, 130, 3, 3, dtype=np.float32, seed=1)
    layer = (stride, stride), (1, 1), (1, 1), 1
    tiling = _tiling.forward((5, 6), w.shape, *layer, x.dtype, with_bias=False)
    assert tiling.sizes.together > 1 and len(x) % tiling.sizes.together
    options = dict(zip(OPTIONS, layer, strict=True))
    check_conv(x[:3], w, values(len(w), dtype=np.float32), **options)
    y = conv.conv2d(x, w, **options)
    g = values(*y.shape, dtype=np.float32)
    dx = conv.conv2d_input(g, w, shape=x.shape, **options)
    for part in (slice(1), slice(5, 9), slice(20, 23)):
        assert np.array_equal(conv.conv2d(x[part], w, **options), y[part])
        alone = conv.conv2d_input(g[part], w, shape=x[part].shape, **options)
        assert np.array_equal(alone, dx[part])


def test_conv_of_broadcast_arrays():
    x, g = (
        np.broadcast_to(np.float32(2), (2, 3, 5, 5)),
        np.broadcast_to(np.float32(1), (2, 4, 5, 5)),
    )
    options = dict(zip(OPTIONS, ((1, 1), (1, 1), (1, 1), 1), strict=True))
    w = values(4, 3, 3, 3, dtype=np.float32)
    close(conv.conv2d(x, w, **options), reference_conv(x, w, None, *options.values()), 10)
    dw = conv.conv2d_weight(g, x, shape=w.shape, **options)
    close(dw[:, :, 1, 1], np.full((4, 3), 100.0))


@pytest.mark.parametrize("case", [CONVOLUTIONS[i] for i in (0, 1, 2, 5, 9, -2, -1)],
                         ids=str)  # fmt: skip
def test_bytes_of_an_image_do_not_depend_on_its_batch(case):
    x, w = values(19, *case[0][1:], dtype=np.float32), values(*case[1], dtype=np.float32)
    options = dict(zip(OPTIONS, case[2:], strict=True))
    y = conv.conv2d(x, w, **options)
    dx = conv.conv2d_input(y, w, shape=x.shape, **options)
    for part in (slice(0, 1), slice(3, 19), slice(7, 12)):
        assert np.array_equal(conv.conv2d(x[part], w, **options), y[part])
        part_dx = conv.conv2d_input(y[part], w, shape=x[part].shape, **options)
        assert np.array_equal(part_dx, dx[part])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", [CONVOLUTIONS[i] for i in (0, 2, 5, 9)], ids=str)
def test_conv_without_a_known_blas(case, dtype, monkeypatch):
    monkeypatch.setattr(_blas, "_libraries", lambda: [object()])
    monkeypatch.setattr(_by_columns, "blas", functools.cache(_blas.blas.__wrapped__))
    monkeypatch.setattr(conv, "host", lambda: None)
    assert _by_columns.blas()[:2] != _blas.blas()[:2]
    x, w = values(*case[0], dtype=dtype), values(*case[1], dtype=dtype, seed=1)
    check_conv(x, w, values(len(w), dtype=dtype), **dict(zip(OPTIONS, case[2:], strict=True)))


def test_blas_is_that_of_numpy():
    single, double, _ = _blas.blas()
    assert single != double and all(type(address) is int for address in (single, double))
    a, b, c = (values(*shape, dtype=np.float32) for shape in ((5, 7), (7, 3), (5, 3)))
    want = c + a @ b
    product = _blas._Product(ctypes.c_float)
    rows, columns = a.ctypes.data, np.asfortranarray(b)
    product(101, 111, 112, 5, 3, 7, 1.0, rows, 7, columns.ctypes.data, 7, 1.0, c.ctypes.data, 3)
    close(c, want)


@pytest.mark.parametrize("dtype", [np.int64, np.float16, ">f4"])
def test_conv_declines_other_types(dtype):
    x, w = np.ones((1, 1, 3, 3), dtype), np.ones((1, 1, 3, 3), dtype)
    options = dict(zip(OPTIONS, ((1, 1), (0, 0), (1, 1), 1), strict=True))
    assert conv.conv2d(x, w, **options) is NotImplemented
    assert conv.conv2d(x.astype(np.float32), w.astype(np.float64), **options) is NotImplemented
    assert conv.conv2d_input(x, w, shape=x.shape, **options) is NotImplemented
    assert conv.conv2d_weight(x, x, shape=w.shape, **options) is NotImplemented


# Pooling --------------------------------------------------------------------------------------

POOLS = [  # x, kernel, stride, padding, dilation, size
    ((2, 5, 8, 8), (2, 2), (2, 2), (0, 0), (1, 1), (4, 4)),
    ((2, 3, 9, 7), (3, 2), (2, 3), (1, 1), (1, 1), (5, 3)),
    ((2, 3, 7, 7), (3, 3), (1, 1), (1, 1), (1, 1), (7, 7)),
    ((2, 3, 7, 7), (2, 2), (2, 2), (0, 0), (1, 1), (4, 4)),  # ceil_mode
    ((2, 3, 9, 9), (3, 3), (2, 2), (1, 1), (2, 2), (4, 4)),
    ((1, 1, 20, 20), (17, 17), (1, 1), (0, 0), (1, 1), (4, 4)),
    ((0, 3, 4, 4), (2, 2), (2, 2), (0, 0), (1, 1), (2, 2)),
    ((2, 3, 1, 1), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1)),
    ((2, 3, 4, 4), (2, 2), (2, 2), (0, 0), (1, 1), (0, 2)),
]
GRID = ("kernel", "stride", "padding", "dilation")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", POOLS, ids=str)
def test_max_pool(case, dtype):
    x = np.round(values(*case[0], dtype=dtype))  # many ties
    options = dict(zip(GRID, case[1:5], strict=True))
    windows = taps(x, *case[1:], fill=-np.inf)
    windows = windows.reshape(*windows.shape[:4], case[1][0] * case[1][1])
    y, index = pool.max_pool2d(x, **options, size=case[5])
    assert np.array_equal(y, windows.max(-1)) and np.array_equal(index, windows.argmax(-1))
    assert index.dtype == (np.uint8 if case[1][0] * case[1][1] <= 256 else np.int32)
    g, u = values(*y.shape, dtype=dtype), values(*x.shape, dtype=dtype)
    dx = pool.max_pool2d_input(g, index, shape=x.shape, **options)
    chosen = np.take_along_axis(
        taps(u, *case[1:]).reshape(windows.shape), index[..., None].astype(int), -1
    )[..., 0]
    assert np.array_equal(pool.max_pool2d_gather(u, index, **options), chosen)
    np.testing.assert_allclose(np.sum(dx * u), np.sum(g * chosen), rtol=1e-4, atol=1e-4)


def test_max_pool_of_nan_infinity_and_padding():
    x = np.array([[1, np.nan, -np.inf, -np.inf], [np.nan, 5, -np.inf, -np.inf]], np.float32)
    options = {"kernel": (2, 2), "stride": (2, 2), "padding": (0, 0), "dilation": (1, 1)}
    y, index = pool.max_pool2d(x[None, None], **options, size=(1, 2))
    assert np.isnan(y[0, 0, 0, 0]) and y[0, 0, 0, 1] == -np.inf
    assert index.tolist() == [[[[2, 0]]]]
    options["padding"] = (1, 1)
    y, index = pool.max_pool2d(-np.ones((1, 1, 2, 2), np.float32), **options, size=(2, 2))
    assert (y == -1).all() and index.tolist() == [[[[3, 2], [1, 0]]]]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count_include_pad", [False, True])
@pytest.mark.parametrize("case", [case for case in POOLS if case[4] == (1, 1)], ids=str)
def test_avg_pool(case, count_include_pad, dtype):
    shape, kernel, stride, padding, dilation, size = case
    x, inside = values(*shape, dtype=dtype), np.ones(shape)
    if count_include_pad:
        inside = np.pad(inside, [(0, 0), (0, 0), *((p, p) for p in padding)], constant_values=1)
    offset = (0, 0) if count_include_pad else padding
    sums = taps(x, *case[1:]).sum((-2, -1))
    counts = taps(inside, kernel, stride, offset, dilation, size).sum((-2, -1))
    options = {"kernel": kernel, "stride": stride, "padding": padding}
    options["count_include_pad"] = count_include_pad
    y = average_pool.avg_pool2d(x, **options, size=size)
    close(y, sums / np.maximum(counts, 1))
    g, u = values(*y.shape, dtype=dtype), values(*shape)
    dx = average_pool.avg_pool2d_input(g, shape=shape, **options)
    want = np.sum(g * taps(u, *case[1:]).sum((-2, -1)) / np.maximum(counts, 1))
    np.testing.assert_allclose(np.sum(dx * u), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("count_include_pad", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_averages_by_vectors_are_those_by_loops(dtype, count_include_pad, monkeypatch):
    """Every byte, -0 included; windows outside of the image, that tile it, and behind its end."""
    for kernel, stride, padding, size in (
        ((3, 2), (1, 2), (1, 1), (6, 4)), ((2, 3), (2, 3), (0, 0), (3, 2)),
        ((2, 2), (2, 2), (3, 3), (6, 6)), ((3, 3), (2, 2), (1, 1), (4, 4)),
    ):  # fmt: skip
        options = {"kernel": kernel, "stride": stride, "padding": padding,
                   "count_include_pad": count_include_pad}  # fmt: skip
        x, g = values(2, 37, 6, 6, dtype=dtype), values(2, 37, *size, dtype=dtype, seed=4)
        x[x < 0] *= x[x < 0] > -0.5
        g[g < 0] *= g[g < 0] > -0.5
        found = []
        for host in (average_pool.host, lambda: None):
            monkeypatch.setattr(average_pool, "host", host)
            found.append((average_pool.avg_pool2d(x, **options, size=size).tobytes(),
                          average_pool.avg_pool2d_input(g, shape=x.shape, **options).tobytes()))
        assert found[0] == found[1]
        monkeypatch.undo()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_pools_take_any_layout(layout):
    x, change = values(2, 3, 6, 8, dtype=np.float32), LAYOUTS[layout]
    options = {"kernel": (2, 2), "stride": (2, 2), "padding": (0, 0)}
    y, index = pool.max_pool2d(change(x), **options, dilation=(1, 1), size=(3, 4))
    assert np.array_equal(y, x.reshape(2, 3, 3, 2, 4, 2).max((3, 5)))
    dx = pool.max_pool2d_input(change(y), change(index), shape=x.shape, **options, dilation=(1, 1))
    assert np.array_equal(dx.reshape(2, 3, 3, 2, 4, 2).sum((3, 5)), y)
    mean = average_pool.avg_pool2d(change(x), **options, size=(3, 4), count_include_pad=True)
    close(mean, x.reshape(2, 3, 3, 2, 4, 2).mean((3, 5)))


@pytest.mark.parametrize("way", ["vectors", "loops"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_max_pool_of_windows_at_every_edge(way, dtype, monkeypatch):
    """Windows half and wholly outside, more taps than a byte counts, channels beyond a vector."""
    if way == "loops":
        monkeypatch.setattr(pool, "host", lambda: None)
    for kernel, stride, padding, dilation in (
        ((3, 2), (1, 2), (2, 1), (2, 3)), ((5, 5), (3, 1), (4, 4), (1, 1)),
        ((20, 17), (1, 1), (9, 8), (1, 1)), ((2, 2), (2, 2), (0, 0), (1, 1)),
        ((2, 2), (2, 2), (3, 3), (1, 1)),
    ):  # fmt: skip
        x = np.round(values(2, 37, 6, 5, dtype=dtype), 1)  # with ties
        x[0, 3, 2, 2:] = np.nan
        lengths = zip(x.shape[2:], kernel, stride, padding, dilation, strict=True)
        size = tuple((h + 2 * p - d * (k - 1) - 1) // s + 1 for h, k, s, p, d in lengths)
        options = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}
        y, index = pool.max_pool2d(x, **options, size=size)
        columns = taps(x, kernel, stride, padding, dilation, size, -np.inf).reshape(*y.shape, -1)
        exist = taps(np.ones_like(x), kernel, stride, padding, dilation, size, 0.0)
        exist = exist.reshape(columns.shape) > 0
        want = np.where(np.isnan(columns).any(-1), np.nan, columns.max(-1, initial=-np.inf))
        assert np.array_equal(y, want, equal_nan=True)
        chosen = np.take_along_axis(columns, index[..., None].astype(int), -1)[..., 0]
        assert np.array_equal(chosen, y, equal_nan=True)
        first = np.argmax(np.where(exist, columns, -np.inf) == y[..., None], axis=-1)
        assert np.array_equal(index[~np.isnan(y)], first[~np.isnan(y)])
        g = values(*y.shape, dtype=dtype, seed=4)
        kept = g.copy()
        u = values(*x.shape, dtype=dtype, seed=5)
        dx = pool.max_pool2d_input(g, index, shape=x.shape, **options)
        taken = pool.max_pool2d_gather(u, index, **options)
        np.testing.assert_allclose(np.sum(dx * u), np.sum(g * taken), rtol=1e-3, atol=1e-3)
        assert np.array_equal(g, kept)
