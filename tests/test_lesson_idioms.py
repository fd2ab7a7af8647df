"""Small things that lessons written for PyTorch lean on."""

import numpy as np
import pytest

import minidp as dp
from minidp import nn

FILLS = ["normal_", "uniform_", "zeros_", "ones_", "trunc_normal_", "eye_", "orthogonal_",
         "xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_"]  # fmt: skip


@pytest.mark.parametrize("name", FILLS)
def test_init_fills_the_array_of_a_parameter(name):
    layer = nn.Linear(4, 6)
    memory = layer.weight.array
    layer.weight.data.fill_(7)
    getattr(nn.init, name)(layer.weight.data)
    assert layer.weight.array is memory and (memory != 7).all()
    assert layer.weight.requires_grad and layer.weight.node.op is None


def test_init_with_arguments_fills_the_array_of_a_parameter():
    layer = nn.Linear(5, 10)
    nn.init.constant_(layer.bias.data, 3)
    nn.init.sparse_(layer.weight.data, 0.25)
    assert layer.bias.tolist() == [3.0] * 10
    assert ((layer.weight == 0).sum(0) == 3).all()


@pytest.mark.parametrize("silent", [dp.no_grad, dp.no_grad(), dp.inference_mode,
                                    dp.inference_mode()])  # fmt: skip
def test_decorators_with_and_without_parentheses(silent):
    x = dp.ones(2, requires_grad=True)

    @silent
    def twice(x, times=2):
        return x * times

    assert not twice(x).requires_grad and twice(x, times=3).tolist() == [3.0, 3.0]
    assert twice.__name__ == "twice" and (x * 2).requires_grad


def test_inference_mode_and_back():
    x = dp.ones(2, requires_grad=True)
    with dp.inference_mode():
        assert not (x * 2).requires_grad
        with dp.inference_mode(False):
            assert (x * 2).requires_grad

        @dp.enable_grad
        def twice(x):
            return x * 2

        assert twice(x).requires_grad
    with dp.inference_mode(mode=False):
        assert (x * 2).requires_grad
    assert np.array_equal(x.data, [1, 1])
