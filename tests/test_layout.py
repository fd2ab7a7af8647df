"""Functions of layout: values, gradients, keywords and errors are PyTorch's."""

import numpy as np
import pytest

import minidp as dp
from minidp.errors import ShapeError
from minidp.functions.padding import pad
from minidp.testing import gradcheck

PLACES = ["cpu", "emu:0"]


def count(*shape, device="cpu", **options):
    """0, 1, 2, ... in a shape."""
    size = int(np.prod(shape, dtype=int))
    return dp.arange(size, dtype=dp.float32, device=device, **options).reshape(shape)


VALUES = [
    (lambda x: dp.reshape(input=x, shape=(3, -1)), [[0, 1], [2, 3], [4, 5]]),
    (lambda x: x.unflatten(1, (3, 1)).shape, (2, 3, 1)),
    (lambda x: x.ravel(), [0, 1, 2, 3, 4, 5]),
    (lambda x: dp.permute(input=x, dims=(1, 0)), [[0, 3], [1, 4], [2, 5]]),
    (lambda x: x.unsqueeze(0).movedim((0, 1), (-1, 0)).shape, (2, 3, 1)),
    (lambda x: x.mT, [[0, 3], [1, 4], [2, 5]]),
    (lambda x: x[:, :1].expand(-1, 2), [[0, 0], [3, 3]]),
    (lambda x: x.expand(2, -1, -1).shape, (2, 2, 3)),
    (lambda x: x.unsqueeze(0).squeeze((0, 1)).shape, (2, 3)),
    (lambda x: [y.shape for y in dp.broadcast_tensors(x[0], x[:, :1])], [(2, 3), (2, 3)]),
    (lambda x: dp.cat(tensors=(x, dp.zeros(0, device=x.device)), dim=0).shape, (2, 3)),
    (lambda x: dp.stack([x[0], x[1]], dim=-1), [[0, 3], [1, 4], [2, 5]]),
    (lambda x: dp.hstack([x[0], x[1]]), [0, 1, 2, 3, 4, 5]),
    (lambda x: dp.vstack([x[0], x[1]]).shape, (2, 3)),
    (lambda x: dp.dstack([x[0], x[1]]), [[[0, 3], [1, 4], [2, 5]]]),
    (lambda x: [y.tolist() for y in x.split([1, 2], -1)], [[[0], [3]], [[1, 2], [4, 5]]]),
    (lambda x: [y.shape for y in x.ravel().chunk(4)], [(2,), (2,), (2,)]),
    (lambda x: [y.shape for y in x.ravel().tensor_split(4)], [(2,), (2,), (1,), (1,)]),
    (lambda x: [y.tolist() for y in x.ravel().tensor_split((1, -2))], [[0], [1, 2, 3], [4, 5]]),
    (lambda x: [y.tolist() for y in dp.unbind(x, 1)], [[0, 3], [1, 4], [2, 5]]),
    (lambda x: x.select(1, -1), [2, 5]),
    (lambda x: dp.narrow(x, 1, -2, 2), [[1, 2], [4, 5]]),
    (lambda x: x.flip(0, 1), [[5, 4, 3], [2, 1, 0]]),
    (lambda x: dp.roll(x, 1), [[5, 0, 1], [2, 3, 4]]),
    (lambda x: x.roll(shifts=(1, -1), dims=(0, 1)), [[4, 5, 3], [1, 2, 0]]),
    (lambda x: dp.rot90(x), [[2, 5], [1, 4], [0, 3]]),
    (lambda x: dp.rot90(x, -1), [[3, 0], [4, 1], [5, 2]]),
    (lambda x: x[:, :1].repeat(1, 2), [[0, 0], [3, 3]]),
    (lambda x: x.repeat(2, 1, 1).shape, (2, 2, 3)),
    (lambda x: dp.tile(x[0], (2,)), [0, 1, 2, 0, 1, 2]),
    (lambda x: dp.repeat_interleave(x[0], 2), [0, 0, 1, 1, 2, 2]),
    (lambda x: x.repeat_interleave(dp.tensor([2, 0, 1]), dim=1), [[0, 0, 2], [3, 3, 5]]),
    (lambda x: x.tril(), [[0, 0, 0], [3, 4, 0]]),
    (lambda x: dp.triu(x, 1), [[0, 1, 2], [0, 0, 5]]),
    (lambda x: x.diagonal(1), [1, 5]),
    (lambda x: dp.diag(x[0, :2], -1), [[0, 0, 0], [0, 0, 0], [0, 1, 0]]),
    (lambda x: dp.diag_embed(x, 0, 0, 2).shape, (3, 2, 3)),
    (lambda x: x[0].unfold(0, 2, 1), [[0, 1], [1, 2]]),
    (lambda x: dp.meshgrid(x[0], x[1, :2], indexing="xy")[1], [[3, 3, 3], [4, 4, 4]]),
    (lambda x: dp.cartesian_prod(x[0, :2], x[1, :2]), [[0, 3], [0, 4], [1, 3], [1, 4]]),
    (lambda x: dp.atleast_3d(x).shape, (2, 3, 1)),
    (lambda x: pad(x, (1, -1), value=9), [[9, 0, 1], [9, 3, 4]]),
    (lambda x: pad(x, (2, 1), "reflect"), [[2, 1, 0, 1, 2, 1], [5, 4, 3, 4, 5, 4]]),
    (lambda x: pad(x[None], (0, 0, 1, 0), "replicate")[0], [[0, 1, 2], [0, 1, 2], [3, 4, 5]]),
    (lambda x: pad(x, (1, 1), "circular"), [[2, 0, 1, 2, 0], [5, 3, 4, 5, 3]]),
]


