"""CPU kernels on arrays of several blocks: what samples of a few values do not reach."""

import numpy as np
import pytest

pytest.importorskip("numba")
from minidp.backend import get_backend
from minidp.op import OPS

CAUSAL = {"scale": 0.3, "causal": True}
PLAIN = {"scale": 0.3, "causal": False}
CASES = [
    ("attention", [(2, 150, 8), (2, 900, 8), (2, 900, 5), (150, 900)], PLAIN),
    ("attention", [(1, 300, 4), (1, 700, 4), (1, 700, 3), None], CAUSAL),
    ("attention", [(1, 900, 4), (1, 300, 4), (1, 300, 3), (1, 300)], CAUSAL),
    ("softmax", [(7, 3000)], {"dim": 1}),
    ("log_softmax", [(500, 33)], {"dim": 1}),
    ("softmax_input", [(9, 40, 30), (9, 40, 30)], {"dim": 1}),
    ("group_norm", [(150, 6, 5), (6,), (6,)], {"groups": 3, "eps": 1e-5, "center": True}),
    ("group_norm", [(150, 37), (37,), None], {"groups": 1, "eps": 1e-5, "center": False}),
    ("batch_norm_own", [(70, 33, 4), (33,), (33,)], {"eps": 1e-5}),
    ("lstm", [(60, 132), (6, 33), (6, 33), (132, 33), None], {"sizes": (6,) * 10,
                                                               "reverse": True}),
    ("gru", [(40, 99), (5, 33), (99, 33), (99,)], {"sizes": (5,) * 8, "reverse": False}),
    ("sum", [(300, 7, 5)], {"dim": 0, "keepdim": False}),
    ("cumsum", [(40, 300)], {"dim": 1, "backward": True}),
]  # fmt: skip


def arrays(shapes, seed=0):
    rng = np.random.default_rng(seed)
    return [None if s is None else rng.standard_normal(s).astype("float32") for s in shapes]


def several(y):
    return y if isinstance(y, tuple) else (y,)


def wide(given):
    return [None if x is None else x.astype(float) for x in given]


def alike(found, wanted):
    for x, y in zip(several(found), several(wanted), strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-5, atol=2e-5 * np.abs(y).max())


@pytest.mark.parametrize("name, shapes, constants", CASES)
def test_kernel_equals_body(name, shapes, constants):
    given = arrays(shapes)
    kernel = get_backend("cpu").kernel(name)
    alike(kernel(*given, **constants), OPS[name].body(np, *wide(given), **constants))


@pytest.mark.parametrize("shapes, constants", [case[1:] for case in CASES[:3]])
def test_attention_back(shapes, constants):
    q, k, v, mask = arrays(shapes)
    y, rest = OPS["attention"].body(np, q, k, v, mask, **constants)
    (dy,) = arrays([y.shape], 1)
    given = [dy, q, k, v, y, rest, mask]
    found = get_backend("cpu").kernel("attention_back")(*given, **constants)
    alike(found, OPS["attention_back"].body(np, *wide(given), **constants))


@pytest.mark.parametrize("groups, shape", [(1, (150, 37)), (3, (150, 6, 5))])
def test_group_norm_back(groups, shape):
    x, dy, weight = arrays([shape, shape, shape[1:2]])
    _, mean, r = OPS["group_norm"].body(np, x, weight, None, groups)
    given = [dy, x, mean, r, weight]
    found = get_backend("cpu").kernel("group_norm_back")(*given, center=True)
    alike(found, OPS["group_norm_back"].body(np, *wide(given), True))


def test_who_may_look_at_nothing_gets_nothing():
    q, k, v = arrays([(1, 3, 4), (1, 5, 4), (1, 5, 2)])
    mask = np.zeros((3, 5), "float32")
    mask[1] = -np.inf
    kernel, back = (get_backend("cpu").kernel(n) for n in ("attention", "attention_back"))
    y, rest = kernel(q, k, v, mask, **PLAIN)
    assert not y[0, 1].any() and rest[0, 1] == np.inf and np.isfinite(y).all()
    dq, *others = back(np.ones_like(y), q, k, v, y, rest, mask, **PLAIN)
    assert not dq[0, 1].any() and all(np.isfinite(d).all() for d in (dq, *others))


@pytest.mark.parametrize("name, shape, constants", [
    ("softmax", (40, 70), {"dim": 1}), ("log_softmax", (40, 70), {"dim": 1}),
    ("group_norm", (40, 70), {"groups": 2, "eps": 1e-5, "center": True}),
    ("sum", (400, 70), {"dim": 1, "keepdim": False}),
])  # fmt: skip
def test_bytes_of_a_row_do_not_depend_on_others(name, shape, constants):
    (x,) = arrays([shape])
    kernel = get_backend("cpu").kernel(name)
    whole = several(kernel(x, **constants))[0]
    for start, stop in ((0, 1), (3, 4), (5, 38)):
        part = several(kernel(x[start:stop].copy(), **constants))[0]
        assert part.tobytes() == whole[start:stop].tobytes()
