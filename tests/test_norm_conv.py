"""The way back through batch norm to both gradients of a convolution, in one: the parts' values."""

import numpy as np
import pytest

import minidp as dp
from minidp import nn, optim
from minidp.backend import CPU
from minidp.graph.folding import folded
from minidp.graph.joined import Joined

EPS = 0.1
LAYERS = (  # of images (n, c, h, w): filters, kernel, padding
    ((5, 9, 12, 12), 8, 3, 1),
    ((9, 8, 12, 16), 40, 3, 0),
    ((3, 40, 14, 13), 72, 3, 2),
    ((2, 130, 12, 12), 40, 3, 1),
    ((4, 6, 13, 12), 17, 5, 2),
)
FIRST = (((5, 3, 9, 8), 20, 3, 1), ((3, 1, 28, 28), 7, 5, 0), ((2, 2, 6, 40), 33, 3, 1))
WINDOWS = ({"kernel": (2, 2), "stride": (2, 2), "padding": (0, 0), "dilation": (1, 1)},
           {"kernel": (3, 2), "stride": (1, 2), "padding": (1, 0), "dilation": (1, 1)})  # fmt: skip
NORMS = ("batch_norm_own_back", "batch_norm_own_relu_back", "batch_norm_back",
         "batch_norm_own_pool_back", "batch_norm_pool_back")  # fmt: skip


def values(*shape, dtype=np.float32, seed=0):
    """Normal numbers; images on channels-last memory."""
    x = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    return np.ascontiguousarray(np.moveaxis(x, 1, -1)).transpose(0, 3, 1, 2) if x.ndim == 4 else x


