"""Pooling over one, two and three axes, against its definition and PyTorch's special cases."""

import numpy as np
import pytest
from waves import leaf, wave

import minidp as dp
from minidp import nn
from minidp.errors import ShapeError
from minidp.nn import functional as F
from minidp.testing import gradcheck, gradgradcheck

SPACE = {1: (9,), 2: (6, 7), 3: (5, 6, 4)}
NAN, INF = np.nan, np.inf


def named(name, n):
    return getattr(F, f"{name}{n}d")


def windows(shape, kernel, stride, padding, dilation, ceil):
    """(place, window): where each output is, and which places of the image it sees."""
    axes = []
    for n, k, s, p, d in zip(shape, kernel, stride, padding, dilation, strict=True):
        starts = range(-p, n + p - d * (k - 1) + (s - 1 if ceil else 0), s)
        axes.append([[start + d * i for i in range(k)] for start in starts if start < n])
    for place in np.ndindex(*map(len, axes)):
        yield place, [axis[i] for axis, i in zip(axes, place, strict=True)]


def cases():
    """(axes, kernel, stride, padding, dilation, ceil), one number an axis."""
    for n in (1, 2, 3):
        for ceil in (False, True):
            yield n, (2,) * n, (2,) * n, (0,) * n, (1,) * n, ceil
            yield n, (3, 2, 4)[:n], (2, 3, 1)[:n], (1, 0, 2)[:n], (1,) * n, ceil
            yield n, (2,) * n, (3,) * n, (1,) * n, (1,) * n, ceil
            yield n, (2,) * n, (1, 2, 1)[:n], (1,) * n, (2, 1, 2)[:n], ceil


@pytest.mark.parametrize("n, kernel, stride, padding, dilation, ceil", list(cases()))
def test_max_pooling_is_its_definition(n, kernel, stride, padding, dilation, ceil):
    x = wave(2, 3, *SPACE[n])
    y, index = named("max_pool", n)(dp.tensor(x), kernel, stride, padding, dilation, ceil, True)
    count = 0
    for place, window in windows(SPACE[n], kernel, stride, padding, dilation, ceil):
        inside = [
            [i for i in axis if 0 <= i < size] for axis, size in zip(window, SPACE[n], strict=True)
        ]
        seen = x[:, :, *np.ix_(*inside)].reshape(2, 3, -1).max(-1)
        np.testing.assert_array_equal(y.array[:, :, *place], seen)
        count += 1
    assert count == y.array[0, 0].size
    chosen = np.take_along_axis(x.reshape(2, 3, -1), index.array.reshape(2, 3, -1), 2)
    np.testing.assert_array_equal(chosen.reshape(y.shape), y.array)
    assert index.dtype == np.int64


