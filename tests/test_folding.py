"""Rectifiers that captured steps put into the layers beside them: which, and that values agree."""

from itertools import pairwise

import numpy as np
import pytest

import minidp as dp
from minidp import functional as F
from minidp import nn, optim
from minidp.graph.joined import Joined
from minidp.ops.arithmetic import relu_input

FOLDED = {"conv2d_relu", "max_pool2d_relu", "batch_norm_own_relu", "batch_norm_own_relu_back",
          "batch_norm_pool", "batch_norm_own_pool_back", "linear_relu",
          "matmul_relu_input"}  # fmt: skip


def images(*shape, dtype="float32", device="cpu", seed=0):
    x = np.round(np.random.default_rng(seed).standard_normal(shape), 1)  # with ties and zeros
    return dp.tensor(x.astype(dtype), device=device)


def both(make, x, steps=4, **options):
    """The same training eagerly and captured: results and gradients, and the replayed ops' names.

    ``make()`` gives a module, or a pair of it and what is to be computed of it.
    """
    found = []
    for capture in (False, True):
        dp.manual_seed(0)
        made = make()
        model, function = made if isinstance(made, tuple) else (made, made)
        optimizer = optim.SGD(model.parameters(), 0.01)

        def step(x, function=function, optimizer=optimizer):
            optimizer.zero_grad()
            results = function(x)
            results = results if isinstance(results, tuple) else (results,)
            sum((y * y).mean() for y in results if y.requires_grad).backward()
            optimizer.step()
            return results

        run = dp.capture(step, **options) if capture else step
        for _ in range(steps):
            results = run(x)
        gradients = [p.grad.numpy() for p in model.parameters() if p.grad is not None]
        found.append([*(y.detach().numpy() for y in results), *gradients])
    assert run.replays, run.last.reason
    return found, [name for line in run.replayed.lines if line.op is not None for name in ops(line)]


def ops(line):
    """The name of a line's op, and of those that it does in one."""
    joined = line.lines if isinstance(line.op, Joined) else []
    return [line.op.name, *(part.op.name for part in joined)]


def agree(found, exact=True):
    for a, b in zip(*found, strict=True):
        if exact:
            assert a.dtype == b.dtype and np.array_equal(a, b)
        else:
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6 * max(1, np.abs(b).max()))


def counts(names):
    return {name: names.count(name) for name in {*names} & {*FOLDED, "relu", "relu_input"}}


def pooled():
    return nn.Sequential(nn.Conv2d(3, 20, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))


# Which are folded ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("window", [(2,), (3, 2, 1), (3, 1), (2, 2, 0, 1, False, True)])
def test_relu_goes_into_max_pooling(window, dtype):
    def make():
        layer = nn.Conv2d(3, 20, 3, padding=1, dtype=dtype)
        return nn.Sequential(layer, nn.ReLU(), nn.MaxPool2d(*window))

    found, names = both(make, images(3, 3, 9, 7, dtype=dtype))
    assert counts(names) == {"max_pool2d_relu": 1} and "max_pool2d_input" in names
    agree(found)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("bias", [True, False])
def test_relu_goes_into_convolution(bias, dtype):
    def make():
        return nn.Sequential(
            nn.Conv2d(3, 20, 3, padding=1, bias=bias, dtype=dtype), nn.ReLU(),
            nn.Conv2d(20, 17, 3, bias=bias, dtype=dtype), nn.ReLU(),
            nn.Conv2d(17, 130, 1, stride=2, bias=bias, dtype=dtype), nn.ReLU(),
            nn.Conv2d(130, 4, (3, 5), groups=2, bias=bias, dtype=dtype), nn.ReLU(),
        )  # fmt: skip

    found, names = both(make, images(2, 3, 21, 22, dtype=dtype))
    assert names.count("conv2d_relu") == 4 and not {"conv2d", "relu"} & {*names}
    agree(found)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_relu_goes_into_linear_layers_both_ways(rows, bias, dtype):
    def make():
        sizes = 30, 600, 33, 40, 3
        layers = [nn.Linear(*pair, bias=bias, dtype=dtype) for pair in pairwise(sizes)]
        return nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2], layers[3])

    found, names = both(make, images(rows, 30, dtype=dtype))
    assert counts(names) == {"linear_relu": 2, "matmul_relu_input": 2}
    agree(found)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("dims", [1, 2])
