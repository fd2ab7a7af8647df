"""The functions of compiled loops against more digits: errors in units of the last place."""

import math

import numpy as np
import pytest

pytest.importorskip("numba")
import numba

from minidp.kernels.cpu import _math
from minidp.kernels.cpu._jit import OPTIONS, compiled
from minidp.kernels.cpu._machine_code import host


def wide(function):
    return lambda x: function(x.astype(np.longdouble))


REFERENCES = {
    "exp": (wide(np.exp), -86, 88), "expm1": (wide(np.expm1), -86, 0),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x.astype(np.longdouble))), -80, 80),
    "tanh": (wide(np.tanh), -12, 12),
    "log1pexp": (lambda x: np.logaddexp(x.astype(np.longdouble), 0), -80, 80),
    "decay": (wide(np.exp), -86, 0),
    "below": (np.vectorize(lambda x: 0.5 * math.erfc(-x * math.sqrt(0.5)), otypes=[float]), 0, 9),
    "erf": (np.vectorize(math.erf, otypes=[float]), -5, 5),
}  # fmt: skip
LIMITS = {"exp": 1.5, "expm1": 2, "sigmoid": 2.5, "tanh": 2.5, "log1pexp": 3.5, "erf": 1.5,
          "decay": 1.5, "below": 3.5}  # fmt: skip


@compiled
def _exp(x, y):
    for i in range(x.shape[0]):
        y[i] = _math.exp(x[i])


@compiled
def _expm1(x, y):
    for i in range(x.shape[0]):
        y[i] = _math.expm1(x[i])


@compiled
def _sigmoid(x, y):
    for i in range(x.shape[0]):
        y[i] = _math.sigmoid(x[i])


@compiled
def _tanh(x, y):
    for i in range(x.shape[0]):
        y[i] = _math.tanh(x[i])


@compiled
def _log1pexp(x, y):
    for i in range(x.shape[0]):
        y[i] = _math.log1pexp(x[i])


@compiled
def _below(x, y):
    for i in range(x.shape[0]):
        y[i] = _math.below(x[i])


@compiled
def _decay(x, y):
    for i in range(x.shape[0]):
        y[i] = _math.decay(x[i])


@compiled
def _erf(x, y):
    for i in range(x.shape[0]):
        y[i] = _math.erf(x[i])


LOOPS = {"exp": _exp, "expm1": _expm1, "sigmoid": _sigmoid, "tanh": _tanh,
         "log1pexp": _log1pexp, "erf": _erf, "decay": _decay, "below": _below}  # fmt: skip


def of(name, x):
    y = np.empty_like(x)
    LOOPS[name](x, y)
    return y


def samples(low, high, dtype):
    rng = np.random.default_rng(0)
    parts = [rng.uniform(low, high, 20_001), rng.standard_normal(20_000) * 0.01,
             rng.standard_normal(20_000)]  # fmt: skip
    return np.clip(np.concatenate(parts), low, high).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", LOOPS)
def test_errors_in_units_of_the_last_place(name, dtype):
    if numba.config.DISABLE_JIT:
        pytest.skip("then the functions are NumPy's")
    reference, low, high = REFERENCES[name]
    x = samples(low, high, dtype)
    want = reference(x)
    units = np.spacing(np.abs(want).astype(dtype)).astype(np.longdouble)
    assert float((np.abs(of(name, x) - want) / units).max()) < LIMITS[name]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_edges(dtype):
    x = np.array([-np.inf, -1e30, -0.0, 0.0, 1e30, np.inf, np.nan], dtype)
    with np.errstate(all="ignore"):
        found = {name: of(name, x).tolist() for name in LOOPS}
    nan = found["exp"][-1]
    assert all(math.isnan(values[-1]) for values in found.values()) and math.isnan(nan)
    assert found["exp"][:-1] == [0, 0, 1, 1, math.inf, math.inf]
    assert found["expm1"][:4] == [-1, -1, 0, 0]
    assert found["sigmoid"][:-1] == [0, 0, 0.5, 0.5, 1, 1]
    assert found["tanh"][:-1] == found["erf"][:-1] == [-1, -1, 0, 0, 1, 1]
    assert math.copysign(1, found["tanh"][2]) == math.copysign(1, found["erf"][2]) == -1
    assert found["log1pexp"][4:6] == [dtype(1e30), math.inf] and found["log1pexp"][:2] == [0, 0]


@pytest.mark.parametrize("name", LOOPS)
def test_bytes_do_not_depend_on_the_place_in_a_loop(name):
    x = samples(-5, 0, np.float32)[:1003]
    whole = of(name, x)
    for start, stop in ((0, 1), (1, 20), (7, 1003), (500, 533)):
        assert of(name, x[start:stop].copy()).tobytes() == whole[start:stop].tobytes()


def test_small_shares_of_the_normal_distribution_keep_three_digits():
    """1 + erf loses them; float64 goes that way."""
    if numba.config.DISABLE_JIT:
        pytest.skip("then the functions are NumPy's")
    x = samples(-11, 0, np.float32)
    want = REFERENCES["below"][0](x)
    assert (np.abs(of("below", x) - want) < 1e-3 * want).all()


def test_loops_use_the_widest_vectors():
    """LLVM's own choice for Intel's CPUs is half of AVX-512's registers."""
    target = host()
    if target is None or target.bytes != 64:
        pytest.skip("no AVX-512 here")
    kernel = numba.njit(**OPTIONS)(_exp.py_func)
    kernel(np.zeros(64, np.float32), np.zeros(64, np.float32))
    assert "%zmm" in "".join(kernel.inspect_asm().values())
