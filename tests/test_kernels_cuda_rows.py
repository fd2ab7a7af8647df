"""CUDA kernels of normalisation, recurrent layers, noise and optimisers, run by the emulator."""

import numpy as np
import pytest
from cuda_kernels import BACKENDS, BOTH, EACH, TOLERANCE, arrays, call, check, put, put_state

from minidp import optim
from minidp.op import OPS

rng = np.random.default_rng(8)
normal = rng.standard_normal
RULED = optim.SGD, optim.Adam, optim.RMSprop, optim.Adadelta, optim.Adamax  # ops by import
EMU = BACKENDS["loops"]


@BOTH
@EACH
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize(("shape", "groups"), [
    ((4, 3), 1), ((3, 4, 35), 2), ((2, 1), 1), ((2, 6, 3, 2), 3), ((2, 600), 1), ((2, 9), 9),
])  # fmt: skip
def test_group_norm(backend, shape, groups, center, dtype):
    x, weight, bias = arrays([normal(shape) + 0.5, *normal((2, shape[1]))], dtype)
    how = {"groups": groups, "eps": 0.1, "center": center}
    _, mean, r = check(backend, "group_norm", x, weight, bias, dtype=dtype, **how)
    check(backend, "group_norm", x, None, bias, dtype=dtype, **how)
    for scale in (weight, None):
        given = normal(shape), x, mean, r, scale
        check(backend, "group_norm_back", *given, dtype=dtype, center=center)


@BOTH
def test_the_variance_of_large_numbers_loses_no_digits(backend):
    x = normal((2, 50)) + 1e6
    y, *_ = call(backend, "group_norm", x, None, None, groups=1, eps=0.0, center=True)
    wanted = (x - x.mean(1)[:, None]) / x.std(1)[:, None]
    np.testing.assert_allclose(y, wanted, 1e-9, 1e-9)
    y, *_ = call(backend, "batch_norm_own", x.T, None, None, eps=0.0)
    np.testing.assert_allclose(y, wanted.T, 1e-9, 1e-9)


def test_norms_decline_what_has_no_values_or_does_not_fit():
    how = {"groups": 1, "eps": 0.1, "center": True}
    for shape in ((0, 3), (2, 3, 0)):
        x, c = normal(shape), normal(3)
        assert call(EMU, "group_norm", x, None, None, **how) is NotImplemented
        assert call(EMU, "batch_norm_own", x, None, None, eps=0.1) is NotImplemented
        back = call(EMU, "batch_norm_own_back", x, x, c, c, None, eps=0.1)
        assert back is NotImplemented
        means = normal((shape[0], 1))
        back = call(EMU, "group_norm_back", x, x, means, means, None, center=True)
        assert back is NotImplemented
    x, wrong = normal((2, 3)), normal(6)
    assert call(EMU, "group_norm", x, wrong, None, **how) is NotImplemented
    assert call(EMU, "batch_norm_own", x, wrong, None, eps=0.1) is NotImplemented


@BOTH
@EACH
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5, 4), (0, 3, 2), (2, 1, 300)])
def test_batch_norm(backend, shape, dtype):
    x, c = normal(shape), shape[1]
    mean, var, weight, bias = normal(c), rng.random(c) + 0.5, normal(c), normal(c)
    for affine in ((weight, bias), (None, None), (weight, None)):
        check(backend, "batch_norm", x, mean, var, *affine, dtype=dtype, eps=0.1)
    wrong = [z.repeat(2) for z in (mean, var)]
    assert call(backend, "batch_norm", x, *wrong, None, None, eps=0.1) is NotImplemented


@BOTH
@EACH
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5, 4), (300, 2), (2, 1, 300)])
def test_batch_norm_by_its_own_statistics(backend, shape, dtype):
    x, weight, bias = arrays([normal(shape) + 0.5, *normal((2, shape[1]))], dtype)
    for affine in ((weight, bias), (None, None)):
        _, mean, var = check(backend, "batch_norm_own", x, *affine, dtype=dtype, eps=0.1)
        given = normal(shape), x, mean, var, affine[0]
        check(backend, "batch_norm_own_back", *given, dtype=dtype, eps=0.1)


@BOTH
@EACH
@pytest.mark.parametrize(("shape", "dim"), [((4, 10), 1), ((2, 70, 3), 1), ((3, 600), -1),
                                            ((0, 3), 1), ((3, 0), 1), ((5,), 0)])  # fmt: skip
def test_cotangents_of_softmax(backend, shape, dim, dtype):
    y = rng.random(shape)
    check(backend, "softmax_input", normal(shape), y, dtype=dtype, dim=dim)
    check(backend, "log_softmax_input", normal(shape), -y, dtype=dtype, dim=dim)


@BOTH
@EACH
@pytest.mark.parametrize("shape,batch_dim", [((3, 5, 7), 0), ((3, 5, 7), 1), ((3, 5, 7), -1),
                                             ((300, 5), 0), ((9,), 0)])  # fmt: skip
