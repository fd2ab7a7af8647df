"""Training on two emulated GPUs with CUDA kernels is training on two CPU replicas."""

import numpy as np
import pytest

import minidp as dp
from minidp import nn, optim
from minidp.data import mnist

PLACES = ("cpu:0-1", "emu:0-1")


def with_dropout():
    dp.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(1, 4, 5, padding=2), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten(),
        nn.Dropout(0.3), nn.Linear(196, 10),
    )  # fmt: skip


def digits(rows, batch):
    """The first bundled digits, in batches; the last one is uneven."""
    x, y = (array[:rows] for array in mnist("train", "bundled").arrays)
    return [(dp.tensor(x[i : i + batch]), dp.tensor(y[i : i + batch]))
            for i in range(0, rows, batch)]  # fmt: skip


@pytest.mark.parametrize("optimizer", [
    lambda p: optim.SGD(p, lr=0.05, momentum=0.9), lambda p: optim.Adam(p, lr=0.01),
], ids=["sgd", "adam"])  # fmt: skip
@pytest.mark.parametrize("workload", [None, [2, 1]])
def test_mnist_with_dropout_has_the_losses_of_the_cpu(optimizer, workload):
    losses = {}
    for devices in PLACES:
        model = with_dropout()
        train = dp.Scheduler(model, nn.CrossEntropyLoss(), optimizer(model.parameters()),
                             devices=devices, workload=workload)  # fmt: skip
        losses[devices] = [float(train(x, y)) for x, y in digits(75, 16) * 2]
    np.testing.assert_allclose(losses["emu:0-1"], losses["cpu:0-1"], rtol=0, atol=1e-4)
    assert losses["cpu:0-1"][-1] < losses["cpu:0-1"][0]


@pytest.mark.parametrize("batch_dim", [0, 1])
def test_dropout_masks_are_the_same_bytes_on_every_device(batch_dim):
    rows = np.ones((10, 7, 3), "f4") if batch_dim == 0 else np.ones((7, 10, 3), "f4")
    drop = nn.Dropout(0.4, batch_dim=batch_dim)

    def mask(world):
        share = [slice(None)] * 3
        share[batch_dim] = slice(5 * world.rank, 5 * world.rank + 5)
        world.begin(1, dp.parallel.split.Share(5 * world.rank, 5 * world.rank + 5, 10), range(2))
        return drop(dp.tensor(rows[tuple(share)], device=world.device)).numpy()

    masks = {}
    for devices in PLACES:
        dp.manual_seed(11)
        masks[devices] = np.concatenate(dp.launch(mask, devices), batch_dim)
    assert masks["emu:0-1"].tobytes() == masks["cpu:0-1"].tobytes()
    assert 0.2 < (masks["emu:0-1"] == 0).mean() < 0.6
