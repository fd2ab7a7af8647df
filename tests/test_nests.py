"""Nests of loops, compiled by ourselves: they do what their Python does, for all arguments."""

import os
import subprocess
import sys
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import pytest

from minidp.kernels.cpu import _nests, _translate, native
from minidp.kernels.cpu._jit import compiled, copy
from minidp.kernels.cpu._machine_code import fetch
from minidp.kernels.cpu._memory import empty
from minidp.kernels.cpu._nests import nest

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="Numba's compiler is off")
Inner = namedtuple("Inner", "low high")
Outer = namedtuple("Outer", "inner step")
LIMIT, ZERO = 7, 0


@nest
def numbers(y, a, b):
    y[0], y[1], y[2], y[3] = a + b, a - b, a * b, -a
    y[4], y[5] = a // b, a % b
    y[6], y[7], y[8] = min(a, b), max(a, b, 3), min(5, 2)
    y[9], y[10], y[11] = a & b, a | b, a ^ b
    y[12], y[13] = a << 2, a >> 1
    y[14], y[15] = a**3, LIMIT + ZERO
    y[16], y[17] = a and b, a or b
    y[18] = not a
    y[19] = 1 if a < b else 2 if a == b else 3
    y[20] = 0 < a <= LIMIT
    y[21] = a // 4
    y[22] = a % 8


@pytest.mark.parametrize("a", [-9, -8, -1, 0, 3, 12])
@pytest.mark.parametrize("b", [-5, -1, 1, 3, 12])
def test_whole_numbers_are_pythons(a, b):
    found, expected = np.zeros((2, 23), np.int64)
    numbers(found, a, b)
    numbers.function(expected, a, b)
    assert found.tolist() == expected.tolist()


@nest
def loops(y, n, step):
    for i in range(n):
        if i % 3 == 1:
            continue
        if i > 11:
            break
        y[i] += i
    total = k = 0
    while k < n and total < 40:
        total += k
        k += step
    y[n], y[n + 1] = total, k
    for i in range(1, n, step):
        y[i] -= 100
        i = 5  # which the next turn does not see
        y[n + 2] = i
    for i in range(5, 3):
        y[n + 2] = i


@pytest.mark.parametrize("n, step", [(0, 1), (1, 3), (5, 2), (14, 1), (14, 5)])
def test_loops_are_pythons(n, step):
    found, expected = np.zeros((2, n + 3), np.int64)
    loops(found, n, step)
    loops.function(expected, n, step)
    assert found.tolist() == expected.tolist()


def parts_of(sizes, at):
    """A plain function, which is written out where it is called."""
    low, high = sizes.inner
    at += low
    return at, high - low


@nest
def structures(x, y, sizes, few):
    """Named tuples, nested ones, unpacking, shapes, steps, slices and views."""
    first = few[0]
    (a, b), c = sizes.inner, sizes.step
    at, length = parts_of(sizes, first)
    y[0, 0], y[0, 1], y[0, 2] = a + b + c, at, length
    y[1, 0], y[1, 1], y[1, 2] = x.shape[0], len(x), x.strides[0] + x.itemsize
    row = x[1]
    y[2, 0], y[2, 1] = row[2], x[1, 1]
    column = x[:, 1]
    y[2, 2], y[3, 0] = column[0], column[len(column) - 1]
    piece = row[at:][:length]
    y[3, 1], y[3, 2] = len(piece), len(row[1:100])
    other = Inner(c, few[1])
    y[4, 0], y[4, 1], y[4, 2] = other.high, len(row[2:1]), few[1]
    copy(row[1:], y[5][:2])
    y[6][1:] = 0


def test_tuples_and_views():
    x = np.arange(12).reshape(3, 4)
    sizes = Outer(Inner(1, 3), 5)
    found, expected = np.full((2, 7, 3), 8)
    structures(x, found, sizes, (0, 6, 2))
    structures.function(x, expected, sizes, (0, 6, 2))
    assert found.tolist() == expected.tolist()


@nest
def stored(x, y, z, value, number):
    for i in range(x.shape[0]):
        y[i] = x[i]
        z[i] = i < number
    y[0], x[1] = value, -1


@pytest.mark.parametrize("kind", ["f", "d", "b", "B", "h", "i", "q"])
def test_values_of_any_dtype_are_moved(kind):
    value = -2.5 if kind in "fd" else 5
    x = np.array([1, 2, 200], np.uint8).astype(kind)
    y, z = np.zeros(3, kind), np.ones(3, bool)
    stored(x.copy(), y, z, value, 2)
    assert y.tolist() == [value, x[1], x[2]] and z.tolist() == [True, True, False]


