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


@row("chosen", broadcasts=False)
def _chosen(rng):
    """Not smooth, for differences: what was chosen is an argument of its own."""
    x = distinct(rng, 2, 3)
    pairs = [(x, x.max()), (x[0], x[0].min()), (x[0, :1], x[0, 0]), (np.array([2.0, 2.0, 1]), 2.0),
             (np.array([1.0, np.nan]), np.nan)]  # fmt: skip
    return [Sample([x, np.array(y)], smooth=False) for x, y in pairs]


@row("cumsum")
def _cumsum(rng):
    cases = (((5,), 0, False), ((2, 3), 1, False), ((2, 3), 0, True), ((2, 3, 4), 1, True),
             ((1,), 0, False), ((0,), 0, True), ((2, 0), 0, False))  # fmt: skip
    return [Sample([normal(rng, *s)], {"dim": d, "backward": b}) for s, d, b in cases]


PRODUCTS = (((5,), 0), ((6, 3), 1), ((9, 7), 1), ((2, 3), 0), ((2, 5, 4), 1), ((1,), 0), ((0,), 0),
            ((2, 0), 0), ((2, 0), 1))  # fmt: skip


@row("cumprod")
def _cumprod(rng):
    return [Sample([normal(rng, *s)], {"dim": d}) for s, d in PRODUCTS]


@row("cumprod_input")
def _cumprod_input(rng):
    found = [Sample([normal(rng, *s), normal(rng, *s)], {"dim": d}) for s, d in PRODUCTS]
    zeros = [np.array([2.0, 0.0, 3.0, 0.0, 5.0]), np.array([0.0, 0.0, 1.0, np.inf, 2.0])]
    return [*found, *(Sample([normal(rng, 5), x], {"dim": 0}, smooth=False) for x in zeros)]


@row("logsumexp", wrong=(Sample([np.zeros((2, 3))], {"dim": 2}),))
def _logsumexp(rng):
    found = [Sample([normal(rng, *s)], {"dim": d, "keepdim": k}) for s, d, k in REDUCTIONS]
    large = Sample([np.array([[1000.0, 999.0], [-1000.0, -1001.0]])], {"dim": 1})
    infinite = Sample([np.array([[-np.inf, -np.inf], [np.inf, 1]])], {"dim": 1}, smooth=False)
    empty = [Sample([normal(rng, 0, 3)], {"dim": d}, smooth=False) for d in (0, 1)]
    return [*found, large, infinite, *empty]


@row("argsort")
def _argsort(rng):
    ties = np.array([[1.0, 2.0, 1.0, np.nan], [0.0, -np.inf, 0.0, 0.0]])
    arrays = [(ties, 1), (ties, 0), (normal(rng, 2, 3, 2), 1), (normal(rng, 0), 0), (ties[0], 0)]
    whole = [Sample([x], {"dim": d, "descending": b}) for x, d in arrays for b in (True, False)]
    return whole + _ranked(rng)


@row("unique")
def _unique(rng):
    x = rng.integers(0, 3, (4, 3)) * 1.0
    return [Sample([x]), Sample([x], {"dim": 0}), Sample([x], {"dim": 1}), Sample([x[:0]])]


def _tied(rng, *shape):
    return np.round(normal(rng, *shape) * 2) / 2


def _ranked(rng):
    cases = (((4, 7), 1, 0, 3), ((5, 3), 0, 2, 3), ((2, 3, 9), 1, 1, 2), ((6,), 0, 0, 6),
             ((1,), 0, 0, 1), ((700,), 0, 600, 601), ((3, 4), 1, 2, 2),
             ((2, 3), 1, 0, 0))  # fmt: skip
    return [Sample([_tied(rng, *s)], {"dim": d, "start": a, "stop": b, "descending": flip})
            for s, d, a, b in cases for flip in (False, True)]  # fmt: skip


@row("running_place")
def _running_place(rng):
    return [Sample([_tied(rng, *s)], {"dim": d, "largest": up})
            for s, d in (((4, 9), 1), ((7, 2), 0), ((2, 5, 3), 1), ((1,), 0), ((0, 3), 0))
            for up in (True, False)]  # fmt: skip
