"""Resizing, sampling, shuffling and padding layers.

Sums as literals were computed once with PyTorch 2.13 from the inputs that `wave` makes.
"""

import numpy as np
import pytest
from waves import leaf, wave

import minidp as dp
from minidp import nn
from minidp.errors import DTypeError, ShapeError
from minidp.nn import functional as F
from minidp.testing import gradcheck, gradgradcheck


def weighed(y):
    return (y * dp.tensor(wave(*y.shape, phase=0.3))).sum()


RESIZED = [
    ((1, 1, 2, 3), {"size": (3, 5), "mode": "bilinear"}, 0.002488874984643341),
    ((1, 1, 2, 3), {"size": (3, 5), "mode": "bilinear", "align_corners": True}, 0.046592233945354),
    ((1, 1, 2, 3), {"size": (3, 5), "mode": "bicubic"}, 0.009314323853122697),
    ((1, 1, 2, 3), {"size": (3, 5), "mode": "bicubic", "align_corners": True},
     -0.002603469455944918),
    ((1, 1, 2, 3), {"scale_factor": (1.7, 1.7), "mode": "bilinear"}, -0.1782702841346352),
    ((1, 1, 2, 3), {"scale_factor": 1.7, "mode": "bilinear", "recompute_scale_factor": True},
     0.002488874984643341),
    ((1, 2, 3, 2, 3), {"size": (4, 3, 2), "mode": "trilinear"}, 0.09992099729303708),
    ((1, 2, 5), {"size": 7, "mode": "linear"}, 0.6223948372429382),
]  # fmt: skip


@pytest.mark.parametrize("shape, options, expected", RESIZED)
def test_smooth_modes_have_pytorchs_values(shape, options, expected):
    x = leaf(*shape)
    np.testing.assert_allclose(weighed(F.interpolate(x, **options)).item(), expected, rtol=1e-9)
    assert gradcheck(lambda x: F.interpolate(x, **options).square(), [x])
    assert gradgradcheck(lambda x: F.interpolate(x, **options).square(), [x], directions=1)


def test_smooth_modes_in_small():
    x = dp.tensor([[[0.0, 1.0, 4.0]]])
    corners = F.interpolate(x, 5, mode="linear", align_corners=True)
    assert corners.tolist() == [[[0, 0.5, 1, 2.5, 4]]]
    assert F.interpolate(x, 6, mode="linear").tolist() == [[[0, 0.25, 0.75, 1.75, 3.25, 4]]]
    assert F.interpolate(x, 1, mode="linear", align_corners=True).tolist() == [[[0]]]
    assert F.interpolate(x, 2, mode="area").tolist() == [[[0.5, 2.5]]]
    infinite = dp.tensor([[[np.inf, 1.0, 2.0, 3.0]]])
    assert F.interpolate(infinite, 7, mode="linear").tolist()[0][0][3:] == [1.5, *(
        pytest.approx(v) for v in (2.0714285, 2.6428571, 3))]  # fmt: skip
    assert F.interpolate(x.half(), 2, mode="linear").dtype == dp.float16


@pytest.mark.parametrize("mode, size, places", [
    ("nearest", 3, [0, 1, 3]), ("nearest-exact", 3, [0, 2, 4]),
    ("nearest", 8, [0, 0, 1, 1, 2, 3, 3, 4]), ("nearest-exact", 8, [0, 0, 1, 2, 2, 3, 4, 4]),
])  # fmt: skip
def test_nearest_repeats_places(mode, size, places):
    x = dp.arange(5).reshape(1, 1, 5)
    assert F.interpolate(x, size, mode=mode).tolist() == [[places]]
    assert F.interpolate(x.type("uint8"), size, mode=mode).dtype == dp.uint8
    x = leaf(1, 1, 5)
    F.interpolate(x, size, mode=mode).sum().backward()
    assert x.grad.array.ravel().tolist() == np.bincount(places, minlength=5).tolist()


