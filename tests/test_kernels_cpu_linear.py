"""Products of matrices by register tiles: any sizes and layouts, and bytes that rows keep."""

import os
import subprocess
import sys

import numpy as np
import pytest

import minidp as dp
from minidp import nn
from minidp.testing import gradcheck, gradgradcheck

pytest.importorskip("numba")
from minidp.kernels.cpu import _dots, _machine_code, _product, linalg

HOST = _machine_code.host()
needs_vectors = pytest.mark.skipif(HOST is None, reason="needs AVX2, and Numba's compiler")
HASWELL = _machine_code.Target("haswell", "+avx2,+fma", bytes=32, rows=6)
RELATIVE = {np.float32: 1e-6, np.float64: 3e-15}
SIZES = [
    (1, 2, 1), (1, 784, 10), (2, 3, 17), (13, 5, 33), (14, 16, 32), (15, 31, 16), (37, 512, 31),
    (43, 513, 65), (128, 100, 10), (128, 10, 100), (505, 7, 40), (8, 1537, 48), (1010, 66, 3),
    (30, 1024, 1024),
]  # fmt: skip
LAYOUTS = {
    "dense": np.ascontiguousarray,
    "turned": np.asfortranarray,
    "gaps": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "reversed": lambda x: np.ascontiguousarray(x[::-1])[::-1],
    "frozen": lambda x: np.frombuffer(x.tobytes(), x.dtype).reshape(x.shape),
}


