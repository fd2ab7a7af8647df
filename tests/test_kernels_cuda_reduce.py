"""Reductions as CUDA kernels, run by the emulator: values, places, and the order of additions."""

import numpy as np
import pytest
from cuda_kernels import BACKENDS, BOTH, EACH, TYPES, call, check

normal = np.random.default_rng(3).standard_normal
AXES = [
    ((5, 6, 7), (1,)), ((5, 6, 7), (0, 2)), ((3, 50, 4), (1,)), ((70, 2), (0, 1)), ((), ()),
    ((4,), ()), ((4, 33), 1), ((2, 9001), (1,)), ((4097, 2), (0,)), ((40, 33), 0),
    ((600, 35), (0,)), ((3, 11, 64), (0, 1)), ((4, 3, 50), (0, 2)), ((2, 3, 40, 5), (1, 3)),
    ((3, 1), (1,)), ((3, 33, 2, 2), (1, 2)), ((257, 32), (0,)), ((33, 3, 2), None),
]  # fmt: skip


@BOTH
@EACH
@pytest.mark.parametrize(("shape", "dim"), AXES)
def test_sums_and_extremes(backend, shape, dim, dtype):
    x = np.asarray(normal(shape))
    for name in ("sum", "amax", "amin"):
        check(backend, name, x, dtype=dtype, dim=dim, keepdim=False)
    check(backend, "sum", x, dtype=dtype, dim=dim, keepdim=True)


@BOTH
@pytest.mark.parametrize(("shape", "dim"), [((2, 0, 3), (1,)), ((0, 3), (1,)), ((0, 40), 0)])
def test_sums_of_nothing(backend, shape, dim):
    check(backend, "sum", np.zeros(shape), dim=dim, keepdim=False)
    if shape[1] == 0:
        assert call(backend, "amax", np.zeros(shape), dim=dim, keepdim=False) is NotImplemented


@BOTH
@pytest.mark.parametrize("shape,dim", [((2, 70), 1), ((2, 9), 1), ((70, 3), 0)])
def test_a_nan_is_the_extreme(backend, shape, dim):
    x = normal(shape)
    x[1, 2] = np.nan
    for name in ("amax", "amin", "argmax", "argmin"):
        check(backend, name, x, dim=dim, keepdim=True)
    x[:] = -np.inf
    for name in ("amax", "amin", "argmax", "argmin"):
        check(backend, name, -x, dim=dim, keepdim=True)


@BOTH
@EACH
@pytest.mark.parametrize("shape,dim", [((3, 40), 1), ((3, 8200), -1), ((6, 5, 4), 1), ((40, 3), 0),
                                       ((7, 6), None), ((1,), 0), ((), None)])  # fmt: skip
def test_places(backend, shape, dim, dtype):
    x = np.asarray(np.round(normal(shape) * 2))  # ties: the first wins
    for name in ("argmax", "argmin"):
        for keepdim in (False, True):
            check(backend, name, x, dtype=dtype, dim=dim, keepdim=keepdim)


@BOTH
def test_places_among_equals_and_nans(backend):
    x = np.zeros((4, 9000))
    x[1, [4097, 8999]], x[2, [5, 4100]], x[3, 4095:4099] = 1, np.nan, -1
    for name in ("argmax", "argmin"):
        check(backend, name, x, dim=1, keepdim=False)
        check(backend, name, x[:, 5:70].copy(), dim=1, keepdim=False)


def tree(values):
    """The sum of a power of two of values as a block adds them."""
    while len(values) > 1:
        values = values[: len(values) // 2] + values[len(values) // 2 :]
    return values[0]


def in_threads(values, threads):
    """Value t, t + threads, ... added one after the other, for each thread t."""
    total = np.zeros(threads, values.dtype)
    for start in range(0, len(values), threads):
        part = values[start : start + threads]
        total[: len(part)] += part
    return total


@pytest.mark.parametrize("dtype", TYPES[1:])
@pytest.mark.parametrize("length", [33, 100, 4096, 9001])
def test_a_row_is_added_in_the_written_order(length, dtype):
    x = normal((2, length)).astype(dtype)
    threads = min(256, 1 << (length - 1).bit_length())
    for row, total in zip(x, call(BACKENDS["loops"], "sum", x, dim=1, keepdim=False), strict=True):
        chunks = [row[start : start + 4096] for start in range(0, length, 4096)]
        parts = np.array([tree(in_threads(chunk, threads)) for chunk in chunks], dtype)
        assert total == in_threads(parts, 1)[0]


@pytest.mark.parametrize("dtype", TYPES[1:])
@pytest.mark.parametrize("length", [33, 256, 700])
def test_a_column_is_added_in_the_written_order(length, dtype):
    x = normal((length, 35)).astype(dtype)
    y = call(BACKENDS["loops"], "sum", x, dim=0, keepdim=False)
    for column, total in zip(x.T, y, strict=True):
        while len(column) > 1:
            parts = [column[start : start + 256] for start in range(0, len(column), 256)]
            column = np.array([tree(in_threads(part, 8)) for part in parts], dtype)
        assert total == column[0]


def test_a_sum_has_the_same_bytes_whatever_the_other_rows():
    x, sums = normal((5, 5000)).astype(np.float32), []
    for rows in (x, x[3:]):
        sums.append(call(BACKENDS["loops"], "sum", rows.copy(), dim=(1,), keepdim=False))
    assert sums[0][3:].tobytes() == sums[1].tobytes()


def test_a_batch_of_one_column_is_added_like_many():
    x = normal((50, 3)).astype(np.float32)
    whole = call(BACKENDS["loops"], "sum", x, dim=0, keepdim=False)
    alone = call(BACKENDS["loops"], "sum", x[:, 1:2].copy(), dim=0, keepdim=False)
    assert whole[1:2].tobytes() == alone.tobytes()


@BOTH
@EACH
@pytest.mark.parametrize(("shape", "dim"), [((3, 10), 1), ((4, 5, 6), (0, 2)), ((7,), None),
                                            ((2, 300), -1), ((40, 3), 0)])  # fmt: skip
def test_logsumexp(backend, shape, dim, dtype):
    x = normal(shape) * 10
    check(backend, "logsumexp", x, dtype=dtype, dim=dim, keepdim=False)
    x.reshape(-1)[::2] = -np.inf
    check(backend, "logsumexp", x, dtype=dtype, dim=dim, keepdim=True)
    x[:] = -np.inf
    check(backend, "logsumexp", x, dtype=dtype, dim=dim, keepdim=True)
    x.reshape(-1)[0] = np.inf
    check(backend, "logsumexp", x, dtype=dtype, dim=dim, keepdim=True)


@BOTH
def test_what_is_declined(backend):
    whole = np.arange(6).reshape(2, 3)
    for name in ("sum", "amax", "argmax", "logsumexp"):
        assert call(backend, name, whole, dim=0, keepdim=False) is NotImplemented
        for dim in (2, -3, (0, 0)):
            assert call(backend, name, whole / 2, dim=dim, keepdim=False) is NotImplemented
