"""Winograd convolution: values against float64, the switch, edges of images, errors."""

import numpy as np
import pytest

import minidp as dp

pytest.importorskip("numba")
from minidp.kernels.cpu import _machine_code, _tiling, _transforms, _winograd, conv

pytestmark = pytest.mark.skipif(
    _machine_code.host() is None, reason="needs AVX2, and Numba's compiler"
)
DIRECT, WINOGRAD = 1e-6, 5e-6  # relative rms that float32 may differ from float64
LAYERS = [  # n, c, h, w, k, kernel, padding
    (3, 16, 12, 12, 16, 3, 1),
    (2, 17, 13, 15, 35, 3, 1),
    (2, 33, 14, 15, 18, 3, 0),
    (1, 20, 9, 10, 16, 3, 2),
    (2, 16, 9, 11, 33, 5, 2),
    (2, 128, 13, 14, 40, 5, 2),
    (1, 512, 12, 12, 16, 3, 1),
    (1, 512, 12, 12, 16, 5, 2),
    (5, 32, 6, 7, 64, 5, 4),
    (2, 16, 12, 31, 20, 5, 0),
    (64, 16, 12, 12, 16, 3, 1),
    (2, 200, 12, 12, 130, 3, 1),
    (3, 8, 12, 13, 9, 3, 1),
    (2, 4, 14, 12, 6, 5, 2),
]


@pytest.fixture
def direct():
    """Turns the switch off and on again."""
    dp.backends.cpu.winograd = False
    yield
    dp.backends.cpu.winograd = True


def layer(n, c, h, w, k, kernel, padding, dtype=np.float32):
    """x, w, b and a cotangent, and the options."""
    random = np.random.default_rng(0)
    size = [length + 2 * padding - kernel + 1 for length in (h, w)]
    shapes = (n, c, h, w), (k, c, kernel, kernel), (k,), (n, k, *size)
    options = {"stride": (1, 1), "padding": (padding,) * 2, "dilation": (1, 1), "groups": 1}
    return [random.standard_normal(s).astype(np.float32).astype(dtype) for s in shapes], options


def results(arrays, options):
    """Forward, input gradient, weight gradient."""
    x, w, b, g = arrays
    return (conv.conv2d(x, w, b, **options), conv.conv2d_input(g, w, shape=x.shape, **options),
            conv.conv2d_weight(g, x, shape=w.shape, **options))  # fmt: skip


def errors(arrays, options):
    """Relative rms of float32 against float64."""
    exact = results([a.astype(np.float64) for a in arrays], options)
    pairs = zip(results(arrays, options), exact, strict=True)
    return [np.sqrt(np.mean((y - want) ** 2) / np.mean(want**2)) for y, want in pairs]


@pytest.mark.parametrize("row", LAYERS, ids=str)
def test_errors_of_winograd_are_small(row, monkeypatch):
    arrays, options = layer(*row)
    calls = []
    for name in ("conv2d", "conv2d_input", "conv2d_weight"):
        real = getattr(_winograd, name)
        monkeypatch.setattr(_winograd, name, lambda *a, f=real, **o: calls.append(f) or f(*a, **o))
    assert max(errors(arrays, options)) < WINOGRAD
    assert len(calls) == 3  # float64 goes another way


@pytest.mark.parametrize("row", LAYERS, ids=str)
def test_errors_of_direct_convolution_are_smaller(row, direct):
    assert max(errors(*layer(*row))) < DIRECT


LONG = [(2, 512, 9, 9, 64, 3, 1), (64, 16, 24, 24, 8, 3, 1), (1, 8, 150, 150, 8, 3, 1)]


@pytest.mark.parametrize("row", LONG, ids=str)
def test_long_sums_stay_exact(row, direct):
    assert max(errors(*layer(*row))) < DIRECT


def test_the_switch(direct):
    (x, w, b, _), options = layer(*LAYERS[0])
    plain = conv.conv2d(x, w, b, **options)
    dp.backends.cpu.winograd = True
    assert dp.backends.cpu.winograd
    assert not np.array_equal(conv.conv2d(x, w, b, **options), plain)
    dp.backends.cpu.winograd = False
    assert np.array_equal(conv.conv2d(x, w, b, **options), plain)


@pytest.mark.parametrize("row", LAYERS[:6], ids=str)
def test_an_image_does_not_know_its_batch(row):
    (x, w, b, g), options = layer(19, *row[1:])
    y, dx, _ = results((x, w, b, g), options)
    for part in (slice(0, 1), slice(3, 19), slice(7, 12)):
        own = results((x[part], w, b, g[part]), options)
        assert np.array_equal(own[0], y[part]) and np.array_equal(own[1], dx[part])


def test_the_same_bytes_every_time():
    arrays, options = layer(*LAYERS[1])
    for one, other in zip(results(arrays, options), results(arrays, options), strict=True):
        assert one.tobytes() == other.tobytes()


def test_which_layers_are_transformed():
    x, one = np.zeros((2, 32, 12, 12), np.float32), (1, 1)
    plain = (32, 32, 3, 3), (12, 12), one, one, one, 1
    assert _winograd.fits(x, *plain)
    assert not _winograd.fits(x.astype(np.float64), *plain)
    for few in ((8, 32, 3, 3), (32, 8, 3, 3), (4, 32, 5, 5)):
        assert _winograd.fits(x, few, *plain[1:])
    for place, value in ((0, (7, 32, 3, 3)), (0, (3, 32, 5, 5)), (0, (32, 32, 7, 7)),
                         (0, (32, 32, 3, 5)), (1, (4, 4)), (2, (2, 1)), (4, (1, 2)),
                         (5, 2)):  # fmt: skip
        assert not _winograd.fits(x, *plain[:place], value, *plain[place + 1 :])


@pytest.mark.parametrize("r", [3, 5])
def test_transforms_multiply_polynomials(r):
    """A^T [(G w G^T) * (B^T d B)] A is the correlation of d with w, in exact arithmetic."""
    random, size = np.random.default_rng(0), _transforms.points(r)
    d, w = random.standard_normal((size, size)), random.standard_normal((r, r))
    known = {name: np.array(matrix) for name, matrix in _transforms.matrices(r).items()}
    into, turn, out = (known[name] for name in ("input", "weights", "output"))
    y = out @ ((turn @ w @ turn.T) * (into @ d @ into.T)) @ out.T
    windows = np.lib.stride_tricks.sliding_window_view(d, (r, r))
    np.testing.assert_allclose(y, np.einsum("ijkl,kl->ij", windows, w), rtol=1e-12, atol=1e-12)
    assert y.shape == (4, 4)


HASWELL = _machine_code.Target("haswell", "+avx2,+fma", bytes=32, rows=6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("row", [*LAYERS[:5], (2, 3, 11, 9, 5, 3, 1)], ids=str)
def test_short_vectors(row, dtype, monkeypatch):
    """The same results to rounding from the kernels for AVX2."""
    arrays, options = layer(*row, dtype)
    want = results(arrays, options)
    for module, names in ((_tiling, ("forward", "backward", "correlation")),
                          (_winograd, ("forward", "backward"))):  # fmt: skip
        for name in names:  # tilings for this computer stay in their caches
            monkeypatch.setattr(module, name, getattr(module, name).__wrapped__)
    for module in (conv, _tiling):
        monkeypatch.setattr(module, "host", lambda: HASWELL)
    for got, exact in zip(results(arrays, options), want, strict=True):
        tolerance = 1e-4 if dtype is np.float32 else 1e-11
        np.testing.assert_allclose(got, exact, rtol=tolerance, atol=tolerance * np.abs(exact).max())

