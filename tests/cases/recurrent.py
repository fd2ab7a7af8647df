"""Recurrent layers, tables of rows, attention."""

import numpy as np

from cases.table import Sample, normal, row

STEPS = (
    ((2, 2, 2), False, 2), ((3, 1, 1), False, 3), ((3, 2, 2, 1), True, 2), ((2, 2), True, 1),
    ((1,), False, 1), ((0, 0), False, 2),
)  # fmt: skip
"""(sizes, reverse, width of the state) of packed sequences."""


def packed(rng, gates, arrays, **more):
    """One sample per sequence; ``arrays(n, h)`` gives the shapes behind x."""
    return [
        Sample([normal(rng, np.sum(sizes), gates * h), *(
                None if shape is None else normal(rng, *shape) for shape in arrays(sizes[0], h))],
               {"sizes": sizes, "reverse": reverse, **more})
        for sizes, reverse, h in STEPS
    ]  # fmt: skip


@row("rnn")
def _rnn(rng):
    both = [packed(rng, 1, lambda n, h: [(n, h), (h, h)], relu=relu) for relu in (False, True)]
    return [*both[0], *both[1]]


SHORT = {"sizes": (2,), "reverse": False}


@row("lstm", wrong=(
    Sample([np.zeros((2, 6)), np.zeros((2, 2)), np.zeros((2, 2)), np.zeros((6, 2)), None], SHORT),
    Sample([np.zeros((2, 8)), np.zeros((2, 1)), np.zeros((2, 2)), np.zeros((8, 1)), None], SHORT),
))  # fmt: skip
def _lstm(rng):
    return [
        *packed(rng, 4, lambda n, h: [(n, 1), (n, h), (4 * h, 1), (1, h)]),
        *packed(rng, 4, lambda n, h: [(n, h), (n, h), (4 * h, h), None]),
    ]


def backwards(rng, shapes):
    """One sample per sequence of arrays like ``shapes(p, n, h)``, p being all rows."""
    return [
        Sample([normal(rng, *shape) for shape in shapes(sum(sizes), sizes[0], h)],
               {"sizes": sizes, "reverse": reverse})
        for sizes, reverse, h in STEPS
    ]  # fmt: skip


@row("lstm_back", wrong=(
    Sample([np.zeros((2, 2))] * 6 + [np.zeros((2, 2))], SHORT),
))  # fmt: skip
def _lstm_back(rng):
    return backwards(rng, lambda p, n, h: [
        (p, h), (n, h), (n, h), (p, 4 * h), (p, h), (n, h), (4 * h, h)])  # fmt: skip


@row("gru_back", wrong=(
    Sample([np.zeros((2, 2))] * 5 + [np.zeros((6, 2))], SHORT),
))  # fmt: skip
def _gru_back(rng):
    return backwards(rng, lambda p, n, h: [
        (p, h), (n, h), (p, h), (p, 4 * h), (n, h), (3 * h, h)])  # fmt: skip


@row("gru", wrong=(
    Sample([np.zeros((2, 8)), np.zeros((2, 2)), np.zeros((8, 2)), None], SHORT),
))  # fmt: skip
def _gru(rng):
    return [
        *packed(rng, 3, lambda n, h: [(n, h), (3 * h, h), (3 * h,)]),
        *packed(rng, 3, lambda n, h: [(n, h), (3 * h, h), None]),
    ]


LOOKUPS = ((5, 3), (2, 4)), ((5, 1), (3,)), ((1, 2), ()), ((4, 2), (0,)), ((2, 3), (4, 1, 2))


@row("embedding")
def _embedding(rng):
    found = [Sample([rng.integers(0, table[0], shape), normal(rng, *table)])
             for table, shape in LOOKUPS]  # fmt: skip
    return [
        *found,
        Sample([np.array([1, 0, 1]), normal(rng, 3, 2)], {"padding_idx": 1}, smooth=False),
    ]


@row("embedding_weight")
def _embedding_weight(rng):
    found = [Sample([normal(rng, *shape, table[1]), rng.integers(0, table[0], shape)],
                    {"shape": table}) for table, shape in LOOKUPS]  # fmt: skip
    last = {"shape": (3, 2), "padding_idx": 1}
    return [*found, Sample([normal(rng, 4, 2), np.array([1, 0, 1, 0])], last)]


@row("thirds", wrong=(Sample([np.zeros((2, 4))]), Sample([np.zeros(())])))
def _thirds(rng):
    return [Sample([normal(rng, *s)]) for s in ((2, 6), (3,), (0, 3), (2, 1, 3), (2, 0))]


QUERIES = (((3, 2), 4, 5, None, False), ((4, 3), 4, 2, (4, 4), False),
           ((2, 3, 2), 3, 1, (1, 3), True),
           ((2, 2, 3, 2), 5, 3, (2, 1, 1, 5), False), ((0, 3, 2), 4, 5, None, False),
           ((1, 1), 1, 1, None, True), ((5, 2), 3, 2, None, True))  # fmt: skip
"""(shape of the queries, keys, width of the values, shape of the mask, causal)."""


def attended(rng, more):
    for (*batch, n, e), s, v, mask, causal in QUERIES:
        shapes = [*more(batch, n, v), (*batch, n, e), (*batch, s, e), (*batch, s, v)]
        arrays = [normal(rng, *shape) for shape in shapes]
        yield arrays, None if mask is None else normal(rng, *mask), {"scale": 0.7, "causal": causal}


@row("attention", wrong=(
    Sample([np.zeros((2, 3, 4)), np.zeros((1, 3, 4)), np.zeros((1, 3, 4)), None],
           {"scale": 1.0, "causal": False}),
    Sample([np.zeros((3, 4)), np.zeros((5, 4)), np.zeros((5, 4)), np.zeros((2, 5))],
           {"scale": 1.0, "causal": False}),
))  # fmt: skip
def _attention(rng):
    return [Sample([*arrays, mask], constants)
            for arrays, mask, constants in attended(rng, lambda *_: [])]  # fmt: skip


@row("attention_back")
def _attention_back(rng):
    found = []
    for (dy, y, rest, *given), mask, constants in attended(
        rng, lambda batch, n, v: [(*batch, n, v), (*batch, n, v), (*batch, n)]
    ):
        found.append(Sample([dy, *given, y, rest + 2, mask], constants))
    return found
