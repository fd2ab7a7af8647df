"""Every single-node case of ONNX on tensors of our dtypes: outputs, and gradients."""

import numpy as np
import pytest

import minidp as dp
from minidp.testing import gradcheck

pytest.importorskip("onnx", reason="needs ONNX's test cases: pip install onnx")

from conformance import gradients, listed
from conformance.cases import cases
from conformance.operators import OPERATORS, call, without

RUN = [case for case in cases() if case not in without()]
SMOOTH = [case for case in RUN if gradients.places(case)]


def named(chosen):
    return pytest.mark.parametrize("case", chosen, ids=lambda case: case.name)


def test_enough_cases_are_run_and_the_others_listed():
    assert len(RUN) >= 770
    assert [case.name for case in RUN if case.operator not in OPERATORS] == []


def test_the_lists_name_what_there_is():
    operators, names = {case.operator for case in cases()}, {case.name for case in cases()}
    given = [*listed.OPERATORS, *gradients.WITHOUT, *gradients.PLACES, *gradients.MOVES]
    assert [name for name in given if name not in operators] == []
    assert [name for name in listed.CASES if name not in names] == []


def right(case):
    try:
        test_outputs(case)
    except Exception:
        return False
    return True


def test_what_is_listed_case_by_case_does_not_run():
    assert [case.name for case in without() if case.operator in OPERATORS and right(case)] == []


@named(RUN)
def test_outputs(case):
    given = [None if x is None else dp.tensor(x) for x in case.inputs]
    found = call(case, given)
    assert len(found) >= len(case.outputs)
    for y, expected in zip(found, case.outputs):
        if expected is not None:
            agree(y, expected, case)
    for x, before in zip(given, case.inputs):
        assert x is None or x.numpy().tobytes() == before.tobytes()


def agree(y, expected, case):
    """Dtype, shape and values; float16 to two units of its last place."""
    assert (y.dtype, tuple(y.shape)) == (expected.dtype, expected.shape)
    loose = 2e-3 if expected.dtype == np.float16 else 0
    np.testing.assert_allclose(
        y.detach().numpy(), expected, rtol=max(case.rtol, loose), atol=max(case.atol, loose)
    )


@named(SMOOTH)
def test_gradients(case):
    gradcheck(gradients.function(case), gradients.start(case), eps=1e-5, directions=2)