def test_nearest_rounds_as_pytorch():
    """floor(i / 2.7) in the dtype of the values, then in float32: 27 / 2.7 is 10, and not 9.99."""
    for dtype in ("float32", "float64"):
        x = dp.arange(31, dtype=dtype).reshape(1, 1, 31)
        found = F.interpolate(x, scale_factor=2.7)[0, 0].tolist()
        assert found[26:29] == [9, 10, 10] and len(found) == 83


def test_what_does_not_fit_is_refused():
    x = dp.ones(1, 2, 4, 5)
    for wrong in ({}, {"size": 3, "scale_factor": 2}, {"size": 0}, {"size": (1, 2, 3)},
                  {"scale_factor": (1.0,)}, {"size": 3, "mode": "cubic"}, {"scale_factor": 0.1},
                  {"size": 3, "align_corners": True}, {"size": 3, "mode": "linear"},
                  {"size": 3, "recompute_scale_factor": True}):  # fmt: skip
        with pytest.raises(ValueError, match="interpolate"):
            F.interpolate(x, **wrong)
    with pytest.raises(ShapeError, match="is not for input"):
        F.interpolate(x[0], 3, mode="bilinear")
    with pytest.raises(DTypeError, match="floating point"):
        F.interpolate(x.long(), 3, mode="bilinear")
    for f in (F.pixel_shuffle, F.pixel_unshuffle, F.channel_shuffle):
        with pytest.raises(ShapeError, match=f.__name__):
            f(x, 3)
        with pytest.raises(ShapeError, match=f.__name__):
            f(x[0, 0], 1)


def test_shuffles():
    x = dp.arange(8).reshape(1, 8, 1, 1)
    assert F.pixel_shuffle(x, 2).tolist() == [[[[0, 1], [2, 3]], [[4, 5], [6, 7]]]]
    assert F.channel_shuffle(x, 2)[0, :, 0, 0].tolist() == [0, 4, 1, 5, 2, 6, 3, 7]
    wide = dp.tensor(wave(2, 3, 4, 6))
    assert F.pixel_shuffle(F.pixel_unshuffle(wide, 2), 2).equal(wide)
    assert nn.PixelUnshuffle(2)(wide[0]).equal(F.pixel_unshuffle(wide, 2)[0])


SAMPLED = {
    ("bilinear", "zeros", False): (-0.3412232673, -0.4298537297, 4.942591311),
    ("bilinear", "zeros", True): (-2.6445320605, -2.6607835802, 6.2446885681),
    ("bilinear", "border", False): (-4.7534981289, -4.7144862965, -1.100509818),
    ("bilinear", "border", True): (-3.6357832931, -3.5718843936, 2.0111151229),
    ("bilinear", "reflection", False): (-4.7816571549, -4.7983190868, -0.550645553),
    ("bilinear", "reflection", True): (-3.5349025799, -3.8040706384, 7.6114995209),
    ("nearest", "zeros", False): (0.793105643, 0.5986385117, None),
    ("nearest", "border", True): (-2.8333441635, -2.8973057336, None),
    ("nearest", "reflection", True): (-5.0782412756, -5.6375154409, None),
}


@pytest.mark.parametrize("how", SAMPLED)
def test_grid_sample_has_pytorchs_values(how):
    x, grid = leaf(2, 3, 4, 5), leaf(2, 2, 3, 2, scale=1.3, phase=0.7)
    y = weighed(F.grid_sample(x, grid, *how))
    y.backward()
    slopes = [None if each.grad is None else (each.grad.array * wave(*each.shape, phase=0.1)).sum()
              for each in (x, grid)]  # fmt: skip
    for found, expected in zip((y.item(), *slopes), SAMPLED[how], strict=True):
        assert found is expected or abs(found - expected) < 1e-9


