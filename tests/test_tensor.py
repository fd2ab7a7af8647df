"""What a Tensor is to its user: creation, printing, indexing, reductions, random numbers."""

import copy
import pickle

import numpy as np
import pytest

from minidp import (
    create,
    ops,  # noqa: F401  (gives Tensor its methods)
    random,
)
from minidp.autograd import grad
from minidp.create import tensor
from minidp.errors import DTypeError, GraphError, MinidpError, ShapeError
from minidp.functions.layout import cat, stack
from minidp.mode import get_default_dtype, set_default_dtype
from minidp.parameter import Buffer, Parameter
from minidp.random import Generator
from minidp.tensor import Tensor
from minidp.testing import gradcheck

RNG = np.random.default_rng(0)


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
        assert np.shares_memory(made.data, array) is shares
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
    (lambda: tensor([1.0, 2.5]), "tensor([1. , 2.5])"),
    (lambda: tensor([1, 2]), "tensor([1, 2])"),
    (lambda: tensor(3.0), "tensor(3.)"),
    (lambda: tensor([True]), "tensor([ True])"),
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
    with pytest.raises(GraphError, match=r"one element.*\(2,\)"):
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
    assert np.shares_memory(x.detach().numpy(), x.data)


def test_detach_clone_contiguous():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    assert not x.detach().requires_grad
    twin = x.clone()
    assert twin.requires_grad and not np.shares_memory(twin.data, x.data)
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
        assert not np.shares_memory(twin.data, x.data)
        np.testing.assert_array_equal(twin.data, x.data)
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


# Indexing

SOURCE = RNG.standard_normal((4, 3, 2))
KEYS = {
    "integer": 1, "negative": -1, "numpy integer": np.int64(2), "slice": slice(1, 3),
    "step": slice(None, None, 2), "negative step": slice(None, None, -1), "empty": slice(2, 2),
    "ellipsis": ..., "ellipsis and integer": (..., 0), "none": None,
    "none inside": (slice(None), None, 1), "tuple": (1, slice(None), -1), "scalar": (0, 1, 1),
    "list": [0, 2], "repeated list": [1, 1, 1], "array": np.array([[0, 1], [3, 0]]),
    "negative array": np.array([-1, 0]), "repeated array": np.array([2, 2, 0]),
    "mask": np.array([True, False, True, True]), "full mask": SOURCE > 0, "no mask": SOURCE > 99,
    "arrays": (np.array([0, 1, 0]), np.array([1, 1, 1])),
    "arrays apart": (np.array([0, 1, 0]), slice(None), np.array([1, 0, 1])),
    "array and integer": (np.array([0, 0]), 1), "mask and slice": (SOURCE[:, 0, 0] > 0, slice(1)),
    "grid": np.ix_([0, 3], [1, 1]), "range": range(2),
}  # fmt: skip


@pytest.mark.parametrize("name", KEYS)
def test_indexing(name):
    key, x = KEYS[name], leaf(SOURCE)
    equal(x[key], SOURCE[key])
    gradcheck(lambda x: x[key] * 2.0, x, directions=2)
    y = x[key]
    y.backward(create.ones_like(y))
    counts = np.zeros(SOURCE.shape)
    np.add.at(counts, key, 1.0)
    equal(x.grad, counts)


def test_tensors_as_keys():
    x = leaf(SOURCE)
    for key in (tensor([1, 1, 0]), tensor(2), tensor(SOURCE) > 0, (tensor([0, 1]), slice(None), 1)):
        plain = tuple(k.data if isinstance(k, Tensor) else k for k in key) \
            if isinstance(key, tuple) else key.data  # fmt: skip
        equal(x[key], SOURCE[plain])
        gradcheck(lambda x, key=key: x[key] * 2.0, x, directions=1)
    equal(x[tensor(1) :], SOURCE[1:])


def test_indexing_errors_stay_index_errors():
    x = tensor([1.0, 2.0])
    for key in (2, (0, 0), np.array([5])):
        with pytest.raises(IndexError):
            x[key]
    assert [v.item() for v in x] == [1.0, 2.0]


def test_gather_and_take_along():
    x, index = leaf(SOURCE[..., 0]), tensor([[0, 2], [1, 1]])
    equal(x.gather(1, index), np.take_along_axis(SOURCE[:2, :, 0], index.data, 1))
    equal(x.gather(0, index), np.take_along_axis(SOURCE[:, :2, 0], index.data, 0))
    gradcheck(lambda x: x.gather(-1, index), x)


