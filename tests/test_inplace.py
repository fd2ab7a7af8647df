"""Arithmetic in place, and NumPy's operators on Tensors."""

import numpy as np
import pytest

import minidp as dp
from minidp import Tensor, nn
from minidp.errors import DTypeError, GraphError, ShapeError


def test_the_update_that_every_lesson_writes():
    x, y = dp.randn(64, 3), dp.randn(64)
    w = dp.zeros(3, requires_grad=True)
    before = w.array
    for _ in range(3):
        loss = ((x @ w - y) ** 2).mean()
        loss.backward()
        expected = w.array - 0.1 * w.grad.array
        with dp.no_grad():
            w -= 0.1 * w.grad
        assert w.array is before and w.is_leaf and w.requires_grad
        assert np.allclose(w.array, expected) and np.any(expected != 0)
        w.grad.zero_()


@pytest.mark.parametrize("name, expected", [("add_", 9), ("sub_", 5), ("mul_", 14), ("div_", 3.5)])
def test_methods(name, expected):
    x = dp.tensor([7.0])
    view = x[:]
    assert getattr(x, name)(2) is x and x.item() == view.item() == expected


def test_a_recorded_tensor_takes_over_the_node():
    w = dp.tensor([2.0, 3.0], requires_grad=True)
    y = w * w
    same = y
    y += 1
    y *= w
    y -= dp.tensor([1.0, 1.0])
    y /= 2
    assert y is same and y.tolist() == [4.5, 14.5]
    y.sum().backward()
    assert w.grad.tolist() == [6.5, 14.0]  # (3 w^2 + 1) / 2


def test_what_is_refused():
    w = dp.ones(2, requires_grad=True)
    with pytest.raises(GraphError, match="leaf"):
        w += 1
    assert w.tolist() == [1, 1]
    with pytest.raises(DTypeError, match="int64"):
        dp.ones(2, dtype=dp.int64).add_(0.5)
    with pytest.raises(ShapeError, match="shape"):
        dp.ones(2).add_(dp.ones(3, 2))
    y = w * 2
    z = y * y
    y += 1
    with pytest.raises(GraphError, match="changed in place"):
        z.sum().backward()


def test_arrays_and_numpys_functions():
    x = dp.tensor([1.0, 4.0], requires_grad=True)
    array = np.array([10.0, 20.0], "float32")
    for got, values in [
        (array + x, [11, 24]), (array - x, [9, 16]), (array * x, [10, 80]), (array / x, [10, 5]),
        (np.sqrt(x), [1, 2]), (np.maximum(x, 3), [3, 4]), (array @ x, 90), (array > x, [True] * 2),
        (np.eye(2, dtype="float32") @ x, [1, 4]), (np.float32(2) * x, [2, 8]),
    ]:  # fmt: skip
        assert isinstance(got, Tensor) and got.tolist() == values
    assert (array * x).requires_grad
    same = array
    array -= dp.tensor([1.0, 2.0])
    assert array is same and array.tolist() == [9, 18]


def test_the_array_of_a_parameter_may_be_assigned():
    p = nn.Linear(2, 1).weight
    p.data = dp.ones(1, 2)
    p.data -= 0.25 * dp.ones(1, 2)
    p.data = p.data * 2
    p.data.mul_(1.0)
    assert type(p.array) is np.ndarray and not p.data.requires_grad and p.tolist() == [[1.5, 1.5]]