def test_affine_grid():
    theta = dp.tensor([[[1.0, 0.5, 0.0], [0.0, 2.0, 0.25]]])
    assert F.affine_grid(theta, (1, 1, 2, 2), False).tolist() == [
        [[[-0.75, -0.75], [0.25, -0.75]], [[-0.25, 1.25], [0.75, 1.25]]]]  # fmt: skip
    assert F.affine_grid(theta, (1, 1, 1, 3), True).tolist() == [
        [[[-1.0, 0.25], [0.0, 0.25], [1.0, 0.25]]]]  # fmt: skip
    still = dp.tensor(np.eye(3, 4)[None])
    x = dp.tensor(wave(1, 2, 3, 4, 5))
    same = F.grid_sample(x, F.affine_grid(still, x.shape, False), align_corners=False)
    np.testing.assert_allclose(same.array, x.array, rtol=1e-12, atol=1e-14)
    with pytest.raises(ShapeError, match="affine_grid"):
        F.affine_grid(theta, (2, 1, 2, 2))
    with pytest.raises(ShapeError, match="grid_sample"):
        F.grid_sample(x, dp.ones(1, 2, 2, 2, 2))
    with pytest.raises(ValueError, match="mode='cubic'"):
        F.grid_sample(dp.ones(1, 1, 2, 2), dp.ones(1, 1, 1, 2), "cubic")


def test_layers():
    x = dp.tensor(wave(1, 2, 3, 4))
    assert nn.Upsample(scale_factor=2)(x).equal(F.interpolate(x, scale_factor=2))
    assert repr(nn.Upsample(scale_factor=(2, 3))) == (
        "Upsample(scale_factor=(2.0, 3.0), mode='nearest')"
    )
    assert repr(nn.UpsamplingBilinear2d(5)) == "UpsamplingBilinear2d(size=5, mode='bilinear')"
    corners = F.interpolate(x, 5, mode="bilinear", align_corners=True)
    assert nn.UpsamplingBilinear2d(5)(x).equal(corners)
    assert repr(nn.PixelShuffle(2)) == "PixelShuffle(upscale_factor=2)"


@pytest.mark.parametrize("name, mode", [("Zero", "constant"), ("Reflection", "reflect"),
                                        ("Replication", "edge"), ("Circular", "wrap")])  # fmt: skip
def test_padding_layers(name, mode):
    x = wave(1, 2, 3, 4, 5)
    for n, shape in ((1, (2, 12, 5)), (2, (2, 3, 4, 5)), (3, x.shape)):
        sides = [(2, 1), (0, 2), (1, 1)][:n]
        layer = getattr(nn, f"{name}Pad{n}d")([p for pair in sides for p in pair])
        widths = [(0, 0)] * (len(shape) - n) + sides[::-1]
        wide = np.pad(x.reshape(shape), widths, mode=mode)
        np.testing.assert_array_equal(layer(dp.tensor(x.reshape(shape))).array, wide)
    assert repr(nn.ZeroPad2d(1)) == "ZeroPad2d((1, 1, 1, 1))"
    assert nn.ConstantPad1d((1, 0), 3.5)(dp.ones(1, 1)).tolist() == [[3.5, 1]]
    assert repr(nn.ConstantPad1d(1, 3.5)) == "ConstantPad1d(padding=(1, 1), value=3.5)"
    with pytest.raises(ShapeError, match="one integer or 4"):
        nn.ZeroPad2d((1, 2, 3))


@pytest.mark.parametrize("value", [None, 0, 1.5, -np.inf, np.nan])
def test_constant_padding_is_recorded_and_replayed(value):
    run = dp.capture(lambda x: F.pad(x, (1, 2, 0, 1), value=value))
    for n in range(4):
        x = dp.tensor(wave(2, 3, 4) + n)
        wanted = np.pad(x.numpy(), [(0, 0), (0, 1), (1, 2)], constant_values=value or 0)
        np.testing.assert_array_equal(run(x).numpy(), wanted)
        np.testing.assert_array_equal(F.pad(x, (1, 2, 0, 1), value=value).numpy(), wanted)
    assert run.replays
    rows = [dp.tensor(wave(2, 3), requires_grad=True)]
    assert gradcheck(lambda x: F.pad(x, (1, 2), value=1.5), rows)
    assert gradgradcheck(lambda x: F.pad(x, (1, 2), value=1.5) ** 3, rows)
    assert F.pad(dp.ones(2, dtype=bool), (0, 1)).tolist() == [True, True, False]
