"""Layers of few channels, few filters and small groups, whose lanes stand for something else."""

import numpy as np
import pytest

pytest.importorskip("numba")
from minidp.kernels.cpu import _multiplied, _swapped, _tiling, conv, index, resize
from minidp.kernels.cpu._machine_code import host
from minidp.op import OPS

needs_vectors = pytest.mark.skipif(host() is None, reason="register tiles need AVX2 or AVX-512")
LAYERS = [  # x, w, stride, padding, dilation, groups
    ((2, 17, 9, 11), (1, 17, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((1, 33, 7, 30), (5, 33, 1, 7), (1, 1), (0, 3), (1, 1), 1),
    ((3, 16, 12, 8), (3, 16, 5, 2), (1, 1), (0, 1), (2, 3), 1),
    ((2, 64, 6, 5), (8, 64, 3, 3), (1, 1), (0, 2), (1, 1), 1),
    ((1, 19, 4, 4), (2, 19, 4, 4), (1, 1), (3, 3), (1, 1), 1),
    ((2, 1, 13, 10), (6, 1, 5, 5), (1, 1), (2, 2), (1, 1), 1),
    ((2, 3, 15, 12), (17, 3, 3, 3), (2, 2), (1, 0), (1, 1), 1),
    ((1, 5, 23, 9), (9, 5, 7, 3), (1, 2), (3, 1), (1, 2), 1),
    ((1, 4, 1, 90), (33, 4, 1, 8), (1, 3), (0, 4), (1, 1), 1),
    ((2, 6, 11, 9), (12, 1, 3, 3), (1, 1), (1, 1), (1, 1), 6),
    ((1, 7, 12, 10), (28, 1, 5, 3), (2, 1), (2, 0), (1, 2), 7),
    ((2, 32, 7, 6), (32, 4, 3, 3), (1, 1), (1, 1), (1, 1), 8),
    ((1, 24, 9, 8), (40, 3, 3, 1), (2, 1), (1, 0), (1, 1), 8),
    ((3, 18, 5, 7), (12, 3, 1, 1), (1, 1), (0, 0), (1, 1), 6),
    ((2, 10, 6, 6), (30, 2, 2, 2), (1, 1), (0, 0), (1, 1), 5),
    ((2, 21, 6, 9), (3, 21, 1, 1), (2, 1), (0, 0), (1, 1), 1),
]


def drawn(*shape, dtype, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def last(x):
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("x, w, stride, padding, dilation, groups", LAYERS)
def test_they_are_what_their_bodies_say(x, w, stride, padding, dilation, groups, dtype):
    """And the bytes of an image do not depend on others."""
    layer = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    x, w, b = (drawn(*shape, dtype=dtype, seed=k) for k, shape in enumerate((x, w, w[:1])))
    near = {"rtol": 1e-4, "atol": 1e-4} if dtype == np.float32 else {"rtol": 1e-10, "atol": 1e-11}
    want = OPS["conv2d"].body(np, x, w, b, **layer)
    g = drawn(*want.shape, dtype=dtype, seed=3)
    for source in (x, last(x)):
        y = conv.conv2d(source, w, b, **layer)
        np.testing.assert_allclose(y, want, **near)
        np.testing.assert_allclose(conv.conv2d(source, w, **layer), want - b[:, None, None], **near)
        cut = conv.conv2d_relu(source, w, b, **layer)
        assert cut.tobytes() == np.maximum(y, 0).tobytes()
        assert np.array_equal(conv.conv2d(source[:1], w, b, **layer), y[:1])
        dw = conv.conv2d_weight(g, source, shape=w.shape, **layer)
        dw_want = OPS["conv2d_weight"].body(np, g, x, w.shape, **layer)
        np.testing.assert_allclose(dw, dw_want, **near)
    dx = conv.conv2d_input(g, w, shape=x.shape, **layer)
    np.testing.assert_allclose(
        dx, OPS["conv2d_input"].body(np, g, w, x.shape, **layer), **near)  # fmt: skip
    alone = conv.conv2d_input(g[:1], w, shape=(1, *x.shape[1:]), **layer)
    assert np.array_equal(alone, dx[:1])


@needs_vectors
def test_what_goes_which_way():
    """Geometry alone decides."""
    one, plain = np.dtype(np.float32), ((1, 1), (1, 1), (1, 1), 1)
    lanes = host().lanes(one)
    assert _swapped.are((1, lanes, 3, 3), one, plain)
    assert not _swapped.are((lanes, lanes, 3, 3), one, plain)
    assert not _swapped.are((1, lanes - 1, 3, 3), one, plain)
    assert not _swapped.are((1, lanes, 3, 3), one, ((2, 1), *plain[1:]))
    assert not _swapped.are((1, lanes, 3, 3), one, ((1, 1), (3, 1), (1, 1), 1))
    assert _multiplied.are((12, 1, 3, 3), 6) and not _multiplied.are((6, 1, 3, 3), 6)
    small = _tiling.correlation((9, 9), (32, 4, 3, 3), (1, 1), (1, 1), (1, 1), 8, one)
    assert small.unpacking[-1] == lanes // 4
    whole = _tiling.correlation((9, 9), (32, 32, 3, 3), (1, 1), (1, 1), (1, 1), 1, one)
    assert whole.unpacking[-1] == 1


@needs_vectors
def test_numbers_that_are_none_stay_in_their_group():
    x, w = drawn(1, 16, 6, 6, dtype=np.float32), drawn(16, 4, 3, 3, dtype=np.float32)
    g = drawn(1, 16, 4, 4, dtype=np.float32)
    x[0, 5, 2, 2], layer = np.inf, {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1)}
    y = conv.conv2d(x, w, **layer, groups=4)
    dw = conv.conv2d_weight(g, x, shape=w.shape, **layer, groups=4)
    own = np.arange(16) // 4 == 1
    assert np.isfinite(y[:, ~own]).all() and np.isfinite(dw[~own]).all()
    assert not np.isfinite(y[:, own]).all() and not np.isfinite(dw[own]).all()


@pytest.mark.parametrize("shape, key", [
    ((7, 5), np.array([3, -1, 3, 0])), ((4, 6, 3), (slice(None), np.array([[5, 0], [-6, 5]]))),
    ((2, 3, 4), (slice(None), slice(None), np.array([1, 1, 2], np.int32))),
    ((3, 2), np.zeros(0, int)),
])  # fmt: skip
def test_rows_are_added_at_the_places_of_a_list(shape, key):
    x = drawn(*np.zeros(shape)[key].shape, dtype=np.float32)
    want = OPS["put"].body(np, x, shape, key)
    assert index.put(x, shape=shape, key=key).tobytes() == want.tobytes()


def test_other_places_are_declined():
    x, many = drawn(2, 5, dtype=np.float32), np.array([0, 9])
    for key in (many, (many, slice(None)), (slice(1, 3),), slice(0, 2), many > 0, ()):
        assert index.put(x, shape=(3, 5), key=key) is NotImplemented


@pytest.mark.parametrize("shape", [(2, 3, 5, 4), (1, 9, 6), (2, 2, 3, 4, 5)])
def test_resized_where_channels_lie_side_by_side(shape):
    x, places = drawn(*shape, dtype=np.float32), np.array([[0, 1], [2, 1], [1, 1], [2, 2]])
    weight = drawn(4, 2, dtype=np.float32)
    for dim in range(1, len(shape)):
        told = {"dim": dim, "index": np.minimum(places, shape[dim] - 1), "weight": weight}
        y, want = resize.resample(last(x), **told), resize.resample(x, **told)
        np.testing.assert_allclose(y, want, rtol=1e-6, atol=1e-6)
        assert dim == 1 or np.moveaxis(y, 1, -1).flags.c_contiguous
        dx = resize.resample_input(last(want), length=shape[dim], **told)
        other = resize.resample_input(want, length=shape[dim], **told)
        np.testing.assert_allclose(dx, other, rtol=1e-5, atol=1e-5)
        body = OPS["resample_input"].body(np, want, shape[dim], **told)
        np.testing.assert_allclose(body, other, rtol=1e-5, atol=1e-5)
