"""Convolution as matrix products over columns ("im2col"), one compiled call for a whole layer.

The windows of an image become the rows of a matrix that stays in cache: taps in the order (i, j,
c / groups), so that with unit dilation a whole kernel row is one contiguous run. Where runs are
short the matrix is stored turned, tap by tap. After Chellapilla, Puri and Simard (2006), image by
image. Images are channels last; `sizes`, frame, packed matrix and col come from `Geometry`.
"""

from ._blas import add_product
from ._jit import compiled, copy, part
from ._small import product, turned


@part
def pack(w, matrix):
    """Weights (k, c/groups, i, j) as a matrix (k/groups, i * j * c/groups) per group."""
    groups, filters, _ = matrix.shape
    _, size, kh, kw = w.shape
    for k in range(groups * filters):
        row = matrix[k // filters, k % filters]
        for c in range(size):
            for tap in range(kh * kw):
                row[tap * size + c] = w[k, c, tap // kw, tap % kw]


@part
def unpack(matrix, w):
    """The inverse of `pack`, from one matrix (i * j * c/groups, k/groups) per group."""
    groups, _, filters = matrix.shape
    _, size, kh, kw = w.shape
    for k in range(groups * filters):
        for c in range(size):
            for tap in range(kh * kw):
                w[k, c, tap // kw, tap % kw] = matrix[k // filters, tap * size + c, k % filters]


@compiled
def clear(matrix):
    """Set a matrix to zero."""
    for i in range(matrix.shape[0]):
        row = matrix[i]
        for j in range(row.shape[0]):
            row[j] = 0


@part
def framed(lines, frame, top, left):
    """`lines` (h, w * c), within a frame that has them from (top, left) on if it is larger."""
    if frame.shape == lines.shape:
        return lines
    for i in range(lines.shape[0]):
        copy(lines[i], frame[top + i][left : left + lines.shape[1]])
    return frame


@part
def gather(frame, col, at, first, last, c, sizes):
    """The windows of output rows first..last into `col`, from its pixel `at` on."""
    (_, p), (kh, kw), (sh, sw), _, (dh, dw), _, (groups, by_tap) = sizes
    size = c // groups
    run, runs = (kw * c, 1) if dw == 1 and groups == 1 else (size, kw)
    for group in range(groups):
        for tap in range(kh * kw * size if by_tap else 0):
            a, b, channel = tap // (kw * size), tap // size % kw, tap % size
            offset, pixels = b * dw * c + group * size + channel, col[group, tap]
            for i in range(last - first):
                source = frame[(first + i) * sh + a * dh][offset:]
                target = pixels[at + i * p : at + (i + 1) * p]
                if sw * c == 1:
                    copy(source, target)
                else:
                    for j in range(p):
                        target[j] = source[j * sw * c]
        for pixel in range(0 if by_tap else (last - first) * p):
            i, j, row = first + pixel // p, pixel % p, col[group, at + pixel]
            for a in range(kh):
                line = frame[i * sh + a * dh]
                for b in range(runs):
                    offset, place = (j * sw + b * dw) * c + group * size, (a * runs + b) * run
                    copy(line[offset : offset + run], row[place : place + run])


@part
def add_windows(col, frame, first, last, c, sizes):
    """Add the rows of `col` (groups, pixels, taps) to their windows, the adjoint of `gather`."""
    (_, p), (kh, kw), (sh, sw), _, (dh, dw), _, (groups, _) = sizes
    size = c // groups
    run, runs = (kw * c, 1) if dw == 1 and groups == 1 else (size, kw)
    for group in range(groups):
        for pixel in range((last - first) * p):
            i, j, row = first + pixel // p, pixel % p, col[group, pixel]
            for a in range(kh):
                line = frame[i * sh + a * dh]
                for b in range(runs):
                    offset, place = (j * sw + b * dw) * c + group * size, (a * runs + b) * run
                    target, source = line[offset : offset + run], row[place : place + run]
                    for r in range(run):
                        target[r] += source[r]


@compiled
def convolve(blas, x, w, bias, y, frame, matrix, col, sizes):
    """y (n, o * p, k) = bias (k, or empty) + windows of x (n, h, w * c) @ w (k, c/groups, i, j)."""
    (o, p), _, _, (ph, pw), _, (_, rows), (groups, by_tap) = sizes
    c, filters = w.shape[1] * groups, w.shape[0] // groups
    pack(w, matrix)
    clear(frame)
    for image in range(x.shape[0]):
        source = framed(x[image], frame, ph, pw * c)
        for first in range(0, o, rows):
            last = min(o, first + rows)
            start = min(0, first)  # Numba would compile `gather` once more for a literal 0
            gather(source, col, start, first, last, c, sizes)
            out, pixels = y[image][first * p : last * p], (last - first) * p
            if bias.shape[0]:
                for pixel in range(pixels):
                    copy(bias, out[pixel])
            else:
                clear(out)
            for group in range(groups):
                part, weights = out[:, group * filters : (group + 1) * filters], matrix[group].T
                if by_tap:
                    add_product(blas, col[group][:, :pixels].T, weights, part)
                else:
                    add_product(blas, col[group][:pixels], weights, part)


@compiled
def scatter(blas, g, w, dx, frame, matrix, col, sizes):
    """dx (n, h, w * c): columns g (n, o * p, k) @ weights, added to the windows they came from."""
    (o, p), _, _, (ph, pw), _, (_, rows), (groups, _) = sizes
    c, filters = w.shape[1] * groups, w.shape[0] // groups
    pack(w, matrix)
    for image in range(dx.shape[0]):
        clear(frame)
        for first in range(0, o, rows):
            last = min(o, first + rows)
            cotangents = g[image][first * p : last * p]
            for group in range(groups):
                part = cotangents[:, group * filters : (group + 1) * filters]
                columns = col[group][: (last - first) * p]
                clear(columns)
                add_product(blas, part, matrix[group], columns)
            add_windows(col, frame, first, last, c, sizes)
        for i in range(dx.shape[1]):
            copy(frame[ph + i][pw * c :], dx[image, i])


@compiled
def scatter_planes(plan, numbers, g, w, bias, dx, planes, matrix, panels, col, sizes):
    """`scatter` of a few channels c, which lie apart meanwhile: planes (c, rows, pixels) from which
    on `bias` (c, or empty) sums are added, tap by tap, for all pixels of a row side by side. By
    register tiles: see `_small`, which is told `plan` and `numbers`."""
    (o, p), _, _, (ph, pw), _, (_, rows), _ = sizes
    (_, filters, taps), item, width = matrix.shape, w.itemsize, plan[0]
    pack(w, matrix)
    for image in range(dx.shape[0]):
        for channel in range(planes.shape[0]):
            planes[channel] = bias[channel] if bias.shape[0] else 0
        for first in range(0, o, rows):
            last = min(o, first + rows)
            pixels = (last - first) * p
            turned(plan, g[image][first * p : last * p], panels)
            clear(col)
            product(plan, numbers, item, (taps, filters, pixels), matrix.ctypes.data, (1, taps),
                    panels.ctypes.data, (width * filters, width), col.ctypes.data,
                    col.shape[1])  # fmt: skip
            add_rows(col, planes, first, last, sizes)
        for i in range(dx.shape[1]):
            for channel in range(planes.shape[0]):
                source, line = planes[channel, ph + i][pw:], dx[image, i][channel:]
                for j in range(dx.shape[2] // planes.shape[0]):
                    line[j * planes.shape[0]] = source[j]


@part
def add_rows(col, planes, first, last, sizes):
    """Add the rows of `col` (taps and channels, pixels) to their windows, some rows of pixels."""
    (_, p), (kh, kw), (sh, sw), _, (dh, dw), _, _ = sizes
    c = planes.shape[0]
    for row in range(kh * kw * c):
        a, b, channel = row // (kw * c), row // c % kw, row % c
        for i in range(last - first):
            target = planes[channel, (first + i) * sh + a * dh][b * dw :]
            source = col[row][i * p : (i + 1) * p]
            if sw == 1:
                for j in range(p):
                    target[j] += source[j]
            else:
                for j in range(p):
                    target[j * sw] += source[j]


@compiled
def correlate(blas, g, x, dw, frame, total, col, sizes):
    """dw: the products windows of x^T @ g of a few images at a time, added in their order."""
    (o, p), _, _, (ph, pw), _, (images, rows), (groups, by_tap) = sizes
    count, c, filters = x.shape[0], dw.shape[1] * groups, dw.shape[0] // groups
    clear(frame)
    for group in range(groups):
        clear(total[group])
    for block in range(0, count, images):
        for first in range(0, o, rows):
            last, pixels = min(o, first + rows), min(0, block)  # see `convolve`: no literal 0
            for image in range(block, min(count, block + images)):
                source = framed(x[image], frame, ph, pw * c)
                gather(source, col, pixels, first, last, c, sizes)
                pixels += (last - first) * p
            begin = (block * o + first) * p
            cotangents = g[begin : begin + pixels]
            for group in range(groups):
                part = cotangents[:, group * filters : (group + 1) * filters]
                if by_tap:
                    add_product(blas, col[group][:, :pixels], part, total[group])
                else:
                    add_product(blas, col[group][:pixels].T, part, total[group])
    unpack(total, dw)