@pytest.mark.parametrize("n, kernel, stride, padding, dilation, ceil", list(cases()))
@pytest.mark.parametrize("how", [True, False, 5])
def test_average_pooling_is_its_definition(n, kernel, stride, padding, dilation, ceil, how):
    """``how``: padding counts, or does not, or the divisor."""
    x, ones = wave(2, 3, *SPACE[n]), (1,) * n
    options = {"count_include_pad": how} if how in (True, False) else {"divisor_override": how}
    y = named("avg_pool", n)(dp.tensor(x), kernel, stride, padding, ceil, **options)
    for place, window in windows(SPACE[n], kernel, stride, padding, ones, ceil):
        inside = [
            [i for i in axis if 0 <= i < size] for axis, size in zip(window, SPACE[n], strict=True)
        ]
        padded = [
            [i for i in axis if i < size + p]
            for axis, size, p in zip(window, SPACE[n], padding, strict=True)
        ]
        total = x[:, :, *np.ix_(*inside)].reshape(2, 3, -1).sum(-1)
        counted = np.prod(list(map(len, padded if how is True else inside)))
        expected = total / (counted if how in (True, False) else how)
        np.testing.assert_allclose(y.array[:, :, *place], expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("size", [1, 2, 4, (3, 2, 4), (2, None, 5), 12])
def test_adaptive_pooling_is_its_definition(n, size):
    size = size[:n] if isinstance(size, tuple) else size
    x = wave(2, 3, *SPACE[n])
    mean = named("adaptive_avg_pool", n)(dp.tensor(x), size)
    most, index = named("adaptive_max_pool", n)(dp.tensor(x), size, True)
    wanted = size if isinstance(size, tuple) else (size,) * n
    wanted = tuple(n if o is None else o for n, o in zip(SPACE[n], wanted, strict=True))
    assert mean.shape == most.shape == index.shape == (2, 3, *wanted)
    for place in np.ndindex(*wanted):
        axes = zip(place, SPACE[n], wanted, strict=True)
        part = x[:, :, *(slice(i * h // o, -(-(i + 1) * h // o)) for i, h, o in axes)]
        part = part.reshape(2, 3, -1)
        np.testing.assert_allclose(mean.array[:, :, *place], part.mean(-1), rtol=1e-11, atol=1e-13)
        np.testing.assert_array_equal(most.array[:, :, *place], part.max(-1))
    chosen = np.take_along_axis(x.reshape(2, 3, -1), index.array.reshape(2, 3, -1), 2)
    np.testing.assert_array_equal(chosen.reshape(most.shape), most.array)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_derivatives_of_first_and_second_order(n):
    shape = (1, 2, *(5, 4, 3)[:n])
    values = np.random.default_rng(3).permutation(np.prod(shape)).reshape(shape)  # far apart
    x = dp.tensor(values * 0.02, requires_grad=True)
    for f in (lambda x: named("max_pool", n)(x, 2, 1, 1).square(),
              lambda x: named("avg_pool", n)(x, 2, 1, 1, True, False).square(),
              lambda x: named("avg_pool", n)(x, 2, divisor_override=3).square(),
              lambda x: named("adaptive_avg_pool", n)(x, 2).square(),
              lambda x: named("adaptive_max_pool", n)(x, 2).square(),
              lambda x: named("lp_pool", n)(x + 3, 3, 2)):  # fmt: skip
        assert gradcheck(f, [x]) and gradgradcheck(f, [x], directions=1)


def test_equals_and_nans_choose_as_in_pytorch():
    """The first of equals, the last NaN; padding never, even of -inf."""
    x = dp.tensor([[[1.0, NAN, 2.0, NAN, 0.0, 5.0, 5.0, 5.0]]])
    y, index = F.max_pool1d(x, 4, return_indices=True)
    assert np.isnan(y.array[0, 0, 0]) and y.array[0, 0, 1] == 5 and index.tolist() == [[[3, 5]]]
    x = dp.tensor([[[1.0, NAN, 2.0, NAN, 0.0, 5.0, 5.0]]], requires_grad=True)
    y, index = F.adaptive_max_pool1d(x, 2, True)
    assert np.isnan(y.array[0, 0, 0]) and index.tolist() == [[[3, 3]]]
    y[0, 0, 0].backward()
    assert x.grad.tolist() == [[[0, 0, 0, 1, 0, 0, 0]]]
    low = dp.tensor(np.full((1, 1, 2, 2, 2), -INF))
    y, index = F.max_pool3d(low, 2, 2, 1, return_indices=True)
    assert (y.array == -INF).all() and index.array.ravel().tolist() == list(range(8))
    infinite = dp.tensor([[[INF, 1.0, 2.0, 3.0, 4.0]]])
    assert F.adaptive_avg_pool1d(infinite, 3).tolist() == [[[INF, 2, 3.5]]]


def test_other_dtypes_and_no_rows():
    assert F.max_pool2d(dp.arange(16).reshape(1, 1, 4, 4), 2).tolist() == [[[[5, 7], [13, 15]]]]
    small = dp.tensor([[[-3, -4]]], dtype="int8")
    assert F.max_pool1d(small, 2, 1, 1).tolist() == [[[-3, -3, -4]]]
    many = dp.ones(1, 1, 4096, dtype="float16")
    assert F.avg_pool1d(many, 4096, divisor_override=1).item() == 4096
    assert F.adaptive_avg_pool1d(many, 1).item() == 1 and many.dtype == dp.float16
    for f in (
        lambda x: F.max_pool3d(x, 2),
        lambda x: F.avg_pool3d(x, 2),
        lambda x: F.adaptive_max_pool3d(x, (2, 1, 2)),
        lambda x: F.lp_pool3d(x, 2, 2),
    ):
        assert f(dp.ones(0, 3, 4, 2, 4)).shape == (0, 3, 2, 1, 2)
    with pytest.raises(TypeError, match="expected floating point"):
        F.adaptive_avg_pool2d(dp.arange(9).reshape(1, 1, 3, 3), 2)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_what_does_not_fit_is_refused(n):
    x = dp.ones(2, 3, *SPACE[n])
    for wrong in ({"kernel_size": 0}, {"kernel_size": 2, "stride": 0}, {"kernel_size": 20},
                  {"kernel_size": 2, "padding": 2}, {"kernel_size": 2, "padding": -1},
                  {"kernel_size": (2,) * (n + 1)}, {"kernel_size": 2.0}):  # fmt: skip
        for name in ("max_pool", "avg_pool"):
            with pytest.raises(ShapeError, match=f"{name}{n}d"):
                named(name, n)(x, **wrong)
    for name in ("adaptive_avg_pool", "adaptive_max_pool"):
        for wrong in (-1, (2,) * (n + 1)):
            with pytest.raises(ShapeError, match=f"{name}{n}d"):
                named(name, n)(x, wrong)
        with pytest.raises(ShapeError, match="at least one place"):
            named(name, n)(x[..., :0], 2)
    with pytest.raises(ShapeError, match=f"max_pool{n}d: expected"):
        named("max_pool", n)(x[0, 0], 2)
    with pytest.raises(ValueError, match="divisor"):
        named("avg_pool", n)(x, 2, divisor_override=0)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_unpooling_puts_values_back(n):
    x = leaf(2, 3, *SPACE[n])
    y, index = named("max_pool", n)(x, 3, 2, return_indices=True)
    back = named("max_unpool", n)(y, index, 3, 2, output_size=SPACE[n])
    flat, chosen = back.array.reshape(2, 3, -1), index.array.reshape(2, 3, -1)
    np.testing.assert_array_equal(np.take_along_axis(flat, chosen, 2), y.array.reshape(2, 3, -1))
    np.put_along_axis(flat := flat.copy(), chosen, 0, 2)
    assert not flat.any()
    with pytest.raises(ShapeError, match="max_unpool"):
        named("max_unpool", n)(y, index, 3, 2, output_size=(30,) * n)


def test_layers_hand_their_options_on():
    x = dp.tensor(wave(1, 2, 7, 7))
    y, index = nn.MaxPool2d(3, 2, 1, return_indices=True, ceil_mode=True)(x)
    expected = F.max_pool2d(x, 3, 2, 1, ceil_mode=True, return_indices=True)
    assert y.equal(expected[0]) and index.equal(expected[1])
    pooled = nn.AvgPool2d(3, 2, 1, True, False)(x)
    assert pooled.equal(F.avg_pool2d(x, 3, 2, 1, True, False))
    assert nn.MaxUnpool2d(2)(*F.max_pool2d(x[..., :6], 2, return_indices=True)).shape[2:] == (6, 6)
    assert nn.AdaptiveMaxPool2d((2, None))(x).shape == (1, 2, 2, 7)
    assert repr(nn.MaxPool3d(2)) == (
        "MaxPool3d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)"
    )
    assert repr(nn.AvgPool1d(2)) == "AvgPool1d(kernel_size=(2,), stride=(2,), padding=(0,))"
    assert repr(nn.LPPool2d(2, 3)) == (
        "LPPool2d(norm_type=2, kernel_size=3, stride=None, ceil_mode=False)"
    )
    assert repr(nn.AdaptiveAvgPool3d(2)) == "AdaptiveAvgPool3d(output_size=2)"


def test_what_is_remembered_of_sizes_is_not_taken_for_others():
    x = dp.tensor(wave(1, 2, 4, 4))
    y = F.max_pool2d(x, (2, 2))
    assert np.array_equal(F.max_pool2d(x, [2, 2]).numpy(), y.numpy())
    assert F.adaptive_avg_pool2d(x, [3, 2]).shape == F.adaptive_avg_pool2d(x, (3, 2)).shape
    for wrong in ((2.0, 2), (2.0, 2.0), 2.0):
        with pytest.raises(ShapeError, match="must be one integer"):
            F.max_pool2d(x, wrong)