# Comparisons


def test_comparisons_are_element_by_element():
    a, b = np.array([1.0, 2.0, np.nan]), np.array([1.0, 3.0, np.nan])
    x, y = tensor(a), tensor(b)
    pairs = ((x == y, a == b), (x != y, a != b), (x < y, a < b), (x <= y, a <= b), (x > y, a > b),
             (x >= 2, a >= 2), (np.float64(2) >= x, a <= 2), (a == y, a == b),
             (x.isnan(), np.isnan(a)), (x.isfinite(), np.isfinite(a)))  # fmt: skip
    for actual, expected in pairs:
        equal(actual, expected)
    assert (x[:2] > 0).all() and (x == 2).any() and not (x == y).all()


# Reductions

DIMS = [None, 0, 1, -1, (0,), (0, 2), (-1, 0), (0, 1, 2), [1]]


def axes(dim):
    return tuple(dim) if isinstance(dim, list) else dim


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", DIMS, ids=str)
@pytest.mark.parametrize("name", ["sum", "mean", "var", "std", "amax", "amin", "norm"])
def test_reductions(name, dim, keepdim):
    x, options = leaf(SOURCE), {"axis": axes(dim), "keepdims": keepdim}
    expected = {
        "sum": np.sum, "mean": np.mean, "amax": np.max, "amin": np.min,
        "var": lambda a, **o: np.var(a, ddof=1, **o), "std": lambda a, **o: np.std(a, ddof=1, **o),
        "norm": lambda a, **o: np.sqrt(np.sum(a * a, **o)),
    }[name](SOURCE, **options)  # fmt: skip

    def reduce(x):
        return getattr(x, name)(dim=dim, keepdim=keepdim)

    y = reduce(x)
    assert (y.shape, y.dtype) == (np.shape(expected), np.float64)
    np.testing.assert_allclose(y.detach().numpy(), expected, rtol=1e-12)
    gradcheck(reduce, x, directions=1)


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_max_and_min_with_places(dim, keepdim):
    x = leaf(SOURCE)
    for name, choose in (("max", np.argmax), ("min", np.argmin)):
        values, places = getattr(x, name)(dim, keepdim)
        equal(places, choose(SOURCE, axis=dim, keepdims=keepdim))
        equal(values, getattr(np, name)(SOURCE, axis=dim, keepdims=keepdim))
        gradcheck(lambda x, name=name: getattr(x, name)(dim, keepdim)[0], x, directions=1)


def test_max_of_everything_and_of_pairs():
    x, y = leaf([1.0, 3.0]), leaf([2.0, 1.0])
    assert x.max().item() == 3 and x.min().item() == 1 and tensor(2.0).max(0)[0].item() == 2
    equal(x.max(y), np.array([2.0, 3.0]))
    equal(x.min(y), np.array([1.0, 1.0]))
    assert (x.argmax().item(), x.argmin().item()) == (1, 0)


def test_ties_share_the_cotangent():
    x = leaf([2.0, 2.0, 1.0])
    x.amax().backward()
    equal(x.grad, np.array([0.5, 0.5, 0]))
    (g,) = grad(x.maximum(tensor([2.0, 0.0, 5.0], dtype="float64")).sum(), x)
    equal(g, np.array([0.5, 1, 0]))


def test_reductions_of_integers_and_nothing():
    equal(tensor([[1, 2], [3, 4]]).sum(0), np.array([4, 6]))
    equal(tensor([True, True]).sum(), np.array(2))
    equal(tensor([1, 2], dtype="int32").sum(dtype="float64"), np.array(3.0))
    equal(create.zeros(0).sum(), np.float32(0))
    assert create.zeros(0).mean().isnan().item() and tensor([1.0]).var().isnan().item()
    with pytest.raises(TypeError, match=r"int64.*float"):
        tensor([1, 2]).mean()
    for call in (lambda x: x.max(), lambda x: x.argmin(), lambda x: x.amin(dim=0)):
        with pytest.raises(ShapeError, match="nothing to choose from"):
            call(create.zeros(0, 2))


