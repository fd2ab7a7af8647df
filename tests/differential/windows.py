"""Random cases of layers that look through windows, pad, and change the size of images."""

from __future__ import annotations

from typing import Any

import numpy as np

from differential.drawing import Case, Draw
from differential.layers import layer


@layer("Conv1d", "Conv2d", "Conv3d")
def conv(d: Draw, name: str) -> Case:
    axes, groups = int(name[4]), d.pick(1, 1, 2, 3)
    channels = groups * d.size(1, 3)
    options = d.options(
        stride=(d.sizes(axes, 1, 4),),
        padding=(d.sizes(axes, 0, 3), "valid", "same"),
        dilation=(d.sizes(axes, 1, 3),),
        bias=(True, False),
        padding_mode=("zeros", "zeros", "reflect", "replicate", "circular"),
    )
    return Case(
        (channels, groups * d.size(1, 3), d.sizes(axes, 1, 4)),
        {**options, "groups": groups},
        (d.image(axes, channels, 1, 9 if axes < 3 else 6),),
    )


@layer("ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d")
def conv_transpose(d: Draw, name: str) -> Case:
    axes, groups = int(name[13]), d.pick(1, 1, 2, 3)
    channels = groups * d.size(1, 3)
    options = d.options(
        stride=(d.sizes(axes, 1, 4),),
        padding=(d.sizes(axes, 0, 2),),
        output_padding=(0, d.sizes(axes, 0, 2)),
        bias=(True, False),
        dilation=(d.sizes(axes, 1, 3),),
    )
    return Case(
        (channels, groups * d.size(1, 3), d.sizes(axes, 1, 4)),
        {**options, "groups": groups},
        (d.image(axes, channels, 1, 5),),
    )


@layer("Unfold")
def unfold(d: Draw, name: str) -> Case:
    options = d.options(
        dilation=(d.sizes(2, 1, 2),), padding=(d.sizes(2, 0, 2),), stride=(d.sizes(2, 1, 3),)
    )
    return Case((d.sizes(2, 1, 3),), options, (d.image(2, d.size(1, 3), 2, 7),))


