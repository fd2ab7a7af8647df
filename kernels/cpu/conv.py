"""Two-dimensional convolution: columns of a few images, in cache, multiplied by BLAS.

Arrays are logical (n, c, h, w) on channels-last memory; other memory is copied once. The loops
over tiles are Python loops around kernels and `matmul` calls that release the GIL. After
Chellapilla, Puri and Simard (2006), tile by tile.
"""

import numpy as np

from ._columns import add_bias, add_windows, crop
from ._geometry import Columns, Geometry
from ._layout import channels_first, channels_last, ready, served


def _lines(images):
    """Images (n, h, w, c) as (n, h, w * c)."""
    n, h, w, c = images.shape
    return images.reshape(n, h, w * c)


def _by_group(images, groups):
    """A view (n, groups, h * w, k/groups) of images (n, h, w, k)."""
    n, h, w, k = images.shape
    return images.reshape(n, h * w, groups, k // groups).transpose(0, 2, 1, 3)


def _pixels(images):
    """Images (n, h, w, k) as (n * h * w, k)."""
    n, h, w, k = images.shape
    return images.reshape(n * h * w, k)


def _matrix(w, groups):
    """Weights (k, c/groups, i, j) as one matrix (i * j * c/groups, k/groups) per group."""
    k, size, kh, kw = w.shape
    parts = w.reshape(groups, k // groups, size, kh, kw).transpose(0, 3, 4, 2, 1)
    return ready(parts).reshape(groups, kh * kw * size, k // groups)


def _weights(matrix, shape):
    """The inverse of `_matrix`."""
    groups, (k, size, kh, kw) = len(matrix), shape
    parts = matrix.reshape(groups, kh, kw, size, k // groups).transpose(0, 4, 3, 1, 2)
    return ready(parts).reshape(shape)


def conv2d(x, w, b=None, *, stride, padding, dilation, groups):
    """y[n,k,o,p] = b[k] + sum of x[n, c, o sh + i dh - ph, p sw + j dw - pw] w[k,c,i,j].

    Shapes: x (n, c, h, w), w (k, c/groups, i, j), b (k), y (n, k, o, p) on channels-last memory.
    """
    if not served(x, w, b):
        return NotImplemented
    geometry = Geometry.of(x.shape[2:], w.shape, stride, padding, dilation, groups)
    images, matrix = channels_last(x), _matrix(w, groups)
    y = np.empty((len(images), *geometry.output, len(w)), x.dtype)
    if geometry.is_pointwise:
        np.matmul(_by_group(images, groups), matrix, out=_by_group(y, groups))
        _add_bias(y, b)
    else:
        _convolve(geometry, images, matrix, b, y)
    return channels_first(y)


def _add_bias(images, b):
    if b is not None:
        add_bias(_pixels(images), ready(b))


def _convolve(geometry, images, matrix, b, y):
    columns = Columns(geometry, y.dtype)
    for block, rows in geometry.tiles(len(images)):
        lines, out = _lines(images[block]), y[block, rows]
        columns.fill(lines, rows)
        np.matmul(columns.by_image(len(lines), rows), matrix, out=_by_group(out, geometry.groups))
        _add_bias(out, b)


def conv2d_input(g, w, *, shape, stride, padding, dilation, groups):
    """The gradient of `conv2d` in x: g (n, k, o, p) to dx of logical `shape` (n, c, h, w).

    The columns g @ w^T of each tile are added to the windows that they would be gathered from.
    """
    if not served(g, w):
        return NotImplemented
    geometry = Geometry.of(shape[2:], w.shape, stride, padding, dilation, groups)
    cotangents, turned = channels_last(g), _matrix(w, groups).transpose(0, 2, 1)
    dx = np.empty((shape[0], *shape[2:], shape[1]), g.dtype)
    if geometry.is_pointwise:
        np.matmul(_by_group(cotangents, groups), turned, out=_by_group(dx, groups))
    elif 0 in geometry.output:
        dx.fill(0)
    else:
        _scatter(geometry, cotangents, turned, dx)
    return channels_first(dx)


def _scatter(geometry, cotangents, turned, dx):
    (images, rows), (o, p) = geometry.tile, geometry.output
    col = np.empty((geometry.groups, images * rows * p, geometry.taps), dx.dtype)
    frames = np.empty((images, *geometry.frame), dx.dtype)
    for block, rows in geometry.tiles(len(cotangents)):
        g = _by_group(cotangents[block, rows], geometry.groups)
        count, groups, pixels, _ = g.shape
        part = col[:, : count * pixels].reshape(groups, count, pixels, geometry.taps)
        np.matmul(g, turned, out=part.transpose(1, 0, 2, 3))
        if rows.start == 0:
            frames.fill(0)
        add_windows(frames, count, col, rows.start, rows.stop, *geometry.loops)
        if rows.stop == o:
            crop(frames, _lines(dx[block]), *geometry.corner)


def conv2d_weight(g, x, *, shape, stride, padding, dilation, groups):
    """The gradient of `conv2d` in w: g (n, k, o, p), x (n, c, h, w) to (k, c/groups, i, j).

    The products columns^T @ g of the tiles are added in the order of the images.
    """
    if not served(g, x):
        return NotImplemented
    geometry = Geometry.of(x.shape[2:], shape, stride, padding, dilation, groups)
    total = np.zeros((groups, geometry.taps, shape[0] // groups), g.dtype)
    _correlate(geometry, channels_last(x), channels_last(g), total)
    return _weights(total, shape)


def _correlate(geometry, images, cotangents, total):
    columns, part = Columns(geometry, total.dtype), np.empty_like(total)
    for block, rows in geometry.tiles(len(images)):
        lines, g = _lines(images[block]), _pixels(cotangents[block, rows])
        columns.fill(lines, rows)
        g = g.reshape(len(g), *total.shape[::2]).transpose(1, 0, 2)
        np.matmul(columns.by_tap(len(lines), rows), g, out=part)
        np.add(total, part, out=total)
