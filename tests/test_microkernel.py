"""Register tiles against NumPy, for both kinds of vectors; machine code kept on disk."""

import ctypes
import functools
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

pytest.importorskip("numba")
from minidp.kernels.cpu import _machine_code, _microkernel
from minidp.kernels.cpu._microkernel import loops, tile

HOST = _machine_code.host()
pytestmark = pytest.mark.skipif(HOST is None, reason="needs AVX2, and Numba's compiler")
HASWELL = _machine_code.Target("haswell", "+avx2,+fma", bytes=32, rows=6)
TARGETS = {"host": HOST, "avx2": HASWELL}
RELATIVE = {np.float32: 2e-6, np.float64: 1e-14}


def run(place, a, b, c, bias, columns, plan):
    """Call a tile from Python, at the places where these arrays begin; one that is told nothing
    of what is fetched ahead does not look."""
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 8)(place)
    places = [array.ctypes.data for array in (a, b, c, bias)]
    function(*places, columns, plan.ctypes.data, a.ctypes.data, 64)


def product(a, b, c, bias, start, relu, spread, mask=None):
    """The same sums by einsum in float64: a (o, m, k, i[, j]), b (o, m, k, j)."""
    a, b, c, bias = (array.astype(np.float64) for array in (a, b, c, bias))
    y = np.einsum("omki,omkj->ij" if spread else "omkij,omkj->ij", a, b)
    y = y + {"zero": 0, "bias": bias, "own bias": bias[:, None], "add": c}[start]
    y = y if mask is None else np.where(mask <= 0, 0, y)
    return np.maximum(y, 0) if relu else y


