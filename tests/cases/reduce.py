"""Reductions."""

import numpy as np

from cases.table import Sample, distinct, normal, row

REDUCTIONS = (
    ((2, 3), None, False), ((2, 3), (0,), False), ((2, 3), (1,), True), ((2, 3, 4), (0, 2), False),
    ((2, 3, 4), -1, True), ((2, 1), 1, False), ((), None, False), ((2, 3, 4, 5), (0, 2, 3), False),
)  # fmt: skip


@row("sum", wrong=(Sample([np.zeros((2, 3))], {"dim": 2}), Sample([np.zeros(2)], {"dim": (0, 0)})))
def _sum(rng):
    empty = [Sample([normal(rng, 0, 3)], {"dim": d}) for d in (None, 0, 1)]
    found = [Sample([normal(rng, *s)], {"dim": d, "keepdim": k}) for s, d, k in REDUCTIONS]
    return [*found, *empty]


@row("amax", "amin", wrong=(Sample([np.zeros((2, 3))], {"dim": 2}),))
def _extremes(rng):
    ties = Sample([np.array([[1.0, 2.0, 2.0], [2.0, 0.0, 0.0]])], {"dim": 1}, smooth=False)
    empty = Sample([normal(rng, 0, 3)], {"dim": 1})
    found = [Sample([distinct(rng, *s)], {"dim": d, "keepdim": k}) for s, d, k in REDUCTIONS]
    return [*found, ties, empty]


@row("argmax", "argmin", wrong=(Sample([np.zeros((2, 3))], {"dim": 2}),))
def _places(rng):
    cases = (((2, 3), None, False), ((2, 3), 0, False), ((2, 3), -1, True), ((), None, False))
    ties = Sample([np.array([[1.0, 2.0, 2.0], [0.0, 0.0, 1.0]])], {"dim": 1})
    return [*(Sample([normal(rng, *s)], {"dim": d, "keepdim": k}) for s, d, k in cases), ties]


@row("all", "any", wrong=(Sample([np.zeros((2, 3))], {"dim": 2}),))
def _truths(rng):
    values = [(rng.random(s) < 0.6, d, k) for s, d, k in REDUCTIONS]
    return [Sample([x], {"dim": d, "keepdim": k}) for x, d, k in values]
