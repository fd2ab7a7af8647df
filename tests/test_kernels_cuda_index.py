"""Rows by number and their adjoints as CUDA kernels, run by the emulator."""

import numpy as np
import pytest
from cuda_kernels import BACKENDS, BOTH, EACH, arrays, call, check

rng = np.random.default_rng(5)
EMU = BACKENDS["loops"]


@BOTH
@EACH
@pytest.mark.parametrize(("numbers", "width"), [((2, 30), 7), ((40,), 1), ((0,), 3), ((), 5)])
def test_embedding(backend, numbers, width, dtype):
    table, input = rng.standard_normal((9, width)), rng.integers(0, 9, numbers)
    check(backend, "embedding", np.asarray(input), table, dtype=dtype, padding_idx=None)
    g = rng.standard_normal((*numbers, width))
    for padding in (None, 0, 8):
        check(backend, "embedding_weight", g, np.asarray(input), dtype=dtype, shape=(9, width),
              padding_idx=padding)  # fmt: skip


@BOTH
def test_rows_are_added_in_their_order(backend):
    g, input = rng.standard_normal((300, 3)).astype(np.float32), rng.integers(0, 4, 300)
    y = call(backend, "embedding_weight", g, input, shape=(6, 3), padding_idx=None)
    expected = np.zeros((6, 3), np.float32)
    for row, number in zip(g, input, strict=True):
        expected[number] += row
    assert y.tobytes() == expected.tobytes()


@BOTH
def test_a_number_that_is_no_row(backend):
    table = rng.standard_normal((3, 2))
    for wrong in (3, -1):
        with pytest.raises(IndexError, match=f"index {wrong} is out of range .* 0 to 2"):
            call(backend, "embedding", np.array([0, wrong]), table, padding_idx=None)


KEYS = [
    ((5, 3), lambda: np.array([4, 0, 4, -1])), ((6,), lambda: np.array([[1, 1], [5, 0]])),
    ((4, 5, 2), lambda: (slice(None), np.array([0, 3, 3, -5]))),
    ((4, 5, 2), lambda: (np.array([[1], [3]]), np.array([2, 2, 0]), 1)),
    ((3, 4), lambda: [2, 2, 1]), ((5, 3), lambda: np.zeros(0, int)),
]  # fmt: skip


@BOTH
@EACH
@pytest.mark.parametrize("case", range(len(KEYS)))
def test_put(backend, case, dtype):
    shape, key = KEYS[case][0], KEYS[case][1]()
    x = rng.standard_normal(np.zeros(shape)[key].shape)
    expected = np.zeros(shape)
    np.add.at(expected, key, arrays([x], dtype)[0])
    there = tuple(backend.put(k, 1) if isinstance(k, np.ndarray) else k for k in key) if isinstance(
        key, tuple) else backend.put(key, 1) if isinstance(key, np.ndarray) else key  # fmt: skip
    y = call(backend, "put", x.astype(dtype), shape=shape, key=there)
    assert y.dtype == dtype
    np.testing.assert_allclose(y, expected, 4e-3 if dtype == np.float16 else 1e-6)


def test_keys_that_name_no_place_twice_are_left_to_the_body():
    x = EMU.put(rng.standard_normal((2, 3)), 0)
    for key in (slice(0, 2), (slice(0, 2), 0), EMU.put(np.array([True, False, True]), 0)):
        assert EMU.kernel("put")(x, shape=(3, 3), key=key) is NotImplemented
    wrong = EMU.put(np.array([0, 1]), 0)
    assert EMU.kernel("put")(x[:1], shape=(3, 3), key=wrong) is NotImplemented
    with pytest.raises(IndexError):
        EMU.kernel("put")(x, shape=(3, 3), key=EMU.put(np.array([0, 3]), 0))


@BOTH
@EACH
@pytest.mark.parametrize(("shape", "dim", "steps"), [
    ((5, 4), 0, 7), ((3, 6, 50), 1, 2), ((2, 3, 4), -1, 5), ((4,), 0, 0),
])  # fmt: skip
def test_along(backend, shape, dim, steps, dtype):
    x, wanted = rng.standard_normal(shape), list(shape)
    wanted[dim] = steps
    index = rng.integers(-shape[dim], shape[dim], wanted)
    check(backend, "take_along_dim", x, index, dtype=dtype, dim=dim)
    g = rng.standard_normal(wanted)
    at = dim % len(shape)
    check(backend, "scatter_along", g, index, dtype=dtype, shape=shape, dim=at)
    assert call(backend, "take_along_dim", x[None], index, dim=dim) is NotImplemented
