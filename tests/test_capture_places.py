"""Captured steps that read and write places named by tensors, and that draw random numbers."""

import numpy as np
import pytest

import minidp as dp
from minidp import nn
from minidp.distributions import Bernoulli, Normal
from minidp.errors import GraphError

ROWS = 8


def changed(x, key):
    y = x.clone()
    y[key] = 0.5
    return y


STEPS = {
    "x[y]": lambda x, y, m: x[y],
    "x[:, y]": lambda x, y, m: x[:, y],
    "one of each row": lambda x, y, m: x[dp.arange(ROWS), y],
    "largest": lambda x, y, m: x[x.argmax(0)],
    "gather": lambda x, y, m: x.gather(1, y.unsqueeze(1)),
    "index_select": lambda x, y, m: x.index_select(1, y),
    "index_add": lambda x, y, m: x.index_add(0, y, x),
    "index_fill": lambda x, y, m: x.index_fill(0, y % 3, 2.0),
    "unravel_index": lambda x, y, m: dp.unravel_index(y, (2, 4))[0],
    "nll_loss": lambda x, y, m: nn.functional.nll_loss(x.log_softmax(1), y),
    "multi_margin": lambda x, y, m: nn.functional.multi_margin_loss(x, y),
    "index_put": lambda x, y, m: x.index_put((y,), x * 2),
    "scatter": lambda x, y, m: x.scatter(1, y.unsqueeze(1), 2.0),
    "scatter_reduce": lambda x, y, m: x.scatter_reduce(1, y.unsqueeze(1), x, "amax"),
    "embedding of limited rows": lambda x, y, m: nn.functional.embedding(y, x * 1, max_norm=1.0),
    "embedding by frequency": lambda x, y, m: dp.grad(
        nn.functional.embedding(y, w := x.clone().requires_grad_(), scale_grad_by_freq=True)
        .exp().sum(), w)[0],
    "bags": lambda x, y, m: nn.functional.embedding_bag(
        y.reshape(4, 2), x, mode="max", padding_idx=1),
    "gaussian_nll": lambda x, y, m: nn.functional.gaussian_nll_loss(x, x.sin(), y.unsqueeze(1)),
    "quantile": lambda x, y, m: x.quantile(y[:3] / 7, 1) + x.quantile(0.3, 1),
    "take": lambda x, y, m: x.take(y),
    "one_hot": lambda x, y, m: nn.functional.one_hot(y, ROWS),
    "written by number": lambda x, y, m: changed(x, (dp.arange(ROWS), y)),
    "written by mask": lambda x, y, m: changed(x, m),
    "randn": lambda x, y, m: nn.functional.dropout(x) + dp.randn_like(x) + dp.rand(ROWS, 1),
    "drawn in place": lambda x, y, m: dp.empty(3).normal_() + dp.empty(3).uniform_(),
    "numbers drawn": lambda x, y, m: dp.randint(5, (3,)) + dp.randperm(3),
    "bernoulli": lambda x, y, m: dp.bernoulli(x.sigmoid()),
    "multinomial": lambda x, y, m: dp.multinomial(x.softmax(1), 2),
    "rsample": lambda x, y, m: Normal(x, x.exp()).rsample(),
    "log_prob": lambda x, y, m: Bernoulli(x.sigmoid()).log_prob((y % 2).unsqueeze(1)),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_replay_gives_the_bytes_of_the_eager_step(name):
    function, rng = STEPS[name], np.random.default_rng(0)
    step = dp.capture(function, fuse=False)
    for seed in range(5):
        x = dp.tensor(rng.standard_normal((ROWS, ROWS)).astype("f4"))
        y = dp.tensor(rng.integers(0, ROWS, ROWS))
        dp.manual_seed(seed)
        expected = function(x, y, x > 0)
        dp.manual_seed(seed)
        assert step(x, y, x > 0).numpy().tobytes() == expected.numpy().tobytes()
    assert step.replays


@pytest.mark.parametrize("name", ["x[y]", "gather", "index_select", "one_hot"])
@pytest.mark.parametrize("wrong", [ROWS, -1, -ROWS - 1])
def test_places_are_checked_in_every_replay(name, wrong):
    x, y = dp.ones(ROWS, ROWS), dp.arange(ROWS)
    step = dp.capture(STEPS[name], fuse=False)
    for _ in range(3):
        step(x, y, x > 0)
    y[2] = wrong
    if wrong == -1 and name == "x[y]":
        assert step(x, y, x > 0).shape == STEPS[name](x, y, x > 0).shape
        return
    told = []
    for run in (STEPS[name], step):
        with pytest.raises(IndexError, match=str(wrong)) as caught:
            run(x, y, x > 0)
        told.append(str(caught.value))
    assert step.replays and told[0] == told[1]


@pytest.mark.parametrize("name", ["nll_loss", "multi_margin", "unravel_index"])
@pytest.mark.parametrize("wrong", [ROWS, -1])
def test_labels_are_checked_in_every_replay(name, wrong):
    x, y = dp.ones(ROWS, ROWS), dp.arange(ROWS)
    step = dp.capture(STEPS[name], fuse=False)
    for _ in range(3):
        step(x, y, x > 0)
    y[2] = wrong
    with pytest.raises((IndexError, ValueError), match=str(wrong)):
        step(x, y, x > 0)
    assert step.replays


@pytest.mark.parametrize("name", ["gaussian_nll", "quantile"])
def test_values_are_checked_in_every_replay(name):
    x, y = dp.ones(ROWS, ROWS), dp.arange(ROWS).float()
    step = dp.capture(STEPS[name], fuse=False)
    for _ in range(3):
        step(x, y, x > 0)
    y[2] = -1
    with pytest.raises(ValueError, match=r"negative entries|from 0 to 1"):
        step(x, y, x > 0)
    assert step.replays


@pytest.mark.parametrize(
    "step", [lambda x: x[x > 0], lambda x: x.masked_select(x > 0), lambda x: (x > 0).nonzero(),
             lambda x: dp.where(x > 0)[0], lambda x: x.unique(), lambda x: (x > 0).argwhere()]
)
def test_what_decides_on_a_shape_is_no_part_of_a_step(step):
    with pytest.raises(GraphError, match="read in Python"):
        dp.capture(step)(dp.ones(3))


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_noise_and_places_in_training(replicas):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.encode, self.decode = nn.Linear(6, 8), nn.Linear(4, 6)
            self.drop = nn.Dropout(0.2)

        def forward(self, x):
            mean, deviation = self.encode(self.drop(x)).chunk(2, 1)
            z = mean + deviation.exp() * dp.randn(mean.shape, batch_dim=0)
            z = Normal(z, deviation.exp()).rsample(batch_dim=0)
            return self.decode(z)[:, dp.tensor([1, 0, 2, 3, 5, 4])]

    rng, found = np.random.default_rng(0), []
    batches = [(x, x) for x in rng.standard_normal((20, 7, 6)).astype("f4")]
    for capture in (False, True):
        dp.manual_seed(0)
        model = Model()
        train = dp.Scheduler(model, nn.MSELoss(), dp.optim.SGD(model.parameters(), 0.05),
                             devices=replicas, capture=capture)  # fmt: skip
        train.run(batches)
        found.append(b"".join(p.detach().numpy().tobytes() for p in model.parameters()))
    assert found[0] == found[1]
    assert all(step.replays for step in train.replays.captured)
