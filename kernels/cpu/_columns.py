"""Convolution as matrix products over columns ("im2col"), one compiled call for a whole layer.

The windows of an image become the rows of a matrix that stays in cache: taps in the order (i, j,
c / groups), so that with unit dilation a whole kernel row is one contiguous run. Where runs are
short the matrix is stored turned, tap by tap. After Chellapilla, Puri and Simard (2006), image by
image. Images are (n, h, w, c), channels last; `sizes` and `scratch` come from `Geometry`.
"""

from ._blas import add_product
from ._jit import compiled


@compiled
def carve(scratch, w, sizes):
    """Cut scratch memory into a frame of zeros, the packed weights and the columns."""
    (h, width), (o, p), (kh, kw), _, (ph, pw), _, (images, rows), (groups, by_tap) = sizes
    size, taps, pixels = w.shape[1], kh * kw * w.shape[1], images * rows * p
    rows, line = h + 2 * ph, (width + 2 * pw) * size * groups
    start = rows * line
    frame = scratch[:start].reshape(rows, line)
    matrix = scratch[start : start + w.size].reshape(groups, w.shape[0] // groups, taps)
    start += w.size
    inner = (taps, pixels) if by_tap else (pixels, taps)
    col = scratch[start : start + groups * pixels * taps].reshape(groups, inner[0], inner[1])
    frame[:] = 0
    return frame, matrix, col


@compiled
def pack(w, matrix):
    """Weights (k, c/groups, i, j) as a matrix (k/groups, i * j * c/groups) per group."""
    groups, filters, _ = matrix.shape
    _, size, kh, kw = w.shape
    for k in range(groups * filters):
        row = matrix[k // filters, k % filters]
        for c in range(size):
            for tap in range(kh * kw):
                row[tap * size + c] = w[k, c, tap // kw, tap % kw]


@compiled
def unpack(matrix, w):
    """The inverse of `pack`, from one matrix (i * j * c/groups, k/groups) per group."""
    groups, _, filters = matrix.shape
    _, size, kh, kw = w.shape
    for k in range(groups * filters):
        for c in range(size):
            for tap in range(kh * kw):
                w[k, c, tap // kw, tap % kw] = matrix[k // filters, tap * size + c, k % filters]


@compiled
def framed(image, frame, top, left):
    """image (h, w, c) as lines (h, w * c), within a frame that has them from (top, left) on."""
    lines = image.reshape(image.shape[0], image.shape[1] * image.shape[2])
    if frame.shape == lines.shape:
        return lines
    for i in range(lines.shape[0]):
        source = lines[i]
        target = frame[top + i][left : left + source.shape[0]]
        for j in range(source.shape[0]):
            target[j] = source[j]
    return frame


@compiled
def cropped(frame, image, top, left):
    """Copy out of the frame what `framed` would put there."""
    lines = image.reshape(image.shape[0], image.shape[1] * image.shape[2])
    for i in range(lines.shape[0]):
        target = lines[i]
        source = frame[top + i][left : left + target.shape[0]]
        for j in range(target.shape[0]):
            target[j] = source[j]


@compiled
def gather(frame, col, at, first, last, c, sizes):
    """The windows of output rows first..last into `col`, from its pixel `at` on."""
    _, (_, p), (kh, kw), (sh, sw), _, (dh, dw), _, (groups, by_tap) = sizes
    size = c // groups
    if by_tap:
        for group in range(groups):
            for tap in range(kh * kw * size):
                a, b, channel = tap // (kw * size), tap // size % kw, tap % size
                offset, pixels = b * dw * c + group * size + channel, col[group, tap]
                for i in range(first, last):
                    source = frame[i * sh + a * dh][offset:]
                    begin = at + (i - first) * p
                    target = pixels[begin : begin + p]
                    spread(source, target, sw * c)
        return
    run, runs = (kw * c, 1) if dw == 1 and groups == 1 else (size, kw)
    for group in range(groups):
        for pixel in range((last - first) * p):
            i, j, row = first + pixel // p, pixel % p, col[group, at + pixel]
            for a in range(kh):
                line = frame[i * sh + a * dh]
                for b in range(runs):
                    offset, place = (j * sw + b * dw) * c + group * size, (a * runs + b) * run
                    spread(line[offset : offset + run], row[place : place + run], 1)


@compiled
def spread(source, target, step):
    """target[j] = source[j * step]."""
    if step == 1:
        for j in range(target.shape[0]):
            target[j] = source[j]
    else:
        for j in range(target.shape[0]):
            target[j] = source[j * step]


@compiled
def add_windows(col, frame, first, last, c, sizes):
    """Add the rows of `col` (groups, pixels, taps) to their windows, the adjoint of `gather`."""
    _, (_, p), (kh, kw), (sh, sw), _, (dh, dw), _, (groups, _) = sizes
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
def convolve(blas, x, w, bias, y, scratch, sizes):
    """y (n, o, p, k) = bias (k) + windows of x (n, h, w, c) @ weights (k, c/groups, i, j)."""
    _, (o, p), _, _, (ph, pw), _, (_, rows), (groups, by_tap) = sizes
    count, c, filters = x.shape[0], x.shape[3], w.shape[0] // groups
    frame, matrix, col = carve(scratch, w, sizes)
    pack(w, matrix)
    for image in range(count):
        lines = framed(x[image], frame, ph, pw * c)
        for first in range(0, o, rows):
            last = min(o, first + rows)
            pixels = (last - first) * p
            gather(lines, col, 0, first, last, c, sizes)
            out = y[image][first:last].reshape(pixels, w.shape[0])
            for pixel in range(pixels):
                spread(bias, out[pixel], 1)
            for group in range(groups):
                part, weights = out[:, group * filters : (group + 1) * filters], matrix[group].T
                if by_tap:
                    add_product(blas, col[group][:, :pixels].T, weights, part)
                else:
                    add_product(blas, col[group][:pixels], weights, part)


@compiled
def scatter(blas, g, w, dx, scratch, sizes):
    """dx (n, h, w, c): columns g (n, o, p, k) @ weights, added to the windows they came from."""
    _, (o, p), _, _, (ph, pw), _, (_, rows), (groups, _) = sizes
    count, c, filters = dx.shape[0], dx.shape[3], w.shape[0] // groups
    frame, matrix, col = carve(scratch, w, sizes)
    pack(w, matrix)
    for image in range(count):
        frame[:] = 0
        for first in range(0, o, rows):
            last = min(o, first + rows)
            pixels = (last - first) * p
            cotangents = g[image][first:last].reshape(pixels, w.shape[0])
            for group in range(groups):
                part = cotangents[:, group * filters : (group + 1) * filters]
                col[group][:pixels] = 0
                add_product(blas, part, matrix[group], col[group][:pixels])
            add_windows(col, frame, first, last, c, sizes)
        cropped(frame, dx[image], ph, pw * c)


@compiled
def correlate(blas, g, x, dw, scratch, total, sizes):
    """dw: the products windows of x^T @ g of a few images at a time, added in their order."""
    _, (o, p), _, _, (ph, pw), _, (images, rows), (groups, by_tap) = sizes
    count, c, filters = x.shape[0], x.shape[3], dw.shape[0] // groups
    frame, _, col = carve(scratch, dw, sizes)
    places = g.reshape(count * o * p, dw.shape[0])
    total[:] = 0
    for block in range(0, count, images):
        for first in range(0, o, rows):
            last, pixels = min(o, first + rows), 0
            for image in range(block, min(count, block + images)):
                lines = framed(x[image], frame, ph, pw * c)
                gather(lines, col, pixels, first, last, c, sizes)
                pixels += (last - first) * p
            begin = (block * o + first) * p
            cotangents = places[begin : begin + pixels]
            for group in range(groups):
                part = cotangents[:, group * filters : (group + 1) * filters]
                if by_tap:
                    add_product(blas, col[group][:, :pixels], part, total[group])
                else:
                    add_product(blas, col[group][:pixels].T, part, total[group])
    unpack(total, dw)
