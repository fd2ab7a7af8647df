"""Summaries of models, and limits on gradients."""

import numpy as np
import pytest
from waves import leaf

import minidp as dp
from minidp import nn


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(),
        nn.AvgPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Dropout(0.5),
        nn.Linear(120, 10),
    )  # fmt: skip


class Noise(nn.Module):
    def forward(self, x):
        return x + dp.rand(x.shape)


def test_summary_counts_and_leaves_everything_as_it_was():
    model = nn.Sequential(*lenet(), nn.BatchNorm1d(10), Noise())
    model[9].eval()
    state = dp.default_generator.get_state()
    table = nn.summary(model, (2, 1, 28, 28))
    assert dp.default_generator.get_state() == state
    assert model[11].num_batches_tracked.item() == 0
    assert model.training and not model[9].training
    by_path = {row.path: row for row in table.rows}
    assert by_path["0"].shape == (2, 6, 28, 28) and by_path["0"].parameters == 156
    assert by_path["0"].flops == 2 * 28 * 28 * 6 * (2 * 25 + 1)
    assert by_path["7"].flops == 2 * 120 * (2 * 400 + 1)
    assert table.parameters == table.trainable == sum(p.numel() for p in model.parameters())
    assert table.flops == sum(row.flops for row in table.rows)
    assert "Conv2d" in str(table) and f"{table.parameters:,}" in str(table)
    assert not any(module._forward_hooks for module in model.modules())


def test_summary_counts_shared_layers_once_and_takes_examples():
    layer = nn.Linear(3, 3)
    table = nn.summary(nn.Sequential(layer, layer), dp.ones(5, 3))
    assert [row.parameters for row in table.rows] == [12, 0] and table.parameters == 12
    assert table.flops == 2 * 15 * 7
    assert nn.summary(nn.Linear(2, 1), (4, 2)).rows[0].path == "Linear"


def test_clipping_by_norm_and_value():
    leaves = [leaf(3, 4), leaf(5)]
    for each in leaves:
        (each * each).sum().backward()
    norm = nn.utils.clip_grad_norm_(leaves, 0.5)
    assert norm.item() == pytest.approx(6.095466369180054)
    expected = [0.16268888838065662, -0.041923135101813516, -0.1518857580977044]
    np.testing.assert_allclose(leaves[0].grad.array[0, :3], expected)
    small = leaves[1].grad.numpy().copy()
    nn.utils.clip_grad_norm_(leaves, 10.0)
    np.testing.assert_array_equal(leaves[1].grad.array, small)
    assert nn.utils.clip_grad_norm_(leaves, 10.0, float("inf")).item() == pytest.approx(
        max(abs(leaf.grad.array).max() for leaf in leaves)
    )
    nn.utils.clip_grad_value_(leaves, 0.01)
    assert all(abs(each.grad.array).max() == 0.01 for each in leaves)
    leaves[0].grad.array[0, 0] = np.nan
    before = leaves[1].grad.numpy().copy()
    with pytest.raises(RuntimeError, match="nan"):
        nn.utils.clip_grad_norm_(leaves, 0.001, error_if_nonfinite=True)
    np.testing.assert_array_equal(leaves[1].grad.array, before)


def test_norms_of_any_tensors_and_of_none():
    assert nn.utils.get_total_norm([dp.tensor([3.0]), dp.tensor([4.0])]).item() == 5
    assert nn.utils.get_total_norm([]).item() == 0
    assert nn.utils.clip_grad_norm_(nn.Linear(1, 1).parameters(), 1.0).item() == 0
    layer = nn.Linear(2, 1, bias=False)
    layer(dp.tensor([[3.0, 4.0]])).backward()
    nn.utils.clip_grads_with_norm_(layer.parameters(), 1.0, dp.tensor(10.0))
    assert layer.weight.grad.tolist() == [[pytest.approx(0.3), pytest.approx(0.4)]]


def test_parameters_as_one_vector_and_back():
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    vector = nn.utils.parameters_to_vector(model.parameters())
    assert vector.shape == (13,) and vector.requires_grad
    weight, memory = model[0].weight, model[0].weight.array
    nn.utils.vector_to_parameters(dp.arange(13.0), model.parameters())
    assert model[0].weight is weight and weight.array is memory
    assert weight.tolist() == [[0, 1], [2, 3], [4, 5]] and model[1].bias.tolist() == [12]
    with pytest.raises(ValueError, match="13 parameters"):
        nn.utils.vector_to_parameters(dp.ones(12), model.parameters())
