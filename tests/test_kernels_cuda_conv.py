"""Convolutions as CUDA kernels, run by the emulator: each way of computing them, each gradient."""

import numpy as np
import pytest
from cuda_kernels import BACKENDS, BOTH, EACH, call, check

from minidp.kernels.cuda import conv

normal = np.random.default_rng(4).standard_normal
EMU = BACKENDS["loops"]
CASES = [
    # x, w, stride, padding, dilation, groups
    ((2, 3, 7, 6), (4, 3, 3, 2), (1, 1), (0, 0), (1, 1), 1),
    ((3, 4, 8, 9), (6, 2, 3, 3), (2, 3), (1, 2), (1, 1), 2),
    ((1, 2, 9, 9), (2, 1, 2, 3), (1, 2), (2, 0), (3, 2), 2),
    ((2, 1, 5, 5), (1, 1, 1, 1), (2, 2), (0, 0), (1, 1), 1),
    ((0, 3, 5, 5), (2, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((2, 6, 5, 4), (3, 6, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((2, 4, 5, 4), (6, 2, 1, 1), (1, 1), (0, 0), (1, 1), 2),
    ((2, 3, 5, 6), (6, 1, 3, 3), (1, 1), (1, 1), (1, 1), 3),
    ((3, 2, 12, 11), (2, 1, 2, 2), (1, 1), (0, 1), (1, 1), 2),
]
WIDE = [  # more channels than a tile has rows; several groups; strides; more weights than columns
    ((2, 17, 5, 6), (67, 17, 2, 2), (1, 1), (1, 0), (1, 1), 1),
    ((1, 36, 7, 5), (34, 18, 3, 2), (2, 1), (1, 1), (1, 2), 2),
]
WAYS = ["direct", "tiled", "product"]


def sizes(x, w, stride, padding, dilation, groups):
    """(shape of y, constants of the op)."""
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    out = conv.out_size(x[2:], w[2:], stride, padding, dilation)
    return (x[0], w[0], *out), how


def check_all(backend, x_shape, w_shape, *geometry, dtype=np.float64):
    y_shape, how = sizes(x_shape, w_shape, *geometry)
    x, w, g, b = map(normal, (x_shape, w_shape, y_shape, w_shape[:1]))
    check(backend, "conv2d", x, w, None, dtype=dtype, **how)
    check(backend, "conv2d", x, w, b, dtype=dtype, **how)
    check(backend, "conv2d_input", g, w, dtype=dtype, shape=x_shape, **how)
    check(backend, "conv2d_weight", g, x, dtype=dtype, shape=w_shape, **how)


@BOTH
@EACH
@pytest.mark.parametrize("case", CASES)
def test_convolution(backend, case, dtype):
    check_all(backend, *case, dtype=dtype)


@BOTH
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES[:4] + WIDE)
def test_every_way(backend, case, way, monkeypatch):
    monkeypatch.setattr(conv, "way", lambda *_: way)
    monkeypatch.setattr(conv, "CHUNK", 40)
    check_all(backend, *case)


@EACH
@pytest.mark.parametrize("case", WIDE)
def test_wide_layers(case, dtype):
    check_all(EMU, *case, dtype=dtype)


def test_the_tiled_product_adds_like_the_naive_one(monkeypatch):
    x, w, *geometry = WIDE[1]
    y_shape, how = sizes(x, w, *geometry)
    values = [normal(shape).astype(np.float32) for shape in (x, w, y_shape)]
    found = {}
    for way in WAYS[:2]:
        monkeypatch.setattr(conv, "way", lambda *_, way=way: way)
        y = call(EMU, "conv2d", *values[:2], **how)
        dx = call(EMU, "conv2d_input", *values[2:0:-1], shape=x, **how)
        found[way] = y.tobytes(), dx.tobytes()
    assert found["direct"] == found["tiled"]


def test_the_way_follows_from_the_layer_alone():
    plain, strided = ((1, 1), (0, 0), (1, 1)), ((2, 2), (0, 0), (1, 1))
    assert conv.way(1, (3, 3), plain) == conv.way(15, (1, 1), strided) == "direct"
    assert conv.way(16, (3, 3), plain) == conv.way(127, (1, 1), strided) == "tiled"
    assert conv.way(128, (3, 3), plain) == conv.way(1, (1, 1), plain) == "product"


@pytest.mark.parametrize("way", WAYS)
def test_an_image_has_the_same_bytes_in_any_batch(way, monkeypatch):
    x, w = normal((5, 3, 9, 8)).astype(np.float32), normal((20, 3, 3, 3)).astype(np.float32)
    how = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    monkeypatch.setattr(conv, "way", lambda *_: way)
    y = call(EMU, "conv2d", x, w, **how)
    assert call(EMU, "conv2d", x[3:].copy(), w, **how).tobytes() == y[3:].tobytes()
    dx = call(EMU, "conv2d_input", y, w, shape=x.shape, **how)
    part = call(EMU, "conv2d_input", y[3:].copy(), w, shape=x[3:].shape, **how)
    assert part.tobytes() == dx[3:].tobytes()


@BOTH
def test_columns_in_several_slices_of_the_batch(backend, monkeypatch):
    x, w = normal((5, 2, 6, 6)), normal((3, 2, 3, 3))
    how = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    monkeypatch.setattr(conv, "way", lambda *_: "product")
    y = call(backend, "conv2d", x, w, **how)
    dx = call(backend, "conv2d_input", y, w, shape=x.shape, **how)
    monkeypatch.setattr(conv, "COLUMNS", 2 * 2 * 9 * 36 * 8)
    assert call(backend, "conv2d", x, w, **how).tobytes() == y.tobytes()
    assert call(backend, "conv2d_input", y, w, shape=x.shape, **how).tobytes() == dx.tobytes()
    check(backend, "conv2d_weight", y, x, shape=w.shape, **how)
