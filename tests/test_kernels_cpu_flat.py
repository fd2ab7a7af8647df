"""CPU kernels that update flat memory in place, and the cache of compiled kernels."""

import inspect
import os
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba")
from minidp.kernels.cpu import _updates, optim
from minidp.parallel.host import tree_sum

ROOT = Path(__file__).parents[1]
DTYPES = [np.float32, np.float64]
TOLERANCE = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-13}


def values(*shape, dtype=np.float64, seed=0):
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(dtype)


def close(got, want):
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(got, want, rtol=TOLERANCE[got.dtype], atol=TOLERANCE[got.dtype])


# Optimisers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize(
    "momentum, decay, maximize", [(0, 0, False), (0.9, 0.1, True), (0.9, 0, False)]
)
def test_sgd(momentum, decay, maximize, nesterov, dtype):
    p, m = values(37, dtype=dtype), np.full(37, np.nan, dtype) if momentum else None
    want, memory = p.astype(float), 0
    for step in range(3):
        g = values(37, dtype=dtype, seed=step)
        d = (-g if maximize else g) + decay * want
        memory = momentum * memory + (0.8 if step else 1) * d
        want = want - 0.1 * (d + momentum * memory if nesterov else memory if momentum else d)
        optim.sgd(
            p, g, m, lr=0.1, momentum=momentum, dampening=0.2, weight_decay=decay,
            nesterov=nesterov, maximize=maximize, first=step == 0,
        )  # fmt: skip
    close(p, want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("decoupled, decay, maximize", [(False, 0.1, False), (True, 0.1, True)])
def test_adam(decoupled, decay, maximize, amsgrad, dtype):
    p, (m, v, top) = values(5, 7, dtype=dtype), np.zeros((3, 5, 7), dtype)
    want, mean, square, largest = p.astype(float), 0.0, 0.0, 0.0
    for step in range(1, 4):
        g = values(5, 7, dtype=dtype, seed=step) / step
        d = (-g if maximize else g) + (0 if decoupled else decay * want)
        want = want * (1 - 0.01 * decay) if decoupled else want
        mean, square = 0.9 * mean + 0.1 * d, 0.99 * square + 0.01 * d * d
        largest = np.maximum(largest, square)
        root = np.sqrt((largest if amsgrad else square) / (1 - 0.99**step)) + 1e-8
        want = want - 0.01 * mean / (1 - 0.9**step) / root
        optim.adam(
            p, np.asfortranarray(g), m, v, top if amsgrad else None, rate=0.01 / (1 - 0.9**step),
            nudge=0.0, root=(1 - 0.99**step) ** 0.5, beta1=0.9, beta2=0.99, eps=1e-8,
            weight_decay=0 if decoupled else decay, maximize=maximize, amsgrad=amsgrad,
            shrink=1 - 0.01 * decay if decoupled else 1.0,
        )  # fmt: skip
    close(p, want)


def test_bytes_of_an_update_do_not_depend_on_slices():
    options = {
        "lr": 0.1,
        "momentum": 0.9,
        "dampening": 0,
        "weight_decay": 0.1,
        "nesterov": True,
        "maximize": False,
        "first": False,
    }
    g, whole, sliced = values(101, dtype=np.float32), *np.ones((2, 2, 101), np.float32)
    optim.sgd(whole[0], g, whole[1], **options)
    for part in (slice(0, 3), slice(3, 64), slice(64, 101)):
        optim.sgd(sliced[0, part], g[part], sliced[1, part], **options)
    assert np.array_equal(whole, sliced)
    gaps, plain = np.ones((4, 2), np.float32)[:, 0], np.ones(4, np.float32)
    assert optim.sgd(gaps, plain, plain.copy(), **options) is NotImplemented


RULES = {
    "sgd": (0, {"momentum": 0.0}), "momentum": (1, {"momentum": 0.9}),
    "adam": (2, {"amsgrad": False}), "amsgrad": (3, {"amsgrad": True}),
    "rmsprop": (1, {"momentum": 0.0, "centered": False}),
    "centered": (3, {"momentum": 0.9, "centered": True}), "adadelta": (2, {}), "adamax": (2, {}),
}  # fmt: skip
OPTIONS = {"lr": 0.1, "dampening": 0.1, "weight_decay": 0.1, "nesterov": False, "maximize": True,
           "first": False, "rate": 0.1, "nudge": 0.1, "root": 0.5, "beta1": 0.9, "beta2": 0.99,
           "eps": 1e-8, "shrink": 0.9, "alpha": 0.9, "rest": 0.1, "rho": 0.9}  # fmt: skip


def sums_on_the_way():
    """Each compiles a kernel: a few are quick enough."""
    for rule, count, dtype in product(RULES, [1, 2, 3, 5], DTYPES):
        quick = dtype is np.float32 and (count == 3 or rule == "momentum")
        yield pytest.param(rule, count, dtype, marks=() if quick else pytest.mark.slow)


@pytest.mark.parametrize(("rule", "count", "dtype"), list(sums_on_the_way()))
def test_sums_of_gradients_are_added_on_the_way(rule, count, dtype):
    kept, own = RULES[rule]
    names = {"momentum": "sgd", "amsgrad": "adam", "centered": "rmsprop"}
    kernel = getattr(optim, names.get(rule, rule))
    given = inspect.signature(optim.NUMBERS[kernel.__name__]).parameters
    options = {name: OPTIONS[name] for name in given if name in OPTIONS} | own
    size = 2 * _updates.BLOCK + 37
    gradients = [values(size, dtype=dtype, seed=1 + i) for i in range(count)]
    apart = np.abs([values(size, dtype=dtype, seed=10 + i) for i in range(1 + kept)])
    at_once, total = apart.copy(), gradients[0].copy()
    parts = [total, *[each.copy() for each in gradients[1:]]]
    tree_sum(parts)
    assert kernel(apart[0], total, *apart[1:], **options) is None
    assert kernel(at_once[0], tuple(gradients), *at_once[1:], **options) is None
    assert at_once.tobytes() == apart.tobytes() and gradients[0].tobytes() == total.tobytes()


def test_gradients_to_be_added_must_be_like_the_parameters():
    options = {"lr": 0.1, "momentum": 0.0, "dampening": 0, "weight_decay": 0, "nesterov": False,
               "maximize": False, "first": True}  # fmt: skip
    p, g = np.ones((2, 64), np.float32)
    for first, other in ((g[::2], g[::2]), (g, g[1:]), (g, g.astype("float64"))):
        assert optim.sgd(p[: len(first)], (first, other), **options) is NotImplemented
    assert (p == 1).all() and (g == 1).all()


# The cache ------------------------------------------------------------------------------------

PROGRAM = """
import numpy as np
from llvmlite.binding import TargetMachine
from minidp.kernels.cpu import conv, elementwise
compile, compiled = TargetMachine.emit_object, []
TargetMachine.emit_object = lambda *given: compiled.append(given) or compile(*given)
elementwise.relu(np.ones(3, np.float32))
x, w = np.ones((1, 2, 3, 3), np.float32), np.ones((4, 2, 2, 2), np.float32)
y = conv.conv2d(x, w, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1)
assert (y == 8).all()
stats = elementwise._relu.stats
print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()), len(compiled) > 1)
"""


def run(folder, **environment):
    variables = {**os.environ, "PYTHONPATH": str(folder), "NUMBA_DISABLE_JIT": "0", **environment}
    command = [sys.executable, "-B", "-c", PROGRAM]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, cwd=folder)
    assert not done.returncode, done.stderr
    return done.stdout.split()


def test_a_second_process_compiles_nothing_and_no_cache_is_no_error(tmp_path):
    without_caches = shutil.ignore_patterns("__pycache__")
    kernels = tmp_path / "minidp" / "kernels"
    shutil.copytree(ROOT / "kernels", kernels, ignore=without_caches)
    cache = str(tmp_path / "cache")
    assert run(tmp_path, NUMBA_CACHE_DIR=cache) == ["0", "1", "True"]
    assert run(tmp_path, NUMBA_CACHE_DIR=cache) == ["1", "0", "False"]
    (kernels / "cpu" / "__pycache__").write_text("a file, not a folder")
    nowhere = dict.fromkeys(("NUMBA_CACHE_DIR", "HOME", "XDG_CACHE_HOME"), "/proc/nowhere")
    run(tmp_path, **nowhere)
