"""Products of matrices as a CUDA kernel, run by the emulator, and when it is asked."""

import numpy as np
import pytest
from cuda_kernels import BACKENDS, BOTH, EACH, TOLERANCE, Guarded, call

from minidp.kernels.cuda import conv, linalg, recurrent

normal = np.random.default_rng(4).standard_normal
EMU = BACKENDS["loops"]
SHAPES = [((3, 5), (5, 2)), ((1, 1), (1, 1)), ((64, 8), (8, 64)), ((65, 9), (9, 66)),
          ((130, 3), (3, 70)), ((2, 20), (20, 1)), ((4, 0), (0, 3)), ((0, 3), (3, 2)),
          ((3, 2), (2, 0)), ((2, 3, 4), (2, 4, 5)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)),
          ((2, 1, 3, 4), (5, 4, 70)), ((3, 66, 9), (3, 9, 65))]  # fmt: skip


@pytest.fixture
def capturing(monkeypatch):
    """As if a graph was being captured."""
    monkeypatch.setattr(Guarded, "capturing", True)


@BOTH
@EACH
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_matmul(backend, left, right, turned, dtype, capturing):
    a, b = (normal(shape).astype(dtype) for shape in (left, right))
    given = [stored_in_columns(x) if yes else x for x, yes in zip((a, b), turned, strict=True)]
    y = multiply(backend, *given)
    wanted = np.matmul(a.astype(float), b.astype(float))
    tolerance = TOLERANCE[y.dtype]
    assert y.dtype == dtype and y.shape == wanted.shape
    np.testing.assert_allclose(y, wanted, tolerance, tolerance * 8)


def stored_in_columns(x):
    """The same values, the last two axes exchanged in memory."""
    return np.swapaxes(np.ascontiguousarray(np.swapaxes(x, -1, -2)), -1, -2)


def multiply(backend, *arrays):
    """The kernel's product of arrays whose layout is kept."""
    ours = [backend.put(x, 1) for x in arrays]
    assert [x.flags.c_contiguous for x in ours] == [x.flags.c_contiguous for x in arrays]
    y = backend.kernel("matmul")(*ours)
    backend.gpu.check()
    return backend.get(y)


@BOTH
def test_each_sum_is_added_in_order(backend, capturing):
    a, b = normal((3, 200)).astype("f4"), normal((200, 2)).astype("f4")
    wanted = np.zeros((3, 2), "f4")
    for k in range(200):
        wanted += a[:, k : k + 1] * b[k]
    assert call(backend, "matmul", a, b).tobytes() == wanted.tobytes()


@EACH
@pytest.mark.parametrize("bias", [False, True])
def test_linear(dtype, bias, capturing):
    x, w, b = (normal(shape).astype(dtype) for shape in ((70, 9), (5, 9), (5,)))
    y = call(EMU, "linear", x, w, b if bias else None)
    wanted = x.astype(float) @ w.T.astype(float) + (b if bias else 0)
    np.testing.assert_allclose(y, wanted, TOLERANCE[y.dtype], 8 * TOLERANCE[y.dtype])


def test_what_it_declines(capturing):
    x = normal((3, 3))
    assert call(EMU, "matmul", x, x.astype("f4")) is NotImplemented
    assert call(EMU, "linear", x, x.astype(int)) is NotImplemented
    assert linalg.product(EMU.gpu, EMU.put(x, 0), EMU.put(x[0], 0)) is NotImplemented


def test_outside_of_graphs_cublas_multiplies():
    x = normal((3, 3))
    assert call(EMU, "matmul", x, x) is NotImplemented
    assert call(EMU, "linear", x, x) is NotImplemented
    y = linalg.multiplied(EMU.gpu, EMU.put(x, 0), EMU.put(x, 0))
    np.testing.assert_allclose(EMU.get(y), x @ x)
    assert conv.multiplied is recurrent.multiplied is linalg.multiplied