def test_relu_goes_into_batch_norm(dims, affine, dtype):
    def make():
        norm = (nn.BatchNorm1d, nn.BatchNorm2d)[dims - 1](18, affine=affine, dtype=dtype)
        first = (nn.Conv1d, nn.Conv2d)[dims - 1](3, 18, 3, bias=False, dtype=dtype)
        last = (nn.Conv1d, nn.Conv2d)[dims - 1](18, 4, 3, dtype=dtype)
        return nn.Sequential(first, norm, nn.ReLU(), last)

    found, names = both(make, images(3, 3, *(9, 8)[:dims], dtype=dtype))
    assert counts(names) == {"batch_norm_own_relu": 1, "batch_norm_own_relu_back": 1}
    agree(found)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("window", [(2,), (3, 2, 1), (3, 1), (2, 2, 0, 1, False, True)])
def test_batch_norm_relu_and_pooling_are_one(window, bias, dtype):
    def make():
        layer = nn.Conv2d(3, 8, 3, bias=bias, dtype=dtype)
        norm = nn.BatchNorm2d(8, affine=bias, dtype=dtype)
        return nn.Sequential(layer, norm, nn.ReLU(), nn.MaxPool2d(*window))

    found, names = both(make, images(3, 3, 9, 8, dtype=dtype))
    assert counts(names) == {"batch_norm_pool": 1, "batch_norm_own_pool_back": 1}
    assert not {"batch_norm_own", "max_pool2d_relu", "max_pool2d_input"} & {*names}
    agree(found, exact=False)


def test_pooling_without_relu_is_spread_at_once():
    def make():
        return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.MaxPool2d(2))

    found, names = both(make, images(2, 3, 9, 8))
    assert names.count("batch_norm_own") == names.count("batch_norm_own_pool_back") == 1
    agree(found, exact=False)


def test_what_is_normalised_and_pooled_may_be_seen():
    class Seen(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)

        def forward(self, x):
            y = self.norm(self.conv(x))
            return F.max_pool2d(y.relu(), 2), y

    found, names = both(Seen, images(2, 3, 9, 8))
    assert "batch_norm_pool" not in names and "max_pool2d_input" in names
    agree(found, exact=False)


def test_a_step_without_backward():
    model = nn.Sequential(pooled(), nn.Conv2d(20, 5, 3), nn.ReLU())
    step = dp.capture(lambda x: model(x).detach())
    x = images(2, 3, 8, 8)
    for _ in range(3):
        got = step(x)
    names = [line.op.name for line in step.replayed.lines]
    assert counts(names) == {"max_pool2d_relu": 1, "conv2d_relu": 1}
    assert np.array_equal(got.numpy(), model(x).detach().numpy())


# Which are not ---------------------------------------------------------------------------------


def of_layer(then, norm=False):
    """Of a model: a convolution, with ``norm`` a batch normalisation; what ``then`` does."""

    def make():
        layer = nn.Conv2d(3, 8, 3, bias=not norm)
        model = nn.Sequential(layer, nn.BatchNorm2d(8) if norm else nn.Identity())
        return model, lambda x: then(model(x))

    return make


def pool_of(x):
    return F.max_pool2d(x, 2)


def returned(x):
    y = x.relu()
    return pool_of(y), y


def used_twice(x):
    y = x.relu()
    return pool_of(y) + y.mean()


def pooled_twice(x):
    y = x.relu()
    return pool_of(y) + F.max_pool2d(y, 2, 2)


