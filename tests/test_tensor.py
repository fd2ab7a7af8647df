"""What a Tensor is to its user: creation, printing, casts, what it may do."""

import copy
import pickle

import numpy as np
import pytest

from minidp import (
    create,
    functions,  # noqa: F401  (gives Tensor its methods)
)
from minidp.create import tensor
from minidp.errors import DTypeError, GraphError, MinidpError, ShapeError
from minidp.mode import get_default_dtype, set_default_dtype
from minidp.parameter import Buffer, Parameter
from minidp.tensor import Tensor
from minidp.testing import gradcheck


def leaf(values):
    return tensor(values, dtype="float64", requires_grad=True)


def equal(actual, expected):
    """The same shape, dtype and values."""
    expected = np.asarray(expected)
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(actual.detach().numpy(), expected)


# Creation


@pytest.mark.parametrize("values,dtype", [
    (1.5, "float32"), (2, "int64"), (True, "bool"), ([1, 2], "int64"), ([1, 2.5], "float32"),
    ([[True], [False]], "bool"), ([], "float32"), (np.ones(2), "float64"),
    (np.float64(1), "float64"),
    (np.float32(1), "float32"), (np.arange(3, dtype="uint8"), "uint8"), ((1.0, 2.0), "float32"),
    ([np.float64(1)], "float64"), ([[np.ones(2)]], "float64"),
])  # fmt: skip
def test_dtype_of_values(values, dtype):
    equal(tensor(values), np.array(values, dtype=dtype))


def test_tensor_copies_and_from_numpy_shares():
    array = np.zeros(2)
    for made, shares in ((tensor(array), False), (tensor(Tensor(array)), False),
                         (create.from_numpy(array), True), (create.as_tensor(array), True),
                         (create.as_tensor(array, "float32"), False)):  # fmt: skip
        assert np.shares_memory(made.array, array) is shares
    x = tensor([1.0])
    assert create.as_tensor(x) is x


def test_doubles_are_not_rounded_on_the_way():
    assert tensor(0.1, dtype="float64").item() == 0.1
    assert create.as_tensor([0.1], dtype="float64")[0].item() == 0.1
    assert create.full((2,), 0.1, dtype="float64")[1].item() == 0.1
    assert create.arange(0, 1, 0.1, dtype="float64")[1].item() == 0.1


def test_sizes_one_by_one_or_as_a_sequence():
    for make, value in ((create.zeros, 0), (create.ones, 1)):
        equal(make(2, 3), np.full((2, 3), value, "float32"))
        equal(make((2, 3), dtype="int64"), np.full((2, 3), value))
        equal(make(), np.float32(value))
    assert create.empty(2, 0).shape == (2, 0)
    assert create.zeros(2, requires_grad=True).requires_grad


def test_filled_and_like():
    equal(create.full((2,), 7), np.array([7, 7]))
    equal(create.full((2,), 7.0), np.array([7, 7], "float32"))
    x = tensor(np.ones((2, 1)))
    equal(create.zeros_like(x), np.zeros((2, 1)))
    equal(create.ones_like(x, dtype="float32"), np.ones((2, 1), "float32"))
    equal(create.full_like(x, 3), np.full((2, 1), 3.0))


def test_ranges():
    equal(create.arange(3), np.arange(3))
    equal(create.arange(1, 4, 2), np.array([1, 3]))
    equal(create.arange(3.0), np.arange(3, dtype="float32"))
    equal(create.arange(0, 1, 0.25), np.array([0, 0.25, 0.5, 0.75], "float32"))
    equal(create.linspace(0, 1, 3), np.array([0, 0.5, 1], "float32"))
    equal(create.eye(2), np.eye(2, dtype="float32"))
    equal(create.eye(2, 3, dtype="float64"), np.eye(2, 3))


def test_default_dtype():
    set_default_dtype("float64")
    try:
        assert get_default_dtype() == np.float64
        assert tensor(1.5).dtype == create.zeros(1).dtype == (tensor(2) / 3).dtype == np.float64
    finally:
        set_default_dtype("float32")


def test_creation_errors():
    with pytest.raises((DTypeError, ValueError)):
        tensor([[1.0], [1.0, 2.0]])
    with pytest.raises(DTypeError, match="number"):
        tensor([object()])
    with pytest.raises(TypeError):
        tensor([1.0], dtype="no such dtype")


# Looking at a tensor


@pytest.mark.parametrize("make,text", [
    (lambda: tensor([1.0, 2.5]), "tensor([1.0000, 2.5000])"),
    (lambda: tensor([1, 2]), "tensor([1, 2])"),
    (lambda: tensor(3.0), "tensor(3.)"),
    (lambda: tensor([True]), "tensor([True])"),
    (lambda: tensor([1.0], dtype="float64"), "tensor([1.], dtype=minidp.float64)"),
    (lambda: tensor([1.0], requires_grad=True), "tensor([1.], requires_grad=True)"),
    (lambda: tensor([1.0], requires_grad=True) * 2.0, "tensor([2.], grad_fn=<mul>)"),
    (lambda: create.zeros(0, 2), "tensor([], size=(0, 2))"),
    (lambda: Parameter(np.float32([1])), "Parameter containing:\ntensor([1.], requires_grad=True)"),
    (lambda: tensor([[1, 2], [3, 4]]), "tensor([[1, 2],\n        [3, 4]])"),
])  # fmt: skip
def test_printing(make, text):
    assert repr(make()) == text == str(make())


