"""Indexing and indexed assignment: results, gradients and errors are PyTorch's."""

import numpy as np
import pytest

import minidp as dp
from minidp.errors import DTypeError, GraphError, ShapeError
from minidp.testing import gradcheck

PLACES = ["cpu", "emu:0"]


def numbers(*shape, device="cpu"):
    return dp.arange(int(np.prod(shape)), dtype=dp.float32, device=device).reshape(shape)


KEYS = [
    (1, (3, 4)), ((slice(None), 1), (2, 4)), ((..., 0), (2, 3)), ((None, 0), (1, 3, 4)),
    (slice(None, None, -1), (2, 3, 4)), ([1, 1, 0], (3, 3, 4)), (dp.tensor([0]), (1, 3, 4)),
    (dp.tensor(1), (3, 4)), (np.int64(1), (3, 4)), (range(2), (2, 3, 4)), ([], (0, 3, 4)),
    (([0, 1], slice(None), [1, 2]), (2, 3)), ((slice(None), [0, 2], [1, 1]), (2, 2)),
    ((0, slice(None), [1, 2]), (3, 2)), (([0, 1], 0, [0, 1]), (2,)), ((0, None, [0, 1]), (1, 2, 4)),
    (([True, False], 0), (1, 4)), ((0, dp.tensor([True, False, True])), (2, 4)),
    (dp.ones(2, 3) > 0, (6, 4)), ((np.array([[0], [1]]), np.array([0, 2])), (2, 2, 4)),
    ((..., dp.tensor([3, 3])), (2, 3, 2)), (True, (1, 2, 3, 4)), (np.zeros(2, bool), (0, 3, 4)),
]  # fmt: skip
"""Keys of a tensor of shape (2, 3, 4), and the shapes that PyTorch gives."""


@pytest.mark.parametrize("device", PLACES)
@pytest.mark.parametrize("key, shape", KEYS, ids=str)
def test_every_kind_of_key(key, shape, device):
    x = numbers(2, 3, 4, device=device).requires_grad_()
    y = x[key]
    assert y.shape == shape and str(y.device).startswith(device)
    y.sum().backward(retain_graph=True)
    assert x.grad.sum().item() == y.numel()  # repeated places add up
    z = x * 1
    z[key] = 2 * x.sum()
    assert set(z[key].ravel().tolist()) <= {2 * x.sum().item()}
    buffer = dp.zeros(2, 3, 4, device=device)
    buffer[key] = y * y
    assert buffer[key].tolist() == (y * y).tolist()
    x.grad = None
    buffer.sum().backward()
    assert x.grad.shape == x.shape


def test_an_integer_beside_an_index_array_is_taken_first():
    x = numbers(2, 3, 4)
    assert x[0, :, [1, 2]].tolist() == [[1, 2], [5, 6], [9, 10]]  # NumPy gives the transpose


@pytest.mark.parametrize("device", PLACES)
@pytest.mark.parametrize("key, text", [
    (5, "index 5.*size 2"), ((0, [0, 3]), "index 3 is out of range for an axis of size 3"),
    ([-3], "index -3.*expected -2 to 1"), (dp.tensor([1.0]), "float32"), ((0, 0, 0, 0), "too many"),
    (([0], 0, 0, 0), "4 indices"), (dp.ones(3) > 0, r"mask of shape \(3,\)"),
    (dp.zeros(2, dtype=dp.uint8), "uint8"),
])  # fmt: skip
def test_wrong_keys(key, text, device):
    x = numbers(2, 3, 4, device=device)
    with pytest.raises(IndexError, match=text):
        x[key]
    with pytest.raises(IndexError, match=text):
        x[key] = 1.0


def test_gradients_of_assignment():
    x = dp.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * x
    y[0] = x[2] * 10
    y[1:] += x[0]
    y.sum().backward()
    assert y.tolist() == [30, 5, 10] and x.grad.tolist() == [2, 4, 16]
    with pytest.raises(GraphError, match="leaf"):
        x[0] = 1
    with pytest.raises(GraphError, match="leaf"):
        x[:].fill_(1)
    with dp.no_grad():
        x[0] = 7
    assert x.tolist() == [7, 2, 3] and x.is_leaf


