"""The update rules as ops: the kernel is the body, and bytes do not depend on the cut."""

import numpy as np
import pytest
from waves import wave

from minidp.backend import get_backend
from minidp.optim.adam import adam, adamax
from minidp.optim.descent import adadelta, rmsprop, sgd

ADAM = {"rate": 0.2, "nudge": 0.0, "root": 0.3, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8,
        "weight_decay": 0.0, "shrink": 1.0, "maximize": False, "amsgrad": False}  # fmt: skip
RULES = [
    (sgd, {"lr": 0.1, "momentum": 0.0, "dampening": 0.0, "weight_decay": 0.0, "nesterov": False,
           "maximize": False, "first": False},
     [{}, {"weight_decay": 0.1, "maximize": True},
      {"momentum": 0.9, "dampening": 0.2, "first": True},
      {"momentum": 0.9, "dampening": 0.2, "weight_decay": 0.1},
      {"momentum": 0.9, "nesterov": True}]),
    (adam, ADAM,
     [{}, {"weight_decay": 0.1, "amsgrad": True}, {"maximize": True, "nudge": 0.05},
      {"weight_decay": 0.1, "shrink": 0.9, "amsgrad": True, "nudge": 0.1},
      {"root": float("inf"), "eps": 1.0}]),
    (rmsprop, {"lr": 0.1, "alpha": 0.9, "rest": 0.1, "eps": 1e-8, "weight_decay": 0.0,
               "momentum": 0.0, "centered": False, "maximize": False},
     [{}, {"centered": True, "weight_decay": 0.1}, {"momentum": 0.9, "maximize": True},
      {"momentum": 0.9, "centered": True}, {"alpha": 1.0, "rest": 1.0}]),
    (adadelta, {"lr": 0.1, "rho": 0.9, "eps": 1e-6, "weight_decay": 0.0, "maximize": False},
     [{}, {"weight_decay": 0.1, "maximize": True}]),
    (adamax, {"rate": 0.1, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "weight_decay": 0.0,
              "maximize": False}, [{}, {"weight_decay": 0.1, "maximize": True}]),
]  # fmt: skip
USED = {"m": "momentum", "vmax": "amsgrad", "c": "centered"}


def calls():
    """(op, which of its arrays it uses, constants) for every branch of the rules."""
    for op, base, changes in RULES:
        for change in changes:
            constants = {**base, **change}
            used = [constants.get(USED.get(name), True) for name in op.arguments]
            yield op, [bool(each) for each in used], constants


def arguments(op, used, dtype="float64", size=37):
    """Arrays for the op, None where it uses none; means of squares are not negative."""
    arrays = [wave(size, phase=k).astype(dtype) for k in range(len(used))]
    squares = [name in ("v", "u", "vmax") for name in op.arguments]
    arrays = [1 + np.abs(a) if s else a / 2 for s, a in zip(squares, arrays, strict=True)]
    return [a if u else None for u, a in zip(used, arrays, strict=True)]


@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-13), ("float32", 3e-6)])
@pytest.mark.parametrize("op, used, constants", list(calls()))
def test_the_kernel_is_the_body(op, used, constants, dtype, tolerance):
    assert get_backend("cpu").kernel(op.name) is not None
    given = arguments(op, used, dtype)
    fast, slow = ([None if a is None else a.copy() for a in given] for _ in range(2))
    assert op(*fast, **constants) is None
    assert op.body(np, *slow, **constants) is None
    assert not np.array_equal(slow[0], given[0])
    np.testing.assert_array_equal(fast[1], given[1])
    for a, b in zip(fast, slow, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert a.dtype == dtype
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("op, used, constants", list(calls()))
def test_the_emulated_gpus_kernel_is_the_body(op, used, constants):
    backend = get_backend("emu")
    given = arguments(op, used)
    fast = [None if a is None else backend.put(a, 0) for a in given]
    assert backend.kernel(op.name)(*fast, **constants) is fast[0]
    op.body(np, *given, **constants)
    for a, b in zip(fast, given, strict=True):
        if a is not None:
            np.testing.assert_allclose(backend.get(a), b, rtol=1e-12, atol=1e-13)
    gaps = [None if a is None else a[::2] for a in fast]
    assert backend.kernel(op.name)(*gaps, **constants) is NotImplemented


@pytest.mark.parametrize("op, used, constants", list(calls()))
def test_bytes_do_not_depend_on_the_cut(op, used, constants):
    whole, cut = arguments(op, used, "float32"), arguments(op, used, "float32")
    op(*whole, **constants)
    for part in (slice(0, 5), slice(5, 36), slice(36, 37)):
        op(*[a if a is None else a[part] for a in cut], **constants)
    for a, b in zip(whole, cut, strict=True):
        assert a is None or a.tobytes() == b.tobytes()


@pytest.mark.parametrize("op, base, changes", RULES)
def test_a_nan_stays_a_nan(op, base, changes):
    used = [base.get(USED.get(name), True) for name in op.arguments]
    given = [a if a is None else a[:2].copy() for a in arguments(op, used)]
    given[1][0] = np.nan
    op(*given, **base)
    given[1][0] = 1.0
    op(*given, **base)
    assert np.isnan(given[0]).tolist() == [True, False]