def test_half_precision_sums_do_not_saturate():
    assert create.ones(4096, dtype="float16").sum().item() == 4096


# Shapes


def test_layout_methods():
    a = np.arange(24.0).reshape(2, 3, 4)
    x = tensor(a)
    pairs = [
        (x.reshape(6, -1), a.reshape(6, -1)), (x.view((4, 6)), a.reshape(4, 6)),
        (x.permute(2, 0, 1), a.transpose(2, 0, 1)), (x.permute((0, -1, 1)), a.transpose(0, 2, 1)),
        (x.transpose(0, -1), a.swapaxes(0, -1)), (x.T, a.T), (x[0].t(), a[0].T),
        (x.flatten(), a.ravel()), (x.flatten(1), a.reshape(2, 12)),
        (x.flatten(0, 1), a.reshape(6, 4)),
        (x.unsqueeze(0), a[None]), (x.unsqueeze(-1), a[..., None]), (x[:1].squeeze(), a[0]),
        (x[:1].squeeze(0), a[0]), (x.squeeze(0), a), (x[:1].expand(5, -1, -1), a[[0] * 5]),
        (tensor(a[0, 0]).expand(3, 4), a[0, [0] * 3]), (x.clamp(3, 9), a.clip(3, 9)),
        (x.clamp(min=5.0), a.clip(5)), (cat([x, x[:, :1]], 1), np.concatenate([a, a[:, :1]], 1)),
        (stack([x, x], -1), np.stack([a, a], -1)), (x.split(2, 1)[1], a[:, 2:]),
        (x.split([1, 2], 1)[1], a[:, 1:]), (x.chunk(2, -1)[1], a[..., 2:]),
    ]  # fmt: skip
    for actual, expected in pairs:
        equal(actual, expected)
    assert [len(part) for part in tensor(np.arange(5)).chunk(3)] == [2, 2, 1]


def test_vector_products():
    a, b, m = RNG.standard_normal(3), RNG.standard_normal(3), RNG.standard_normal((2, 4, 3))
    for left, right in ((a, b), (m, a), (a, m.swapaxes(1, 2)), (m, m[0].T)):
        y = leaf(left) @ leaf(right)
        np.testing.assert_allclose(y.detach().numpy(), left @ right)
        assert y.shape == (left @ right).shape
        gradcheck(lambda x, y: x @ y, [leaf(left), leaf(right)], directions=1)


# Errors say what was called, with which shapes, and what to do


@pytest.mark.parametrize("call,pattern", [
    (lambda x: x + tensor([1.0, 2.0]), r"add\(\(2, 3\), \(2,\)\).*axis -1 .*\[2, 3\].*equal or 1"),
    (lambda x: x @ x, r"matmul\(\(2, 3\), \(2, 3\)\).*axis 'k' is 3 .* and 2"),
    (lambda x: x.sum(2), r"sum: dim 2 .* 2 axes.*from -2 to 1"),
    (lambda x: x.sum((0, 0)), r"sum: dim \(0, 0\) names an axis twice"),
    (lambda x: x.reshape(4), r"6 elements do not fill the shape \(4,\)"),
    (lambda x: x.reshape(-1, -1), r"6 elements"),
    (lambda x: x.permute(0, 0), r"permute\(\(2, 3\), \(0, 0\)\): name every axis once"),
    (lambda x: x.transpose(0, 5), r"transpose: dim 5"),
    (lambda x: x.expand(2, 4), r"expand\(\(2, 3\), \(2, 4\)\): only axes of length 1"),
    (lambda x: cat([x, x.T]), r"cat\(\(2, 3\), \(3, 2\)\): all axes but 0"),
    (lambda x: cat([]), r"at least one"),
    (lambda x: x.split([1, 3], 0), r"split\(\[1, 3\]\).*add up to 2"),
    (lambda x: x.flatten(1, 0), r"flatten\(1, 0\)"),
    (lambda x: x.unsqueeze(4), r"unsqueeze: dim 4"),
    (lambda x: x[0].t().unsqueeze(0).unsqueeze(0).t(), r"transpose\(\)"),
    (lambda x: x @ tensor(1.0), r"matmul\(\(2, 3\), \(\)\)"),
])  # fmt: skip
def test_shape_errors(call, pattern):
    with pytest.raises(ShapeError, match=pattern):
        call(tensor(np.zeros((2, 3), "float32")))