def test_a_buffer_is_filled_step_by_step():
    w = dp.tensor(2.0, requires_grad=True)
    states = dp.zeros(3)
    states[0] = w
    for i in range(1, 3):
        states[i] = states[i - 1].clone() * w
    states.sum().backward()
    assert states.tolist() == [2, 4, 8] and w.grad.item() == 1 + 2 * 2 + 3 * 4


@pytest.mark.parametrize("change, expected", [
    (lambda y, w: y[1].__setitem__(2, w[0] * 2), [[0, 0, 0], [0, 0, 2]]),
    (lambda y, w: y.view(-1)[3:].copy_(w), [[0, 0, 0], [1, 1, 1]]),
    (lambda y, w: y.T[1].add_(w[:2]), [[0, 1, 0], [0, 1, 0]]),
    (lambda y, w: y[:, :2].diagonal().copy_(w[:2]), [[1, 0, 0], [0, 1, 0]]),
    (lambda y, w: [row.add_(w) for row in y], [[1, 1, 1], [1, 1, 1]]),
    (lambda y, w: y.unsqueeze(0).narrow(2, 0, 1).fill_(w.sum()), [[3, 0, 0], [3, 0, 0]]),
])  # fmt: skip
def test_changes_reach_what_a_view_is_of(change, expected):
    w = dp.ones(3, requires_grad=True)
    y = dp.zeros(2, 3)
    other = y[:]  # made before the change, used after it
    change(y, w)
    assert y.tolist() == other.tolist() == expected
    (y * y).sum().backward(retain_graph=True)
    first, w.grad = w.grad, None
    (other * other).sum().backward()
    assert w.grad.tolist() == first.tolist() and w.grad.sum().item() > 0


def test_values_that_are_assigned():
    x = dp.zeros(2, 3, dtype=dp.int64)
    x[0] = dp.tensor([1.7, 2.0, -3.9])
    x[1] = dp.ones(1, 1, 3)
    x[0, 0] = dp.tensor([5])
    assert x.tolist() == [[5, 2, -3], [1, 1, 1]]
    with pytest.raises(ShapeError, match=r"indexed assignment.*\(2,\)"):
        x[0] = dp.zeros(2)
    with pytest.raises(TypeError, match="stack"):
        x[0] = [dp.tensor(1), dp.tensor(2), dp.tensor(3)]
    x[x > 1] = 0
    assert x.tolist() == [[0, 0, -3], [1, 1, 1]]


M = [[0.0, 1, 2], [3, 4, 5], [6, 7, 8]]
ALONG = [
    (lambda x, i: x.gather(1, i), [[2, 0], [4, 4]]),
    (lambda x, i: dp.gather(input=x, dim=0, index=i), [[6, 1], [3, 4]]),
    (lambda x, i: dp.take_along_dim(x, i[:1], 1), [[2, 0], [5, 3], [8, 6]]),
    (lambda x, i: dp.take(x, i), [[2, 0], [1, 1]]),
    (lambda x, i: x.index_select(1, i[0]), [[2, 0], [5, 3], [8, 6]]),
    (lambda x, i: x.scatter(0, i[:1], x[2:, :2] * 10), [[0, 70, 2], [3, 4, 5], [60, 7, 8]]),
    (lambda x, i: x.scatter(1, i, -1.0), [[-1, 1, -1], [3, -1, 5], [6, 7, 8]]),
    (lambda x, i: x.scatter_add(1, i, x[:2, :2]), [[1, 1, 2], [3, 11, 5], [6, 7, 8]]),
    (lambda x, i: x.scatter_reduce(1, i, 9 + x[:2, :2], "amax"), [[10, 1, 9], [3, 13, 5], M[2]]),
    (lambda x, i: x.scatter_reduce(1, i, x[:2, :2], "mean", include_self=False),
     [[1, 1, 0], [3, 3.5, 5], M[2]]),
    (lambda x, i: x.scatter_reduce(1, i, x[:2, :2], "sum"), [[1, 1, 2], [3, 11, 5], M[2]]),
    (lambda x, i: x.index_add(0, i[1], x[:2], alpha=2), [M[0], [9, 14, 19], M[2]]),
    (lambda x, i: x.index_copy(0, i[0], x[:2]), [M[1], M[1], M[0]]),
    (lambda x, i: x.index_fill(1, i[0], 0.5), [[0.5, 1, 0.5], [0.5, 4, 0.5], [0.5, 7, 0.5]]),
    (lambda x, i: x.index_put((i[1],), x[:2, :1] * 0 + 1, accumulate=True),
     [M[0], [5, 6, 7], M[2]]),
    (lambda x, i: x.masked_fill(x > 3, -1.0), [M[0], [3, -1, -1], [-1, -1, -1]]),
    (lambda x, i: x.masked_select(x[0] > 0), [1, 2, 4, 5, 7, 8]),
    (lambda x, i: x.masked_scatter(x < 2, x.flip(0)), [[6, 7, 2], M[1], M[2]]),
]  # fmt: skip


