"""The tables joined, and one case run."""

import inspect
from functools import cache

from conformance import (
    attention,
    elementwise,
    images,
    layout,
    linalg,
    listed,
    losses,
    normalization,
    optimisers,
    recurrent,
    reductions,
    resize,
)
from conformance.cases import cases

TABLES = [elementwise, reductions, layout, linalg, images, resize, normalization, losses, attention,
          recurrent, optimisers]  # fmt: skip
OPERATORS = {name: run for table in TABLES for name, run in table.OPERATORS.items()}


@cache
def without():
    """The cases that are not run, with the reasons."""
    reasons = {
        case: listed.OPERATORS.get(case.operator) or listed.CASES.get(case.name) for case in cases()
    }
    return {case: why for case, why in reasons.items() if why}


def call(case, inputs):
    """The outputs of a case's operator, as a tuple."""
    run = OPERATORS[case.operator]
    named = dict(case.attributes)
    if "outputs" in inspect.signature(run).parameters:
        named["outputs"] = len(case.outputs)
    result = run(*inputs, **named)
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)
