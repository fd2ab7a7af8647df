"""Ops of layout."""

import numpy as np

from cases.elementwise import singles
from cases.table import Sample, normal, row


@row("reshape", wrong=(Sample([np.zeros((2, 3))], {"shape": (4,)}),))
def _reshape(rng):
    cases = (((2, 3), (6,)), ((6,), (3, 1, 2)), ((), (1, 1)), ((1,), ()), ((0, 3), (3, 0)))
    return [*(Sample([normal(rng, *s)], {"shape": t}) for s, t in cases),
            Sample([normal(rng, 3, 2).T], {"shape": (6,)})]  # fmt: skip


@row("permute", wrong=(Sample([np.zeros((2, 3))], {"axes": (0,)}),))
def _permute(rng):
    cases = (((2, 3), (1, 0)), ((2, 3, 4), (2, 0, 1)), ((), ()), ((0, 2), (1, 0)))
    return [Sample([normal(rng, *s)], {"axes": axes}) for s, axes in cases]


@row("expand", wrong=(Sample([np.zeros((2, 3))], {"shape": (4, 3)}),))
def _expand(rng):
    cases = (((2, 1), (2, 3)), ((3,), (2, 3)), ((), (2, 2)), ((1, 3), (4, 2, 3)), ((1,), (0,)))
    return [Sample([normal(rng, *s)], {"shape": t}) for s, t in cases]


@row("concat", wrong=(Sample([np.zeros((2, 3)), np.zeros((2, 4))], {"dim": 0}),))
def _concat(rng):
    return [
        Sample([normal(rng, 2, 3), normal(rng, 1, 3), normal(rng, 0, 3)], {"dim": 0}),
        Sample([normal(rng, 2, 1), normal(rng, 2, 3)], {"dim": 1}),
        Sample([normal(rng, 3)], {"dim": 0}),
    ]


@row("stack", wrong=(Sample([np.zeros((2, 3)), np.zeros((2, 4))], {"dim": 0}),))
def _stack(rng):
    cases = (((2, 3), 0), ((2, 3), 1), ((2, 3), 2), ((), 0), ((0, 3), 1))
    return [Sample([normal(rng, *s) for _ in range(3)], {"dim": d}) for s, d in cases]


@row("diagonal")
def _diagonal(rng):
    cases = (((3, 4), 0, (0, 1)), ((3, 4), -1, (0, 1)), ((2, 3, 4), -1, (-1, 0)),
             ((1, 1), 3, (0, 1)), ((0, 2), 0, (0, 1)))  # fmt: skip
    return [Sample([normal(rng, *s)], {"offset": k, "axes": axes}) for s, k, axes in cases]


@row("put_diagonal")
def _put_diagonal(rng):
    cases = (((3,), (3, 4), 0, (0, 1)), ((2,), (3, 4), -1, (0, 1)), ((3, 2), (2, 3, 4), -1, (2, 0)),
             ((0,), (1, 1), 3, (0, 1)))  # fmt: skip
    return [Sample([normal(rng, *s)], {"shape": t, "offset": k, "axes": axes})
            for s, t, k, axes in cases]  # fmt: skip


@row("triangle")
def _triangle(rng):
    cases = ((3, 4), (2, 3, 3), (1, 1), (0, 2))
    return [Sample([normal(rng, *s)], {"offset": k, "upper": upper})
            for s in cases for k, upper in ((0, True), (-1, False), (2, True))]  # fmt: skip


row("copy")(singles(normal))


@row("to_device")
def _to_device(rng):
    return [Sample([normal(rng, *s)], {"device": "cpu:0", "source": "cpu:0"}) for s in ((2, 3), ())]


@row("all_reduce")
def _all_reduce(rng):
    return [Sample([normal(rng, *s)], {"name": "test"}) for s in ((2, 3), (), (0,))]
