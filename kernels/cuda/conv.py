"""Convolutions as im2col and a matrix product an image and group.

An image's bytes do not depend on the batch: cuBLAS and BLAS see the same product for it. Columns
are made for as many images at a time as fit in COLUMNS bytes. (Chellapilla, Puri, Simard 2006)
"""

from math import prod

from .runtime import int32, suffix

COLUMNS = 256 * 2**20  # bytes


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


def im2col(gpu, kind, x, kernel, out, geometry, *, batched):
    """Columns (n, c kh kw, o p) of x (n, c, h, w).

    batched=False: (c kh kw, n, o p), one matrix for all images.
    """
    images, channels = x.shape[:2]
    rows, area = channels * kernel[0] * kernel[1], out[0] * out[1]
    shape = (images, rows, area) if batched else (rows, images, area)
    columns = gpu.empty(shape, x.dtype)
    image_step, row_step = (rows * area, area) if batched else (area, images * area)
    sizes = int32(*x.shape[2:], *out, *kernel, *geometry)
    args = (x, columns, columns.size, *int32(channels), image_step, row_step, *sizes)
    gpu.launch_each("conv", f"im2col_{kind}", columns.size, args)
    return columns


def matrices_of(gpu, w, groups):
    """Weights (k, c / groups, i, j) as one matrix (k / groups, c / groups i j) a group."""
    filters, *rest = w.shape
    return gpu.contiguous(w).reshape(groups, filters // groups, prod(rest))


def conv2d(gpu, x, w, b=None, *, stride, padding, dilation, groups):
    """y = w @ im2col(x): x (n, c, h, w), w (k, c / groups, i, j), y (n, k, o, p)."""
    kind = suffix(x, w, b)
    if kind is None:
        return NotImplemented
    (images, channels), (filters, _, *kernel) = x.shape[:2], w.shape
    out = out_size(x.shape[2:], kernel, stride, padding, dilation)
    x, matrices = gpu.contiguous(x), matrices_of(gpu, w, groups)
    y = gpu.empty((images, groups, filters // groups, out[0] * out[1]), x.dtype)
    for part in slices(images, column_bytes(channels, kernel, out, x.dtype)):
        geometry = (*stride, *padding, *dilation)
        columns = im2col(gpu, kind, x[part], kernel, out, geometry, batched=True)
        split = (len(columns), groups, matrices.shape[2], out[0] * out[1])
        y[part] = gpu.xp.matmul(matrices, columns.reshape(split))
    y = y.reshape(images, filters, *out)
    if b is not None:
        y += b.reshape(-1, 1, 1)
    return y


def conv2d_input(gpu, g, w, *, shape, stride, padding, dilation, groups):
    """dx of `shape` = col2im(transposed w @ g), g (n, k, o, p) the cotangent of y."""
    kind = suffix(g, w)
    if kind is None:
        return NotImplemented
    (images, filters, *out), kernel = g.shape, w.shape[2:]
    w = matrices_of(gpu, w, groups).transpose(0, 2, 1)
    g = gpu.contiguous(g).reshape(images, groups, filters // groups, out[0] * out[1])
    dx = gpu.empty(shape, g.dtype)
    sizes = int32(*shape[2:], *out, *kernel, *stride, *padding, *dilation)
    for part in slices(images, column_bytes(shape[1], kernel, out, g.dtype)):
        columns, piece = gpu.contiguous(gpu.xp.matmul(w, g[part])), dx[part]
        args = (columns, piece, piece.size, *sizes)
        gpu.launch_each("conv", f"col2im_{kind}", piece.size, args)
    return dx


def conv2d_weight(gpu, g, x, *, shape, stride, padding, dilation, groups):
    """dw of `shape` = g @ transposed im2col(x): one product a group, all images together."""
    kind = suffix(g, x)
    if kind is None:
        return NotImplemented
    (images, filters, *out), kernel = g.shape, shape[2:]
    x, pixels = gpu.contiguous(x), out[0] * out[1]
    dw = gpu.zeros((groups, filters // groups, shape[1] * kernel[0] * kernel[1]), g.dtype)
    for part in slices(images, column_bytes(x.shape[1], kernel, out, g.dtype)):
        geometry = (*stride, *padding, *dilation)
        columns = im2col(gpu, kind, x[part], kernel, out, geometry, batched=False)
        total = columns.shape[1] * pixels
        columns = columns.reshape(groups, dw.shape[2], total).transpose(0, 2, 1)
        rows = gpu.contiguous(g[part].transpose(1, 0, 2, 3)).reshape(*dw.shape[:2], total)
        dw += gpu.xp.matmul(rows, columns)
    return dw.reshape(shape)
