"""float16 in CUDA kernels, run by the emulator: read, computed in float32, rounded once."""

import numpy as np
import pytest
from cuda_kernels import BACKENDS, BOTH, call, check

normal = np.random.default_rng(6).standard_normal
EMU, HALF = BACKENDS["loops"], np.float16
ALL = np.arange(2**16, dtype=np.uint16).view(HALF)


def same(found, wanted):
    """Bit for bit, but for what a NaN carries."""
    assert found.dtype == wanted.dtype == HALF
    nan = np.isnan(wanted)
    np.testing.assert_array_equal(np.isnan(found), nan)
    assert found[~nan].tobytes() == wanted[~nan].tobytes()


@BOTH
def test_every_number_is_read_and_written(backend):
    same(call(backend, "neg", ALL), -ALL)
    with np.errstate(invalid="ignore"):
        same(call(backend, "add", ALL, 0.0), ALL + HALF(0))


@pytest.mark.parametrize("scale", [0.3, 1.0009765625, 3.0, 2**-11, 2**-13 * 1.5, 2.0**12])
def test_products_are_rounded_to_the_nearest_even(scale):
    with np.errstate(all="ignore"):
        same(call(EMU, "mul", ALL, scale), ALL * HALF(scale))
        same(call(EMU, "div", ALL, scale), ALL / HALF(scale))


UNARY = ["relu", "neg", "exp", "log", "tanh", "sigmoid", "sqrt"]


@BOTH
@pytest.mark.parametrize("name", UNARY)
def test_unary(backend, name):
    x = normal(70)
    check(backend, name, np.abs(x) if name in ("log", "sqrt") else x, dtype=HALF)


@BOTH
def test_binary(backend):
    a, b = normal((2, 70))
    for name in ("add", "sub", "mul", "div", "relu_input"):
        check(backend, name, a, b, dtype=HALF)
    check(backend, "mul", a, 2.0, dtype=HALF)
    assert call(backend, "add", a.astype(HALF), np.float32(2)) is NotImplemented


@BOTH
def test_sums_do_not_overflow_or_stall(backend):
    ones = np.ones((2, 5000))
    assert (call(backend, "sum", ones.astype(HALF), dim=1, keepdim=False) == 5000).all()
    with np.errstate(over="ignore"):
        y = call(backend, "sum", np.full((40, 3), 60000, HALF), dim=0, keepdim=False)
    assert np.isinf(y).all()
    check(backend, "softmax", np.zeros((1, 5000)), dtype=HALF, dim=1)


@BOTH
def test_rows(backend):
    x, target = normal((5, 40)), np.array([3, 0, 39, -100, 7])
    for name in ("softmax", "log_softmax"):
        check(backend, name, x, dtype=HALF, dim=1)
    check(backend, "cross_entropy", x, target, dtype=HALF, ignore_index=-100)
    check(backend, "cross_entropy_input", normal(5), x, target, dtype=HALF, ignore_index=-100)


@BOTH
def test_pools(backend):
    x = normal((2, 3, 6, 6))
    how = {"kernel": (3, 2), "stride": (2, 2), "padding": (1, 0)}
    _, index = check(backend, "max_pool2d", x, dtype=HALF, **how, size=(3, 3), dilation=(1, 1))
    g = normal((2, 3, 3, 3))
    check(backend, "max_pool2d_input", g, index, dtype=HALF, shape=x.shape, dilation=(1, 1), **how)
    check(backend, "max_pool2d_gather", x, index, dtype=HALF, dilation=(1, 1), **how)
    wide = {"kernel": (17, 16), "stride": (2, 2), "padding": (8, 8), "dilation": (1, 1)}
    _, index = check(backend, "max_pool2d", x, dtype=HALF, **wide, size=(3, 4))
    g = normal((2, 3, 3, 4))
    check(backend, "max_pool2d_input", g, index, dtype=HALF, shape=x.shape, **wide)
    check(backend, "max_pool2d_gather", x, index, dtype=HALF, **wide)
    check(backend, "avg_pool2d", x, dtype=HALF, **how, size=(3, 3), count_include_pad=True)
    g = normal((2, 3, 3, 3))
    check(backend, "avg_pool2d_input", g, dtype=HALF, shape=x.shape, **how, count_include_pad=False)
