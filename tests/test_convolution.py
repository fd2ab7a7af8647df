"""Convolution over one, two and three axes, its adjoint, and windows as columns."""

from itertools import product

import numpy as np
import pytest
from waves import leaf, wave

import minidp as dp
from minidp import nn
from minidp.errors import DTypeError, ShapeError
from minidp.nn import functional as F
from minidp.testing import gradcheck, gradgradcheck

SPACE = {1: (9,), 2: (6, 7), 3: (4, 5, 6)}
CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
SPREAD = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def slow(x, w, b, stride, padding, dilation, groups):
    """The definition, one output at a time; sizes are tuples."""
    x = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    kernel, k = w.shape[2:], len(w)
    axes = zip(x.shape[2:], kernel, stride, dilation, strict=True)
    y = np.zeros((len(x), k, *((n - d * (i - 1) - 1) // s + 1 for n, i, s, d in axes)))
    for channel, place in product(range(k), np.ndindex(*y.shape[2:])):
        first = channel // (k // groups) * w.shape[1]
        window = tuple(
            slice(o * s, o * s + d * (i - 1) + 1, d)
            for o, s, d, i in zip(place, stride, dilation, kernel, strict=True)
        )
        part = x[(slice(None), slice(first, first + w.shape[1]), *window)]
        y[(slice(None), channel, *place)] = (part * w[channel]).sum(tuple(range(1, x.ndim)))
    return y + b.reshape(-1, *(1,) * len(kernel))


def cases():
    """(axes, kernel, stride, padding, dilation, groups), awkward ones."""
    for n in (1, 2, 3):
        yield n, (3,) * n, (1,) * n, (0,) * n, (1,) * n, 1
        yield n, (2, 3, 1)[:n], (2, 1, 3)[:n], (1, 0, 2)[:n], (1, 2, 1)[:n], 2
        yield n, (1,) * n, (2,) * n, (1,) * n, (3,) * n, 4
        yield n, (2,) * n, (1,) * n, (3,) * n, (2,) * n, 4


@pytest.mark.parametrize("n, kernel, stride, padding, dilation, groups", list(cases()))
def test_convolution_is_its_definition(n, kernel, stride, padding, dilation, groups):
    x, w, b = wave(2, 4, *SPACE[n]), wave(8, 4 // groups, *kernel, phase=1), wave(8, phase=2)
    sizes = stride, padding, dilation, groups
    y = CONV[n](dp.tensor(x), dp.tensor(w), dp.tensor(b), *sizes)
    np.testing.assert_allclose(y.array, slow(x, w, b, *sizes), rtol=1e-11, atol=1e-12)
    alone = CONV[n](dp.tensor(x[1]), dp.tensor(w), dp.tensor(b), *sizes)
    np.testing.assert_allclose(alone.array, y.array[1], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("n, kernel, stride, padding, dilation, groups", list(cases()))
def test_transposed_convolution_is_the_adjoint(n, kernel, stride, padding, dilation, groups):
    x, w = leaf(2, 4, *SPACE[n]), dp.tensor(wave(8, 4 // groups, *kernel, phase=1))
    y = CONV[n](x, w, None, stride, padding, dilation, groups)
    g = dp.tensor(wave(*y.shape, phase=3))
    (y * g).sum().backward()
    least = [
        (o - 1) * s - 2 * p + d * (i - 1) + 1
        for o, s, p, d, i in zip(y.shape[2:], stride, padding, dilation, kernel, strict=True)
    ]
    rest = tuple(a - b for a, b in zip(SPACE[n], least, strict=True))
    found = SPREAD[n](g, w, None, stride, padding, rest, groups, dilation)
    np.testing.assert_allclose(found.array, x.grad.array, rtol=1e-11, atol=1e-12)


def test_output_padding_beyond_the_stride():
    """Then a window more would fit, and must not count: allowed below the dilation."""
    y = F.conv_transpose1d(dp.tensor([[[1.0, 2.0]]]), dp.ones(1, 1, 2), dp.ones(1), 1, 0, 2, 1, 3)
    assert y.tolist() == [[[2, 3, 1, 2, 3, 1, 1]]]
    y = F.conv_transpose1d(dp.tensor([[[1.0, 2.0]]]), dp.ones(1, 1, 2), None, 1, 1, 1, 1, 2)
    assert y.tolist() == [[[2, 1, 2]]]


@pytest.mark.parametrize("n", [1, 3])
def test_derivatives_of_first_and_second_order(n):
    size = (2,) * n
    x, w, b = leaf(1, 4, *(3,) * n), leaf(4, 2, *size, phase=1), leaf(4, phase=2)

    def forward(x, w, b):
        return CONV[n](x, w, b, 2, 1, 1, 2)

    def back(x, w, b):
        return SPREAD[n](x, w, b, 2, 1, 1, 2)

    for f in (forward, back):
        bias = b if f is forward else leaf(4, phase=2)
        assert gradcheck(f, [x, w, bias]) and gradgradcheck(f, [x, w, bias], directions=1)


def test_same_padding_keeps_the_size():
    x = dp.tensor([[[1.0, 2.0, 4.0, 8.0]]])
    assert F.conv1d(x, dp.ones(1, 1, 2), padding="same").tolist() == [[[3, 6, 12, 8]]]
    assert F.conv1d(x, dp.ones(1, 1, 3), padding="same", dilation=2).tolist() == [[[5, 10, 5, 10]]]
    assert F.conv1d(x, dp.ones(1, 1, 2), padding="valid").tolist() == [[[3, 6, 12]]]
    assert F.conv3d(dp.ones(1, 1, 2, 3, 4), dp.ones(1, 1, 2, 1, 4), padding="same").shape[2:] == (
        2, 3, 4)  # fmt: skip
    with pytest.raises(ValueError, match="not supported for strided"):
        F.conv1d(x, dp.ones(1, 1, 2), padding="same", stride=2)
    with pytest.raises(ValueError, match="expected 'valid', 'same'"):
        F.conv1d(x, dp.ones(1, 1, 2), padding="full")


def test_what_does_not_fit_is_refused():
    x, w = dp.ones(2, 3, 6, 7), dp.ones(4, 3, 2, 2)
    for wrong in ({"stride": 0}, {"padding": -1}, {"dilation": 0}, {"groups": 2}, {"groups": 0},
                  {"stride": (1, 1, 1)}, {"padding": 1.5}):  # fmt: skip
        with pytest.raises(ShapeError, match="conv2d"):
            F.conv2d(x, w, **wrong)
    for other in (dp.ones(4, 3, 2), dp.ones(4, 2, 2, 2), dp.ones(4, 3, 7, 2)):
        with pytest.raises(ShapeError, match="conv2d"):
            F.conv2d(x, other)
    with pytest.raises(ShapeError, match=r"conv3d: expected \(n, c, d, h, w\) or"):
        F.conv3d(dp.ones(2, 3, 4), dp.ones(4, 3, 1, 1, 1))
    with pytest.raises(DTypeError, match="float32 and float64"):
        F.conv2d(x, w.double())
    for wrong in ({"output_padding": 1}, {"padding": 9}, {"groups": 4}):
        with pytest.raises(ShapeError, match="conv_transpose2d"):
            F.conv_transpose2d(x, dp.ones(3, 4, 2, 2), **wrong)
    with pytest.raises(ShapeError, match="conv_transpose2d"):
        F.conv_transpose2d(x, w)


def test_no_rows_and_other_dtypes():
    assert F.conv3d(dp.ones(0, 3, 4, 4, 4), dp.ones(5, 3, 2, 2, 2)).shape == (0, 5, 3, 3, 3)
    assert F.conv_transpose1d(dp.ones(0, 3, 4), dp.ones(3, 5, 2)).shape == (0, 5, 5)
    assert F.conv1d(dp.tensor([[[1, 2, 3]]]), dp.tensor([[[1, 1]]])).tolist() == [[[3, 5]]]
    many = dp.ones(1, 4096, 1, dtype="float16")
    y = F.conv1d(many, many)
    assert y.dtype == dp.float16 and y.item() == 4096  # added in float16 it would stop at 2048


def test_unfold_and_fold():
    x = leaf(2, 3, 5, 6)
    y = F.unfold(x, (2, 3), (2, 1), (1, 0), (1, 2))
    assert y.shape == (2, 3 * 6, 5 * 2)
    w = dp.tensor(wave(4, 3, 2, 3, phase=1))
    by_columns = (w.reshape(4, -1) @ y).reshape(2, 4, 5, 2)
    expected = F.conv2d(x, w, None, (1, 2), (1, 0), (2, 1))
    np.testing.assert_allclose(by_columns.array, expected.array, rtol=1e-11, atol=1e-12)
    g = dp.tensor(wave(*y.shape, phase=2))
    (y * g).sum().backward()
    back = F.fold(g, (5, 6), (2, 3), (2, 1), (1, 0), (1, 2))
    np.testing.assert_allclose(back.array, x.grad.array, rtol=1e-12)
    assert F.fold(F.unfold(dp.ones(1, 3, 3), 2), 3, 2).tolist() == [
        [[1, 2, 1], [2, 4, 2], [1, 2, 1]]]  # fmt: skip
    infinite = dp.tensor([[[[np.inf, 1.0, 2.0]]]])
    assert F.unfold(infinite, (1, 2)).tolist() == [[[np.inf, 1], [1, 2]]]
    for wrong in (g[:, :17], g[:, :, :9]):
        with pytest.raises(ShapeError, match="fold"):
            F.fold(wrong, (5, 6), (2, 3), (2, 1), (1, 0), (1, 2))
    with pytest.raises(ShapeError, match="unfold"):
        F.unfold(x, 7)
    assert repr(nn.Unfold(2)) == "Unfold(kernel_size=2, dilation=1, padding=0, stride=1)"


PADS = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@pytest.mark.parametrize("mode", PADS)
@pytest.mark.parametrize("layer", [nn.Conv1d, nn.Conv2d, nn.Conv3d])
def test_padding_modes(layer, mode):
    n = layer.axes
    x = wave(2, 2, *SPACE[n])
    for padding, sides in ((2, (2, 2)), ("same", (1, 2))):
        net = layer(2, 4, 4, padding=padding, padding_mode=mode, dtype="float64")
        widths = [(0, 0), (0, 0), *(sides,) * n]
        wide = np.pad(x, widths, mode=PADS[mode])
        expected = CONV[n](dp.tensor(wide), net.weight, net.bias)
        np.testing.assert_allclose(net(dp.tensor(x)).array, expected.array, rtol=1e-11, atol=1e-12)
    assert f"padding=same, padding_mode={mode}" in repr(net)


def test_layers_have_pytorchs_shapes_and_names():
    net = nn.ConvTranspose2d(4, 6, (3, 2), 2, 1, 1, groups=2, bias=False)
    assert net.weight.shape == (4, 3, 3, 2) and list(net.state_dict()) == ["weight"]
    assert repr(net) == ("ConvTranspose2d(4, 6, kernel_size=(3, 2), stride=(2, 2), padding=(1, 1), "
                         "output_padding=(1, 1), groups=2, bias=False)")  # fmt: skip
    bound = 1 / np.sqrt(3 * 6)  # PyTorch counts the second axis and the kernel as what comes in
    assert 0.8 * bound < abs(net.weight.detach()).max().item() <= bound
    assert nn.Conv3d(4, 6, 3, groups=2).weight.shape == (6, 2, 3, 3, 3)
    assert repr(nn.Conv1d(2, 3, 5)) == "Conv1d(2, 3, kernel_size=(5,), stride=(1,))"
    for wrong in ({"padding_mode": "mirror"}, {"groups": 3}, {"groups": 0}, {"stride": (1, 1)}):
        with pytest.raises(ValueError):
            nn.Conv1d(2, 4, 3, **wrong)
    with pytest.raises(ValueError, match="padding_mode"):
        nn.ConvTranspose1d(2, 4, 3, padding_mode="reflect")


def test_output_size_chooses_among_what_a_stride_leaves_open():
    net, x = nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1), dp.ones(1, 2, 5, 6)
    assert net(x).shape == (1, 3, 9, 11)
    assert net(x, [10, 11]).shape == net(x, [1, 3, 10, 11]).shape == (1, 3, 10, 11)
    with pytest.raises(ValueError, match=r"valid sizes range from \[9, 11\] to \[10, 12\]"):
        net(x, [8, 11])