@pytest.mark.parametrize("device", PLACES)
@pytest.mark.parametrize("case", range(len(VALUES)))
def test_values(case, device):
    function, expected = VALUES[case]
    found = function(count(2, 3, device=device))
    assert (found.tolist() if isinstance(found, dp.Tensor) else found) == expected


@pytest.mark.parametrize("case", range(len(VALUES)))
def test_gradients(case):
    function, _ = VALUES[case]
    x = dp.randn(2, 3, dtype=dp.float64, requires_grad=True)
    if isinstance(function(x), dp.Tensor):
        gradcheck(function, x)


def test_dtypes():
    x = count(2, 2).bool()
    for y in (x.tril(), x.flip(0), x.roll(1), dp.diag(x), pad(x, (1, 1)), dp.cat([x, x])):
        assert y.dtype == dp.bool
    assert dp.cat([dp.arange(2), dp.ones(1)]).dtype == dp.float32
    assert dp.cat([dp.arange(2), dp.zeros(0)]).dtype == dp.float32
    assert dp.hstack([dp.ones(1), dp.ones(1, dtype=dp.float64)]).dtype == dp.float64


@pytest.mark.parametrize("wrong, text", [
    (lambda x: dp.cat([x, dp.zeros(3, 2)]), r"cat\(\(2, 3\), \(3, 2\)\)"),
    (lambda x: dp.cat([]), "at least one"),
    (lambda x: dp.stack([x, x[0]]), "one shape"),
    (lambda x: x.split(0), "do not fill"),
    (lambda x: x.split([1, 2]), "add up to 2"),
    (lambda x: x.expand(-1, 2, 3), "only axes of length 1"),
    (lambda x: x.permute(0, 0), "every axis once"),
    (lambda x: x.repeat(2), "a number for each axis"),
    (lambda x: x[0].tril(), "at least two axes"),
    (lambda x: x.unfold(1, 4, 1), "windows of 4"),
    (lambda x: pad(x, (1, 3), "reflect"), "finds in 3 of axis 1"),
    (lambda x: pad(x, (1,)), "two widths"),
    (lambda x: pad(x, (-2, -2)), "more than there is"),
    (lambda x: dp.broadcast_tensors(x, dp.ones(2)), "broadcast_tensors"),
])  # fmt: skip
def test_errors(wrong, text):
    with pytest.raises(ShapeError, match=text):
        wrong(count(2, 3))
    with pytest.raises(IndexError, match="index 3 is out of range for axis 0 of size 2"):
        count(2, 3).select(0, 3)
    with pytest.raises(IndexError, match="on an axis of size 3"):
        count(2, 3).narrow(1, 2, 2)


def test_views_share_memory_and_copies_do_not():
    x = count(2, 3)
    x.diagonal().fill_(9)
    x.T[2].mul_(10)
    x.flip(0).zero_()
    x.roll(0, 0).zero_()
    assert x.tolist() == [[9, 1, 20], [3, 9, 50]]
