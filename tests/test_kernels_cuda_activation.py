"""Activations of several steps as CUDA kernels, run by the emulator."""

import numpy as np
import pytest
from cuda_kernels import BACKENDS, BOTH, EACH, call, check

EMU = BACKENDS["loops"]
KINDS = {"gelu": (0, 0), "gelu_tanh": (0, 0), "silu": (0, 0), "mish": (0, 0), "hardswish": (0, 0),
         "elu": (1.5, 0), "softplus": (2.0, 3.0), "leaky_relu": (0.2, 0)}  # fmt: skip
SPREAD = np.concatenate([np.linspace(-12, 12, 301), [0.0, -0.0, -3.0, 3.0, 1.5, -60.0, 60.0]])


@BOTH
@EACH
@pytest.mark.parametrize("kind", list(KINDS))
def test_values_and_slopes(backend, kind, dtype):
    how = dict(zip("ab", KINDS[kind], strict=True)) | {"kind": kind}
    g = np.cos(np.arange(SPREAD.size))
    check(backend, "activation", SPREAD, dtype=dtype, **how)
    check(backend, "activation_input", g, SPREAD, dtype=dtype, **how)
    check(backend, "activation", SPREAD[:0].reshape(3, 0), dtype=dtype, **how)
    one = check(backend, "activation_input", g[:1], SPREAD[190:191], dtype=dtype, **how)
    assert one.shape == (1,)


@pytest.mark.parametrize("kind", list(KINDS))
def test_what_is_no_number_and_what_is_too_large(kind):
    x = np.array([np.nan, 1e4, -1e4, np.inf])
    how = dict(zip("ab", KINDS[kind], strict=True)) | {"kind": kind}
    y = call(EMU, "activation", x, **how)
    low = {"elu": -1.5, "leaky_relu": -2e3}.get(kind, 0)
    np.testing.assert_allclose(y, [np.nan, 1e4, low, np.inf])
    slope = call(EMU, "activation_input", np.ones(3), x[:3], **how)
    low = {"leaky_relu": 0.2}.get(kind, 0)
    np.testing.assert_allclose(slope[1:], [1, low], atol=1e-12)
    assert np.isnan(slope[0]) or kind == "leaky_relu"


def test_the_largest_values_of_single_precision():
    x = np.array([3e38, -3e38, 88.0, -88.0, 100.0, -104.0], "f4")
    for kind, (a, b) in KINDS.items():
        if kind != "gelu_tanh":  # its cube is infinite there, as in PyTorch
            y = call(EMU, "activation", x, kind=kind, a=a, b=b)
            assert np.isfinite(y).all(), kind


def test_gaps_and_two_types_are_declined():
    x = np.ones((4, 6))
    assert call(EMU, "activation_input", x, x.astype("f4"), kind="silu") is NotImplemented
    assert EMU.kernel("activation")(EMU.put(x, 0)[:, ::2], kind="silu") is NotImplemented
    assert EMU.kernel("activation")(EMU.put(x.astype(int), 0), kind="silu") is NotImplemented
