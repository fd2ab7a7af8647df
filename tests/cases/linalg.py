"""Linear algebra."""

import numpy as np

from cases.table import Sample, normal, row

BATCHES = ((3, 3), (2, 3, 3), (1, 1), (0, 2, 2), (2, 1, 2, 2))


@row("matmul", wrong=(Sample([np.zeros((2, 3, 4)), np.zeros((5, 4, 2))]),))
def _matmul(rng):
    cases = (((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)), ((2, 1, 2, 3), (5, 3, 1)),
             ((1, 1), (1, 1)), ((0, 3), (3, 2)), ((2, 0), (0, 3)), ((0, 2, 3), (3, 2)))  # fmt: skip
    return [Sample([normal(rng, *s), normal(rng, *t)]) for s, t in cases]


@row("linear", "linear_relu")
def _linear(rng):
    return [
        Sample([normal(rng, 4, 3), normal(rng, 2, 3), normal(rng, 2)]),
        Sample([normal(rng, 4, 3), normal(rng, 2, 3), None]),
        Sample([normal(rng, 1, 1), normal(rng, 1, 1), normal(rng, 1)]),
        Sample([normal(rng, 0, 3), normal(rng, 2, 3), normal(rng, 2)]),
    ]


@row("matmul_relu_input", wrong=(
    Sample([np.zeros((2, 3)), np.zeros((3, 4)), np.zeros((2, 3))]),
    Sample([np.zeros((2, 3)), np.zeros((2, 4)), np.zeros((2, 4))]),
))  # fmt: skip
def _matmul_relu_input(rng):
    cases = (4, 3, 2), (4, 1, 5), (1, 3, 40), (1, 1, 1), (0, 3, 2), (2, 0, 3), (3, 2, 0)
    return [Sample([normal(rng, i, k), normal(rng, k, j), normal(rng, i, j)]) for i, k, j in cases]


def regular(rng, *shape):
    """Matrices whose singular values are between 0.5 and 3, no two near each other."""
    u, s, v = np.linalg.svd(rng.standard_normal(shape), full_matrices=False)
    return u * np.linspace(3, 0.5, s.shape[-1]) @ v


def symmetric(rng, *shape):
    """Positive definite matrices with eigenvalues like those singular values."""
    u, s, _ = np.linalg.svd(rng.standard_normal(shape))
    return u * np.linspace(3, 0.5, s.shape[-1]) @ np.swapaxes(u, -1, -2)


@row("inv", "det", "cofactors", "slogdet")
def _square(rng):
    return [Sample([regular(rng, *s)]) for s in BATCHES]


@row("solve", wrong=(Sample([np.eye(2), np.zeros((3, 1))]),))
def _solve(rng):
    cases = (((3, 3), (3, 2)), ((2, 3, 3), (3, 1)), ((3, 3), (2, 3, 1)), ((1, 1), (1, 0)))
    return [Sample([regular(rng, *s), normal(rng, *t)]) for s, t in cases]


@row("cholesky", "eigh")
def _symmetric(rng):
    """They read one triangle only, so differences mislead: see tests/test_linalg.py."""
    return [Sample([symmetric(rng, *s)], smooth=False) for s in BATCHES]


@row("svd", "qr")
def _tall(rng):
    return [Sample([regular(rng, *s)]) for s in ((3, 2), (2, 4, 3), *BATCHES)]


@row("pinv")
def _pinv(rng):
    shapes = ((3, 2), (2, 2, 3), (0, 2, 2), (1, 1))
    return [Sample([regular(rng, *s)], {"rcond": 1e-12}) for s in shapes]
