"""Running products and extremes, the mean cross-entropy, norms of several axes: kernels against
what defines them, on awkward values; and captured steps, which must give the same bytes."""

import numpy as np
import pytest

import minidp as dp
from minidp.kernels.cpu import cross_entropy, scan
from minidp.nn import functional as F
from minidp.op import OPS


def rows(*shape):
    return np.random.default_rng(3).normal(size=shape).astype("float32")


def slow_cotangent(g, x):
    """By the definition: the sum over all products that x_k is a factor of."""
    dx = np.zeros(len(x))
    for k in range(len(x)):
        for i in range(k, len(x)):
            dx[k] += g[i] * np.prod(np.delete(x[: i + 1].astype(float), k))
    return dx


@pytest.mark.parametrize("zeros", [(), (0,), (3,), (2, 5), (0, 6), (1, 2, 3)])
def test_products_go_back_exactly_through_zeros(zeros):
    x, g = rows(7), rows(7)[::-1]
    x[list(zeros)] = 0
    kept = dp.tensor(x).requires_grad_()
    dp.cumprod(kept, 0).backward(dp.tensor(g))
    np.testing.assert_allclose(kept.grad.numpy(), slow_cotangent(g, x), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cumprod_input"])
@pytest.mark.parametrize("count", [1, 3, 4, 5, 9])
def test_a_row_is_the_same_alone_among_others_and_along_another_axis(name, count):
    given = (rows(count, 6),) * (2 if name.endswith("input") else 1)
    options = {"backward": True} if name == "cumsum" else {}
    kernel = getattr(scan, name)
    whole = kernel(*given, dim=1, **options)
    for i in range(count):
        alone = kernel(*(x[i : i + 1] for x in given), dim=1, **options)
        assert alone.tobytes() == whole[i].tobytes()
    turned = kernel(*(x.T for x in given), dim=0, **options)
    assert turned.T.tobytes() == whole.tobytes()


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dim", [0, 1])
def test_running_places_keep_ties_and_nan(largest, dim):
    x = np.round(rows(6, 9))
    x[1, 4] = x[3, 2] = x[3, 7] = np.nan
    expected = OPS["running_place"].body(np, x, dim, largest)
    assert np.array_equal(scan.running_place(x, dim=dim, largest=largest), expected)


@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (2, 4, 3), (70, 9)])
def test_the_mean_cross_entropy_is_that_of_its_parts(shape):
    """To the byte: the sum, then a quotient, as replicas compute it."""
    x, target = rows(*shape), np.arange(np.prod(shape) // shape[1]) % shape[1]
    target = target.reshape(shape[0], *shape[2:])
    target[:1] = -100 if shape[0] > 1 else 0
    losses = cross_entropy.cross_entropy(x, target, ignore_index=-100)
    count = np.float32((target != -100).sum())
    mean = cross_entropy.cross_entropy_mean(x, target, ignore_index=-100)
    assert mean.tobytes() == (dp.tensor(losses).sum().numpy() / count).tobytes()
    share = np.full(target.shape, np.float32(3) / count, "float32")
    expected = cross_entropy.cross_entropy_input(share, x, target, ignore_index=-100)
    g = np.array(3, "float32")
    found = cross_entropy.cross_entropy_mean_input(g, x, target, ignore_index=-100)
    assert found.tobytes() == expected.tobytes()


def test_the_mean_of_ignored_targets_alone_is_nan():
    x = dp.tensor(rows(3, 4)).requires_grad_()
    loss = F.cross_entropy(x, dp.tensor([-100, -100, -100]))
    assert np.isnan(float(loss))


def losses(x, weight, bias, target):
    y = F.layer_norm(x, weight.shape, weight, bias)
    running = dp.cumprod(y, 1).sum() + dp.cummax(y, 2).values.sum()
    return F.cross_entropy(dp.stack([y.flatten(1), y.flatten(1)], 1).flatten(1), target) + running


def test_captured_steps_give_the_same_bytes():
    weight, bias = (dp.tensor(rows(3, 4)).requires_grad_() for _ in range(2))
    x, target = dp.tensor(rows(5, 3, 4)), dp.tensor([0, 7, -100, 2, 23])

    def step(x, target):
        loss = losses(x, weight, bias, target)
        return loss.detach(), *dp.grad(loss, [weight, bias])

    captured, eager = dp.capture(step, fuse=False), step(x, target)
    for _ in range(4):
        again = captured(x, target)
        assert [a.numpy().tobytes() for a in again] == [a.numpy().tobytes() for a in eager]
