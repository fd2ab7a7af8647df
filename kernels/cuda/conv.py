"""Convolutions in one of three ways, by the layer's geometry alone.

- **product**: columns (im2col) and a matrix product of cuBLAS an image and group. Columns are
  written and read again, for 2 flops each a filter: that pays from MANY filters on. A 1 x 1 kernel
  without padding and stride needs no columns: x is what they would be. Columns are made for as
  many images at a time as fit in COLUMNS bytes. (Chellapilla, Puri, Simard 2006)
- **tiled**: the same product, its right side computed when it is needed: conv.cu, tile.cuh.
- **direct**: where a group has FEW filters, as in depthwise convolution, and a tile stays empty.

An image's bytes do not depend on the batch: each value adds its products in the order of k.
"""

from dataclasses import dataclass
from math import prod

from .linalg import multiplied
from .reduce import reduced
from .runtime import THREADS, blocks, int32, number, suffix

COLUMNS = 256 * 2**20  # bytes
FEW, MANY = 16, 128  # filters
SIDE = 64  # of a tile
CHUNK = 4096  # pixels that a tile of a weight's gradient adds


def way(rows, kernel, geometry):
    """How the product with so many rows in a group is computed; geometry: stride, padding."""
    if pointwise(kernel, *geometry[:2]) or rows >= MANY:
        return "product"
    return "direct" if rows < FEW else "tiled"


def pointwise(kernel, stride, padding):
    """Whether each output pixel is made of the one input pixel at its place."""
    return (*kernel, *stride, *padding) == (1, 1, 1, 1, 0, 0)


