"""Distributions: PyTorch's values where it is there, mathematics where not."""

import math

import numpy as np
import pytest

import minidp as dp
from minidp import nn, optim
from minidp.distributions import (
    Bernoulli,
    Categorical,
    Independent,
    Normal,
    Uniform,
    kl_divergence,
)
from minidp.testing import gradcheck


def real(*values):
    return dp.tensor(values, dtype=dp.float64, requires_grad=True)


def test_densities_and_entropies():
    x = dp.tensor([0.5, -1.0], dtype=dp.float64)
    normal = Normal(real(0.0, 1.0), real(1.0, 2.0))
    expected = [-math.log(math.sqrt(2 * math.pi)) - 0.125,
                -math.log(2 * math.sqrt(2 * math.pi)) - 0.5]  # fmt: skip
    np.testing.assert_allclose(normal.log_prob(x).tolist(), expected)
    assert normal.entropy().tolist()[0] == pytest.approx(1.4189385332046727)
    np.testing.assert_allclose(normal.icdf(normal.cdf(x)).tolist(), x.tolist())
    uniform = Uniform(0.0, 4.0)
    assert uniform.log_prob(1.0).item() == pytest.approx(-math.log(4)) == -uniform.entropy().item()
    assert uniform.log_prob(4.0).item() == -math.inf and uniform.mean.item() == 2
    coin = Bernoulli(dp.tensor(0.25))
    assert coin.log_prob(1.0).item() == pytest.approx(math.log(0.25))
    assert coin.log_prob(0.0).item() == pytest.approx(math.log(0.75))
    assert coin.entropy().item() == pytest.approx(0.5623351)
    die = Categorical(dp.tensor([[1.0, 1.0, 2.0], [0.0, 1.0, 0.0]]))
    assert die.log_prob(dp.tensor([2, 1])).tolist() == pytest.approx([math.log(0.5), 0], abs=1e-6)
    assert die.entropy().tolist() == pytest.approx([1.0397208, 0], abs=1e-5)
    assert die.mode.tolist() == [2, 1] and die.enumerate_support().shape == (3, 2)
    assert Independent(normal, 1).log_prob(x).item() == pytest.approx(sum(expected))


@pytest.mark.slow
def test_against_pytorch():
    torch = pytest.importorskip("torch")
    theirs = torch.distributions
    rng = np.random.default_rng(0)
    a, b, c, d = (rng.random((3, 4)) + 0.1 for _ in range(4))
    pairs = [
        ("Normal", {"loc": a, "scale": b}, {"loc": c, "scale": d}, c * 2 - 1),
        ("Uniform", {"low": -a, "high": b}, {"low": -a - 0.1, "high": b + 1}, a * 0.1),
        ("Bernoulli", {"probs": a / 2}, {"logits": b}, np.round(a)),
        ("Bernoulli", {"probs": np.array([0.0, 1.0, 0.3])}, {"probs": np.array([0.5, 0.5, 0.0])},
         np.array([0.0, 1.0, 1.0])),
        ("Categorical", {"probs": a}, {"logits": b}, np.array([0, 3, 1])),
        ("Categorical", {"probs": np.array([0.0, 2.0, 1.0])}, {"probs": np.array([1.0, 1.0, 0.0])},
         np.array([[0], [1], [2]])),
    ]  # fmt: skip
    for name, first, second, value in pairs:
        made = {}
        for library in (dp, torch):
            kind = getattr(library.distributions, name)
            p, q = (kind(**{k: library.tensor(v, requires_grad=True) for k, v in options.items()})
                    for options in (first, second))  # fmt: skip
            divergence = library.distributions.kl_divergence
            found = [p.log_prob(library.tensor(value)), p.entropy(), p.perplexity(), p.mean,
                     p.variance, q.log_prob(library.tensor(value)), divergence(p, q),
                     divergence(q, p)]  # fmt: skip
            leaf = next(iter(vars(p)[k] for k in ("loc", "low", "logits") if k in vars(p)))
            made[library] = [x.detach().numpy() for x in found] + [np.asarray(leaf.shape)]
        for mine, their in zip(made[dp], made[torch], strict=True):
            np.testing.assert_allclose(mine, their, rtol=1e-10, atol=1e-12, err_msg=name)
    assert theirs.Normal(0.0, 1.0).sample((2,)).shape == Normal(0.0, 1.0).sample((2,)).shape


