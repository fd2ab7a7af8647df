"""Indexing."""

import numpy as np

from cases.table import Sample, distinct, normal, row

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


@row("in_range")
def _in_range(rng):
    given = {"low": -4, "high": 4, "name": "a test"}
    wide = rng.integers(-4, 4, (3, 5))
    narrow = wide[:, ::-2].astype("i4")
    kinds = [wide, wide.T, narrow, np.arange(4, dtype="u1"), wide[:0], np.asarray(wide[0, 0])]
    return [Sample([index], given) for index in kinds]


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


@row("set_at", broadcasts=False)
def _set_at(rng):
    """A place that is named twice has one value, so only keys that do not are smooth."""
    found = [(s, key, np.shape(np.zeros(s)[key])) for s, key in KEYS]
    return [Sample([normal(rng, *s), normal(rng, *t)], {"key": key}, once(s, key))
            for s, key, t in found
            ] + [Sample([normal(rng, 4, 3), normal(rng)], {"key": 1})]  # fmt: skip


def once(shape, key):
    places = np.arange(np.prod(shape, dtype=int)).reshape(shape)[key]
    return np.unique(places).size == np.size(places)


@row("extreme_at", broadcasts=False)
def _extreme_at(rng):
    key = (np.array([0, 2, 2, -1]),)
    return [Sample([distinct(rng, 4, 3), distinct(rng, 4, 3) + 0.1], {"key": key, "largest": big})
            for big in (True, False)] + [
        Sample([np.zeros(3), np.zeros(4)], {"key": (np.array([0, 1, 1, 0]),), "largest": True},
               smooth=False)]  # fmt: skip


@row("argwhere")
def _argwhere(rng):
    return [Sample([x]) for x in (np.eye(3), np.array(2.0), np.array(0), np.zeros((0, 2)),
                                  np.array([True, False]))]  # fmt: skip


@row("searchsorted", broadcasts=False)
def _searchsorted(rng):
    line, rows = np.array([1.0, 3, 3, 5]), np.array([[0.0, 1, 2], [1, 1, 1]])
    return [
        *(Sample([line, np.array([[0.0, 3], [5, 9]])], {"right": r}) for r in (True, False)),
        Sample([rows, np.array([[1.0], [1]])], {"right": True}), Sample([line, np.array(3.0)]),
        Sample([np.zeros(0), np.zeros(2)]),
    ]  # fmt: skip


@row("isin", broadcasts=False)
def _isin(rng):
    return [Sample([np.arange(6).reshape(2, 3), np.array([1, 4, 9])]),
            Sample([np.zeros((0, 2)), np.ones(1)]),
            Sample([np.array(2.0), np.array(2.0)])]  # fmt: skip
