"""One call, or several, of every CUDA kernel."""

from types import SimpleNamespace

import numpy as np

rng = np.random.default_rng(2)
random = rng.standard_normal
POOL = {"kernel": (2, 2), "stride": (2, 2), "padding": (0, 0), "size": (3, 3)}
SGD = {
    "lr": 0.1,
    "momentum": 0.9,
    "dampening": 0.3,
    "weight_decay": 0.01,
    "nesterov": False,
    "maximize": False,
}
ADAM = {
    **{"rate": 0.1, "nudge": 0.1, "root": 0.3, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8},
    **{"weight_decay": 0.02, "shrink": 0.9, "maximize": True, "amsgrad": False},
}
RMSPROP = {
    **{"lr": 0.1, "alpha": 0.9, "rest": 0.1, "eps": 1e-8, "weight_decay": 0.02},
    **{"momentum": 0.9, "centered": False, "maximize": True},
}
ADADELTA = {"lr": 0.1, "rho": 0.9, "eps": 1e-6, "weight_decay": 0.02, "maximize": True}
ADAMAX = {"rate": 0.1, "beta1": 0.9, "beta2": 0.9, "eps": 1e-6, "weight_decay": 0.0,
          "maximize": True}  # fmt: skip
RULES = [("sgd", 2, SGD), ("adam", 4, ADAM), ("rmsprop", 5, RMSPROP), ("adadelta", 4, ADADELTA),
         ("adamax", 4, ADAMAX)]  # fmt: skip
WHOLE = {"key": (1, 2, 3), "row": 4, "batch_dim": 0}


def calls(dtype):
    """Calls of every kernel in dtype: name, arrays, constants."""
    made = [*elementwise(), *reductions(), *scans(), *rows(), *steps(), *images(), *indexed(),
            *optimisers()]  # fmt: skip
    given = [(name, arrays_in(arrays, dtype), how) for name, arrays, how in made]
    return [*given, *heads(dtype), *formulas(dtype)]


def arrays_in(arrays, dtype):
    """The real arrays in dtype."""
    real = [isinstance(x, np.ndarray) and x.dtype.kind == "f" for x in arrays]
    return tuple(x.astype(dtype) if yes else x for x, yes in zip(arrays, real, strict=True))


def elementwise():
    x = np.abs(random((2, 4, 6, 7)))
    for name in ("add", "sub", "mul", "div", "relu_input"):
        yield name, (x, x), {}
    for name in ("relu", "neg", "exp", "log", "tanh", "sigmoid", "sqrt"):
        yield name, (x,), {}
    yield "erf", (x,), {}
    for kind in ("gelu", "gelu_tanh", "silu", "mish", "hardswish", "elu", "softplus", "leaky_relu"):
        yield "activation", (x,), {"kind": kind, "a": 0.5, "b": 1.0}
        yield "activation_input", (x, x), {"kind": kind, "a": 0.5, "b": 1.0}
    yield "noise", (x,), WHOLE
    yield "dropout", (x,), WHOLE | {"p": 0.5}


def formulas(dtype):
    """The fused kernel of tanh(x) / 2, which float16 has not."""
    if dtype == np.float16:
        return []
    x = random((2, 4, 6, 6)).astype(dtype)
    formula = SimpleNamespace(
        size=x.size, dtype=x.dtype, order=(), kinds=("whole",), layouts=(None,), compiled=None,
        steps=(("input", 0), ("tanh", 0), ("multiply", 1, 0.5)), outputs=((2, x.dtype, x.shape),),
    )  # fmt: skip
    return [("fused", (x,), {"formula": formula})]


def reductions():
    for name in ("sum", "amax", "amin"):
        for shape, dim in (((300, 6), 1), ((3, 70), 1), ((2, 5000), 1), ((4, 3, 50), (0, 2)),
                           ((600, 40), 0)):  # fmt: skip
            yield name, (random(shape),), {"dim": dim, "keepdim": False}
    for name in ("argmax", "argmin"):
        yield name, (random((3, 5000)),), {"dim": 1, "keepdim": False}
        yield name, (random((40, 3)),), {"dim": 0, "keepdim": False}


def scans():
    for x, dim in ((random((3, 600)), 1), (random((40, 3)), 0)):
        for largest in (True, False):
            yield "running_place", (x,), {"dim": dim, "largest": largest}


