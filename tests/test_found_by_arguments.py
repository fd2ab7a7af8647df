"""What calls with other kinds of arguments found beside PyTorch 2.13.0: each kind once."""

import math
from fractions import Fraction

import numpy as np
import pytest

import minidp as dp
from minidp import nn
from minidp.errors import DTypeError, GraphError, MinidpError, ShapeError
from minidp.nn import functional as F


class Foreign:
    """An operand that knows what to do with a tensor on its left, which does not know it."""

    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rpow__ = __rand__ = lambda self, other: 7
    __rmatmul__ = __radd__
    __gt__ = __eq__ = lambda self, other: 7


@pytest.mark.parametrize("dtype", [dp.float32, dp.int64, dp.bool])
def test_operators_ask_the_other_operand(dtype):
    x, other = dp.ones(3, dtype=dtype), Foreign()
    given = [x + other, x * other, x / other, x - other, x**other, x @ other, x < other, x == other]
    assert given == [7] * 8 and (dtype.kind == "f" or x & other == 7)
    assert [0] * dp.tensor(3) == [0, 0, 0] and "ab" * dp.tensor(2) == "abab"
    for wrong in (None, "a", [1, 2, 3], (1,), {}, 1j, Fraction(1, 2), object()):
        with pytest.raises(TypeError):
            x + wrong
        with pytest.raises(TypeError):
            x @ wrong
        with pytest.raises(TypeError):
            wrong * x if not isinstance(wrong, (str, list, tuple)) else wrong - x
        assert (x == wrong) is False and (x != wrong) is True


@pytest.mark.parametrize("wrong", [object(), 1j, Fraction(1, 2), "a", None, Foreign()])
def test_what_is_no_number_makes_no_array_of_objects(wrong):
    x = dp.ones(3)
    calls = [lambda: dp.add(x, wrong), lambda: dp.maximum(x, wrong), lambda: x.add_(wrong),
             lambda: dp.where(x > 0, x, wrong), lambda: dp.matmul(x, wrong),
             lambda: dp.full((2,), wrong), lambda: dp.tensor(wrong),
             lambda: dp.tensor([1.0, wrong])]  # fmt: skip
    for call in calls:
        with pytest.raises(TypeError):
            call()
    assert x.tolist() == [1, 1, 1]


def test_arrays_of_other_kinds_are_refused():
    for array in (np.ones(2, "c8"), np.array(["2020-01-01"], "M8[D]"), np.array(["a"]),
                  np.array([object()]), np.ones(2, "g")):  # fmt: skip
        for made in (dp.Tensor, dp.from_numpy, dp.as_tensor, dp.tensor):
            with pytest.raises(DTypeError):
                made(array)
    with pytest.raises(DTypeError):
        dp.ones(2) + np.ones(2, "c8")
    with pytest.raises(DTypeError, match="complex128"):
        dp.linspace(0, 1j, 3)
    assert (dp.from_numpy(np.ones(2, ">f4")) + 1).tolist() == [2, 2]


def test_lists_of_several_dtypes_promote():
    numbers = {
        dp.float32: ([dp.tensor(1.0), dp.tensor(2)], [np.float32(1), 2], [dp.tensor(1.0), 2],
                     [True, np.float32(2)], [np.ones(2, "i4"), np.ones(2, "f4")], [], [1, 2.5]),
        dp.float64: ([np.float64(1), 2], [2, np.float64(1)], [2.0, dp.tensor(1.0).double()]),
        dp.float16: ([np.float16(1), 1],), dp.int16: ([np.int8(1), np.int16(3)],),
        dp.int64: ([dp.tensor(1).int(), 2], [dp.tensor(True), 2]),
    }  # fmt: skip
    for dtype, lists in numbers.items():
        for values in lists:
            assert dp.tensor(values).dtype == dtype, values
    with pytest.raises(TypeError, match="floating"):
        dp.set_default_dtype(dp.int64)
    assert dp.get_default_dtype() is dp.float32


