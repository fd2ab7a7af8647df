"""CUDA kernels of training, run by the emulator: dropout, batch normalisation, optimisers."""

import numpy as np
import pytest
from cuda_kernels import BACKENDS, call

EMU = BACKENDS["loops"]
TYPES = [np.float32, np.float64]
random = np.random.default_rng(2).standard_normal


def run(name, *arrays, **constants):
    """A kernel's result for NumPy arrays, as NumPy array."""
    return call(EMU, name, *arrays, **constants)


def close(y, expected):
    tolerance = 3e-5 if y.dtype == np.float32 else 1e-12
    assert y.dtype == expected.dtype and y.shape == expected.shape
    np.testing.assert_allclose(y, expected, tolerance, tolerance)


def philox(counter, key):
    """Philox 4x32-10 in Python integers."""
    low = 0xFFFFFFFF
    for _ in range(10):
        even, odd = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [
            odd >> 32 ^ counter[1] ^ key[0],
            odd & low,
            even >> 32 ^ counter[3] ^ key[1],
            even & low,
        ]
        key = [(key[0] + 0x9E3779B9) & low, (key[1] + 0xBB67AE85) & low]
    return counter


def test_the_reference_gives_the_authors_numbers():
    assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


@pytest.mark.parametrize("batch_dim", [0, 1, -1, None])
def test_dropout(batch_dim):
    x, (seed, step, draw) = random((3, 5, 7)), (2**40 + 17, 9, 2)
    rows = (
        x.reshape(1, -1)
        if batch_dim is None
        else np.moveaxis(x, batch_dim, 0).reshape(x.shape[batch_dim], -1)
    )
    expected, first = np.empty_like(rows), 0 if batch_dim is None else 6
    for r, e in np.ndindex(rows.shape):
        word = philox([e // 4, first + r, draw, step], [seed & 0xFFFFFFFF, seed >> 32])[e % 4]
        expected[r, e] = rows[r, e] / 0.7 if word >= int(0.3 * 2**32) else 0
    y = run("dropout", x, p=0.3, key=(seed, step, draw), row=6, batch_dim=batch_dim)
    got = (
        y.reshape(1, -1) if batch_dim is None else np.moveaxis(y, batch_dim, 0).reshape(rows.shape)
    )
    np.testing.assert_allclose(got, expected)
    assert not run("dropout", x, p=1, key=(1, 2, 3), row=0, batch_dim=batch_dim).any()
    assert (run("dropout", x, p=0, key=(1, 2, 3), row=0, batch_dim=batch_dim) == x).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5, 4), (0, 3, 2)])
def test_batch_norm(shape, dtype):
    x, (mean, var, weight, bias) = random(shape).astype(dtype), np.abs(random((4, 3))).astype(dtype)
    mean, var, weight, bias = (z.copy() for z in (mean, var, weight, bias))
    m, v, w, b = (z.reshape(3, *[1] * (len(shape) - 2)) for z in (mean, var, weight, bias))
    plain = (x - m) / np.sqrt(v + dtype(0.1))
    close(run("batch_norm", x, mean, var, weight, bias, eps=0.1), plain * w + b)
    close(run("batch_norm", x, mean, var, None, None, eps=0.1), plain)


SGD = {
    "lr": 0.1,
    "momentum": 0.9,
    "dampening": 0.3,
    "weight_decay": 0.01,
    "nesterov": False,
    "maximize": False,
}
ADAM = {"nudge": 0.0, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "maximize": True}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "change", [{}, {"nesterov": True, "dampening": 0}, {"maximize": True}, {"momentum": 0}]
)
def test_sgd(change, dtype):
    how = SGD | change
    p, gradients = random(300).astype(dtype), random((3, 300)).astype(dtype)
    ours, velocity, expected = EMU.put(p, 0), EMU.put(np.zeros_like(p), 0), p.astype(float)
    m = 0
    for step, g in enumerate(gradients):
        memory = velocity if how["momentum"] else None
        assert EMU.kernel("sgd")(ours, EMU.put(g, 0), memory, **how, first=step == 0) is ours
        d = (-g if how["maximize"] else g) + 0.01 * expected
        m = d if step == 0 else how["momentum"] * m + (1 - how["dampening"]) * d
        move = d if not how["momentum"] else d + how["momentum"] * m if how["nesterov"] else m
        expected = expected - 0.1 * move
    np.testing.assert_allclose(EMU.get(ours), expected.astype(dtype), 1e-5, 1e-6)
    assert EMU.kernel("sgd")(ours[::2], ours[::2], None, **how, first=True) is NotImplemented


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("amsgrad", [False, True])
def test_adam(decoupled, amsgrad, dtype):
    p, gradients = random(300).astype(dtype), random((3, 300)).astype(dtype)
    ours, expected = [EMU.put(x, 0) for x in (p, *np.zeros((3, 300), dtype))], p.astype(float)
    m, v, largest = 0, 0, 0
    for step, g in enumerate(gradients, 1):
        arrays = (ours[0], EMU.put(g, 0), ours[1], ours[2], ours[3] if amsgrad else None)
        how = {"rate": 0.1 / (1 - 0.9**step), "root": (1 - 0.99**step) ** 0.5, "amsgrad": amsgrad,
               "weight_decay": 0 if decoupled else 0.02,
               "shrink": 1 - 0.1 * 0.02 if decoupled else 1}  # fmt: skip
        EMU.kernel("adam")(*arrays, **ADAM, **how)
        d = -g.astype(float)
        if decoupled:
            expected = expected * (1 - 0.1 * 0.02)
        else:
            d = d + 0.02 * expected
        m, v = 0.9 * m + 0.1 * d, 0.99 * v + 0.01 * d * d
        largest = np.maximum(largest, v)
        root = np.sqrt((largest if amsgrad else v) / (1 - 0.99**step)) + 1e-8
        expected = expected - 0.1 * m / (1 - 0.9**step) / root
    np.testing.assert_allclose(EMU.get(ours[0]), expected.astype(dtype), 1e-4, 1e-5)
