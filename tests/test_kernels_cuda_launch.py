"""Every launch has as many blocks and threads as its work needs, and no more."""

import inspect
import math
from importlib import import_module

import numpy as np
import pytest
from cuda_calls import calls, matrices
from cuda_kernels import BACKENDS
from training import batches, distance, flat, mlp, scheduler

from minidp import optim
from minidp.kernels.cuda import KERNELS, emulate, linalg
from minidp.op import OPS

EMU = BACKENDS["loops"]
RULED = optim.SGD, optim.Adam  # their rules are ops by import


def blocks(count, threads=256):
    return -(-count // threads)


def each(count):
    """(grid, block) of a kernel with one thread for each of count elements."""
    return lambda a: (blocks(count(a)), 256)


def row(rows, length):
    """(grid, block) of one block a row: its threads are a power of two, as many as it is long."""
    def sizes(a):
        return rows(a), min(256, max(32, 2 ** math.ceil(math.log2(max(1, length(a))))))

    return sizes


def tiles(rows, columns):
    return lambda a: (blocks(rows(a), 64) * blocks(columns(a), 64) * a["groups"], 256)


def pixels(a):
    return a["images"] * a["out_height"] * a["out_width"]


def inputs(a):
    return a["images"] * a["height"] * a["width"]


def weights(a):
    return a["share"] * a["kernel_h"] * a["kernel_w"]


def heads(part, size):
    """(grid, block) of attention: a block has 32 or 8 rows of a head, of float64 16 or 8."""
    def sizes(a):
        leading = a["v"].size // (a["keys"] * a["depth"])
        count = a["keys"] if part == "key_value_" else a["queries"]
        rows = 8 if size == "wide" else 16 if a["v"].dtype == np.float64 else 32
        return leading * blocks(count, rows), 256

    return sizes


def products(a):
    """(grid, block) of products of matrices: a block for each tile of each."""
    rows, columns = a["rows"], a["columns"]
    return a["c"].size // (rows * columns) * blocks(rows, 64) * blocks(columns, 64), 256


KINDS = ("gelu", "gelu_tanh", "silu", "mish", "hardswish", "elu", "softplus", "leaky_relu")
WORK = {
    **dict.fromkeys(("embedding", "take_along", "im2col", "col2im", "lstm", "lstm_back",
                     "rnn", "gru", "gru_back",
                     "batch_norm", "batch_norm_squares", "batch_norm_products", "batch_norm_slope",
                     "sgd", "adam", "rmsprop", "adadelta", "adamax"),
                    each(lambda a: a["count"])),
    **dict.fromkeys(("relu", "neg", "exp", "log", "tanh", "sigmoid", "sqrt", "add", "sub", "mul",
                     "div", "relu_input", "fused", "erf"), each(lambda a: a["n"])),
    **{f"{name}_pool2d{part}": each(lambda a: a["count"]) for name in ("max", "avg")
       for part in ("", "_input", "_gather")},
    **dict.fromkeys(("dropout", "noise"),
                    each(lambda a: -(-a["outer"] * a["inner"] // 4) * a["rows"])),
    **dict.fromkeys([f"{name}{part}" for name in KINDS for part in ("", "_input")],
                    each(lambda a: a["n"])),
    **{f"running_{name}": row(lambda a: a["x"].size // a["length"], lambda a: a["length"])
       for name in ("max", "min")},
    "matmul": products,
    "pack": lambda a: (sum(blocks(a[f"count{k}"]) for k in range(8)), 256),
    "add_runs": each(lambda a: a["rows"] * a["width"]),
    **{f"{name}_short": each(lambda a: a["rows"]) for name in ("sum", "amax", "amin")},
    **{f"{name}_chunks": row(lambda a: a["rows"] * a["chunks"], lambda a: min(a["length"], 4096))
       for name in ("sum", "amax", "amin")},
    **{f"{name}_columns": lambda a: (blocks(a["columns"], 32) * blocks(a["length"], 256), 32, 8)
       for name in ("sum", "amax", "amin")},
    **{name: row(lambda a: a["found"].size, lambda a: min(a["length"], 4096))
       for name in ("argmax", "argmin")},
    **dict.fromkeys(("softmax", "log_softmax"),
                    row(lambda a: a["y"].size // a["classes"], lambda a: a["classes"])),
    "logsumexp": row(lambda a: a["y"].size, lambda a: a["classes"]),
    "cross_entropy": row(lambda a: a["losses"].size, lambda a: a["classes"]),
    "cross_entropy_input": row(lambda a: a["g"].size, lambda a: a["classes"]),
    **dict.fromkeys(("softmax_input", "log_softmax_input"),
                    row(lambda a: a["dx"].size // a["classes"], lambda a: a["classes"])),
    **dict.fromkeys(("group_norm", "group_norm_back"),
                    row(lambda a: a["mean"].size, lambda a: a["x"].size // a["mean"].size)),
    **{f"attention_{part}{size}": heads(part, size)
       for part in ("", "query_", "key_value_") for size in ("narrow", "wide")},
    "conv2d_direct": each(lambda a: a["groups"] * a["filters"] * pixels(a)),
    "conv2d_input_direct": each(lambda a: a["groups"] * a["share"] * inputs(a)),
    "conv2d_weight_direct": lambda a: (a["groups"] * a["filters"] * weights(a), 256),
    "conv2d_tiled": tiles(lambda a: a["filters"], pixels),
    "conv2d_input_tiled": tiles(lambda a: a["share"], inputs),
    "conv2d_weight_tiled": lambda a: (
        tiles(lambda a: a["filters"], weights)(a)[0] * blocks(pixels(a), a["chunk"]), 256
    ),
}  # fmt: skip


@pytest.fixture
def launches(monkeypatch):
    """Every launch: (kernel without minidp_ and its types, its arguments by name, sizes)."""
    found, call = [], emulate.Kernel.__call__

    def noted(self, grid, block, args, shared_mem=0):
        given = {one.name: value for one, value in zip(self.parameters, args, strict=True)}
        name = self.name.removeprefix("minidp_")
        found.append((shortened(name), given, (*grid, *block)))
        return call(self, grid, block, args, shared_mem)

    monkeypatch.setattr(emulate.Kernel, "__call__", noted)
    return found


def shortened(name):
    """A kernel's name without the types at its end."""
    for ending in ("_u8", "_i32", "_f16", "_f32", "_f64"):
        name = name.removesuffix(ending)
    return name


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_no_launch_is_too_small_or_too_large(launches, dtype):
    for name, arrays, how in calls(dtype):
        ours = [EMU.put(x, 0) if isinstance(x, np.ndarray) else x for x in arrays]
        EMU.kernel(name)(*ours, **how)
    for pair in matrices(dtype):
        linalg.product(EMU.gpu, *[EMU.put(x, 0) for x in pair])
    for name, given, sizes in launches:
        numbers = {key: int(x) if isinstance(x, np.integer) else x for key, x in given.items()}
        assert sizes == WORK[name](numbers), name
    assert {name for name, _, _ in launches} | {"fused"} == set(WORK) - {"avg_pool2d_gather"}


@pytest.mark.parametrize("file", list(KERNELS))
def test_every_kernel_is_an_ops_and_takes_its_constants(file):
    launchers = import_module(f"minidp.kernels.cuda.{file}")
    for name in KERNELS[file]:
        if name not in ("fused", "pack"):  # of captured steps, and of buckets
            op, given = OPS[name], inspect.signature(getattr(launchers, name)).parameters
            named = [p.name for p in given.values() if p.kind is p.KEYWORD_ONLY]
            assert named == list(op.constants), name
            assert len(given) - 1 == len(inspect.signature(op.body).parameters) - 1, name


def test_the_first_part_of_a_gradient_is_packed_and_others_are_added(launches):
    trained = []
    for device in ("cpu", "emu:0"):
        for accumulate in (1, 3):
            launches.clear()
            model = mlp()
            train = scheduler(model, devices=device)
            for x, y in batches(7, 2):
                train(x, y, accumulate=accumulate)
            packed = [name for name, _, _ in launches].count("pack")
            assert packed == (2 if device == "emu:0" else 0)  # one bucket, once a step
            trained.append(flat(model))
    assert all(distance(other, trained[0]) < 1e-11 for other in trained[1:])