def test_noise_and_dropout(backend, shape, batch_dim, dtype):
    at, x = {"key": (2**40 + 17, 9, 2), "row": 6, "batch_dim": batch_dim}, normal(shape)
    check(backend, "noise", x, dtype=dtype, **at)
    check(backend, "dropout", x, dtype=dtype, p=0.3, **at)
    whole = at | {"row": 0, "batch_dim": None}
    check(backend, "noise", x, dtype=dtype, **whole)
    check(backend, "dropout", x, dtype=dtype, p=0.3, **whole)


@BOTH
def test_the_bound_of_what_is_kept_is_exact(backend):
    x, at = np.ones((1, 64)), {"key": (5, 6, 7), "row": 0, "batch_dim": 0}
    noise = call(backend, "noise", x, **at)
    smallest = noise.min()  # its word lies within 2^9 of this
    for p in np.arange(512) * 2.0**-32 + (smallest - 2.0**-24):
        check(backend, "dropout", x, p=float(p), **at)


DECAY = {"weight_decay": 0.02, "maximize": False}
SGD = DECAY | {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "nesterov": False}
ADAM = DECAY | {"rate": 0.1, "nudge": 0.05, "root": 0.3, "beta1": 0.9, "beta2": 0.99, "eps": 1e-3,
                "shrink": 0.9, "amsgrad": False}  # fmt: skip
RMSPROP = DECAY | {"lr": 0.1, "alpha": 0.9, "rest": 0.1, "eps": 1e-3, "momentum": 0.9,
                   "centered": True}  # fmt: skip
ADADELTA = DECAY | {"lr": 0.1, "rho": 0.9, "eps": 1e-3}
ADAMAX = DECAY | {"rate": 0.1, "beta1": 0.9, "beta2": 0.9, "eps": 1e-3}
RULES = [
    ("sgd", 3, SGD), ("sgd", 3, SGD | {"nesterov": True}), ("sgd", 3, SGD | {"maximize": True}),
    ("sgd", 3, SGD | {"momentum": 0.0, "dampening": 0.0, "weight_decay": 0.0}),
    ("adam", 5, ADAM), ("adam", 5, ADAM | {"amsgrad": True, "maximize": True, "nudge": 0.0}),
    ("adam", 5, ADAM | {"weight_decay": 0.0}), ("rmsprop", 5, RMSPROP),
    ("rmsprop", 5, RMSPROP | {"centered": False, "momentum": 0.0, "weight_decay": 0.0}),
    ("rmsprop", 5, RMSPROP | {"maximize": True}), ("adadelta", 4, ADADELTA),
    ("adadelta", 4, ADADELTA | {"maximize": True, "weight_decay": 0.0}), ("adamax", 4, ADAMAX),
    ("adamax", 4, ADAMAX | {"maximize": True, "weight_decay": 0.0}),
]  # fmt: skip


@BOTH
@EACH
@pytest.mark.parametrize("case", range(len(RULES)))
def test_optimisers(backend, case, dtype):
    name, count, how = RULES[case]
    memory = [normal(300), normal(300), *(np.full(300, 0.1) for _ in range(count - 2))]
    steps = [how | {"first": k == 0} for k in (0, 1)] if name == "sgd" else [how, how]
    memory = arrays(memory, dtype)
    ours, wide = [put_state(backend, x) for x in memory], arrays(memory, np.float64)
    for step in steps:
        given = dict(zip("pgmvc", ours, strict=False))
        if name == "sgd" and not how["momentum"]:
            ours[2] = wide[2] = None
        assert backend.kernel(name)(*ours, **step) is given["p"]
        OPS[name].body(np, *wide, **step)
    backend.gpu.check()
    for found, wanted in zip(ours, wide, strict=True):
        if wanted is not None:
            assert found.dtype == dtype
            limits = [4 * TOLERANCE[found.dtype]] * 2
            np.testing.assert_allclose(backend.get(found), wanted, *limits)


def test_optimisers_decline_memory_that_would_be_copied():
    p = EMU.put(normal((20, 4)), 0)
    assert EMU.kernel("sgd")(p[::2], p[::2], None, **SGD, first=True) is NotImplemented
    assert EMU.kernel("adamax")(p.T, p.T, p.T, p.T, **ADAMAX) is NotImplemented


@BOTH
@EACH
@pytest.mark.parametrize("counts", [
    [5], [300, 1, 0, 256, 17], [3, 600, 2, 40, 1, 1, 257, 9, 33, 512],
])  # fmt: skip
def test_pack(backend, counts, dtype):
    starts = np.cumsum([0, *(-(-count // 16) * 16 for count in counts)])
    flat = put_state(backend, np.full(starts[-1] + 5, 7.0, dtype))
    pieces = [normal((count, 1)).astype(dtype) if k % 3 != 1 else None
              for k, count in enumerate(counts)]  # fmt: skip
    expected = backend.get(flat)
    for start, count, piece in zip(starts, counts, pieces, strict=False):
        expected[start : start + count] = 0 if piece is None else piece[:, 0]
    ours = [None if piece is None else put(piece) for piece in pieces]
    how = {"starts": starts[:-1].tolist(), "counts": counts}
    assert backend.kernel("pack")(flat, *ours, **how) is flat
    backend.gpu.check()
    np.testing.assert_array_equal(backend.get(flat), expected)
    other = [None if x is None else x.astype(np.int64) for x in ours]
    assert backend.kernel("pack")(flat, *other, **how) is NotImplemented