def out_size(size, kernel, stride, padding, dilation):
    """(h, w) -> (o, p), as every convolution with these pairs gives."""
    together = zip(size, kernel, stride, padding, dilation, strict=True)
    return tuple((n + 2 * pad - step * (k - 1) - 1) // s + 1 for n, k, s, pad, step in together)


def slices(images, bytes_per_image):
    """Slices of the batch whose columns fit in COLUMNS bytes."""
    step = max(1, COLUMNS // max(1, bytes_per_image))
    return [slice(first, min(first + step, images)) for first in range(0, images, step)]


def column_bytes(x_channels, kernel, out, dtype):
    """Bytes of one image's columns."""
    return x_channels * kernel[0] * kernel[1] * out[0] * out[1] * dtype.itemsize


def im2col(gpu, x, kernel, out, geometry, *, batched):
    """Columns (n, c kh kw, o p) of x (n, c, h, w).

    batched=False: (c kh kw, n, o p), one matrix for all images.
    """
    images, channels = x.shape[:2]
    rows, area = channels * kernel[0] * kernel[1], out[0] * out[1]
    if pointwise(kernel, *geometry[:2]):
        columns = x.reshape(images, rows, area)
        return columns if batched else gpu.contiguous(columns.transpose(1, 0, 2))
    columns = gpu.empty((images, rows, area) if batched else (rows, images, area), x.dtype)
    image_step, row_step = (rows * area, area) if batched else (area, images * area)
    sizes = int32(*x.shape[2:], *out, *kernel, *sum(geometry, ()))
    args = (x, columns, columns.size, *int32(channels), image_step, row_step, *sizes)
    gpu.launch_each("conv", f"im2col_{suffix(x)}", columns.size, args)
    return columns


def matrices_of(gpu, w, groups):
    """Weights (k, c / groups, i, j) as one matrix (k / groups, c / groups i j) a group."""
    filters, *rest = w.shape
    return gpu.contiguous(w).reshape(groups, filters // groups, prod(rest))


@dataclass(frozen=True)
class Layer:
    """The sizes of a convolution: shapes of x (n, c, h, w) and w (k, c / groups, i, j), (o, p) of
    y, (stride, padding, dilation)."""

    x: tuple
    w: tuple
    out: tuple
    geometry: tuple
    groups: int

    def numbers(self):
        """(images, groups, channels and filters of one), as kernels take them."""
        return self.x[0], *int32(self.groups, self.w[1], self.w[0] // self.groups)

    def window(self):
        """Sizes inside one image, as kernels take them."""
        return int32(*self.x[2:], *self.out, *self.w[2:], *sum(self.geometry, ()))


def launch(gpu, name, how, arrays, layer, rows, columns):
    """Launch a direct or tiled product of (rows, columns) a group."""
    args = (*arrays, *layer.numbers(), *layer.window())
    kernel = f"{name}_{how}_{suffix(arrays[0])}"
    if how == "direct":
        gpu.launch_each("conv", kernel, layer.groups * rows * columns, args)
    else:
        tiles = blocks(columns, SIDE) * blocks(rows, SIDE) * layer.groups
        gpu.launch("conv", kernel, tiles, THREADS, args)


def conv2d(gpu, x, w, b=None, *, stride, padding, dilation, groups):
    """y = b + w @ im2col(x): x (n, c, h, w), w (k, c / groups, i, j), y (n, k, o, p)."""
    kind, geometry = suffix(x, w, b), (stride, padding, dilation)
    if kind is None:
        return NotImplemented
    out, x = out_size(x.shape[2:], w.shape[2:], *geometry), gpu.contiguous(x)
    y, rows = gpu.empty((len(x), len(w), *out), x.dtype), len(w) // groups
    how = way(rows, w.shape[2:], geometry)
    if how == "product":
        return forward_product(gpu, x, w, b, y, geometry, groups)
    arrays = (x, gpu.contiguous(w), b if b is None else gpu.contiguous(b), y)
    layer = Layer(x.shape, w.shape, out, geometry, groups)
    launch(gpu, "conv2d", how, arrays, layer, rows, len(x) * prod(out))
    return y


def forward_product(gpu, x, w, b, y, geometry, groups):
    """y by columns and one matrix product an image and group."""
    (images, channels), kernel, out = x.shape[:2], w.shape[2:], y.shape[2:]
    matrices, shape = matrices_of(gpu, w, groups), y.shape
    y = y.reshape(images, groups, len(w) // groups, prod(out))
    for part in slices(images, column_bytes(channels, kernel, out, x.dtype)):
        columns = im2col(gpu, x[part], kernel, out, geometry, batched=True)
        split = (len(columns), groups, matrices.shape[2], prod(out))
        y[part] = multiplied(gpu, matrices, columns.reshape(split))
    y = y.reshape(shape)
    if b is not None:
        y += b.reshape(-1, 1, 1)
    return y


def conv2d_input(gpu, g, w, *, shape, stride, padding, dilation, groups):
    """dx of `shape`: each g (n, k, o, p) spread over its window by w."""
    kind, geometry = suffix(g, w), (stride, padding, dilation)
    if kind is None:
        return NotImplemented
    rows, g, dx = shape[1] // groups, gpu.contiguous(g), gpu.empty(shape, g.dtype)
    how = way(rows, w.shape[2:], geometry)
    if how == "product":
        return input_product(gpu, g, w, dx, geometry, groups)
    layer = Layer(shape, w.shape, g.shape[2:], geometry, groups)
    arrays = (g, gpu.contiguous(w), dx)
    launch(gpu, "conv2d_input", how, arrays, layer, rows, shape[0] * prod(shape[2:]))
    return dx


def input_product(gpu, g, w, dx, geometry, groups):
    """dx = col2im(transposed w @ g)."""
    (images, filters, *out), kernel, shape = g.shape, w.shape[2:], dx.shape
    w = matrices_of(gpu, w, groups).transpose(0, 2, 1)
    g = g.reshape(images, groups, filters // groups, prod(out))
    sizes = int32(*shape[2:], *out, *kernel, *sum(geometry, ()))
    for part in slices(images, column_bytes(shape[1], kernel, out, g.dtype)):
        columns, piece = gpu.contiguous(multiplied(gpu, w, g[part])), dx[part]
        if pointwise(kernel, *geometry[:2]):
            piece[...] = columns.reshape(piece.shape)
        else:
            args = (columns, piece, piece.size, *sizes)
            gpu.launch_each("conv", f"col2im_{suffix(g)}", piece.size, args)
    return dx


def conv2d_weight(gpu, g, x, *, shape, stride, padding, dilation, groups):
    """dw of `shape`: each window of x weighted by its g (n, k, o, p), over all images."""
    kind, geometry = suffix(g, x), (stride, padding, dilation)
    if kind is None:
        return NotImplemented
    how = way(shape[0] // groups, shape[2:], geometry)
    g, x = gpu.contiguous(g), gpu.contiguous(x)
    if how == "product":
        return weight_product(gpu, g, x, shape, geometry, groups)
    layer = Layer(x.shape, shape, g.shape[2:], geometry, groups)
    parts = 1 if how == "direct" else max(1, blocks(len(g) * prod(layer.out), CHUNK))
    dw = gpu.empty((parts, *shape), number(g))
    args = (g, x, dw, *layer.numbers(), *([CHUNK] if how == "tiled" else []), *layer.window())
    tiles = blocks(prod(shape[1:]), SIDE) * blocks(shape[0] // groups, SIDE) * groups
    grid = prod(shape) if how == "direct" else tiles * parts
    gpu.launch("conv", f"conv2d_weight_{how}_{kind}", grid, THREADS, args)
    dw = dw[0] if parts == 1 else reduced(gpu, "sum", dw, [0]).reshape(shape)
    return dw.astype(g.dtype, copy=False)


def weight_product(gpu, g, x, shape, geometry, groups):
    """dw = g @ transposed im2col(x): one product a group, all images together."""
    (images, filters, *out), kernel = g.shape, shape[2:]
    dw = gpu.zeros((groups, filters // groups, prod(shape[1:])), number(g))
    for part in slices(images, column_bytes(x.shape[1], kernel, out, g.dtype)):
        columns = im2col(gpu, x[part], kernel, out, geometry, batched=False)
        total = columns.shape[1] * prod(out)
        columns = columns.reshape(groups, dw.shape[2], total).transpose(0, 2, 1)
        rows = gpu.contiguous(g[part].transpose(1, 0, 2, 3)).reshape(*dw.shape[:2], total)
        dw += multiplied(gpu, rows, columns)
    return dw.reshape(shape).astype(g.dtype, copy=False)
