"""Indexing."""

import numpy as np

from cases.table import Sample, normal, row

KEYS = (
    ((4, 3), 1), ((4, 3), slice(1, 3)), ((4, 3), slice(None, None, -2)), ((4, 3), (..., 0)),
    ((4, 3), (None, slice(2))), ((4, 3), np.array([0, 2, 2, -1])), ((3,), 2), ((), ()), ((), None),
    ((4, 3), (np.array([0, 0]), np.array([1, 1]))), ((4, 3), np.arange(12).reshape(4, 3) % 2 == 0),
    ((4, 3), [1, 1, 3]), ((4, 3), np.zeros(4, bool)), ((4, 3), slice(0, 0)),
    ((2, 3, 4), (np.array([[0], [1]]), slice(1, None), np.array([0, 3]))),
)  # fmt: skip


@row("get")
def _get(rng):
    return [Sample([normal(rng, *s)], {"key": key}) for s, key in KEYS]


@row("put")
def _put(rng):
    found = [(np.array(normal(rng, *s)[key]), s, key) for s, key in KEYS]
    return [Sample([x], {"shape": s, "key": key}) for x, s, key in found]


@row("take_along_dim", broadcasts=False)
def _take_along_dim(rng):
    return [
        Sample([normal(rng, 4, 3), rng.integers(0, 4, (2, 3))], {"dim": 0}),
        Sample([normal(rng, 4, 3), rng.integers(0, 3, (4, 5))], {"dim": 1}),
        Sample([normal(rng, 4, 3), rng.integers(0, 3, (1, 5))], {"dim": 1}),
        Sample([normal(rng, 1, 3), rng.integers(0, 3, (4, 2))], {"dim": 1}),
        Sample([normal(rng, 3), np.array([1, 1, 1, 0])], {"dim": 0}),
        Sample([normal(rng, 2, 3), np.zeros((2, 0), int)], {"dim": 1}),
    ]


@row("scatter_along", broadcasts=False)
def _scatter_along(rng):
    return [
        Sample([normal(rng, 2, 3), rng.integers(0, 4, (2, 3))], {"shape": (4, 3), "dim": 0}),
        Sample([normal(rng, 4, 5), rng.integers(0, 3, (1, 5))], {"shape": (4, 3), "dim": 1}),
        Sample([normal(rng, 4), np.array([1, 1, 1, 0])], {"shape": (3,), "dim": 0}),
    ]
