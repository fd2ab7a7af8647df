"""Gradients that a forward asks for itself: penalties, attacks. Any split is one replica."""

import numpy as np
import pytest
from training import adam, batches, distance, everything, flat, mlp, scheduler

import minidp as dp
from minidp import nn
from minidp.errors import ReplicaError
from minidp.nn import functional as F

DATA = batches(7, 4)
LAYOUTS = [{"devices": 1, "capture": True}, {"devices": 3}, {"devices": 2, "capture": True},
           {"devices": 9}, {"devices": 2, "store": "device", "workload": [3, 1]},
           {"devices": 2, "accumulate": 3}, {"devices": 2, "loss_scale": 32.0}]  # fmt: skip


def penalty(net, x, y):
    """Of the size of d output / d input, as for Wasserstein critics."""
    (slope,) = dp.grad(y.sum(), x, create_graph=True)
    return dp.mean((slope**2).sum(1), dp.ones(len(x), dtype=x.dtype))


def attack(net, x, y):
    """The loss at inputs that were moved along the gradient of their mean loss: by its size too."""
    labels = y.detach().argmax(1)
    (slope,) = dp.grad(F.cross_entropy(y, labels) * 2 + 1, x, retain_graph=True)
    return F.cross_entropy(net((x + 3 * slope).detach()), labels)


def curvature(net, x, y):
    """Twice differentiated before the step differentiates again."""
    (slope,) = dp.grad(y.sum(), x, create_graph=True)
    (bend,) = dp.grad((slope[:, 0] * x[:, 1]).sum(), x, create_graph=True)
    return dp.mean(bend[:, 2] ** 2, dp.ones(len(x), dtype=x.dtype))


class Asking(nn.Module):
    """A model that asks for gradients in its forward, and gives what it makes of them."""

    def __init__(self, term):
        super().__init__()
        self.net, self.term = mlp(), term
        self.net[1] = nn.Tanh()

    def forward(self, x):
        x = x.detach().requires_grad_()
        y = self.net(x)
        return y, self.term(self.net, x, y)


def loss(outputs, targets):
    y, term = outputs
    return F.cross_entropy(y, targets) + 3 * term


def trained(term, layout):
    run = scheduler(Asking(term), loss, adam, **layout)
    losses = run.run(DATA, 2)
    return np.array([*losses, *flat(run.model)])


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("term", [penalty, attack, curvature])
def test_gradients_inside_of_a_forward(term, layout):
    if term is attack and "accumulate" in layout:
        pytest.skip("the second mean depends on the first")
    assert distance(trained(term, layout), trained(term, {"devices": 1})) < 1e-11


class Energy(nn.Module):
    """One number a row, from parameters that are numbers: forces are those of its own rows."""

    def __init__(self):
        super().__init__()
        self.net = mlp()
        self.net[2] = nn.Linear(9, 1).double()
        self.scale = nn.Parameter(dp.tensor(0.5, dtype=dp.float64))

    def forward(self, x):
        x = x.detach().requires_grad_()
        (force,) = dp.grad(self.net(x).sum() * self.scale, x, create_graph=True)
        return force[:, :4], dp.mean((force**2).sum(1), dp.ones(len(x), dtype=x.dtype))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_parameters_that_are_numbers_are_no_sums_over_replicas(layout):
    def forces(layout):
        dp.manual_seed(7)
        run = scheduler(Energy(), loss, adam, unused="ignore", **layout)
        losses = run.run([(x[:2], y[:2]) for x, y in DATA], 2)
        return np.array([*losses, *flat(run.model)])

    assert distance(forces(layout), forces({"devices": 1})) < 1e-11


def scaled(net, x, y):
    """A mean of what a mean has scaled."""
    return dp.mean((y / dp.mean(y**2, dp.ones_like(y))).exp(), dp.ones_like(y))


@pytest.mark.parametrize("capture", [False, True])
@pytest.mark.parametrize("term", [attack, scaled])
def test_means_that_depend_on_means_are_not_known_in_parts(term, capture):
    run = scheduler(Asking(term), loss, adam, devices=2, accumulate=2, capture=capture)
    before = everything(run)
    with pytest.raises(ReplicaError, match="mean 2 of the step depends on another mean"):
        run.run(DATA)
    assert everything(run) == before
    if term is scaled:
        assert distance(trained(term, {"devices": 3}), trained(term, {"devices": 1})) < 1e-11


def test_what_a_gradient_starts_from_in_a_replica():
    def program(world):
        x = dp.ones(2, requires_grad=True)
        for _ in world.shard([dp.zeros(6, 1)]):
            own, mean = (x * x).sum(), dp.mean(x * x, dp.ones(2))
            composed = sum([mean + own * 0 for _ in range(40)])
            return [dp.grad(each, x, retain_graph=True)[0].tolist()
                    for each in (own, mean, composed / 40, x[0] * x[1])]  # fmt: skip

    for found in dp.launch(program, devices=3):
        np.testing.assert_allclose(found, [[2, 2], [1 / 3, 1 / 3], [1 / 3, 1 / 3], [1, 1]], 1e-6)
