"""Every CUDA kernel, run by the emulator, against short NumPy references on awkward shapes."""

import itertools
from functools import partial

import numpy as np
import pytest
from cuda_kernels import BACKENDS, call

from minidp.op import OPS

TYPES = [np.float32, np.float64]
TOLERANCE = {np.dtype(np.float32): 3e-5, np.dtype(np.float64): 1e-12}
random = np.random.default_rng(1).standard_normal


@pytest.fixture(params=list(BACKENDS))
def run(request):
    """Call a kernel with NumPy arrays put on emu:1, and get NumPy arrays back."""
    return partial(call, BACKENDS[request.param])


def close(y, expected, dtype):
    assert y.dtype == dtype and y.shape == expected.shape
    np.testing.assert_allclose(y, expected, TOLERANCE[y.dtype], 10 * TOLERANCE[y.dtype])


UNARY = {
    "relu": lambda x: np.maximum(x, 0), "neg": lambda x: -x, "exp": np.exp, "log": np.log,
    "tanh": np.tanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "sqrt": np.sqrt,
}  # fmt: skip
BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", list(UNARY))
def test_unary(run, name, dtype):
    for shape in [(), (0,), (1,), (3, 5, 7), (513,)]:
        x = (
            np.abs(random(shape)).astype(dtype)
            if name in ("log", "sqrt")
            else random(shape).astype(dtype)
        )
        close(run(name, np.asarray(x)), UNARY[name](np.asarray(x)), dtype)
    special = np.array([np.nan, np.inf, 0.0, 700.0], dtype)
    with np.errstate(all="ignore"):
        close(run(name, special), UNARY[name](special), dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", list(BINARY))
def test_binary(run, name, dtype):
    a, b = random((2, 3, 90)).astype(dtype)
    close(run(name, a, b), BINARY[name](a, b), dtype)
    close(run(name, a, 2.5), BINARY[name](a, dtype(2.5)), dtype)
    close(run(name, 3, b), BINARY[name](dtype(3), b), dtype)
    assert run(name, a, b[0]) is NotImplemented  # broadcasting
    assert run(name, a, b.astype(np.float16)) is NotImplemented
    assert run(name, a, np.float16(1)) is NotImplemented


def test_elementwise_kernels_decline_strides():
    backend = BACKENDS["loops"]
    x = backend.put(random((4, 6)), 0)
    assert backend.kernel("relu")(x.T) is NotImplemented
    assert backend.kernel("add")(x[:, ::2], x[:, ::2]) is NotImplemented


@pytest.mark.parametrize("dtype", TYPES)
def test_relu_input(run, dtype):
    g, y = random((2, 40)).astype(dtype)
    y[:3] = 0, np.nan, -1
    assert run("relu_input", g, y).tolist() == np.where(y <= 0, 0, g).tolist()


def softmax(x, dim):
    e = np.exp(x - x.max(dim, keepdims=True, initial=-np.inf))
    return e / e.sum(dim, keepdims=True)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("shape", "dim"),
    [((3, 10), 1), ((4, 5, 6), 1), ((7,), 0), ((2, 300), -1), ((0, 4), 1), ((4, 0), 1)],
)
def test_softmax(run, shape, dim, dtype):
    x = (random(shape) * 30).astype(dtype)
    expected = softmax(x.astype(float), dim)
    close(run("softmax", x, dim=dim), expected.astype(dtype), dtype)
    with np.errstate(divide="ignore"):
        y, expected = (
            run("log_softmax", x / 10, dim=dim),
            np.log(softmax(x.astype(float) / 10, dim)),
        )
    close(y, expected.astype(dtype), dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", [5, 64])
def test_softmax_does_not_overflow_wherever_the_largest_is(run, size, dtype):
    x = random((size, size)).astype(dtype) + np.diag(np.full(size, 2000)).astype(dtype)
    for name, expected in (("softmax", np.eye(size)), ("log_softmax", None)):
        y = run(name, x, dim=1)
        wanted = x - np.diag(x)[:, None] if expected is None else expected
        close(y, np.asarray(wanted, dtype), dtype)
    target = np.arange(size)
    assert (run("cross_entropy", x, target, ignore_index=-1) == 0).all()
    assert (run("cross_entropy_input", x[0], x, target, ignore_index=-1) == 0).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("shape", "labels"), [((6, 10), np.int64), ((2, 3, 4, 5), np.uint8), ((0, 3), np.int32)]
)
def test_cross_entropy(run, shape, labels, dtype):
    x = random(shape).astype(dtype)
    target = np.random.default_rng(0).integers(0, shape[1], (shape[0], *shape[2:])).astype(labels)
    target.reshape(-1)[:1] = 200  # ignored
    safe = np.where(target == 200, 0, target).astype(int)
    chosen = np.take_along_axis(softmax(x.astype(float), 1), safe[:, None], 1)[:, 0]
    loss = run("cross_entropy", x, target, ignore_index=200)
    close(loss, np.where(target == 200, 0, -np.log(chosen)).astype(dtype), dtype)
    g = random(target.shape).astype(dtype)
    onehot = np.moveaxis(np.eye(shape[1])[safe], -1, 1)
    expected = (g * (target != 200))[:, None] * (softmax(x.astype(float), 1) - onehot)
    dx = run("cross_entropy_input", g, x, target, ignore_index=200)
    close(dx, expected.astype(dtype), dtype)