@pytest.mark.parametrize("spread", [True, False])
@pytest.mark.parametrize("start", _microkernel.START)
@pytest.mark.parametrize("dtype", RELATIVE)
@pytest.mark.parametrize("kind", TARGETS)
def test_tile(kind, dtype, start, spread):
    random, target = np.random.default_rng(0), TARGETS[kind]
    lanes = target.lanes(np.dtype(dtype))
    for rows in (1, 2, target.rows):
        for columns in (1, lanes - 1, lanes, lanes + 1, 2 * lanes):
            vectors, relu = (columns + lanes - 1) // lanes, columns % 2 == 0
            shape = (2, 3, 5, rows) if spread else (2, 3, 5, rows, columns)
            a, b = random.standard_normal(shape), random.standard_normal((2, 3, 5, columns))
            c = random.standard_normal((rows, columns + 3))
            bias = random.standard_normal(rows if start == "own bias" else columns)
            a, b, c, bias = (array.astype(dtype) for array in (a, b, c, bias))
            want = product(a, b, c[:, :columns], bias, start, relu, spread)
            beyond = c[:, columns:].copy()
            steps = [step // a.itemsize for step in a.strides]
            plan = loops((2, 3, 5), a_outer=steps[0], a_middle=steps[1], a_inner=steps[2],
                         a_row=steps[3], b_outer=15 * columns, b_middle=5 * columns,
                         b_inner=columns, c_row=columns + 3)  # fmt: skip
            place = tile(target, dtype, rows, vectors, start=start, relu=relu, spread=spread,
                         ahead=columns == lanes)  # fmt: skip
            run(place, a, b, c, bias, columns, plan)
            scale = RELATIVE[dtype] * np.abs(want).max()
            np.testing.assert_allclose(c[:, :columns], want, rtol=0, atol=scale)
            assert np.array_equal(c[:, columns:], beyond)


@pytest.mark.parametrize("start", ["zero", "add"])
@pytest.mark.parametrize("dtype", RELATIVE)
@pytest.mark.parametrize("kind", TARGETS)
def test_masked_tile(kind, dtype, start):
    random, target = np.random.default_rng(0), TARGETS[kind]
    lanes = target.lanes(np.dtype(dtype))
    most = target.rows
    for rows, columns in ((1, 1), (2, lanes - 1), (most, lanes), (most, 2 * lanes - 1)):
        shapes = (1, 1, 7, rows), (1, 1, 7, columns), (rows, columns + 3), (rows, columns + 3)
        a, b, c, mask = (random.standard_normal(s).round(1).astype(dtype) for s in shapes)
        mask[0, 0], beyond = np.nan, c[:, columns:].copy()
        kept = c[:, :columns], mask, start, False, True, mask[:, :columns]
        want = product(a, b, *kept)
        plan = loops((1, 1, 7), a_inner=rows, a_row=1, b_inner=columns, c_row=columns + 3)
        vectors = -(-columns // lanes)
        place = tile(target, dtype, rows, vectors, start=start, masked=True)
        run(place, a, b, c, mask, columns, plan)
        scale = RELATIVE[dtype] * np.abs(want).max()
        np.testing.assert_allclose(c[:, :columns], want, rtol=0, atol=scale)
        assert np.array_equal(c[:, columns:], beyond) and (mask <= 0).any()


def test_a_sum_is_one_chain_whatever_the_tile():
    random = np.random.default_rng(1)
    a, b = (random.standard_normal(s).astype(np.float32) for s in ((HOST.rows, 300), (300, 32)))
    lanes = HOST.lanes(a.dtype)
    want, got = (np.zeros((HOST.rows, 2 * lanes), np.float32) for _ in range(2))
    plan = loops((1, 1, 300), a_inner=1, a_row=300, b_inner=32, c_row=2 * lanes)
    bias = np.zeros(2 * lanes, np.float32)
    run(tile(HOST, a.dtype, HOST.rows, 2), a, b, want, bias, 2 * lanes, plan)
    for i in range(HOST.rows):
        for j in (0, lanes):
            run(tile(HOST, a.dtype, 1, 1), a[i], b[0, j:], got[i, j:], bias, lanes, plan)
    assert np.array_equal(got, want)


def test_empty_loops_write_the_start():
    c, nothing, bias = np.ones((2, 3), np.float32), np.zeros(1, np.float32), np.arange(3, dtype="f")
    plan = loops((0, 1, 1), c_row=3)
    run(tile(HOST, c.dtype, 2, 1, start="bias"), nothing, nothing, c, bias, 3, plan)
    assert np.array_equal(c, [bias, bias])


def test_nan_passes_relu():
    c, a, b = np.zeros((1, 2), np.float32), np.full(1, np.nan, "f"), np.ones(2, np.float32)
    plan = loops((1, 1, 1), c_row=2)
    run(tile(HOST, c.dtype, 1, 1, relu=True), a, b, c, b, 2, plan)
    assert np.isnan(c).all()


def test_what_no_tile_can_be():
    with pytest.raises(ValueError, match="up to 6 rows"):
        tile(HASWELL, np.float32, 7, 2)
    with pytest.raises(ValueError, match="start among"):
        tile(HASWELL, np.float32, 6, 2, start="one")
    with pytest.raises(ValueError, match="start among"):
        tile(HASWELL, np.float32, 6, 2, start="bias", masked=True)
    with pytest.raises(TypeError, match="a_line"):
        loops((1, 1, 1), a_line=3)


ONE_TILE = """
import sys, numpy
from minidp.kernels.cpu import _machine_code, _microkernel
sys.modules["llvmlite"].binding.TargetMachine.emit_object = {emit}
_microkernel.tile(_machine_code.host(), numpy.float32, 3, 2)
"""


def test_machine_code_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    runs = [ONE_TILE.format(emit=e) for e in ("llvmlite.binding.TargetMachine.emit_object", "None")]
    first = "import llvmlite.binding\n" + runs[0]
    subprocess.run([sys.executable, "-c", first], check=True)
    (kept,) = (tmp_path / "tiles").iterdir()
    subprocess.run([sys.executable, "-c", runs[1]], check=True)
    kept.write_bytes(kept.read_bytes()[:-1] + b"?")  # a damaged file counts for nothing
    assert subprocess.run([sys.executable, "-c", runs[1]], capture_output=True).returncode != 0
    subprocess.run([sys.executable, "-c", first], check=True)
    subprocess.run([sys.executable, "-c", runs[1]], check=True)


def test_threads_that_want_the_same_tile_get_one(monkeypatch, tmp_path):
    monkeypatch.setattr(_machine_code, "_folders", lambda: [tmp_path])
    engines, found = [], _machine_code._engine
    made = functools.cache(lambda *given: engines.append(found.__wrapped__(*given)) or engines[-1])
    monkeypatch.setattr(_machine_code, "_engine", made)
    with ThreadPoolExecutor(8) as pool:
        wanted = [HOST, _microkernel.write, "d", 2, 2, "add", True, True]
        places = list(pool.map(lambda _: _machine_code.address.__wrapped__(*wanted), range(8)))
    assert len(engines) == len(set(places)) == 1


def test_nothing_happens_where_nothing_can_be_kept(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_bytes(b"")
    monkeypatch.setattr(_machine_code, "_folders", lambda: [blocked / "tiles"])
    place = _machine_code.address.__wrapped__
    engine = _machine_code._engine.__wrapped__
    monkeypatch.setattr(_machine_code, "_engine", engine)
    assert place(HOST, _microkernel.write, "f", 2, 1, "zero", False, True)
    assert blocked.read_bytes() == b""
