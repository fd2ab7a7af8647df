"""Depthwise convolution by sliding tiles, against the convolution by columns."""

import numpy as np
import pytest

conv = pytest.importorskip("minidp.kernels.cpu.conv")
from minidp.kernels.cpu import _by_columns, _depthwise, _sliding  # noqa: E402
from minidp.kernels.cpu._machine_code import Target, host  # noqa: E402

pytestmark = pytest.mark.skipif(host() is None, reason="no vectors here")
LAYERS = [  # x, kernel, stride, padding, dilation
    ((2, 35, 9, 31), (3, 3), (1, 1), (1, 1), (1, 1)),
    ((2, 35, 9, 30), (3, 3), (2, 2), (1, 1), (1, 1)),
    ((1, 70, 13, 14), (5, 5), (1, 1), (2, 2), (1, 1)),
    ((2, 33, 11, 17), (7, 7), (2, 2), (3, 3), (1, 1)),
    ((2, 20, 12, 15), (3, 3), (1, 1), (2, 2), (2, 2)),
    ((2, 20, 12, 15), (2, 3), (3, 2), (0, 1), (2, 3)),
    ((1, 17, 1, 60), (1, 9), (1, 1), (0, 4), (1, 1)),
    ((1, 17, 1, 60), (1, 12), (1, 1), (0, 3), (1, 1)),
    ((2, 3, 2, 2), (3, 3), (1, 1), (2, 3), (1, 1)),  # windows all in the padding
    ((2, 19, 20, 19), (1, 1), (1, 1), (0, 0), (1, 1)),
    ((2, 19, 9, 9), (2, 2), (3, 3), (0, 0), (1, 1)),  # pixels of no window
    ((1, 40, 60, 25), (3, 3), (1, 1), (1, 1), (1, 1)),  # several strips of rows
]
NAMES = "stride", "padding", "dilation"


def case(layer, dtype):
    shape, kernel, *rest = layer
    random = np.random.default_rng(0)
    x = random.standard_normal(shape).astype(dtype)
    w, b = (random.standard_normal(s).astype(dtype) for s in ((shape[1], 1, *kernel), shape[1:2]))
    return x, w, b, dict(zip(NAMES, rest, strict=True), groups=shape[1])


def near(found, wanted):
    tolerance = 2e-5 if found.dtype == np.float32 else 1e-12
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * wanted.size**0.5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_depthwise(layer, dtype):
    x, w, b, options = case(layer, dtype)
    assert _depthwise.fits(w.shape, options["groups"])
    y = conv.conv2d(x, w, b, **options)
    near(y, _by_columns.conv2d(x, w, b, **options))
    assert np.array_equal(conv.conv2d_relu(x, w, b, **options), np.maximum(y, 0))
    near(conv.conv2d(x, w, **options), _by_columns.conv2d(x, w, **options))
    g = np.random.default_rng(1).standard_normal(y.shape).astype(dtype)
    for name, other, shape in (("conv2d_input", w, x.shape), ("conv2d_weight", x, w.shape)):
        found = getattr(conv, name)(g, other, shape=shape, **options)
        near(found, getattr(_by_columns, name)(g, other, shape=shape, **options))


@pytest.mark.parametrize("layer", LAYERS[:4], ids=str)
def test_bytes_of_an_image_do_not_depend_on_its_batch(layer):
    x, w, b, options = case(((5, *layer[0][1:]), *layer[1:]), np.float32)
    y = conv.conv2d(x, w, b, **options)
    dx = conv.conv2d_input(y, w, shape=x.shape, **options)
    for part in (slice(0, 1), slice(2, 5)):
        assert np.array_equal(conv.conv2d(x[part], w, b, **options), y[part])
        found = conv.conv2d_input(y[part], w, shape=x[part].shape, **options)
        assert np.array_equal(found, dx[part])


@pytest.mark.parametrize("layer", [LAYERS[i] for i in (0, 1, 4, 11)], ids=str)
def test_images_whose_channels_come_first_give_the_same_bytes(layer):
    """They are turned one by one on the way."""
    x, w, b, options = case(layer, np.float32)
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    y = conv.conv2d(x, w, b, **options)
    assert np.array_equal(conv.conv2d(last, w, b, **options), y)
    assert np.array_equal(conv.conv2d(last[..., ::-1][..., ::-1], w, b, **options), y)
    g = np.ascontiguousarray(y)  # y itself is channels-last
    for name, other, turned, shape in (("conv2d_input", w, w, x.shape),
                                       ("conv2d_weight", x, last, w.shape)):  # fmt: skip
        found = getattr(conv, name)(g, other, shape=shape, **options)
        assert np.array_equal(getattr(conv, name)(y, turned, shape=shape, **options), found)


def test_wide_kernels_go_by_tiles_of_products():
    x, w, b, options = case(((2, 9, 4, 50), (1, 40), (1, 1), (0, 3), (1, 1)), np.float32)
    assert not _depthwise.fits(w.shape, 9) and not _depthwise.fits((9, 3, 3, 3), 3)
    near(conv.conv2d(x, w, b, **options), _by_columns.conv2d(x, w, b, **options))


@pytest.mark.parametrize("bytes_of_a_vector", [32, 64])
def test_tiles_fit_the_registers(bytes_of_a_vector):
    target = Target("any", "", bytes=bytes_of_a_vector, rows=6)
    served = [taps for taps in range(1, 40) if _sliding.serves(target, taps)]
    assert {1, 2, 3, 5, 7} <= set(served) and max(served) < 16
    for taps in served:
        count, pixels = _sliding.vectors(target, taps), _sliding.pixels(target, taps)
        forward = pixels + taps + 1  # sums, weights and a value
        backward = taps * (_sliding.sums(target, taps) + 1) + 1  # sums, cotangents and a value
        assert count * max(forward, backward) <= _sliding.registers(target) and pixels >= 4