@layer("Fold")
def fold(d: Draw, name: str) -> Case:
    pair = lambda value: (value, value) if isinstance(value, int) else value  # noqa: E731
    size, kernel = pair(d.sizes(2, 3, 7)), pair(d.sizes(2, 1, 3))
    dilation, padding, stride = (
        pair(d.sizes(2, 1, 2)),
        pair(d.sizes(2, 0, 2)),
        pair(d.sizes(2, 1, 3)),
    )
    blocks = int(
        np.prod(
            [
                (size[i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1
                for i in range(2)
            ]
        )
    )
    shape = (d.size(1, 3) * kernel[0] * kernel[1], max(0, blocks) + (d.chance(0.05)))
    shape = shape if d.chance(0.2) else (d.batch(), *shape)
    return Case(
        (size, kernel),
        {"dilation": dilation, "padding": padding, "stride": stride},
        (d.normal(*shape),),
    )


@layer("MaxPool1d", "MaxPool2d", "MaxPool3d")
def max_pool(d: Draw, name: str) -> Case:
    axes = int(name[7])
    options = d.options(
        stride=(d.sizes(axes, 1, 4),),
        padding=(d.sizes(axes, 0, 1),),
        dilation=(d.sizes(axes, 1, 2),),
        ceil_mode=(True, False),
        return_indices=(True, False),
    )
    low = 2 if "dilation" in options else 1  # else there are windows of nothing but padding
    return Case((d.sizes(axes, 1, 4),), options, (d.image(axes, d.size(1, 3), low, 8),))


@layer("AvgPool1d", "AvgPool2d", "AvgPool3d")
def avg_pool(d: Draw, name: str) -> Case:
    axes = int(name[7])
    options = d.options(
        stride=(d.sizes(axes, 1, 4),),
        padding=(d.sizes(axes, 0, 1),),
        ceil_mode=(True, False),
        count_include_pad=(True, False),
        **({"divisor_override": (None, 1, 3)} if axes > 1 else {}),
    )
    return Case((d.sizes(axes, 1, 4),), options, (d.image(axes, d.size(1, 3), 1, 8),))


@layer("LPPool1d", "LPPool2d", "LPPool3d")
def lp_pool(d: Draw, name: str) -> Case:
    d.coarse = False  # sums that are exactly 0 have a derivative of their own
    axes = int(name[6])
    options = d.options(stride=(d.sizes(axes, 1, 3),), ceil_mode=(True, False))
    x = d.image(axes, d.size(1, 3), 2, 7)
    if axes == 1:  # PyTorch fails with tuples there
        options = {k: v[0] if isinstance(v, tuple) else v for k, v in options.items()}
    window = d.size(1, 3) if axes == 1 else d.sizes(axes, 1, 3)
    return Case((d.pick(1, 2, 3, 2.0, 1.5), window), options, (x,))


@layer("MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d")
def max_unpool(d: Draw, name: str) -> Case:
    axes = int(name[9])
    shape = tuple(d.size(1, 3) for _ in range(axes))
    places = np.stack(
        [
            d.random.permutation(int(np.prod(shape)) * 2**axes)[: int(np.prod(shape))]
            for _ in range(4)
        ]
    ).reshape(2, 2, *shape)
    unbatched = d.chance(0.2)
    x = d.normal(2, 2, *shape)
    return Case((2,), d.options(stride=(None, 2)), (x[0], places[0]) if unbatched else (x, places))


@layer(
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
)
def adaptive(d: Draw, name: str) -> Case:
    axes = int(name[-2])
    target = d.sizes(axes, 1, 5)
    if axes > 1 and isinstance(target, tuple) and d.chance(0.3):
        target = (None, *target[1:])
    options = d.options(return_indices=(True, False)) if "Max" in name else {}
    return Case((target,), options, (d.image(axes, d.size(1, 3), 1, 7),))


for _axes in (1, 2, 3):

    @layer(
        f"ZeroPad{_axes}d",
        f"ConstantPad{_axes}d",
        f"ReflectionPad{_axes}d",
        f"ReplicationPad{_axes}d",
        f"CircularPad{_axes}d",
    )
    def pad(d: Draw, name: str, axes: int = _axes) -> Case:
        low = -1 if name[0] == "Z" or name[:2] == "Co" else 0
        widths = d.size(low, 3) if d.chance(0.3) else tuple(d.size(low, 3) for _ in range(2 * axes))
        more = (d.pick(0, 2.5, -1.0),) if name.startswith("Const") else ()
        return Case((widths, *more), {}, (d.image(axes, d.size(1, 3), 1, 6),))


@layer("PixelShuffle", "PixelUnshuffle", "ChannelShuffle")
def shuffle(d: Draw, name: str) -> Case:
    r = d.size(1, 3)
    rows, h, w = d.shape(0, 2), d.size(1, 3), d.size(1, 3)
    shape = {
        "PixelShuffle": (*rows, r * r * d.size(1, 2), h, w),
        "PixelUnshuffle": (*rows, d.size(1, 2), r * h, r * w),
        "ChannelShuffle": (d.batch(), r * d.size(1, 3), *rows, w),
    }[name]
    return Case((r,), {}, (d.normal(*shape),))


@layer("Upsample")
def upsample(d: Draw, name: str) -> Case:
    mode = d.pick("nearest", "linear", "bilinear", "bicubic", "trilinear", "nearest-exact", "area")
    axes = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}.get(mode, d.size(1, 3))
    options: dict[str, Any] = {"mode": mode}
    if mode.endswith(("linear", "cubic")) and d.chance(0.7):
        options["align_corners"] = d.pick(True, False, None)
    if d.chance(0.5):
        options["size"] = d.sizes(axes, 1, 6)
    else:
        options["scale_factor"] = d.pick(
            0.5, 1, 1.5, 2, 2.6, tuple(d.pick(0.7, 1.0, 2.6) for _ in range(axes))
        )
        if d.chance(0.4) and mode != "area":
            options["recompute_scale_factor"] = d.pick(True, False)
    return Case(
        (),
        options,
        (d.normal(d.pick(1, 2, 3), d.size(1, 3), *(d.size(2, 5) for _ in range(axes))),),
    )


@layer("UpsamplingNearest2d", "UpsamplingBilinear2d")
def upsampling(d: Draw, name: str) -> Case:
    options = d.pick({"size": d.sizes(2, 1, 6)}, {"scale_factor": d.pick(2, 1.5, (2, 3))})
    return Case((), options, (d.normal(d.pick(1, 2), d.size(1, 3), d.size(1, 4), d.size(1, 4)),))
