"""What random programs found where a captured step was not the eager one."""

import numpy as np
import pytest

import minidp as dp
from minidp import nn


def rows(*shape, seed=0):
    return dp.tensor(np.random.default_rng(seed).standard_normal(shape).astype("f4"))


def bytes_of(given):
    return [(str(t.dtype), t.shape, t.detach().numpy().tobytes()) for t in given]


def same(step, batches, fuse=False):
    """The captured step gives the bytes of the eager one, and is replayed."""
    captured = dp.capture(step, fuse=fuse)
    for batch in batches:
        assert bytes_of(captured(*batch)) == bytes_of(step(*batch))
    assert captured.replays, captured.last.reason


@pytest.mark.parametrize("of", ["view", "fold"])
def test_views_without_elements_may_be_given_away(of):
    fold = nn.Fold((7, 3), 2, padding=(2, 1))

    def step(x):
        x = x.detach().requires_grad_()
        y = dp.cartesian_prod(x[::2], x) if of == "view" else fold(x.reshape(0, 4, 40))
        (y * 2).sum().backward()
        return y, x.grad

    same(step, [(dp.zeros(0),)] * 5)


@pytest.mark.parametrize("batch", [1, 2])
def test_a_plain_recurrent_net_goes_back_by_the_same_products(batch):
    dp.manual_seed(0)
    net = nn.RNN(1, 4, num_layers=2)

    def step(x, h):
        h = h.detach().requires_grad_()
        net.zero_grad()
        y, last = net(x, h)
        (y.exp().sum() + last.sum()).backward()
        return [y, h.grad, *[p.grad for p in net.parameters()]]

    same(step, [(rows(3, batch, 1, seed=i), rows(2, batch, 4, seed=i)) for i in range(5)])
