"""Element-wise functions of several arguments: bounds, choices, and what is done in place."""

import numpy as np
import pytest

import minidp as dp
from minidp.errors import DTypeError, GraphError, ShapeError

NAN, INF = float("nan"), float("inf")


def slopes(function, *arrays):
    """The gradient of the sum, for each array, as lists."""
    inputs = [dp.tensor(np.array(a, "float64"), requires_grad=True) for a in arrays]
    return [g.tolist() for g in dp.grad(function(*inputs).sum(), inputs)]


def test_clamp():
    x = dp.tensor([-2.0, 0.0, 1.0, 3.0, NAN])
    np.testing.assert_equal(x.clamp(0, 1).tolist(), [0, 0, 1, 1, NAN])
    np.testing.assert_equal(dp.clip(x, max=1).tolist(), [-2, 0, 1, 1, NAN])
    np.testing.assert_equal(dp.clamp(x, 2, 1).tolist(), [1, 1, 1, 1, NAN])
    np.testing.assert_equal(x.clamp(min=NAN).tolist(), [NAN] * 5)
    assert slopes(lambda x: x.clamp(0, 1), [-2, 0, 0.5, 1, 3, NAN]) == [[0, 1, 1, 1, 0, 0]]
    found = slopes(dp.clamp, [0, 2, 4, 1, 3], [1, 1, 1, 1, 5], [3, 3, 3, 3, 2])
    assert found == [[0, 1, 0, 1, 0], [1, 0, 0, 0, 0], [0, 0, 1, 0, 1]]
    with pytest.raises(ValueError, match="min, max or both"):
        dp.clamp(x)


def test_where():
    a, b = dp.tensor([1.0, INF, 3.0]), dp.tensor([4.0, 5.0, NAN])
    assert dp.where(a < 2, a, b).tolist()[:2] == [1, 5]
    assert a.where(a < 2, 0).tolist() == [1, 0, 0]
    assert [i.tolist() for i in dp.where(dp.tensor([[0, 1], [1, 0]]))] == [[0, 1], [1, 0]]
    assert [i.tolist() for i in dp.where(dp.tensor(2.0))] == [[0]]
    assert slopes(lambda x: dp.where(x > 0, x.log(), 0.0), [0.5, 2]) == [[2, 0.5]]


def test_tests_for_special_values():
    x = dp.tensor([-INF, -1.0, -0.0, 0.0, INF, NAN])
    for name, expected in (
        ("isnan", "000001"), ("isinf", "100010"), ("isfinite", "011100"), ("isposinf", "000010"),
        ("isneginf", "100000"), ("signbit", "111000"), ("logical_not", "001100"),
    ):  # fmt: skip
        assert "".join(str(int(v)) for v in getattr(dp, name)(x).tolist()) == expected
    assert dp.nan_to_num(x).tolist()[::4] == [-3.4028234663852886e38, 3.4028234663852886e38]
    assert dp.tensor([1]).isnan().tolist() == dp.tensor([1]).isinf().tolist() == [False]


def test_closeness():
    x = dp.tensor([1.0, INF, INF, NAN, 1e-9])
    y = dp.tensor([1 + 1e-6, INF, -INF, NAN, 0.0])
    assert dp.isclose(x, y).tolist() == [True, True, False, False, True]
    assert x.isclose(y, equal_nan=True).tolist() == [True, True, False, True, True]
    assert x[:2].allclose(y[:2]) and not x.allclose(y) and not dp.allclose(x[3:], y[3:])
    assert dp.allclose(x[3:], y[3:], equal_nan=True) and not dp.equal(x, y)
    assert dp.isclose(dp.tensor([True, False]), dp.tensor([True, True])).tolist() == [True, False]


def test_combinations():
    a, b = dp.tensor([0.0, 10.0]), dp.tensor([1.0, 20.0])
    assert dp.lerp(a, b, 0.25).tolist() == [0.25, 12.5]
    assert a.lerp(b, dp.tensor([0.5, 1.0])).tolist() == [0.5, 20]
    assert dp.addcmul(a, b, b, value=0.5).tolist() == [0.5, 210]
    assert dp.addcdiv(a, a, b, value=2).tolist() == [0, 11]
    assert dp.heaviside(dp.tensor([-1.0, 0.0, 2.0]), dp.tensor(0.5)).tolist() == [0, 0.5, 1]
    assert dp.round(dp.tensor([1.25, -26.71]), decimals=1).tolist() == pytest.approx([1.2, -26.7])
    assert dp.round(dp.tensor([0.5, 1.5, 2.5, -0.5])).tolist() == [0, 2, 2, 0]
    assert dp.round(dp.tensor([1250.0]), decimals=-2).tolist() == [1200]
    assert dp.copysign(dp.tensor([1.0, -2.0]), dp.tensor([-0.0, 3.0])).tolist() == [-1, 2]
    assert dp.logit(dp.tensor([0.0, 0.5]), eps=0.25).tolist() == pytest.approx([-1.0986123, 0])


def test_what_is_refused():
    x = dp.tensor([1, 2])
    for call in (lambda: x // 0, lambda: x % dp.tensor([1, 0]), lambda: dp.fmod(x, 0)):
        with pytest.raises(ZeroDivisionError, match="divided by 0"):
            call()
    with pytest.raises(ValueError, match="negative"):
        x**-1
    for call in (lambda: x & 0.5, lambda: x ^ dp.ones(2), lambda: ~dp.ones(2)):
        with pytest.raises(DTypeError, match=r"bitwise_.*: expected integers or bools"):
            call()
    with pytest.raises(ValueError, match="rounding_mode"):
        dp.div(x, 2, rounding_mode="up")
    with pytest.raises(ShapeError, match="clamp"):
        dp.ones(3).clamp(dp.zeros(2))


def test_in_place():
    x = dp.tensor([1.0, 4.0])
    same = x
    for name, arguments, expected in (
        ("sqrt_", (), [1, 2]), ("pow_", (2,), [1, 4]), ("clamp_", (2, 3), [2, 3]),
        ("mul_", (-1,), [-2, -3]), ("abs_", (), [2, 3]), ("remainder_", (2,), [0, 1]),
        ("addcmul_", (x, x), [0, 2]), ("lerp_", (dp.tensor([4.0, 4.0]), 0.5), [2, 3]),
        ("reciprocal_", (), [0.5, 1 / 3]), ("floor_", (), [0, 0]), ("exp_", (), [1, 1]),
    ):  # fmt: skip
        assert getattr(x, name)(*arguments) is same
        np.testing.assert_allclose(x.tolist(), expected, rtol=1e-6)
    x.add_(2, alpha=3)
    x **= 2
    x //= 10
    x %= 3
    assert x is same and x.tolist() == [1, 1]
    n = dp.tensor([5, 6])
    n &= 6
    n |= 1
    n <<= 1
    assert n.tolist() == [10, 14]


def test_in_place_keeps_gradients_right():
    def chain(x):
        y = 2 * x
        y.sin_().mul_(x).exp_().clamp_(0.2, 2)
        return y

    def plain(x):
        return dp.clamp(dp.exp(dp.sin(2 * x) * x), 0.2, 2)

    assert slopes(chain, [0.3, -0.7, 2.0]) == slopes(plain, [0.3, -0.7, 2.0])
    with pytest.raises(GraphError, match="leaf"):
        dp.ones(2, requires_grad=True).sqrt_()
    y = dp.ones(2, requires_grad=True) * 2
    y.eq_(2)
    assert not y.requires_grad and y.tolist() == [1, 1]