def rows():
    for x in (random((3, 10)), random((2, 70)), random((2, 600))):
        target, g = np.arange(len(x)), random(len(x))
        yield "softmax", (x,), {"dim": 1}
        yield "log_softmax", (x,), {"dim": 1}
        yield "logsumexp", (x,), {"dim": 1, "keepdim": False}
        yield "cross_entropy", (x, target), {"ignore_index": 0}
        yield "cross_entropy_input", (g, x, target), {"ignore_index": 0}
        yield "softmax_input", (x, x), {"dim": 1}
        yield "log_softmax_input", (x, x), {"dim": 1}
        how, c = {"groups": 1, "eps": 0.1, "center": True}, random(x.shape[1])
        yield "group_norm", (x, c, c), how
        yield "group_norm_back", (x, x, g[:, None], g[:, None], None), {"center": True}
    x, row = random((2, 3, 60)), random(3)
    yield "batch_norm", (x, row, np.abs(row), None, row), {"eps": 1e-5}
    yield "batch_norm_own", (x, row, None), {"eps": 1e-5}
    yield "batch_norm_own_back", (x, x, row, np.abs(row), row), {"eps": 1e-5}
    yield "group_norm", (x, row, row), {"groups": 3, "eps": 1e-5, "center": False}


def steps():
    how = {"sizes": (30, 20), "reverse": False}
    x, y, h, w = random((50, 36)), random((50, 9)), random((30, 9)), random((36, 9))
    three = random((50, 27)), h, random((27, 9))
    yield "rnn", (y, h, random((9, 9))), how | {"relu": False}
    yield "gru", (*three, random(27)), how
    yield "gru_back", (y, h, y, x, h, three[2]), how
    yield "lstm", (x, h, h, w, None), how
    yield "lstm_back", (y, h, h, np.abs(x), y, h, w), how


def heads(dtype):
    """Attention and its cotangents, in narrow and wide heads."""
    for width in (5, 60 if dtype == np.float64 else 100):
        q, k, v, dy = (random((2, n, w)).astype(dtype)
                      for n, w in ((40, width), (70, width), (70, 3), (40, 3)))  # fmt: skip
        mask, rest = random((40, 70)).astype(dtype), random((2, 40)).astype(dtype) + 5
        how = {"scale": 0.3, "causal": False}
        yield "attention", (q, k, v, mask), how
        yield "attention_back", (dy, q, k, v, dy, rest, mask), how


def images():
    x, g = random((2, 4, 6, 6)), random((2, 4, 3, 3))
    for filters, share, groups in ((4, 2, 2), (40, 20, 1), (128, 3, 1), (3, 130, 1)):
        geometry = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": groups}
        images, w = random((2, share * groups, 6, 7)), random((filters, share, 3, 3))
        y = random((2, filters, 6, 7))
        yield "conv2d", (images, w, random(filters)), geometry
        yield "conv2d_input", (y, w), geometry | {"shape": images.shape}
        yield "conv2d_weight", (y, images), geometry | {"shape": w.shape}
    pool = POOL | {"dilation": (1, 1)}
    wide = pool | {"kernel": (17, 17), "padding": (8, 8)}
    for how, index in ((pool, np.zeros(g.shape, np.uint8)), (wide, np.zeros(g.shape, np.int32))):
        without_size = {key: value for key, value in how.items() if key != "size"}
        yield "max_pool2d", (x,), how
        yield "max_pool2d_input", (g, index), without_size | {"shape": x.shape}
        yield "max_pool2d_gather", (x, index), without_size
    average = {key: value for key, value in POOL.items() if key != "size"}
    yield "avg_pool2d", (x,), POOL | {"count_include_pad": True}
    yield "avg_pool2d_input", (g,), average | {"shape": x.shape, "count_include_pad": False}


def indexed():
    table, input = random((9, 50)), rng.integers(0, 9, 20)
    yield "embedding", (input, table), {"padding_idx": None}
    g = random((20, 50))
    yield "embedding_weight", (g, input), {"shape": table.shape, "padding_idx": 3}
    yield "put", (g,), {"shape": (9, 50), "key": [*input.tolist()]}
    index = rng.integers(0, 9, (20, 50))
    yield "take_along_dim", (table, index), {"dim": 0}
    yield "scatter_along", (g, index), {"shape": (9, 50), "dim": 0}


def matrices(dtype):
    """Pairs that linalg.product multiplies."""
    for a, b in (((3, 5), (5, 2)), ((70, 9), (9, 130)), ((2, 4, 3), (2, 3, 4))):
        yield random(a).astype(dtype), random(b).astype(dtype)


def optimisers():
    pieces = random(700), None, random((3, 50))
    yield "pack", (np.zeros(1000), *pieces), {"starts": [0, 720, 800], "counts": [700, 70, 150]}
    for name, count, how in RULES:
        x = np.abs(random(600))
        arrays = [x.copy() for _ in range(count)]
        arrays += [None] if name in ("sgd", "adam") else []
        how = how | {"first": True} if name == "sgd" else how
        yield name, tuple(arrays), how