def test_long_tensors_print_short():
    assert "..." in repr(create.zeros(2000)) and len(repr(create.zeros(2000))) < 100
    assert f"{tensor(1.23456):.2f}" == "1.23"


def test_python_numbers_out():
    assert tensor(1.5).item() == 1.5 and type(tensor([[2]]).item()) is int
    assert tensor([[1, 2]]).tolist() == [[1, 2]]
    assert (float(tensor(1.5)), int(tensor(2.7)), bool(tensor(0.0))) == (1.5, 2, False)
    assert [10, 20][tensor(1)] == 20
    with pytest.raises(TypeError, match="float32 cannot be an index"):
        [10][tensor(0.0)]
    with pytest.raises(ShapeError, match=r"one element.*\(2,\)"):
        tensor([1, 2]).item()
    with pytest.raises(MinidpError):
        bool(tensor([1, 2]))


def test_sizes_and_iteration():
    x = tensor(np.zeros((2, 3), "float32"))
    assert (x.shape, x.size(), x.size(-1), x.dim(), x.ndim, x.numel()) == (
        (2, 3), (2, 3), 3, 2, 2, 6)  # fmt: skip
    assert (x.element_size(), len(x), x.is_contiguous(), x.T.is_contiguous()) == (4, 2, True, False)
    assert [row.shape for row in x] == [(3,), (3,)]
    assert 0.0 in x and 5.0 not in x
    assert len({x, x, tensor(0.0)}) == 2
    with pytest.raises(TypeError):
        len(tensor(1.0))


def test_numpy_shares_and_refuses_graphs():
    x = tensor([1.0, 2.0])
    x.numpy()[0] = 7
    assert x[0].item() == 7
    assert np.asarray(x).dtype == np.float32 and np.array(x, dtype="float64").dtype == np.float64
    x.requires_grad_()
    with pytest.raises(GraphError, match=r"detach\(\).numpy\(\)"):
        x.numpy()
    assert np.shares_memory(x.detach().numpy(), x.array)


def test_detach_clone_contiguous():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    assert not x.detach().requires_grad
    twin = x.clone()
    assert twin.requires_grad and not np.shares_memory(twin.array, x.array)
    twin.sum().backward()
    equal(x.grad, np.ones((2, 2)))
    assert x.contiguous() is x and x.T.contiguous().is_contiguous()
    gradcheck(lambda x: x.T.contiguous() * 2.0, x)


def test_to_and_casts():
    x = tensor([1.5, 2.5])
    assert x.to("float32") is x.float() is x.to("cpu:0") is x.cpu() is x
    equal(x.long(), np.array([1, 2]))
    equal(x.to("cpu", "double"), np.array([1.5, 2.5]))
    equal(x.to(dtype=np.int32), np.array([1, 2], "int32"))
    equal(x.to(tensor([1], dtype="float64")), np.array([1.5, 2.5]))
    names = {"half": "float16", "double": "float64", "int": "int32", "bool": "bool"}
    for name, dtype in names.items():
        assert getattr(x, name)().dtype == dtype
    assert str(x.device) == "cpu:0"


def test_requires_grad_switches():
    x = tensor([1.0])
    x.requires_grad = True
    assert x.requires_grad and x.is_leaf and x.grad is None
    y = x * 2.0
    assert not y.is_leaf
    with pytest.raises(GraphError, match="detach"):
        y.requires_grad_(False)
    with pytest.raises(GraphError, match=r"\(2,\).*\(1,\)"):
        x.grad = tensor([1.0, 2.0])
    x.requires_grad_(False)
    assert not x.requires_grad
    with pytest.raises(GraphError, match="requires a gradient"):
        x.grad = tensor([1.0])


@pytest.mark.parametrize("kind", [Tensor, Parameter, Buffer])
def test_copying_and_pickling_keep_the_kind(kind):
    x = kind(np.float32([1, 2]))
    for twin in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert type(twin) is kind and twin.requires_grad is x.requires_grad
        assert not np.shares_memory(twin.array, x.array)
        np.testing.assert_array_equal(twin.array, x.array)
    with pytest.raises(GraphError, match="clone"):
        copy.deepcopy(leaf([1.0]) * 2.0)


# In-place changes


def test_filling_and_copying():
    x = tensor(np.zeros((2, 2), "float32"))
    equal(x.fill_(3), np.full((2, 2), 3, "float32"))
    equal(x.copy_(np.array([1.0, 2.0])), np.array([[1, 2], [1, 2]], "float32"))
    equal(x.copy_(tensor([[5], [6]])), np.array([[5, 5], [6, 6]], "float32"))
    equal(x.zero_(), np.zeros((2, 2), "float32"))


@pytest.mark.parametrize("key,value", [
    (0, 1.0), ((slice(None), 1), [7.0, 8.0, 9.0]), (..., 2.0), (np.array([0, 2]), 5.0),
    (np.eye(3, dtype=bool), 4.0), (slice(None, None, -1), np.arange(9.0).reshape(3, 3)),
    (([0, 1], [1, 2]), 6.0),
])  # fmt: skip
def test_indexed_assignment(key, value):
    x, expected = tensor(np.zeros((3, 3))), np.zeros((3, 3))
    x[key], expected[key] = value, value
    equal(x, expected)


def test_indexed_assignment_with_tensors():
    x = tensor(np.zeros((3, 3)))
    x[tensor([0, 2])] = tensor([1.0, 2.0, 3.0])
    x[tensor(np.eye(3, dtype=bool))] = tensor(9.0)
    equal(x, np.array([[9.0, 2, 3], [0, 9, 0], [1, 2, 9]]))