X = dp.arange(12.0).reshape(3, 4)
IMAGE = X[None, None]
WHOLE = [
    lambda n: X.sum(n), lambda n: X.mean(n - 1), lambda n: X.softmax(n), lambda n: X.all(n),
    lambda n: X.any(n), lambda n: X.amax(n), lambda n: X.cumsum(n), lambda n: X.std(n),
    lambda n: X.norm(dim=n), lambda n: dp.cat([X, X], n), lambda n: dp.stack([X, X], n),
    lambda n: X.split(n)[1], lambda n: X.chunk(n)[0], lambda n: X.tensor_split(n)[0],
    lambda n: dp.hsplit(X, n)[0], lambda n: X.roll(n), lambda n: dp.rot90(X, n),
    lambda n: X.topk(n)[0], lambda n: X.kthvalue(n)[0], lambda n: dp.tensordot(X, X.T, n),
    lambda n: F.one_hot(dp.tensor([0, 1]), n + 1), lambda n: F.pad(X, (n, 0)),
    lambda n: F.max_pool2d(IMAGE, n, n), lambda n: F.avg_pool1d(X, n, n),
    lambda n: F.conv2d(IMAGE, dp.ones(1, 1, 1, 1), stride=n, padding=n, groups=n),
    lambda n: F.interpolate(IMAGE, size=n + 1), lambda n: F.unfold(IMAGE, n),
    lambda n: F.layer_norm(X, n + 3), lambda n: nn.LayerNorm(n + 3)(X),
    lambda n: nn.MaxPool2d(n, n)(IMAGE), lambda n: dp.zeros(n, n), lambda n: dp.arange(n),
    lambda n: F.layer_norm(X, (4,), eps=n), lambda n: F.leaky_relu(-X, n),
    lambda n: F.softmax(X, n), lambda n: F.adaptive_avg_pool2d(IMAGE, (n, 3)),
]  # fmt: skip


@pytest.mark.parametrize("call", WHOLE)
@pytest.mark.parametrize("number", [dp.tensor, np.int64])
def test_integers_may_be_numpys_or_tensors(call, number):
    expected, found = call(1), call(number(1))
    assert found.dtype == expected.dtype and found.tolist() == expected.tolist()


def test_a_captured_step_says_that_it_read_a_number():
    captured = dp.capture(lambda x, n: x.sum(n))
    with pytest.raises(GraphError, match="read in Python"):
        captured(X, dp.tensor(0))


def test_leaves_that_are_views_are_not_changed_in_place():
    w = dp.arange(6.0).reshape(2, 3).requires_grad_()
    for change in (lambda: w.add_(1), lambda: w[0].mul_(2), lambda: w.__setitem__(0, 1.0)):
        with pytest.raises(GraphError, match="leaf"):
            change()
    with dp.no_grad():
        w.add_(1)
    assert w.tolist() == [[1, 2, 3], [4, 5, 6]] and w.is_leaf
    with pytest.raises(RuntimeError, match="clone"):
        dp.ones(1, 2).expand(3, 2).add_(1)
    with pytest.raises(GraphError, match="inputs"):
        w.sum().backward(inputs=[])


def test_errors_are_of_the_library():
    with pytest.raises(ShapeError):
        dp.rot90(X, 1, [0])
    with pytest.raises(ShapeError):
        dp.hstack([])
    with pytest.raises(ShapeError):
        dp.eye(-1)
    for call in (dp.rand_like, dp.randn_like, lambda x: dp.rand(2, dtype=x.dtype)):
        with pytest.raises(DTypeError):
            call(dp.arange(3))
    for tolerance in ({"rtol": -1.0}, {"atol": math.nan}):
        with pytest.raises(MinidpError, match="isclose"):
            dp.isclose(X, X, **tolerance)


def test_options_of_none_are_the_defaults():
    assert len(dp.meshgrid(X[0], X[1], indexing=None)) == 2
    assert dp.linalg.lstsq(X[:, :2], X[:, :1], driver=None)[2].item() == 2
    mask = dp.tensor([True, False])
    assert dp.add(mask, mask, alpha=2).dtype == dp.bool


def test_distributions_tell_what_they_are():
    given = dp.distributions
    independent = given.Independent(given.Normal(dp.zeros(3), dp.ones(3)), 1)
    assert repr(independent) == "Independent(Normal(loc: (3,), scale: (3,)), 1)"
    coin = given.Bernoulli(dp.tensor([0.2, 0.8]))
    assert coin.enumerate_support().tolist() == [[0, 0], [1, 1]]
    assert coin.enumerate_support(expand=False).tolist() == [[0], [1]]


def test_sizes_and_dtypes_that_were_let_pass():
    with pytest.raises(ShapeError, match="output_size"):
        F.adaptive_avg_pool1d(X, 2.0)
    with pytest.raises(DTypeError, match="conv_transpose1d"):
        F.conv_transpose1d(X[:1], dp.ones(1, 1, 2), dp.ones(1).double())
    infinite = dp.tensor([math.inf, 1.0])
    for var in (1.5, dp.tensor([1.5, 1.5])):
        losses = F.gaussian_nll_loss(infinite, dp.zeros(2), var, reduction="none")
        assert losses[0].item() == math.inf and 0.5 < losses[1].item() < 0.6


def test_options_that_are_numpys_are_printed():
    one, two = np.int64(1), np.int64(2)
    assert repr(nn.Conv2d(two, two, two, groups=two)).endswith("stride=(1, 1), groups=2)")
    assert repr(nn.ReLU(np.True_)) == "ReLU(inplace=True)"
    assert "num_layers=2" in repr(nn.LSTM(two, two, two))
    assert "padding_idx=1" in repr(nn.Embedding(two, two, padding_idx=one))
