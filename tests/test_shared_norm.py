"""Batch norm over replicas: one exchange each way, values and derivatives those of one replica."""

import numpy as np
import pytest

import minidp as dp
from minidp import functional as F
from minidp import nn, optim
from minidp.ops import normalize, shared_norm


def images(*shape, dtype="float64", seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def network(affine=True, dtype="float64", pool=True):
    dp.manual_seed(0)
    norms = [nn.BatchNorm2d(c, affine=affine, dtype=dtype) for c in (6, 5)]
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1, dtype=dtype), norms[0], nn.ReLU(),
        nn.Conv2d(6, 5, 3, dtype=dtype), norms[1], nn.ReLU(),
        *([nn.MaxPool2d(2)] if pool else []), nn.Flatten(),
        nn.Linear(30 if pool else 150, 4, dtype=dtype),
    )  # fmt: skip


def trained(replicas, capture=False, dtype="float64", steps=5, rows=7, level=0.0, **options):
    model = network(dtype=dtype, **options)
    x, y = images(rows, 3, 8, 7, dtype=dtype) + level, np.arange(rows) % 4
    devices = ",".join(f"cpu:{k}" for k in range(replicas))
    run = dp.Scheduler(model, nn.CrossEntropyLoss(), optim.SGD(model.parameters(), 0.05),
                       devices=devices, capture=capture, fuse=capture)  # fmt: skip
    for _ in range(steps):
        run(dp.tensor(x), dp.tensor(y))
    return {name: value.numpy() for name, value in model.state_dict().items()}


@pytest.mark.parametrize("capture", [False, True])
@pytest.mark.parametrize("replicas", [2, 3])
def test_replicas_are_one(replicas, capture):
    one = trained(1)
    for affine in (True, False):
        one, found = trained(1, affine=affine), trained(replicas, capture, affine=affine)
        for name in one:
            np.testing.assert_allclose(found[name], one[name], rtol=1e-9, atol=1e-11, err_msg=name)


def test_large_means_lose_no_digits():
    one, two = (trained(k, level=1e6, steps=2) for k in (1, 2))
    np.testing.assert_allclose(two["1.running_var"], one["1.running_var"], rtol=1e-8)


def test_moments_are_merged():
    x = images(9, 4, 3)
    parts = [x[:2], x[2:2], x[2:]]
    rows = []
    for part in parts:
        mean, var = normalize.batch_moments(dp.tensor(part))
        count = np.array([part.size // 4], part.dtype)
        rows.append(np.concatenate([count, mean.numpy(), var.numpy()]))
    mean, var, count = shared_norm.merged_moments(dp.tensor(np.stack(rows)))
    assert count.numpy() == [27]
    np.testing.assert_allclose(mean.numpy(), x.mean(axis=(0, 2)), rtol=1e-13)
    np.testing.assert_allclose(var.numpy(), x.var(axis=(0, 2)), rtol=1e-13)


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("rectify", [True, False])
def test_derivatives(affine, rectify):
    """Of one replica's values, whose statistics are all there is: those of batch_norm itself."""
    x = dp.tensor(images(4, 3, 5), requires_grad=True)
    vectors = [dp.tensor(images(3, seed=k), requires_grad=True) if affine else None for k in (1, 2)]

    def shared(x, *vectors):
        mean, var = normalize.batch_moments(x.detach())
        count = dp.tensor(np.array([20.0]))
        options = {"eps": 0.1, "rectify": rectify}
        return shared_norm.batch_norm_shared(x, mean, var, count, *vectors, **options)[0]

    def alone(x, *vectors):
        y = F.batch_norm(x, None, None, *vectors, training=True, eps=0.1)
        return y.relu() if rectify else y

    wrt = [x, *(v for v in vectors if v is not None)]
    found = []
    for function in (shared, alone):
        first = dp.autograd.grad((function(x, *vectors) ** 3).sum(), wrt, create_graph=True)
        second = dp.autograd.grad(sum((g * g).sum() for g in first), wrt)
        found.append([g.detach().numpy() for g in (*first, *second)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)


def test_rectifiers_go_into_both_passes():
    model = network(dtype="float32", pool=False)
    x, y = images(6, 3, 8, 7, dtype="float32"), np.arange(6) % 4
    run = dp.Scheduler(model, nn.CrossEntropyLoss(), optim.SGD(model.parameters(), 0.05),
                       devices="cpu:0,cpu:1", capture=True, fuse=True)  # fmt: skip
    for _ in range(4):
        run(dp.tensor(x), dp.tensor(y))
    lines = run.replays.captured[0].replayed.lines
    names = [line.op.name for line in lines if line.op is not None]
    assert not {"relu", "relu_input"} & {*names}
    assert not [line for line in lines if line.constants.get("dim") == (0, 2, 3)]  # of biases
    assert names.count("all_reduce") == 4
