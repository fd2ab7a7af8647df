"""Extremes with their places, orders and counts."""

import numpy as np
import pytest

import minidp as dp
from minidp.testing import gradcheck

NAN, INF = float("nan"), float("inf")


def pair(found):
    return found.values.tolist(), found.indices.tolist()


def test_extremes_name_their_places():
    x = dp.tensor([[1.0, 3.0, 3.0], [NAN, 5.0, -INF]])
    np.testing.assert_equal(pair(x.max(1)), ([3, NAN], [1, 0]))
    np.testing.assert_equal(pair(x.min(dim=1, keepdim=True)), ([[1], [NAN]], [[0], [0]]))
    values, places = x[:1].max(-1)
    assert (values.tolist(), places.tolist()) == ([3], [1])
    low, high = dp.aminmax(x[:1], dim=1)
    assert (low.tolist(), high.tolist()) == ([1], [3])
    assert (x.argmax(1).tolist(), x.argmin(1).tolist()) == ([1, 0], [0, 0])


def test_sorting_is_stable_and_puts_nan_last():
    x = dp.tensor([2.0, NAN, 1.0, 2.0, -INF])
    np.testing.assert_equal(pair(x.sort()), ([-INF, 1, 2, 2, NAN], [4, 2, 0, 3, 1]))
    np.testing.assert_equal(
        pair(dp.sort(x, descending=True)), ([NAN, 2, 2, 1, -INF], [1, 0, 3, 2, 4])
    )
    assert x.argsort().tolist() == [4, 2, 0, 3, 1]
    y = dp.tensor([[3, 1], [2, 4]])
    assert pair(y.sort(0)) == ([[2, 1], [3, 4]], [[1, 0], [0, 1]])
    assert dp.msort(y).tolist() == [[2, 1], [3, 4]]
    assert pair(dp.tensor(5.0).sort()) == (5, 0)


def test_the_largest_few():
    x = dp.tensor([[4.0, 1.0, 3.0], [0.0, 2.0, 5.0]])
    assert pair(x.topk(2)) == ([[4, 3], [5, 2]], [[0, 2], [2, 1]])
    assert pair(x.topk(1, 0, largest=False)) == ([[0, 1, 3]], [[1, 0, 0]])
    assert pair(x.kthvalue(2)) == ([3, 2], [2, 1])
    assert pair(x.median(1)) == ([3, 2], [2, 1])
    assert dp.median(x).item() == 2 and x.nanmedian().item() == 2
    np.testing.assert_equal(pair(dp.tensor([1.0, NAN]).median(0)), (NAN, 1))
    assert pair(dp.tensor([3.0, NAN, 1.0]).nanmedian(0)) == (1, 2)
    for call in (lambda: x.topk(4), lambda: x.topk(-1), lambda: x.kthvalue(0)):
        with pytest.raises(ValueError, match=r"k = .* of 3 values"):
            call()


def test_gradients_go_to_the_places():
    x = dp.tensor(np.array([[4.0, 1, 3], [0, 2, 5]]), requires_grad=True)
    for function in (
        lambda x: x.sort(1).values, lambda x: x.sort(0, True).values, lambda x: x.topk(2).values,
        lambda x: x.kthvalue(2).values, lambda x: x.median(1).values, lambda x: x.median(),
        lambda x: x.cummax(1).values, lambda x: x.cummin(0).values, lambda x: x.mode(1).values,
        lambda x: x.min(0).values, lambda x: dp.aminmax(x)[1],
    ):  # fmt: skip
        gradcheck(function, x, directions=1)


def test_running_extremes_take_the_last_of_equals():
    x = dp.tensor([1.0, 3.0, 2.0, 3.0, NAN, 4.0])
    np.testing.assert_equal(pair(x.cummax(0)), ([1, 3, 3, 3, NAN, NAN], [0, 1, 1, 3, 4, 4]))
    np.testing.assert_equal(pair(x.cummin(0)), ([1, 1, 1, 1, NAN, NAN], [0, 0, 0, 0, 4, 4]))
    assert pair(dp.tensor([2, 1, 1, 2, 3]).mode()) == (1, 2)


def test_counting():
    x = dp.tensor([[3, 1], [1, 0]])
    values, inverse, counts = x.unique(return_inverse=True, return_counts=True)
    assert [values.tolist(), inverse.tolist(), counts.tolist()] == [
        [0, 1, 3], [[2, 1], [1, 0]], [1, 2, 1]]  # fmt: skip
    rows, places = dp.unique(dp.tensor([[2, 1], [0, 1], [2, 1]]), dim=0, return_inverse=True)
    assert (rows.tolist(), places.tolist()) == ([[0, 1], [2, 1]], [1, 0, 1])
    assert dp.unique(dp.tensor([NAN, NAN])).shape == (2,)
    assert dp.bincount(dp.tensor([1, 0, 3, 1]), minlength=5).tolist() == [1, 2, 0, 1, 0]
    weighted = dp.bincount(dp.tensor([1, 0, 1]), dp.tensor([0.5, 1.0, 2.0]))
    assert weighted.tolist() == [1, 2.5] and weighted.dtype == np.float32
    assert dp.histc(dp.tensor([0.0, 0.1, 0.6, 1.0, 7.0]), 2, 0, 1).tolist() == [2, 2]
    with pytest.raises(ValueError, match="bincount: -1 is negative"):
        dp.bincount(dp.tensor([2, -1]))