def test_each_kind_of_arguments_has_its_version():
    @nest
    def first(x, y, ten=10):
        y[0] = x.itemsize * ten + len(x.shape)

    y = np.zeros(1, np.int64)
    for x in (np.zeros(3, "f"), np.zeros((2, 2), "d"), np.zeros(0, "f"), np.zeros((1, 1), "d")):
        first(x, y)
        assert y[0] == x.itemsize * 10 + x.ndim
    first(x, y, 100)
    assert y[0] == x.itemsize * 100 + x.ndim and len(first.versions) == 3


def test_what_a_nest_is_not_given():
    x = np.arange(6.0).reshape(2, 3)
    y = np.zeros(3)
    y.flags.writeable = False
    for wrong in (x[:, :2], x.T, y, y.astype(">f8")):
        with pytest.raises(ValueError, match="C-contiguous"):
            stored(wrong, wrong, wrong, 1, 1)
    with pytest.raises(TypeError, match="got 2 arguments"):
        stored(x, x)


def test_what_a_nest_cannot_say():
    @nest
    def adds(x):
        x[0] = x[1] + x[0]

    @nest
    def listed(x):
        x[0] = [1][0]

    @nest
    def early(x):
        if len(x) > 1:
            return
        x[0] = 1

    @nest
    def filled(x):
        x[:] = 1

    @nest
    def through(x):
        for k in x:
            x[0] = k

    for nested, message in ((adds, "whole numbers"), (listed, "line 3: .* List"),
                            (early, "return"), (filled, "0 only"), (through, "range")):  # fmt: skip
        with pytest.raises(NotImplementedError, match=message):
            nested(np.zeros(2, "f"))


def test_numbas_functions_call_nests_and_share_their_parts():
    y = np.ones(5, np.float32)
    assert calls_nest(y) == 5 and not y.any()


@nest
def emptied(x):
    x[:] = 0


@compiled
def calls_nest(x):
    emptied(x)
    return x.shape[0]


def test_a_call_is_noted():
    def line(xp, x):
        y = empty(x.shape, x.dtype)
        emptied(y)
        return y

    x = np.arange(4.0)
    (y,), notes = native.note(line, [native.origin(x)])
    assert notes.problem is None and [note.text for note in notes.taken] == ["emptied"]
    assert not np.asarray(y).any()


def test_threads_share_a_nest():
    y = np.zeros((8, 23), np.int64)

    def work(row):
        for _ in range(200):
            kind = np.zeros(3, "fd"[row % 2])  # threads want different versions
            stored(kind, kind.copy(), np.zeros(3, bool), 1, 1)
            numbers(y[row], 7, row + 1)
        return y[row, 4] == 7 // (row + 1)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_what_a_nest_calls_is_part_of_its_name(monkeypatch):
    before = repr(structures)
    monkeypatch.setitem(structures.function.__globals__, "parts_of", lambda sizes, at: (1, 2))
    _nests._said.cache_clear()
    assert repr(structures) != before
    monkeypatch.undo()
    _nests._said.cache_clear()
    assert repr(structures) == before


def test_where_objects_are_unknown_nests_are_slower_and_right(monkeypatch):
    @nest
    def count(x, y, n):
        y[0] += len(x) + n

    monkeypatch.setattr(_nests, "unpacking", lambda: None)
    y = np.zeros(1, np.int64)
    for _ in range(3):
        count(np.zeros(2, "f"), y, 1)
    assert y[0] == 9 and count.latest is None


SECOND = """
import numpy as np
import llvmlite.binding
from minidp.kernels.cpu import _direct
if {forbidden}:
    llvmlite.binding.TargetMachine.emit_object = None
x = np.ones(5, "f")
_direct.clear(x)
assert not x.any()
"""


def test_a_second_process_compiles_nothing(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    for forbidden in (False, True):
        command = [sys.executable, "-c", SECOND.format(forbidden=forbidden)]
        subprocess.run(command, env=environment, check=True)


@nest
def asking(x, y):
    fetch(0)
    for i in range(x.shape[0]):
        fetch(x.ctypes.data + i * x.itemsize)
        y[i] = x[i]


def test_asking_for_memory_changes_nothing():
    """Nor does it where no memory is."""
    x, y = np.arange(5.0), np.zeros(5)
    asking(x, y)
    assert np.array_equal(x, y)
    compiled(asking.function)(x, np.zeros(5))


def test_a_nest_is_text_for_llvm():
    text = _translate.write(None, emptied, (("f", 1),))
    assert "memset" in text and 'define i32 @"kernel"' in text