def with_places(x):
    return F.max_pool2d(x.relu(), 2, return_indices=True)


def through_a_view(x):
    y = x.relu()
    return pool_of(y), y[:, :1].sum()


def in_place(x):
    y = x.relu()
    z = pool_of(y)
    with dp.no_grad():
        y.detach().add_(1.0)
    return z


@pytest.mark.parametrize(
    "then", [returned, used_twice, with_places, through_a_view], ids=lambda f: f.__name__
)
def test_not_into_a_pool_that_is_not_alone(then):
    found, names = both(of_layer(then), images(2, 3, 8, 8))
    assert "max_pool2d_relu" not in names
    agree(found, exact=False)


def test_not_into_two_pools():
    found, names = both(of_layer(pooled_twice), images(2, 3, 8, 8))
    assert "max_pool2d_input" in names
    agree(found, exact=False)


@pytest.mark.parametrize("norm", [False, True])
def test_not_where_what_comes_before_is_used(norm):
    def also(x):
        return x.relu(), x * 2

    found, names = both(of_layer(also, norm), images(2, 3, 8, 8))
    assert not {*names} & FOLDED
    agree(found, exact=False)


def of_layers(between):
    """Of a model: a layer, a rectifier, ``between``, a layer."""

    def make():
        first, second = nn.Linear(6, 20), nn.Linear(20, 4)
        return nn.Sequential(first, second), lambda x: second(between(first(x).relu()))

    return make


def test_not_into_a_product_that_is_used_elsewhere():
    """The cotangent before the mask is what a hook is given, which keeps it."""

    def kept(x):
        x.register_hook(lambda g: g * 1.5)
        return x

    found, names = both(of_layers(kept), images(5, 6))
    assert counts(names) == {"linear_relu": 1}
    agree(found, exact=False)


def replayed(function, *shapes):
    """What a captured function gives, which may change what it is given, and the replayed ops."""
    step = dp.capture(function)
    for _ in range(3):
        got = step(*map(images_of, shapes))
    want = function(*map(images_of, shapes))
    assert step.replays and np.array_equal(got.numpy(), want.numpy())
    return [line.op.name for line in step.replayed.lines if line.op is not None]


def images_of(shape):
    return images(*shape, seed=sum(shape))


def test_not_into_a_product_whose_mask_changes():
    def function(x, w, y):
        g = x @ w
        y[:1] = 1.0
        return relu_input(g, y)

    def inner(x, w, y):
        return function(x, w, y.cumsum(1))

    for each in (function, inner):
        assert "matmul_relu_input" not in replayed(each, (4, 3), (3, 5), (4, 5))


def test_not_into_a_product_before_its_mask_is_there():
    def late(x, w, v):
        g = x @ w
        return relu_input(g, v.cumsum(1))

    def early(x, w, v):
        y = v.cumsum(1)
        return relu_input(x @ w, y)

    shapes = (4, 3), (3, 5), (4, 5)
    assert "matmul_relu_input" not in replayed(late, *shapes)
    assert "matmul_relu_input" in replayed(early, *shapes)


def test_not_into_products_of_many_matrices():
    def function(x, w, y):
        y = y.cumsum(1)
        return relu_input(x @ w, y)

    assert "matmul_relu_input" not in replayed(function, (2, 4, 3), (2, 3, 5), (2, 4, 5))
    assert "matmul_relu_input" not in replayed(function, (4, 3), (3, 5), (2, 4, 5))


def test_a_mask_that_is_used_elsewhere_stays():
    """The gradient behind the rectifier goes two ways: the mask is applied once, apart."""

    def make():
        norm, conv_layer = nn.BatchNorm2d(8), nn.Conv2d(3, 8, 3)
        model = nn.Sequential(conv_layer, norm)
        return model, lambda x: (norm(conv_layer(x)) + conv_layer(x)).relu()

    found, names = both(make, images(2, 3, 8, 8))
    assert not {*names} & FOLDED
    agree(found, exact=False)


