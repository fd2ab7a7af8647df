"""Winograd convolution of stride 1: F(4 x 4, 3 x 3) and F(4 x 4, 5 x 5), in float32.

Input tiles of 6 x 6 (or 8 x 8) are transformed, multiplied with transformed weights in 36 (64)
matrix products over channels by register tiles, and transformed back, a block of some dozen tiles
at a time; the block stays in cache, and of images a strip. See `_transforms` for formulas, errors.

Costs 36 instead of 144, or 64 instead of 400, multiplications for each pair of channels and tile,
and some hundred more for each channel: from 64 channels on, as fast as direct convolution at 310 to
350 GFLOP/s (for 5 x 5 from 32 channels on, at 270 to 300) on a core that multiplies at 115, and at
560 (for 5 x 5 at 610) on one that multiplies at 200 and whose third cache is slow. There products
are two thirds of the time, at 97 % of its peak; the rest is transforms, and memory.
"""

import math
from collections import namedtuple
from functools import lru_cache

import numpy as np

from . import _tiling, switches
from ._both_ways import Chunk, transformed
from ._direct import unpack
from ._layout import ready
from ._memory import empty
from ._microkernel import loops
from ._strips import Grid, length
from ._transformed import GAP, correlate, multiply, transform_sums, transform_weights
from ._transforms import OUTPUTS, points, transform

CHANNELS = {3: 8, 5: 4}  # of source and target at least, so that products outweigh transforms
TILES = 9  # of an image at least, so that they outweigh the transform of the weights
CHAIN = {3: 128, 5: 64}  # channels in one sum: errors of longer ones would be felt
TOGETHER = 28  # tiles in a block
WIDE = 1 << 13, 1 << 14  # channels squared up to which a weight gradient's sums are near the core

Sizes = namedtuple("Sizes", "source target size down across block chain width most strip")