def given(name, shape, window, affine, dtype):
    """What the op ``name`` is given for images of ``shape``, and its constants."""
    c, x, options = shape[1], values(*shape, dtype=dtype, seed=1), {"eps": EPS}
    weight, shift = (values(c, dtype=dtype, seed=k) if affine else None for k in (2, 3))
    zero = np.zeros(c, dtype)
    moments = [x, values(c, dtype=dtype, seed=4), values(c, dtype=dtype, seed=5) ** 2]
    cotangent = [values(*shape, dtype=dtype, seed=6)]
    if "_pool_" in name:
        grid = zip(shape[2:], *window.values(), strict=True)
        size = [(h + 2 * p - d * (k - 1) - 1) // s + 1 for h, k, s, p, d in grid]
        rng = np.random.default_rng(7)
        index = rng.integers(0, np.prod(window["kernel"]), (len(x), *size, c)).astype(np.uint8)
        cotangent = [values(len(x), c, *size, dtype=dtype, seed=6), index.transpose(0, 3, 1, 2)]
        options |= {"shape": shape, **window}
    if "_own_" in name:
        more = [zero if shift is None else shift, weight] if "relu" in name else [weight]
    else:
        more = [values(2 * c, dtype=dtype, seed=8), np.array([x.size // c], dtype), weight]
        more += [] if "_pool_" in name else [shift]
        options |= {} if "_pool_" in name else {"rectify": affine}
    return [*cotangent, *moments, *more], options


def parts(name, arrays, options, images, w, shape, layer):
    """The same by the parts, one after the other."""
    results = CPU.kernel(name)(*arrays, **options)
    dx, *others = results if isinstance(results, tuple) else (results,)
    named = dict(zip(("stride", "padding", "dilation", "groups"), layer, strict=True))
    dw = CPU.kernel("conv2d_weight")(dx, images, shape=shape, **named)
    if w is None:
        return *others, dw
    return *others, CPU.kernel("conv2d_input")(dx, w, shape=images.shape, **named), dw


def case(name, layer, window, affine, dtype, first=False):
    """What the kernel is given: arrays, and constants by name."""
    (n, c, *size), k, r, padding = layer
    output = [h + 2 * padding - r + 1 for h in size]
    arrays, options = given(name, (n, k, *output), window, affine, dtype)
    images, w = values(n, c, *size, dtype=dtype, seed=9), np.array(values(k, c, r, r, seed=10))
    numbers = (1, 1), (padding, padding), (1, 1), 1
    return arrays, options, images, None if first else w.astype(dtype), (k, c, r, r), numbers


def check(name, *known):
    kernel = CPU.kernel("conv2d_norm_back")
    arrays, options, images, w, shape, layer = known
    found = kernel(images, w, *arrays, norm=name, options=options, layer=layer, shape=shape)
    if found is NotImplemented:
        pytest.skip("this CPU, or its compiler, has no vectors")
    want = parts(name, *known)
    tolerance = 2e-5 if images.dtype == np.float32 else 1e-12
    assert len(found) == len(want)
    for a, b in zip(found, want, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, atol=tolerance * np.abs(b).max())


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("name", NORMS)
def test_both_gradients_are_the_parts_own(name, layer):
    for window in WINDOWS if "_pool_" in name else WINDOWS[:1]:
        for affine in (True, False):
            check(name, *case(name, layer, window, affine, np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layer", FIRST)
@pytest.mark.parametrize("name", NORMS)
def test_the_weight_gradient_of_a_first_layer(name, layer, dtype):
    for window in WINDOWS if "_pool_" in name else WINDOWS[:1]:
        check(name, *case(name, layer, window, True, dtype, first=True))


def test_an_image_gives_the_same_bytes_in_any_batch():
    kernel, name = CPU.kernel("conv2d_norm_back"), "batch_norm_back"
    arrays, options, images, w, shape, layer = case(
        name, ((11, 9, 12, 12), 8, 3, 1), WINDOWS[0], True, np.float32
    )
    constants = {"norm": name, "options": options, "layer": layer, "shape": shape}
    whole = kernel(images, w, *arrays, **constants)
    if whole is NotImplemented:
        pytest.skip("this CPU, or its compiler, has no vectors")
    for first, last in ((0, 1), (3, 8), (10, 11)):
        g, x, *others = arrays
        some = kernel(images[first:last], w, g[first:last], x[first:last], *others, **constants)
        assert np.array_equal(some[0], whole[0][first:last])


def test_other_layers_are_left_to_the_parts():
    kernel, name = CPU.kernel("conv2d_norm_back"), "batch_norm_back"
    plain = case(name, LAYERS[0], WINDOWS[0], True, np.float32)
    wide = case(name, LAYERS[0], WINDOWS[0], True, np.float64)
    few = case(name, ((2, 3, 12, 12), 8, 3, 1), WINDOWS[0], True, np.float32)
    many = case(name, ((2, 130, 12, 12), 130, 3, 1), WINDOWS[0], True, np.float32)
    first = *plain[:3], None, *plain[4:]
    for arrays, options, images, w, shape, layer in (wide, few, many, first):
        constants = {"norm": name, "options": options, "layer": layer, "shape": shape}
        assert kernel(images, w, *arrays, **constants) is NotImplemented


# In captured steps -----------------------------------------------------------------------------


def lines(twice=False):
    """The lines of a captured step of two layers that stand for several."""
    dp.manual_seed(0)
    first, second = nn.Conv2d(3, 9, 3), nn.Conv2d(9, 9, 3, padding=1)
    norms = [nn.BatchNorm2d(9), nn.BatchNorm2d(9)]
    model = nn.Sequential(first, norms[0], nn.ReLU(), second, norms[1], nn.ReLU())
    optimizer = optim.SGD(model.parameters(), 0.01)
    x = dp.tensor(np.random.default_rng(0).standard_normal((2, 3, 14, 14)).astype("float32"))

    def step(x):
        optimizer.zero_grad()
        h = norms[0](first(x)).relu()
        y = second(h)
        z = norms[1](y).relu()
        loss = (z * z).mean() + (y.sum() * 0.5 if twice else 0.0)
        loss.backward()
        optimizer.step()
        return loss

    run = dp.capture(step)
    losses = [float(run(x)) for _ in range(4)]
    assert run.replays, run.last.reason
    return losses, [line for line in folded(run.graph).lines if isinstance(line.op, Joined)]


def test_lines_of_several_ops_and_how_they_print():
    _, found = lines()
    names = [[part.op.name for part in line.lines] for line in found]
    backs = ["batch_norm_own_relu_back", "conv2d_input", "conv2d_weight"]
    assert names == [backs, backs[::2]]
    assert "batch_norm_own_relu_back" in str(found[0])


def test_not_where_the_cotangent_is_not_the_norms_alone():
    _, found = lines(twice=True)
    assert [len(line.lines) for line in found] == [2]


def test_the_lines_one_after_the_other_give_the_same(monkeypatch):
    """What a kernel declines, the lines do."""
    losses, found = lines()
    find = CPU.kernel
    monkeypatch.setattr(CPU, "kernel", lambda name: None if "_norm_back" in name else find(name))
    np.testing.assert_allclose(lines()[0], losses, rtol=1e-5)
    assert len(found) == 2