@pytest.mark.parametrize("device", PLACES)
@pytest.mark.parametrize("case", range(len(ALONG)))
def test_places_along_an_axis(case, device):
    function, expected = ALONG[case]
    index = dp.tensor([[2, 0], [1, 1]], device=device)
    assert function(dp.tensor(M, device=device), index).tolist() == expected
    if device == "cpu":
        x = dp.rand(3, 3, dtype=dp.float64) + dp.tensor(M)
        gradcheck(lambda x: function(x, index), x.requires_grad_())


@pytest.mark.parametrize("device", PLACES)
@pytest.mark.parametrize("name", ["gather", "scatter", "scatter_add", "index_select", "index_add"])
def test_wrong_places(name, device):
    x, index = dp.tensor(M, device=device), dp.tensor([[0, 3]], device=device)
    more = {"scatter": (x,), "scatter_add": (x,), "index_add": (x,)}.get(name, ())
    index = index[0] if name.startswith("index") else index
    for wrong, value in ((index, 3), (index - 1, -1)):
        with pytest.raises(IndexError, match=f"{name}: index {value} .*size 3; expected 0 to 2"):
            getattr(x, name)(1, wrong, *more)
    with pytest.raises(DTypeError, match="float32"):
        getattr(x, name)(1, index.float(), *more)


def test_in_place():
    w = dp.tensor(M, requires_grad=True)
    y = w * w
    assert y.masked_fill_(w > 4, 0.0) is y
    y.scatter_add_(0, dp.tensor([[0, 0, 0]]), w[:1])
    y.index_copy_(1, dp.tensor([2]), w[:, :1])
    y.sum().backward()
    assert w.grad.tolist() == [[2, 3, 0], [7, 8, 0], [1, 0, 0]]
    assert dp.zeros(3).scatter_(0, dp.tensor([1]), 1.0).tolist() == [0, 1, 0]
    with pytest.raises(DTypeError, match="float64"):
        dp.zeros(3).scatter_(0, dp.tensor([1]), dp.ones(1, dtype=dp.float64))


def test_where_and_how_many():
    x = dp.tensor([[0, 2], [3, 0]])
    assert x.nonzero().tolist() == dp.argwhere(x).tolist() == [[0, 1], [1, 0]]
    assert [i.tolist() for i in dp.nonzero(x, as_tuple=True)] == [[0, 1], [1, 0]]
    assert dp.tensor(3).nonzero().shape == (1, 0)
    line, values = dp.tensor([1.0, 3, 3, 5]), dp.tensor([0.0, 3, 9])
    assert dp.searchsorted(line, values).tolist() == [0, 1, 4]
    assert dp.bucketize(values, line, right=True).tolist() == [0, 3, 4]
    assert dp.searchsorted(line, 3.0, out_int32=True).dtype == dp.int32
    assert dp.isin(x, dp.tensor([2, 3]), invert=True).tolist() == [[True, False], [False, True]]


def test_a_view_that_no_grad_made():
    w, y = dp.ones(2, requires_grad=True), dp.zeros(2)
    with dp.no_grad():
        view = y[:]
    assert view.add_(1) is view and y.tolist() == [1, 1]
    with pytest.raises(GraphError, match="made under no_grad"):
        view.add_(w)