def test_dtype_errors():
    with pytest.raises(DTypeError, match=r"matmul: .*float32 and float64.*\.double"):
        tensor(np.zeros((2, 2), "float32")) @ tensor(np.zeros((2, 2)))


# Random numbers


@pytest.mark.parametrize("counter,key,expected", [
    (0, 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    (0xFFFFFFFF, 0xFFFFFFFF, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
])  # fmt: skip
def test_philox_known_answers(counter, key, expected):
    out = random.philox(np, [np.array([counter], np.uint64)] * 4, key, key)
    assert " ".join(f"{int(word[0]):08x}" for word in out) == expected


def test_words_do_not_depend_on_how_rows_are_cut():
    key = (2**40 + 1, 3, 2)
    whole = random.words(np, key, 0, 7, 10)
    parts = [random.words(np, key, 0, 3, 10), random.words(np, key, 3, 4, 10)]
    np.testing.assert_array_equal(whole, np.concatenate(parts))
    np.testing.assert_array_equal(whole[:, :5], random.words(np, key, 0, 7, 5))
    for other in ((2**40 + 2, 3, 2), (1, 3, 2), (2**40 + 1, 4, 2), (2**40 + 1, 3, 1)):
        assert (random.words(np, other, 0, 7, 10) != whole).mean() > 0.9


def test_same_seed_same_values():
    makers = (lambda g: create.rand(3, 4, generator=g), lambda g: create.randn(5, generator=g),
              lambda g: create.randint(0, 9, (8,), generator=g),
              lambda g: create.randperm(9, generator=g))  # fmt: skip
    for make in makers:
        first, again, other = Generator(5), Generator(5), Generator(6)
        a, b, c = make(first), make(again), make(other)
        assert a.tolist() == b.tolist() != c.tolist()
        assert make(first).tolist() != a.tolist()
    random.manual_seed(3)
    a = create.rand(4).tolist()
    random.manual_seed(3)
    assert create.rand(4).tolist() == a


def test_generator_state_goes_back():
    g = Generator(1)
    create.rand(3, generator=g)
    state = g.get_state()
    a = create.rand(3, generator=g).tolist()
    g.set_state(state)
    assert create.rand(3, generator=g).tolist() == a


def test_draws_are_independent():
    g = Generator(0)
    a, b = (create.randn(20_000, generator=g, dtype="float64").numpy() for _ in range(2))
    for x, y in ((a, b), (a[1:], a[:-1]), (a[::2], a[1::2]), (a[:10_000], a[10_000:])):
        assert abs(np.corrcoef(x, y)[0, 1]) < 0.03  # about four standard errors


def test_uniform_numbers():
    x = create.rand(50_000, generator=Generator(0))
    values = x.numpy()
    assert x.dtype == np.float32 and values.min() >= 0 and values.max() < 1
    counts = np.histogram(values, 20, (0, 1))[0]
    assert abs(counts - 2500).max() < 250
    assert create.rand(2, 3, dtype="float64").dtype == np.float64


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_uniform_numbers_never_reach_one(dtype, monkeypatch):
    monkeypatch.setattr(random, "uniforms", lambda key, count: np.full(count, 1 - 2.0**-53))
    assert create.rand(3, dtype=dtype).numpy().max() < 1


def test_normal_numbers():
    values = create.randn(50_001, generator=Generator(0), dtype="float64").numpy()
    moments = [(values**k).mean() for k in (1, 2, 3, 4)]
    np.testing.assert_allclose(moments, [0, 1, 0, 3], atol=0.12)
    assert np.isfinite(values).all() and 3.5 < abs(values).max() < 6
    assert create.randn(3).dtype == np.float32


def test_integers_and_permutations():
    x = create.randint(-3, 4, (7000,), generator=Generator(0))
    assert x.dtype == np.int64 and sorted(set(x.tolist())) == list(range(-3, 4))
    assert abs(np.bincount(x.numpy() + 3) - 1000).max() < 150
    assert create.randint(5, (2, 3)).shape == (2, 3)
    assert sorted(create.randperm(50).tolist()) == list(range(50))


def test_random_like():
    x = tensor(np.zeros((2, 3)))
    for make in (create.rand_like, create.randn_like):
        assert (make(x).shape, make(x).dtype) == ((2, 3), np.float64)
