"""Convolution, pooling, resizing and sampling of images."""

import minidp as dp
from conformance.layout import numbers
from conformance.padding import ceil_pads, flat, padded, pads_of
from minidp.nn import functional as F


def by_rank(name):
    """The function of this name for the number of spatial axes: conv1d, conv2d, conv3d."""
    return lambda x, *args, **named: getattr(F, f"{name}{x.ndim - 2}d")(x, *args, **named)


def conv(x, weight, bias=None, *, auto_pad="NOTSET", dilations=None, group=1, kernel_shape=None,
         pads=None, strides=None):  # fmt: skip
    rank = x.ndim - 2
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    pads = pads_of(x, list(weight.shape[2:]), auto_pad, pads, strides, dilations)
    x, rest = padded(x, pads)
    return by_rank("conv")(x, weight, bias, stride=strides, padding=rest, dilation=dilations,
                           groups=group)  # fmt: skip


def conv_transpose(x, weight, bias=None, *, auto_pad="NOTSET", dilations=None, group=1,
                   kernel_shape=None, output_padding=None, output_shape=None, pads=None,
                   strides=None):  # fmt: skip
    """Without padding and cut: ONNX's pads may differ between the two ends of an axis."""
    rank = x.ndim - 2
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    extra = output_padding or [0] * rank
    full = by_rank("conv_transpose")(x, weight, bias, stride=strides, output_padding=0,
                                     groups=group, dilation=dilations)  # fmt: skip
    full = F.pad(full, flat([0] * rank, extra))
    if output_shape is None and auto_pad != "NOTSET":
        output_shape = [n * s for n, s in zip(x.shape[2:], strides)]
    if output_shape is not None:
        total = [n - m for n, m in zip(full.shape[2:], output_shape)]
        small = [max(n, 0) // 2 for n in total]
        begin = small if auto_pad != "SAME_LOWER" else [n - m for n, m in zip(total, small)]
        pads = begin + [n - m for n, m in zip(total, begin)]
    pads = pads or [0] * (2 * rank)
    return F.pad(full, flat([-n for n in pads[:rank]], [-n for n in pads[rank:]]))


def causal_conv(x, weight, bias=None, past=None, activation="none"):
    """A convolution per channel over the past steps and these; the last steps are the state."""
    length = weight.shape[-1] - 1
    past = dp.zeros(*x.shape[:2], length, dtype=x.dtype) if past is None else past
    x = dp.cat([past, x], -1)
    y = F.conv1d(x, weight, bias, groups=weight.shape[0])
    y = y if activation == "none" else F.silu(y)
    return y, dp.narrow(x, -1, x.shape[-1] - length, length)


def max_pool(x, *, auto_pad="NOTSET", ceil_mode=0, dilations=None, kernel_shape, pads=None,
             storage_order=0, strides=None, outputs=1):  # fmt: skip
    rank = x.ndim - 2
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    pads = pads_of(x, kernel_shape, auto_pad, pads, strides, dilations)
    lowest = 0 if not x.is_floating_point() else -float("inf")
    x, rest = padded(x, pads, lowest, limits=[n // 2 for n in kernel_shape])
    found = by_rank("max_pool")(x, kernel_shape, strides, rest, dilations, bool(ceil_mode),
                                outputs == 2)  # fmt: skip
    if outputs == 1:
        return found
    values, index = found
    if storage_order:
        height, width = x.shape[2:]
        index = dp.remainder(index, width) * height + dp.div(index, width, rounding_mode="floor")
    return values, index


def average_pool(x, *, auto_pad="NOTSET", ceil_mode=0, count_include_pad=0, dilations=None,
                 kernel_shape, pads=None, strides=None):  # fmt: skip
    """Windows with holes, or padded by more than half, are a convolution with equal weights."""
    rank = x.ndim - 2
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    pads = pads_of(x, kernel_shape, auto_pad, pads, strides, dilations)
    plain = pads[:rank] == pads[rank:] and dilations == [1] * rank
    if plain and all(2 * n <= k for n, k in zip(pads, kernel_shape)):
        return by_rank("avg_pool")(x, kernel_shape, strides, pads[:rank], bool(ceil_mode),
                                   bool(count_include_pad))  # fmt: skip
    more = ceil_pads(x, kernel_shape, pads, strides, dilations) if ceil_mode else [0] * rank
    total, count = (
        window_sums(F.pad(F.pad(a, flat(pads[:rank], pads[rank:]), value=value),
                          flat([0] * rank, more)), kernel_shape, strides, dilations)
        for a, value in ((x, 0), (dp.ones_like(x), count_include_pad))
    )  # fmt: skip
    return total / count


def window_sums(x, kernel, strides, dilations):
    """A convolution of every channel with ones."""
    channels = x.shape[1]
    ones = dp.ones(channels, 1, *kernel, dtype=x.dtype)
    return by_rank("conv")(x, ones, stride=strides, dilation=dilations, groups=channels)


def lp_pool(x, *, auto_pad="NOTSET", ceil_mode=0, dilations=None, kernel_shape, p=2, pads=None,
            strides=None):  # fmt: skip
    rank = x.ndim - 2
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    pads = pads_of(x, kernel_shape, auto_pad, pads, strides, dilations)
    x = F.pad(dp.abs(x), flat(pads[:rank], pads[rank:]))
    if dilations != [1] * rank:
        return dp.pow(window_sums(dp.pow(x, p), kernel_shape, strides, dilations), 1 / p)
    if rank == 1:
        kernel_shape, strides = kernel_shape[0], strides[0]
    return by_rank("lp_pool")(x, p, kernel_shape, strides, bool(ceil_mode))


def max_unpool(x, index, size=None, *, kernel_shape, pads=None, strides=None):
    """Indices are those of the smallest image, as the pooling gave them."""
    rank = x.ndim - 2
    small = [(n - 1) * s + k for n, s, k in zip(x.shape[2:], strides, kernel_shape)]
    y = by_rank("max_unpool")(x, index, kernel_shape, strides, output_size=small)
    size = small if size is None else numbers(size)[2:]
    return F.pad(y, flat([0] * rank, [n - m for n, m in zip(size, small)]))


def global_pool(name):
    return lambda x: by_rank(name)(x, 1)


def col2im(x, size, block, *, dilations=None, pads=None, strides=None):
    return F.fold(x, numbers(size), numbers(block), dilation=dilations or 1,
                  padding=(pads or [0, 0])[:2], stride=strides or 1)  # fmt: skip


def depth_to_space(x, blocksize, mode="DCR"):
    if mode == "DCR":  # the block is the slower part of the channels
        b, n = blocksize, x.shape[0]
        x = dp.reshape(x, (n, b * b, -1, *x.shape[2:])).transpose(1, 2).flatten(1, 2)
    return F.pixel_shuffle(x, blocksize)


def space_to_depth(x, blocksize, mode="DCR"):
    y = F.pixel_unshuffle(x, blocksize)
    if mode == "DCR":
        y = dp.reshape(y, (y.shape[0], x.shape[1], -1, *y.shape[2:])).transpose(1, 2).flatten(1, 2)
    return y


def local_response(x, *, alpha=1e-4, beta=0.75, bias=1.0, size):
    return F.local_response_norm(x, size, alpha, beta, bias)


def grid_sample(x, grid, *, align_corners=0, mode="linear", padding_mode="zeros"):
    mode = {"linear": "bilinear", "nearest": "nearest", "cubic": "bicubic"}[mode]
    return F.grid_sample(x, grid, mode, padding_mode, bool(align_corners))


def affine_grid(theta, size, align_corners=0):
    return F.affine_grid(theta, numbers(size), bool(align_corners))


OPERATORS = {
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "CausalConvWithState": causal_conv,
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "LpPool": lp_pool,
    "MaxUnpool": max_unpool,
    "GlobalMaxPool": global_pool("adaptive_max_pool"),
    "GlobalAveragePool": global_pool("adaptive_avg_pool"),
    "Col2Im": col2im,
    "DepthToSpace": depth_to_space,
    "SpaceToDepth": space_to_depth,
    "LRN": local_response,
    "GridSample": grid_sample,
    "AffineGrid": affine_grid,
}
