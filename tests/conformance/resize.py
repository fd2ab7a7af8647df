"""Resize and Upsample, as far as torch.nn.functional.interpolate and grid_sample go."""

import minidp as dp
from minidp.nn import functional as F

LINEAR = {3: "linear", 4: "bilinear", 5: "trilinear"}


def resize(x, roi=None, scales=None, sizes=None, *, axes=None, mode="nearest",
           keep_aspect_ratio_policy="stretch", coordinate_transformation_mode="half_pixel",
           **named):  # fmt: skip
    """The spatial axes of a picture; the cases that PyTorch has no word for are listed."""
    axes = [axis % x.ndim for axis in axes] if axes else list(range(x.ndim))
    given = dict(zip(axes, (scales if scales is not None else sizes).tolist()))
    wanted = [given[axis] for axis in range(2, x.ndim)]
    if coordinate_transformation_mode == "tf_crop_and_resize":
        begins, ends = roi.tolist()[: len(axes)], roi.tolist()[len(axes) :]
        places = dict(zip(axes, zip(begins, ends)))
        return crop_and_resize(x, [places[axis] for axis in (2, 3)], wanted)
    if keep_aspect_ratio_policy != "stretch":
        choose = {"not_larger": min, "not_smaller": max}[keep_aspect_ratio_policy]
        scale = choose(n / m for n, m in zip(wanted, x.shape[2:]))
        wanted = [int(scale * m + 0.5) for m in x.shape[2:]]
    target = {"scale_factor" if scales is not None else "size": wanted}
    if mode == "nearest":
        return nearest(x, target)
    corners = coordinate_transformation_mode == "align_corners"
    mode = LINEAR[x.ndim] if mode == "linear" else "bicubic"
    return F.interpolate(x, mode=mode, align_corners=corners, **target)


def nearest(x, target):
    """"nearest-exact" takes the later of two pixels that are as near; ONNX the earlier one."""
    dims = tuple(range(2, x.ndim)) if "size" in target else ()
    return dp.flip(F.interpolate(dp.flip(x, dims), mode="nearest-exact", **target), dims)


def crop_and_resize(x, places, sizes):
    """A grid of points between the two ends of each axis, of which 0 and 1 are the outer pixels."""
    vertical, horizontal = (
        dp.linspace(2 * begin - 1, 2 * end - 1, size, dtype=x.dtype)
        for (begin, end), size in zip(places, sizes)
    )
    grid = [horizontal.expand(sizes[0], -1), vertical.reshape(-1, 1).expand(-1, sizes[1])]
    grid = dp.stack(grid, -1).expand(x.shape[0], -1, -1, -1)
    return F.grid_sample(x, grid, align_corners=True)


def upsample(x, scales, mode="nearest"):
    return F.interpolate(x, scale_factor=scales.tolist()[2:], mode=mode)


OPERATORS = {"Resize": resize, "Upsample": upsample}