def test_samples_have_the_distributions_moments():
    dp.manual_seed(1)
    for each in (Normal(dp.tensor([1.0, -2.0]), dp.tensor([0.5, 3.0])), Uniform(-1.0, 3.0),
                 Bernoulli(dp.tensor([0.1, 0.7]))):  # fmt: skip
        drawn = each.sample((20_000,))
        assert drawn.shape == (20_000, *each.batch_shape) and not drawn.requires_grad
        np.testing.assert_allclose(drawn.mean(0).tolist(), each.mean.tolist(), atol=0.06)
        np.testing.assert_allclose(drawn.var(0).tolist(), each.variance.tolist(), rtol=0.05)
    die = Categorical(dp.tensor([[1.0, 0.0, 3.0], [1.0, 1.0, 0.0]]))
    drawn = die.sample((8000,))
    shares = [[(drawn[:, i] == c).float().mean().item() for c in range(3)] for i in range(2)]
    np.testing.assert_allclose(shares, [[0.25, 0, 0.75], [0.5, 0.5, 0]], atol=0.03)
    assert drawn.dtype == np.int64


def test_gradients():
    loc, scale, x = real(0.3, -0.2), real(0.7, 1.2), real(0.1, 0.5)
    gradcheck(lambda a, b, v: Normal(a, b).log_prob(v), (loc, scale, x))
    gradcheck(lambda a, b: kl_divergence(Normal(a, b), Normal(b, a.exp())), (loc, scale))
    gradcheck(lambda a: Categorical(logits=a).entropy(), (loc,))
    gradcheck(lambda a: Bernoulli(logits=a).log_prob(dp.ones(2, dtype=dp.float64)), (loc,))

    def moved(a, b):
        dp.manual_seed(3)
        return Normal(a, b).rsample((4,)) + Uniform(a, b + 2).rsample((4,))

    gradcheck(moved, (loc, scale))
    assert Normal(loc, scale).rsample().requires_grad
    with pytest.raises(NotImplementedError, match="Bernoulli has no rsample"):
        Bernoulli(0.5).rsample()


@pytest.mark.parametrize("make, text", [
    (lambda: Normal(0.0, -1.0), "Normal: scale .* greater than 0"),
    (lambda: Normal(math.nan, 1.0), "loc"), (lambda: Uniform(1.0, 1.0), "greater than low"),
    (lambda: Bernoulli(1.5), "probs .* from 0 to 1"), (lambda: Bernoulli(), "either"),
    (lambda: Bernoulli(0.5, 0.1), "not both"),
    (lambda: Categorical(dp.tensor([-1.0, 2.0])), "probs"),
    (lambda: Categorical(dp.zeros(3)), "not all 0"), (lambda: Categorical(0.5), "classes"),
    (lambda: Categorical(dp.ones(3)).log_prob(3), "a class, 0 to 2"),
    (lambda: Uniform(0.0, 1.0).log_prob(2.0), "not from low to high: 2.0"),
    (lambda: Bernoulli(0.5).log_prob(0.5), "0 or 1"),
    (lambda: Independent(Normal(dp.zeros(2), 1.0), 2), "Independent"),
])  # fmt: skip
def test_refusals(make, text):
    with pytest.raises(ValueError, match=text):
        make()


def test_checks_can_be_left_out():
    assert Uniform(0.0, 1.0, validate_args=False).log_prob(2.0).item() == -math.inf
    with pytest.raises(NotImplementedError, match="two of one kind: Normal"):
        kl_divergence(Normal(0.0, 1.0), Bernoulli(0.5))
    assert repr(Normal(0.0, dp.ones(2))) == "Normal(loc: (2,), scale: (2,))"


class Noisy(nn.Module):
    """A model whose noise belongs to rows, as in a variational autoencoder."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x):
        y = self.linear(x)
        drawn = Normal(y, 1.0).rsample(batch_dim=0) + dp.rand(2, len(y), batch_dim=1).T
        chosen = Categorical(logits=y).sample(batch_dim=0)
        return drawn + chosen.unsqueeze(1) + dp.randn_like(y, batch_dim=0)


def test_noise_of_rows_does_not_depend_on_the_split():
    def trained(**options):
        dp.manual_seed(0)
        model = Noisy()
        train = dp.Scheduler(model, nn.MSELoss(), optim.SGD(model.parameters(), lr=0.1), **options)
        rng = np.random.default_rng(0)
        return [float(train(rng.random((7, 3), np.float32), rng.random((7, 2), np.float32)))
                for _ in range(3)]  # fmt: skip

    one = trained(devices=1)
    for options in ({"devices": 2}, {"devices": 3}, {"devices": 2, "workload": [5, 1]}):
        np.testing.assert_allclose(trained(**options), one, rtol=1e-5)


def test_a_policy_learns():
    """REINFORCE on a bandit with two arms (Williams 1992)."""
    dp.manual_seed(0)
    logits = nn.Parameter(dp.zeros(2))
    optimizer = optim.SGD([logits], lr=0.2)
    for _ in range(60):
        policy = Categorical(logits=logits)
        action = policy.sample((16,))
        loss = -(policy.log_prob(action) * action.float()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert Categorical(logits=logits).probs[1].item() > 0.9