def values(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(dtype)


def error(y, want):
    """Relative rms; an exact result where nothing is added up is fine."""
    assert y is not NotImplemented and y.shape == want.shape and y.flags.c_contiguous
    return np.sqrt(np.mean((y - want) ** 2) / np.mean(want**2))


def exact(a, b):
    return np.matmul(a.astype(np.longdouble), b.astype(np.longdouble))


def check(n, c, k, dtype):
    x, w, b, g = (values(*shape, dtype=dtype) for shape in ((n, c), (k, c), (k,), (n, k)))
    assert error(linalg.linear(x, w, b), exact(x, w.T) + b) < RELATIVE[dtype]
    assert error(linalg.linear(x, w), exact(x, w.T)) < RELATIVE[dtype]
    if k > 1:
        assert error(linalg.matmul(g, w), exact(g, w)) < RELATIVE[dtype]
    if n > 1:
        assert error(linalg.matmul(g.T, x), exact(g.T, x)) < RELATIVE[dtype]


@needs_vectors
@pytest.mark.parametrize("dtype", RELATIVE)
@pytest.mark.parametrize("sizes", SIZES)
def test_forward_and_gradients(sizes, dtype):
    check(*sizes, dtype)


@needs_vectors
@pytest.mark.parametrize("dtype", RELATIVE)
def test_with_other_vectors(dtype, monkeypatch):
    for module in (_product, _dots, linalg):
        monkeypatch.setattr(module, "host", lambda: HASWELL)
    monkeypatch.setattr(_product, "product_of", _product.Product)
    for sizes in ((1, 784, 10), (13, 5, 33), (43, 513, 65), (30, 1024, 40), (7, 39, 41)):
        check(*sizes, dtype)


@needs_vectors
@pytest.mark.parametrize("turned", [False, True])
def test_small_blocks_and_both_ways_give_the_same_bytes(turned, monkeypatch):
    a, b, bias = values(70, 1537), values(1537, 90), values(90)
    given = [(LAYOUTS[first](a), LAYOUTS[second](b)) for first in ("dense", "turned")
             for second in ("dense", "turned")]  # fmt: skip
    want = _product.product(a, b, bias)
    monkeypatch.setattr(_product, "product_of", _product.Product)
    monkeypatch.setattr(_product, "_is_turned", lambda *_: turned)
    for block in (1, 1 << 16, 1 << 19):
        monkeypatch.setattr(_product, "BLOCK", block)
        monkeypatch.setattr(_product, "PANELS", 2 if block == 1 else 8)
        for pair in given:
            assert _product.product(*pair, bias).tobytes() == want.tobytes()


@needs_vectors
@pytest.mark.parametrize("rows", [255, 300])
def test_where_b_begins_changes_nothing(rows):
    a, memory = values(rows, 40), np.empty(40 * 64 + 32, np.float32)
    found = set()
    for first in range(0, 17, 4):
        b = memory[first : first + 40 * 64].reshape(40, 64)
        b[:] = values(40, 64)
        found.add(linalg.matmul(a, b).tobytes())
    assert len(found) == 1


@needs_vectors
def test_which_products_are_turned():
    layer = (1, 784), (784, 1)  # steps of w^T, then of x
    assert _product._is_turned((128, 784, 512), layer[1], layer[0])
    assert not _product._is_turned((7, 784, 512), layer[1], layer[0])
    assert not _product._is_turned((4096, 784, 512), layer[1], layer[0])
    assert _product._is_turned((256, 4096, 64), (1, 256), (64, 1))
    assert not _product._is_turned((1000, 7, 333), (1, 1000), (333, 1))


@needs_vectors
@pytest.mark.parametrize("second", LAYOUTS)
@pytest.mark.parametrize("first", LAYOUTS)
def test_layouts(first, second):
    a, b = values(29, 40), values(40, 70)
    want = linalg.matmul(a, b)
    given = LAYOUTS[first](a), LAYOUTS[second](b)
    assert linalg.matmul(*given).tobytes() == want.tobytes()
    assert given[0].tobytes() == a.tobytes() and given[1].tobytes() == b.tobytes()


@needs_vectors
@pytest.mark.parametrize("sizes", [(784, 512), (512, 10), (10, 512), (1024, 64), (33, 77)])
def test_a_rows_bytes_do_not_depend_on_others(sizes):
    c, k = sizes
    x, w, b, g = values(600, c), values(k, c), values(k), values(600, k)
    y, dx = linalg.linear(x, w, b), linalg.matmul(g, w)
    for first, last in ((0, 1), (5, 7), (0, 14), (3, 18), (100, 228), (1, 600)):
        assert linalg.linear(x[first:last], w, b).tobytes() == y[first:last].tobytes()
        assert linalg.matmul(g[first:last], w).tobytes() == dx[first:last].tobytes()


@needs_vectors
@pytest.mark.parametrize("dtype", RELATIVE)
@pytest.mark.parametrize("sizes", [(2, 16), (15, 17), (16, 40), (600, 33), (1025, 16), (7, 15),
                                   (33, 1), (40, 2), (1025, 7), (3, 5)])  # fmt: skip
def test_a_few_rows_have_the_bytes_they_have_among_many(sizes, dtype):
    c, k = sizes
    x, w, b = values(30, c, dtype=dtype), values(k, c, dtype=dtype), values(k, dtype=dtype)
    x[3, c // 2] = np.inf
    for bias in (b, None):
        many = linalg.linear(x, w, bias)
        for rows in (*range(1, 9), 16, 17, 28):
            few = linalg.linear(x[2 : 2 + rows], w, bias)
            assert few.tobytes() == many[2 : 2 + rows].tobytes()


@needs_vectors
def test_a_columns_bytes_do_not_depend_on_others():
    x, w = values(20, 600), values(100, 600)
    y = linalg.linear(x, w)
    for first, last in ((0, 1), (7, 40), (0, 32)):
        part = linalg.linear(x, w[first:last])
        assert part.tobytes() == np.ascontiguousarray(y[:, first:last]).tobytes()


@needs_vectors
def test_what_is_no_number_stays_in_its_row_and_columns_that_do_not_exist_are_not_touched():
    x, w = values(20, 30), values(37, 30)
    x[3, 4], x[5, 6] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        want = x @ w.T
    y = linalg.linear(x, w)
    assert (np.isfinite(y) == np.isfinite(want)).all() and np.isnan(y[3]).all()


def test_what_is_not_served():
    x, w = values(4, 5), values(3, 5)
    assert linalg.linear(x, w.astype(np.float64)) is NotImplemented
    assert linalg.linear(x.astype(np.float16), w.astype(np.float16)) is NotImplemented
    assert linalg.matmul(x[None], w.T) is NotImplemented
    assert linalg.matmul(x[0], w.T) is NotImplemented
    for n, c, k in ((0, 5, 3), (4, 0, 3), (4, 5, 0)):
        assert linalg.linear(values(n, c), values(k, c)) is NotImplemented
        y = nn.functional.linear(dp.zeros(n, c), dp.zeros(k, c), dp.ones(k))
        assert y.shape == (n, k) and bool((y == 1).all())


def test_derivatives_of_two_orders():
    given = [dp.tensor(values(*shape, dtype=np.float64), requires_grad=True)
             for shape in ((5, 7), (4, 7), (4,))]  # fmt: skip
    assert gradcheck(nn.functional.linear, given)
    assert gradgradcheck(nn.functional.linear, given)


def test_a_captured_step_gives_the_same_bytes():
    def trained(capture):
        dp.manual_seed(0)
        model = nn.Sequential(nn.Linear(70, 600), nn.ReLU(), nn.Linear(600, 10))
        optimizer = dp.optim.SGD(model.parameters(), 0.1, 0.9)

        def step(x, y):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        run = dp.capture(step) if capture else step
        for seed in range(8):
            labels = np.random.default_rng(seed).integers(0, 10, 33)
            run(dp.tensor(values(33, 70, seed=seed)), dp.tensor(labels))
        return [p.detach().numpy().tobytes() for p in model.parameters()]

    assert trained(True) == trained(False)


@needs_vectors
@pytest.mark.parametrize(("stride", "groups"), [(1, 1), (2, 1), (2, 4)])
def test_convolutions_of_single_pixels_run_natively(stride, groups):
    def step(x):
        model.zero_grad()
        y = model(x).square().sum()
        y.backward()
        return y

    dp.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(8, 40, 1, stride, groups=groups), nn.Conv2d(40, 16, 1, stride))
    run, given = dp.capture(step), dp.tensor(values(3, 8, 9, 8))
    found = []
    for _ in range(4):
        found.append([run(given).item(), *(p.grad.numpy().tobytes() for p in model.parameters())])
    lines = run.last.program.binding.placing.recording.lines
    assert {each.reason for each in lines} <= {"", "it is Python"} and found[0] == found[-1]


WITHOUT = """
import numpy as np, minidp as dp
from minidp import nn

from minidp.kernels.cpu import linalg
x, w = (np.random.default_rng(0).standard_normal(s).astype("float32") for s in ((9, 20), (5, 20)))
assert linalg.linear(x, w) is NotImplemented
given = dp.tensor(x, requires_grad=True), dp.tensor(w, requires_grad=True)
y = nn.functional.linear(*given)
y.sum().backward()
assert np.allclose(y.detach().numpy(), x @ w.T, atol=1e-5)
assert np.allclose(given[0].grad.numpy(), w.sum(0), atol=1e-5)
"""


def test_without_the_compiler():
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    subprocess.run([sys.executable, "-c", WITHOUT], env=environment, check=True, timeout=120)


@needs_vectors
@pytest.mark.parametrize("dtype", RELATIVE)
@pytest.mark.parametrize(("sums", "columns"), [(2, 3), (5, 33), (513, 700), (1030, 5000)])
def test_one_row_has_the_bytes_it_has_among_many(sums, columns, dtype):
    rows, b = values(30, sums, dtype=dtype), values(sums, columns, dtype=dtype)
    many = linalg.matmul(rows, b)
    for place in (0, 29):
        alone = linalg.matmul(rows[place : place + 1], b)
        assert alone.tobytes() == many[place].tobytes()


@needs_vectors
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_column_times_a_row(layout):
    column, row = LAYOUTS[layout](values(37, 1)), LAYOUTS[layout](values(1, 19))
    np.testing.assert_array_equal(linalg.matmul(column, row), column * row)
    assert linalg.matmul(column[:0], row) is NotImplemented
