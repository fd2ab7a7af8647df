"""Linear algebra."""

import numpy as np

from cases.table import Sample, normal, row


@row("matmul", wrong=(Sample([np.zeros((2, 3, 4)), np.zeros((5, 4, 2))]),))
def _matmul(rng):
    cases = (((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)), ((2, 1, 2, 3), (5, 3, 1)),
             ((1, 1), (1, 1)), ((0, 3), (3, 2)), ((2, 0), (0, 3)), ((0, 2, 3), (3, 2)))  # fmt: skip
    return [Sample([normal(rng, *s), normal(rng, *t)]) for s, t in cases]


@row("linear")
def _linear(rng):
    return [
        Sample([normal(rng, 4, 3), normal(rng, 2, 3), normal(rng, 2)]),
        Sample([normal(rng, 4, 3), normal(rng, 2, 3), None]),
        Sample([normal(rng, 1, 1), normal(rng, 1, 1), normal(rng, 1)]),
        Sample([normal(rng, 0, 3), normal(rng, 2, 3), normal(rng, 2)]),
    ]
