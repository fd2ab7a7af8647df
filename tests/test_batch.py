"""What a step may be given: several inputs, inputs by name, and things that are not split."""

import numpy as np
import pytest
from training import batches, distance, flat, mlp, scheduler

import minidp as dp
from minidp import Tensor, nn
from minidp.errors import ReplicaError


class Many(nn.Module):
    """A model with two inputs, one by name only that may be left out, and a table."""

    def __init__(self):
        super().__init__()
        self.net = mlp()

    def forward(self, left, right, *, mask=None, table, power):
        y = self.net((left + table[0]) * right**power)
        return y if mask is None else y * mask.reshape(-1, 1)


def trained(give, **layout):
    run = scheduler(Many(), **layout)
    for x, y in batches(7, 3):
        give(run, x, y)
    return flat(run.model)


def by_call(run, x, y):
    named = {"table": dp.Whole(np.full((2, 1), 0.5)), "power": dp.Whole(2)}
    run(x, x.numpy() + 1, y, mask=dp.linspace(0, 1, 7, dtype=dp.float64), **named)


def by_loader(run, x, y):
    mask = dp.linspace(0, 1, 7, dtype=dp.float64)
    named = {"table": dp.Whole(np.full((2, 1), 0.5)), "power": dp.Whole(2)}
    run.run([dp.Batch(x, x + 1, y, mask=mask, **named)])


def without_mask(run, x, y):
    run(x, x + 1, y, mask=None, table=dp.Whole(np.full((2, 1), 0.5)), power=dp.Whole(2))


@pytest.mark.parametrize("layout", [{"devices": 3}, {"devices": 2, "workload": [3, 1]},
                                    {"devices": 2, "accumulate": 2}], ids=str)  # fmt: skip
def test_any_split_is_one_device(layout):
    alone = trained(by_call, devices=1)
    assert distance(trained(by_call, **layout), alone) < 1e-12
    assert np.array_equal(trained(by_loader, **layout), trained(by_call, **layout))
    assert distance(trained(without_mask, **layout), trained(without_mask, devices=1)) < 1e-12


def test_what_is_no_batch():
    run, ((x, y),) = scheduler(Many(), devices=2), batches(4, 1)
    with pytest.raises(ReplicaError, match=r"at least the model's input .* such as \(x, y\)"):
        run(x)
    with pytest.raises(ReplicaError, match=r"the loader gave a dict.*dp\.Batch"):
        run.run([{"x": x, "y": y}])
    with pytest.raises(ReplicaError, match=r"holds 2, which has no rows.*dp\.Whole"):
        run(x, x, y, table=dp.Whole(x), power=2)
    with pytest.raises(ReplicaError, match=r"4 rows holds an array of 2 rows; .*dp\.Whole"):
        run(x, x, y, table=Tensor(np.ones(2)), power=dp.Whole(2))


def test_a_batch_may_lie_on_another_device():
    (x, y), runs = batches(7, 1)[0], [scheduler(mlp(), devices=2) for _ in range(2)]
    losses = [float(runs[0](x, y)), float(runs[1](x.to("emu:1"), y.to("emu:1")))]
    assert losses[0] == losses[1] and np.array_equal(*[flat(run.model) for run in runs])
