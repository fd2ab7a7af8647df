"""Winograd convolution of stride 1: F(4 x 4, 3 x 3) and F(2 x 2, 5 x 5), in float32.

Input tiles of 6 x 6 are transformed, multiplied with transformed weights in 36 matrix products
over channels by register tiles, and transformed back, a block of some dozen tiles at a time; the
block stays in cache, and no image is copied. See `_transforms` for formulas and errors.

Costs 36 instead of 144 or 100 multiplications for each pair of channels and tile, and about 400
more for each channel: the equivalent of 260 to 340 GFLOP/s (r = 3) and 200 to 240 (r = 5) on a core
that multiplies at 113, from 64 channels on.
"""

from functools import lru_cache

import numpy as np

from . import _plans, switches
from ._direct import unpack
from ._jit import compiled, part
from ._layout import ready
from ._machine_code import call
from ._memory import empty
from ._microkernel import loops
from ._transforms import SIZE, transform

CHANNELS = 16  # of source and target at least, so that products outweigh transforms
TILES = 9  # of an image at least, so that they outweigh the transform of the weights
TOGETHER = 28, 56  # tiles in a block: of a convolution, of a weight gradient
GAP = 16  # values between planes: planes a power of two apart would share lines of the cache


def fits(x, weights, output, stride, padding, dilation, groups):
    """Whether a layer is worth it; the switch, its geometry and dtype alone decide."""
    k, c, *kernel = weights
    is_square = kernel in ([3, 3], [5, 5]) and x.dtype.char == "f"
    if not is_square or not switches.winograd or min(k, c) < CHANNELS:
        return False
    m = SIZE + 1 - kernel[0]
    is_large = -(-output[0] // m) * -(-output[1] // m) >= TILES
    return is_large and groups == 1 and tuple(stride) == tuple(dilation) == (1, 1)


class Plan:
    """Sizes of a layer for the compiled loops; `offset` is how far tiles begin before the image."""

    def __init__(self, plan, source, target, offset, block):
        self.plan, self.layer, r = plan, plan.layer, plan.layer.kernel[0]
        (h, w), (o, p), c, k = source, target, plan.sums, plan.columns
        m = SIZE + 1 - r
        down, across, rows = -(-o // m), -(-p // m), self.layer.target.rows
        self.sizes = (h, w, c, o, p, k, m, r, down, across, *offset, block, self.layer.width, rows)
        self.memory = SIZE**2 * (block * c + GAP), SIZE**2 * (block * k + GAP)
        self.blocks = -(-k // self.layer.width)
        self.weights = SIZE**2 * self.blocks * c * self.layer.width
        self.loops = loops((1, 1, c), a_inner=1, a_row=c, b_inner=self.layer.width, c_row=k)
        self.steps = {"a_inner": c, "a_row": 1, "b_inner": k,
                      "c_row": self.blocks * self.layer.width}  # fmt: skip

    def transforms(self, *names):
        return tuple(transform(self.layer.target, name, self.layer.kernel[0]) for name in names)

    def heights(self, n):
        """Of the tiles for blocks of n images' tiles."""
        (down, across), block = self.sizes[8:10], self.sizes[12]
        return self.layer.heights(block) | self.layer.heights(n * down * across % block)


@lru_cache(maxsize=512)
def forward(*key, block=TOGETHER[0]):
    plan = _plans.forward(*key, with_bias=False)
    return Plan(plan, plan.layer.image, plan.layer.output, plan.layer.padding, block)


@lru_cache(maxsize=512)
def backward(*key):
    plan = _plans.backward(*key)
    offset = [k - 1 - p for k, p in zip(plan.layer.kernel, plan.layer.padding, strict=True)]
    return Plan(plan, plan.layer.output, plan.layer.image, offset, TOGETHER[0])


@lru_cache(maxsize=1024)
def _tiles(plan, heights, columns, starts):
    return plan.layer.tiles(heights, columns, starts)


def conv2d(images, w, b, y, *layer):
    """y (n, o, p, k): the convolution of images (n, h, w, c)."""
    _convolve(forward(images.shape[1:3], w.shape, *layer, w.dtype), images, w, b, y)


def conv2d_input(cotangents, w, dx, *layer):
    """dx (n, h, w, c): a convolution of cotangents (n, o, p, k) with turned weights."""
    _convolve(backward(dx.shape[1:3], w.shape, *layer, w.dtype), cotangents, w, None, dx)


def _convolve(plan, source, w, b, target):
    inner = plan.plan
    packed, weights = _plans.packed(inner, w), empty(plan.weights, w.dtype)
    turn, into, out = plan.transforms("weights", "input", "output" if b is None else "biased")
    transform_weights(turn, packed, weights, plan.sizes)
    planes = [empty(size, w.dtype) for size in plan.memory]
    tiles = _tiles(plan, frozenset(plan.heights(len(source))), inner.columns, ("zero",))
    bias = empty(0, w.dtype) if b is None else ready(b)
    multiply(tiles, plan.loops, into, out, source.reshape(-1), weights, bias, *planes,
             target.reshape(-1), len(source), plan.sizes)  # fmt: skip


def conv2d_weight(cotangents, images, dw, *layer):
    """dw (k, c, r, r) of cotangents (n, o, p, k) and images (n, h, w, c)."""
    plan = forward(images.shape[1:3], dw.shape, *layer, dw.dtype, block=TOGETHER[1])
    n, c, r, columns = len(images), plan.plan.sums, plan.layer.kernel[0], plan.plan.columns
    width, block, count = plan.steps["c_row"], plan.sizes[12], n * plan.sizes[8] * plan.sizes[9]
    sums, total = empty(SIZE**2 * c * width, dw.dtype), empty(r * r * c * width, dw.dtype)
    planes = [empty(size, dw.dtype) for size in plan.memory]
    counts = block, count - (count - 1) // block * block
    numbers = np.array([loops((1, 1, tiles), **plan.steps) for tiles in counts])
    into, turn, back = plan.transforms("input", "cotangent", "gradient")
    tiles = _tiles(plan, frozenset(plan.layer.heights(c)), columns, ("zero", "add"))
    correlate(tiles, numbers, into, turn, images.reshape(-1), cotangents.reshape(-1), *planes, sums,
              n, plan.sizes)  # fmt: skip
    transform_sums(back, sums, total, c, width, r)
    unpack(plan.layer.transpose, total, dw.reshape(-1),
           (1, columns, c, r * r, width, plan.layer.width // 2))  # fmt: skip


@compiled
def transform_weights(turn, packed, weights, sizes):
    """Weights (blocks, r, r, c, width) as (6, 6, blocks, c, width)."""
    c, k, r, width = sizes[2], sizes[5], sizes[7], sizes[13]
    blocks, item = (k + width - 1) // width, packed.itemsize
    step = blocks * c * width
    for block in range(blocks):
        for row in range(c):
            source = packed.ctypes.data + (block * r * r * c + row) * width * item
            target = weights.ctypes.data + (block * c + row) * width * item
            call(turn, (source, target, width, r * c * width, c * width, 6 * step, step,
                        0, r, 0, r, source))  # fmt: skip


@compiled
def transform_sums(back, sums, total, c, width, r):
    """Sums (6, 6, c, width) as the gradient (r, r, c, width), all rows at once."""
    step, item = c * width, sums.itemsize
    for row in range(c):
        source = sums.ctypes.data + row * width * item
        target = total.ctypes.data + row * width * item
        call(back, (source, target, width, 6 * step, step, r * step, step, 0, 6, 0, 6, source))


@part
def read(turn, place, planes, first, last, across, down, high, wide, c, m, offset, size, block):
    """Transform tiles first..last of images (n, high, wide, c) at `place` to planes of a block."""
    step = block * c + 16
    for tile in range(first, last):
        image, row, column = tile // (down * across), tile // across % down, tile % across
        top, left = row * m - offset[0], column * m - offset[1]
        source = place + ((image * high + top) * wide + left) * c * 4
        target = planes.ctypes.data + (tile - first) * c * 4
        call(turn, (source, target, c, wide * c, c, 6 * step, step, -top, min(size, high - top),
                    -left, min(size, wide - left), source))  # fmt: skip


@compiled
def multiply(tiles, numbers, into, out, x, weights, bias, planes, products, y, n, sizes):
    """y: input tiles to planes, 36 products, and back, block after block of tiles."""
    h, w, c, o, p, k, m, _, down, across, top, left, block, width, most = sizes
    blocks, count, step = (k + width - 1) // width, n * down * across, block * k + 16
    for first in range(0, count, block):
        last = min(count, first + block)
        read(into, x.ctypes.data, planes, first, last, across, down, h, w, c, m, (top, left), 6,
             block)  # fmt: skip
        parts = (last - first + most - 1) // most
        for plane in range(36):
            for column in range(blocks):
                exist = min(width, k - column * width)
                kind = 1 if 2 * exist > width else 0
                b = weights.ctypes.data + (plane * blocks + column) * c * width * 4
                for t in range(parts):
                    row, stop = (last - first) * t // parts, (last - first) * (t + 1) // parts
                    a = planes.ctypes.data + (plane * (block * c + 16) + row * c) * 4
                    place = products.ctypes.data + (plane * step + row * k + column * width) * 4
                    call(tiles[0, kind, stop - row], (a, b, place, a, exist, numbers.ctypes.data))
        for tile in range(first, last):
            image, row, column = tile // (down * across), tile // across % down, tile % across
            target = y.ctypes.data + ((image * o + row * m) * p + column * m) * k * 4
            call(out, (products.ctypes.data + (tile - first) * k * 4, target, k, 6 * step, step,
                       p * k, k, 0, min(m, o - row * m), 0, min(m, p - column * m),
                       bias.ctypes.data))  # fmt: skip


@compiled
def correlate(tiles, numbers, into, turn, x, g, planes, others, sums, n, sizes):
    """sums (6, 6, c, columns): 36 products of a block's input and cotangent tiles, added up."""
    h, w, c, o, p, k, m, _, down, across, top, left, block, width, most = sizes
    blocks, count = (k + width - 1) // width, n * down * across
    parts = (c + most - 1) // most
    for first in range(0, count, block):
        last = min(count, first + block)
        read(into, x.ctypes.data, planes, first, last, across, down, h, w, c, m, (top, left), 6,
             block)  # fmt: skip
        read(turn, g.ctypes.data, others, first, last, across, down, o, p, k, m, (0, 0), m, block)
        plan = numbers[0 if last < count else 1]
        start = 0 if first == 0 else 1
        for plane in range(36):
            for column in range(blocks):
                exist = min(width, k - column * width)
                kind = 1 if 2 * exist > width else 0
                b = others.ctypes.data + (plane * (block * k + 16) + column * width) * 4
                for t in range(parts):
                    row, stop = c * t // parts, c * (t + 1) // parts
                    a = planes.ctypes.data + (plane * (block * c + 16) + row) * 4
                    place = ((plane * c + row) * blocks + column) * width * 4
                    call(tiles[start, kind, stop - row],
                         (a, b, sums.ctypes.data + place, a, exist, plan.ctypes.data))  # fmt: skip