def test_cross_entropy_refuses_a_target_that_is_no_class(run):
    x = np.zeros((3, 4), np.float32)
    for bad in (4, -1):
        with pytest.raises(
            ValueError, match=f"target {bad} is not a class: targets go from 0 to 3"
        ):
            run("cross_entropy", x, np.array([0, bad, -100]), ignore_index=-100)


def windows(size, kernel, stride, padding, dilation, out):
    """(o, p, a, b, h, w, inside) of every pair of an output and an input pixel or padding."""
    for o, p, a, b in itertools.product(*map(range, (*out, *kernel))):
        h = o * stride[0] - padding[0] + a * dilation[0]
        w = p * stride[1] - padding[1] + b * dilation[1]
        yield o, p, a, b, h, w, 0 <= h < size[0] and 0 <= w < size[1]


POOLS = [
    # x, kernel, stride, padding, dilation, size
    ((2, 3, 6, 8), (2, 2), (2, 2), (0, 0), (1, 1), (3, 4)),
    ((1, 2, 7, 7), (3, 2), (2, 1), (1, 1), (1, 1), (4, 8)),
    ((1, 2, 7, 9), (3, 3), (1, 2), (1, 0), (2, 3), (5, 2)),
    ((2, 1, 18, 18), (17, 17), (1, 1), (0, 0), (1, 1), (2, 2)),
    ((0, 2, 4, 4), (2, 2), (2, 2), (0, 0), (1, 1), (2, 2)),
]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("shape", "kernel", "stride", "padding", "dilation", "size"), POOLS)
def test_max_pool(run, shape, kernel, stride, padding, dilation, size, dtype):
    x = np.round(random(shape)).astype(dtype)  # ties: the first wins
    x.reshape(-1)[1::13] = np.nan
    y, index = np.full((*shape[:2], *size), -np.inf, dtype), np.full((*shape[:2], *size), -1)
    where = list(windows(shape[2:], kernel, stride, padding, dilation, size))
    for o, p, a, b, h, w, inside in where:
        if inside:
            value, best = x[..., h, w], y[..., o, p]
            better = (value > best) | np.isnan(value) | (index[..., o, p] < 0)
            y[..., o, p] = np.where(better, value, best)
            index[..., o, p] = np.where(better, a * kernel[1] + b, index[..., o, p])
    how = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}
    got, chosen = run("max_pool2d", x, size=size, **how)
    np.testing.assert_array_equal(got, y)
    np.testing.assert_array_equal(chosen, index)
    assert chosen.dtype == (np.uint8 if np.prod(kernel) <= 256 else np.int32)
    g, v, dx, picked = (
        random(y.shape).astype(dtype),
        random(shape).astype(dtype),
        np.zeros(shape),
        np.zeros(y.shape),
    )
    for o, p, a, b, h, w, inside in where:
        if inside:
            mine = index[..., o, p] == a * kernel[1] + b
            dx[..., h, w] += mine * g[..., o, p]
            picked[..., o, p] += mine * v[..., h, w]
    close(run("max_pool2d_input", g, chosen, shape=shape, **how), dx.astype(dtype), dtype)
    close(run("max_pool2d_gather", v, chosen, **how), picked.astype(dtype), dtype)


@pytest.mark.parametrize("count_pad", [True, False])
@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "padding", "dilation", "size"), POOLS[:2] + POOLS[3:]
)
def test_avg_pool(run, shape, kernel, stride, padding, dilation, size, count_pad):
    x, g = random(shape), random((*shape[:2], *size))
    y, dx, count = np.zeros(g.shape), np.zeros(shape), np.zeros(size)
    where = list(windows(shape[2:], kernel, stride, padding, dilation, size))
    for o, p, _, _, h, w, inside in where:
        count[o, p] += inside or (
            count_pad and h < shape[2] + padding[0] and w < shape[3] + padding[1]
        )
    for o, p, _, _, h, w, inside in where:
        if inside:
            y[..., o, p] += x[..., h, w] / count[o, p]
            dx[..., h, w] += g[..., o, p] / count[o, p]
    how = {"kernel": kernel, "stride": stride, "padding": padding, "count_include_pad": count_pad}
    close(run("avg_pool2d", x, size=size, **how), y, np.float64)
    close(run("avg_pool2d_input", g, shape=shape, **how), dx, np.float64)


@pytest.mark.parametrize("dtype", TYPES)
def test_max_pool_of_minus_infinity_chooses_inside(run, dtype):
    x, how = np.full((1, 2, 4, 5), -np.inf, dtype), POOLS[1][1:5]
    how = dict(zip(("kernel", "stride", "padding", "dilation"), how, strict=True))
    y, index = run("max_pool2d", x, size=(2, 6), **how)
    assert (y == -np.inf).all()
    wanted = OPS["max_pool2d"].body(np, x, size=(2, 6), **how)[1]
    np.testing.assert_array_equal(index, wanted)


@pytest.mark.parametrize("dtype", TYPES)
def test_what_lies_in_the_padding_is_zero(run, dtype):
    x = random((2, 3, 5, 6)).astype(dtype)
    how = {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1), "dilation": (1, 1)}
    for offset in range(9):
        index = np.full((2, 3, 3, 4), offset, np.uint8)
        wanted = OPS["max_pool2d_gather"].body(np, x, index, **how)
        assert run("max_pool2d_gather", x, index, **how).tolist() == wanted.tolist()