def test_a_result_may_be_rectified_in_the_layer():
    """What is returned is the same; only what lies before it is not there any more."""
    found, names = both(of_layer(lambda x: x.relu(), norm=True), images(2, 3, 8, 8))
    assert {"batch_norm_own_relu", "batch_norm_own_relu_back"} <= {*names}
    agree(found)


@pytest.mark.parametrize("dtype", ["float16"])
def test_other_dtypes_stay(dtype):
    x = images(2, 3, 8, 8, dtype=dtype)
    step = dp.capture(lambda x: pool_of(x.add(1).relu()))
    for _ in range(3):
        y = step(x)
    assert "max_pool2d_relu" not in [line.op.name for line in step.replayed.lines]
    assert y.dtype == x.dtype


def test_what_is_changed_in_place_stays():
    def function(x):
        y = x * 2
        z = y.relu()
        w = pool_of(z)
        z.add_(1.0)
        y.mul_(0.0)
        return w, y

    step, x = dp.capture(function), images(2, 3, 8, 8)
    for _ in range(3):
        w, y = step(x)
    want, zero = function(x)
    assert "max_pool2d_relu" not in [line.op.name for line in step.replayed.lines if line.op]
    assert np.array_equal(w.numpy(), want.numpy()) and np.array_equal(y.numpy(), zero.numpy())


def test_a_bias_that_changes_before_the_backward():
    """The sign is computed again from the bias as it was in the forward."""

    def make():
        norm, layer = nn.BatchNorm2d(6), nn.Conv2d(3, 6, 3, bias=False)

        def function(x):
            y = norm(layer(x)).relu()
            with dp.no_grad():
                norm.bias.add_(0.5)
            return y

        return nn.Sequential(layer, norm), function

    found, names = both(make, images(2, 3, 6, 6))
    assert "batch_norm_own_relu_back" in names
    agree(found)


def test_the_bias_before_batch_norm_has_no_gradient():
    """Each channel's mean is taken off, so the sum that its gradient is need not be taken."""

    def make():
        return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Conv2d(8, 4, 3))

    found, names = both(make, images(2, 3, 8, 8))
    assert names.count("sum") == 1  # of the second bias
    largest = max(np.abs(g).max() for g in found[0][1:])
    for want, got in zip(*found, strict=True):
        np.testing.assert_allclose(got, want, atol=1e-6 * largest, rtol=1e-6)


def test_nan_reaches_that_bias():
    layer, norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)

    @dp.capture
    def step(x):
        layer.zero_grad()
        (norm(layer(x)) ** 2).sum().backward()
        return layer.bias.grad

    x = images(2, 3, 8, 8)
    x.array[0, 0, 0, 0] = np.nan
    for _ in range(3):
        gradient = step(x)
    assert np.isnan(gradient.numpy()).all()


def test_without_fuse_nothing_is_folded():
    found, names = both(pooled, images(2, 3, 8, 8), fuse=False)
    assert not {*names} & FOLDED
    agree(found)


def test_emulated_devices_keep_their_kernels():
    model = pooled().to("emu:0")
    step = dp.capture(lambda x: model(x).detach())
    x = images(1, 3, 6, 6, device="emu:0")
    for _ in range(3):
        got = step(x)
    names = [line.op.name for line in step.replayed.lines if line.op is not None]
    assert not {*names} & FOLDED and "max_pool2d" in names
    np.testing.assert_array_equal(got.numpy(), model(x).detach().numpy())


def test_windows_beside_the_image_stay():
    """A dilated window may miss the image: then the largest of nothing is no value."""

    def spread(x):
        return F.max_pool2d(x.relu(), 2, 1, 1, 3)

    found, names = both(of_layer(spread), images(2, 3, 4, 4))
    assert "max_pool2d_relu" not in names
    agree(found)