def fits(x, weights, output, stride, padding, dilation, groups):
    """Whether a layer is worth it; the switch, its geometry and dtype alone decide."""
    k, c, *kernel = weights
    is_square = kernel in ([3, 3], [5, 5]) and x.dtype.char == "f"
    if not is_square or not switches.winograd or min(k, c) < CHANNELS[kernel[0]]:
        return False
    is_large = math.prod(-(-length // OUTPUTS) for length in output) >= TILES
    return is_large and groups == 1 and tuple(stride) == tuple(dilation) == (1, 1)


class Blocks:
    """How a layer is cut into blocks of tiles: `source` images are read, `target` ones written.

    `direct` is the same layer's tiling for direct convolution, which says how weights are packed;
    `offset` is how far tiles begin before the source's images.
    """

    def __init__(self, direct, source, target, offset, block):
        self.direct, self.layer, self.r = direct, direct.layer, direct.layer.kernel[0]
        c, k, size, rows = direct.sums, direct.columns, points(self.r), direct.layer.target.rows
        down, across = (-(-length // OUTPUTS) for length in target)
        self.planes = size**2
        chain = min(c, CHAIN[self.r])
        strip = length(size, max(c, k), across, OUTPUTS)
        self.sizes = Sizes(Grid(*source, c, *offset), Grid(*target, k, 0, 0), size, down, across,
                           block, chain, self.layer.width, rows, strip)  # fmt: skip
        self.width = -(-k // self.layer.width) * self.layer.width
        self.weights = self.planes * c * self.width
        self.loops = np.array([
            loops((1, 1, count), a_inner=1, a_row=c, b_inner=self.layer.width, c_row=k)
            for count in (chain, c - (c - 1) // chain * chain)
        ])  # fmt: skip

    def transforms(self, *names):
        return tuple(transform(self.layer.target, name, self.r) for name in names)

    def memory(self, dtype):
        """Memory for a block's tiles of the source and of the target, after the transforms."""
        depths = self.direct.sums, self.direct.columns
        return [empty(self.planes * (self.sizes.block * depth + GAP) + GAP, dtype)
                for depth in depths]  # fmt: skip

    def frames(self, dtype):
        """Memory for a strip of the source, and for one of the target."""
        return [empty(self.sizes.size * _line(self.sizes.strip, self.sizes.size, depth), dtype)
                for depth in (self.direct.sums, self.direct.columns)]  # fmt: skip

    def tiles(self, n):
        """How many tiles n images have."""
        return n * self.sizes.down * self.sizes.across


def _line(strip, size, depth):
    """Values of a row of a strip in its frame."""
    return (strip * OUTPUTS + size - OUTPUTS) * depth + GAP


@lru_cache(maxsize=512)
def forward(*key, block=TOGETHER):
    """The blocks of a convolution; `key` is what a `Layer` is made of."""
    direct = _tiling.forward(*key, with_bias=False)
    layer = direct.layer
    return Blocks(direct, layer.image, layer.output, layer.padding, block)


@lru_cache(maxsize=512)
def backward(*key, block=TOGETHER):
    """The blocks of an input gradient, which is a convolution with turned weights."""
    direct = _tiling.backward(*key)
    layer = direct.layer
    offset = [k - 1 - p for k, p in zip(layer.kernel, layer.padding, strict=True)]
    return Blocks(direct, layer.output, layer.image, offset, block)


@lru_cache(maxsize=1024)
def _tiles(layer, counts, columns, starts):
    """Addresses of the tiles for so many rows."""
    heights = {height for count in counts for height in layer.heights(count)}
    return layer.tiles(heights, columns, starts)


def conv2d(images, w, b, y, *layer, relu=False):
    """y (n, o, p, k): the convolution of images (n, h, w, c), with `relu` cut off at 0."""
    _convolve(forward(images.shape[1:3], w.shape, *layer, w.dtype), images, w, b, y, relu)


def conv2d_input(cotangents, w, dx, *layer):
    """dx (n, h, w, c): the gradient in images of cotangents (n, o, p, k)."""
    _convolve(backward(dx.shape[1:3], w.shape, *layer, w.dtype), cotangents, w, None, dx)


def _convolve(blocks, source, w, b, target, relu=False):
    sizes, count = blocks.sizes, blocks.tiles(len(source))
    name = ("output", "biased", "rectified", "biased rectified")[(b is not None) + 2 * relu]
    weights, tiles = _transformed(blocks, w), _product_tiles(blocks, count)
    bias, planes = empty(0, w.dtype) if b is None else ready(b), blocks.memory(w.dtype)
    multiply(tiles, blocks.loops, *blocks.transforms("input", name), source.reshape(-1),
             blocks.frames(w.dtype)[0], weights, bias, *planes, target.reshape(-1), count,
             sizes)  # fmt: skip


def _transformed(blocks, w):
    """The weights at all points, in the order in which tiles read them."""
    direct, sizes = blocks.direct, blocks.sizes
    packed, weights = _tiling.packed(direct, w), empty(blocks.weights, w.dtype)
    transform_weights(*blocks.transforms("weights"), packed, weights, direct.sums, blocks.width,
                      sizes.width, blocks.r, sizes.size)  # fmt: skip
    return weights


def _product_tiles(blocks, *counts):
    """Addresses of the tiles for so many tiles of images."""
    direct, block = blocks.direct, blocks.sizes.block
    rows = (block, *(count % block for count in counts))
    starts = ("zero", "add")[: 1 + (direct.sums > blocks.sizes.chain)]
    return _tiles(direct.layer, rows, direct.columns, starts)


def _longer(weights):
    """How many tiles a block of a weight gradient has: its sums are read and written once a block,
    which takes longer where they are far."""
    channels, (near, far) = math.prod(weights[:2]), WIDE
    return TOGETHER * (1 if channels <= near else 3 if channels <= far else 6)


def conv2d_weight(cotangents, images, dw, *layer):
    """dw (k, c, r, r) of cotangents (n, o, p, k) and images (n, h, w, c)."""
    blocks = forward(images.shape[1:3], dw.shape, *layer, dw.dtype, block=_longer(dw.shape))
    count, sums = blocks.tiles(len(images)), _sums(blocks, dw)
    into, turn = blocks.transforms("input", "cotangent")
    correlate(_sum_tiles(blocks, count > blocks.sizes.block), _sum_loops(blocks, count), into, turn,
              images.reshape(-1), cotangents.reshape(-1), *blocks.frames(dw.dtype),
              *blocks.memory(dw.dtype), sums, count, blocks.sizes)  # fmt: skip
    _finish(blocks, sums, dw)


def _sums(blocks, dw):
    """Memory for the sums of a weight gradient, at all points."""
    return empty(blocks.planes * blocks.direct.sums * blocks.width, dw.dtype)


def _sum_tiles(blocks, several):
    """Addresses of a weight gradient's tiles, for sums of one block or of `several`."""
    direct = blocks.direct
    return _tiles(direct.layer, (direct.sums,), direct.columns, ("zero", "add")[: 1 + several])


def _sum_loops(blocks, count):
    """Their loops: over a block, and over the last of `count` tiles."""
    c, k, block = blocks.direct.sums, blocks.direct.columns, blocks.sizes.block
    return np.array([
        loops((1, 1, size), a_inner=c, a_row=1, b_inner=k, c_row=blocks.width)
        for size in (block, count - (count - 1) // block * block)
    ])  # fmt: skip


def _finish(blocks, sums, dw):
    """The weight gradient from its sums at all points."""
    direct, sizes, r = blocks.direct, blocks.sizes, blocks.r
    c, k, total = direct.sums, direct.columns, empty(r * r * direct.sums * blocks.width, dw.dtype)
    transform_sums(*blocks.transforms("gradient"), sums, total, c, blocks.width, r, sizes.size)
    unpacking = 1, k, c, r * r, blocks.width, sizes.width // 2, 1
    unpack(direct.layer.transpose, total, dw.reshape(-1), unpacking)


def is_near(weights):
    """Whether the sums of a weight gradient stay near the core while something else is done."""
    return math.prod(weights[:2]) <= WIDE[0]


def conv2d_both(back, given, w, images, dx, dw, *layer):
    """dx and dw of cotangents that are made some images at a time: see `_both_ways`, of whose loops
    `given` are x, g, index and table."""
    x, n, key = given[0], len(images), (images.shape[1:3], w.shape, *layer, w.dtype)
    each = forward(*key).tiles(1)
    many = min(n, -(-TOGETHER // each))
    whole, last = many * each, ((n - 1) % many + 1) * each
    block = -(-whole // max(1, round(whole / TOGETHER)))
    blocks, by_sums = backward(*key, block=block), forward(*key, block=block)
    some, sums = empty((many, *x.shape[1:]), x.dtype), _sums(by_sums, dw)
    numbers = np.array([_sum_loops(by_sums, count) for count in (whole, last)])
    transformed(back, *given, some, some.reshape(-1), Chunk(many, each),
                _product_tiles(blocks, whole, last), blocks.loops,
                blocks.transforms("input", "output"), blocks.frames(w.dtype)[0],
                _transformed(blocks, w), *blocks.memory(w.dtype), dx.reshape(-1), blocks.sizes,
                _sum_tiles(by_sums, True), numbers, by_sums.transforms("input", "cotangent"),
                images.reshape(-1), *by_sums.frames(w.dtype), *by_sums.memory(w.dtype), sums,
                by_sums.sizes)  # fmt: skip
    _finish(by_sums, sums, dw)
