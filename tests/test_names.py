"""PyTorch's names that old lessons meet beside the beaten path."""

import numpy as np
import pytest

import minidp as dp
from minidp import nn
from minidp.errors import DeviceError, ShapeError
from minidp.nn import functional as F
from minidp.testing import gradcheck

BICUBIC = {
    "zeros": [67.646131, -0.4276951875],
    "border": [58.812622, 9.55125],
    "reflection": [58.812622, 12.676315],
}
"""Computed once with PyTorch 2.13."""


def test_device_is_a_class():
    x = dp.ones(1)
    assert isinstance(x.device, dp.device) and dp.device is dp.Device
    assert dp.device("cuda:1") == dp.device("cuda", 1) == dp.device(dp.device("cuda:1"))
    assert dp.device("cpu") == dp.device("cpu", 0) == dp.device("cpu:0") != dp.device("emu")
    assert dp.device("cpu").type == "cpu" and dp.device("cuda:1").index == 1
    assert len({dp.device("cpu"), dp.device("cpu:0")}) == 1
    assert repr(dp.device("cuda:1")) == "device(type='cuda', index=1)"
    for wrong, text in (("cpu:0-1", "names 2 devices"), ("tpu", "unknown"), ("tpu:1", "unknown")):
        with pytest.raises(DeviceError, match=text):
            dp.device(wrong)
    with pytest.raises(AttributeError):
        x.device.index = 3


def test_threads_of_matrix_products():
    before = dp.get_num_threads()
    try:
        dp.set_num_threads(1)
        assert dp.get_num_threads() == 1
        for wrong in (0, "2", None):
            with pytest.raises(ValueError, match="expected an integer of at least 1"):
                dp.set_num_threads(wrong)
    finally:
        dp.set_num_threads(before)
    assert dp.get_num_threads() == before


def test_dicts_of_a_module():
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    assert list(model._modules) == ["0", "1"] and model._modules["0"] is model[0]
    assert list(model[0]._parameters) == ["weight", "bias"] and not model._parameters
    assert list(model[1]._buffers) == ["running_mean", "running_var", "num_batches_tracked"]
    with pytest.raises(TypeError):
        model._modules["2"] = nn.ReLU()
    with pytest.raises(AttributeError):
        model._modules = {}


def test_generators_are_made_as_pytorchs():
    for made in (dp.Generator("cpu"), dp.Generator(device="cpu"), dp.Generator(dp.device("cpu"))):
        assert made.manual_seed(4).initial_seed() == 4 and made.device.type == "cpu"
    with pytest.raises(DeviceError):
        dp.Generator("gpu")


def test_paths_and_types():
    x = dp.tensor([1.0, 2.0])
    assert dp.autograd.functional.jacobian(lambda x: x**2, x).tolist() == [[2, 0], [0, 4]]
    assert [dp.ones(1, dtype=d).type() for d in (dp.float32, dp.int64, dp.bool, dp.uint8)] == [
        "minidp.FloatTensor", "minidp.LongTensor", "minidp.BoolTensor", "minidp.ByteTensor",
    ]  # fmt: skip
    assert x.type(dp.int64).dtype == dp.int64


def test_unique_consecutive():
    x = dp.tensor([1, 1, 2, 1, 1, 1])
    found = x.unique_consecutive(True, True)
    assert [y.tolist() for y in found] == [[1, 2, 1], [0, 0, 1, 2, 2, 2], [2, 1, 3]]
    rows = dp.tensor([[1, 2], [1, 2], [2, 2]])
    assert dp.unique_consecutive(rows, dim=0).tolist() == [[1, 2], [2, 2]]
    assert dp.unique_consecutive(rows, dim=1).shape == (3, 2)
    assert dp.unique_consecutive(rows).tolist() == [1, 2, 1, 2]
    assert [len(y) for y in dp.unique_consecutive(dp.ones(0), True, True)] == [0, 0, 0]
    nan = dp.tensor([dp.nan, dp.nan, 1.0])
    assert len(dp.unique_consecutive(nan)) == 3


@pytest.mark.parametrize("device", ["cpu", "emu:0"])
def test_scatter_reduce_of_products(device):
    x = dp.tensor([2.0, 3.0, 5.0], device=device)
    index, src = (dp.tensor(v, device=device) for v in ([0, 0, 2], [7.0, 0.0, 4.0]))
    assert x.scatter_reduce(0, index, src, "prod").tolist() == [0, 3, 20]
    assert x.scatter_reduce(0, index, src, "prod", include_self=False).tolist() == [0, 3, 4]
    assert x.scatter(0, index, src, reduce="multiply").tolist() == [0, 3, 20]


def test_gradients_of_products_at_zeros():
    x = dp.tensor([[2.0, 0.0], [3.0, 5.0]], dtype=dp.float64, requires_grad=True)
    src = dp.tensor([[0.0, 4.0], [0.5, 0.0]], dtype=dp.float64, requires_grad=True)
    index = dp.tensor([[0, 0], [0, 1]])
    gradcheck(lambda x, s: x.scatter_reduce(1, index, s, "prod"), (x, src))
    gradcheck(lambda x, s: x.scatter_reduce(0, index, s, "prod", include_self=False), (x, src))


def test_grid_sample_bicubic():
    x = dp.arange(12.0, dtype=dp.float64).reshape(1, 1, 3, 4).square().requires_grad_()
    grid = dp.tensor([[[[-0.3, 0.4], [0.9, -1.4]]]], dtype=dp.float64, requires_grad=True)
    for padding, expected in BICUBIC.items():
        found = F.grid_sample(x, grid, "bicubic", padding, False)
        np.testing.assert_allclose(found.flatten().tolist(), expected)
        gradcheck(lambda x, g, p=padding: F.grid_sample(x, g, "bicubic", p, True), (x, grid))
    with pytest.raises(ValueError, match="bicubic"):
        F.grid_sample(dp.ones(1, 1, 2, 2, 2), dp.ones(1, 1, 1, 1, 3), "bicubic")


def test_view_of_a_dtype():
    x = dp.tensor([[1.0, -2.0]])
    assert x.view(dp.int32).tolist() == [[1065353216, -1073741824]]
    assert x.view(dp.int16).shape == (1, 4) and x.view(dp.float64).shape == (1, 1)
    assert np.shares_memory(x.view(dp.int32).array, x.array) and x.view(2).shape == (2,)
    with pytest.raises(ShapeError, match=r"view\(float64\) of float32\(1, 1\)"):
        dp.ones(1, 1).view(dp.float64)
