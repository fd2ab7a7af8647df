"""The update rules as ops: the kernel is the body, and bytes do not depend on the cut."""

import numpy as np
import pytest
from waves import wave

from minidp.backend import get_backend
from minidp.optim.adam import adam
from minidp.optim.sgd import sgd


def calls():
    """(op, its arrays by name of role, constants) for every branch of the two rules."""
    base = {"lr": 0.1, "momentum": 0.0, "dampening": 0.0, "weight_decay": 0.0, "nesterov": False,
            "maximize": False, "first": False}  # fmt: skip
    for change in ({}, {"weight_decay": 0.1, "maximize": True},
                   {"momentum": 0.9, "dampening": 0.2, "first": True},
                   {"momentum": 0.9, "dampening": 0.2, "nesterov": False, "weight_decay": 0.1},
                   {"momentum": 0.9, "nesterov": True}):  # fmt: skip
        constants = {**base, **change}
        yield sgd, 3 if constants["momentum"] else 2, constants
    base = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "weight_decay": 0.0,
            "decoupled": False, "maximize": False, "amsgrad": False, "step": 3}  # fmt: skip
    for change in ({}, {"weight_decay": 0.1, "amsgrad": True}, {"maximize": True, "step": 1},
                   {"weight_decay": 0.1, "decoupled": True}):  # fmt: skip
        constants = {**base, **change}
        yield adam, 5 if constants["amsgrad"] else 4, constants


def arguments(count, dtype="float64", size=37):
    arrays = [wave(size, phase=k).astype(dtype) for k in range(count)]
    return [np.abs(a) if k >= 3 else a for k, a in enumerate(arrays)]


@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-13), ("float32", 3e-6)])
@pytest.mark.parametrize("op, count, constants", list(calls()))
def test_the_kernel_is_the_body(op, count, constants, dtype, tolerance):
    assert get_backend("cpu").kernel(op.name) is not None
    given = arguments(count, dtype)
    fast, slow = [a.copy() for a in given], [a.copy() for a in given]
    assert op(*fast, **constants) is None
    absent = [None] * (len(op.arguments) - count)
    assert op.body(np, *slow, *absent, **constants) is None
    assert not np.array_equal(slow[0], given[0])
    np.testing.assert_array_equal(fast[1], given[1])
    for a, b in zip(fast, slow, strict=True):
        assert a.dtype == dtype
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("op, count, constants", list(calls()))
def test_bytes_do_not_depend_on_the_cut(op, count, constants):
    whole, cut = arguments(count, "float32"), arguments(count, "float32")
    op(*whole, **constants)
    for part in (slice(0, 5), slice(5, 36), slice(36, 37)):
        op(*[a[part] for a in cut], **constants)
    for a, b in zip(whole, cut, strict=True):
        assert a.tobytes() == b.tobytes()
