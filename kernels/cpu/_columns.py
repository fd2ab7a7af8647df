"""Columns of a convolution ("im2col"): the windows of padded images as the rows of a matrix.

Images are (images, h, w * c), channels last. A window's values lie in the order (i, j, c /
groups), so that with unit dilation a whole kernel row is one contiguous run. Pixels are counted
over (image, row, column) of the output rows first..last.
"""

from ._jit import compiled


@compiled
def inset(images, frames, top, left):
    """Copy each image into its larger frame, at row `top` and value `left`."""
    count, rows, width = images.shape
    for image in range(count):
        for i in range(rows):
            source = images[image, i]
            target = frames[image, i + top][left : left + width]
            for j in range(width):
                target[j] = source[j]


@compiled
def crop(frames, images, top, left):
    """Copy out of the frames what `inset` would put there."""
    count, rows, width = images.shape
    for image in range(count):
        for i in range(rows):
            source = frames[image, i + top][left : left + width]
            target = images[image, i]
            for j in range(width):
                target[j] = source[j]


@compiled
def columns_by_pixel(frames, count, col, first, last, p, kh, kw, sh, sw, dh, dw, c):
    """The windows of the first `count` frames into col (groups, pixels, kh * kw * c/groups)."""
    groups, size, height = col.shape[0], c // col.shape[0], last - first
    run, runs = (kw * c, 1) if dw == 1 and groups == 1 else (size, kw)
    for group in range(groups):
        for pixel in range(count * height * p):
            image, i, j = pixel // (height * p), first + pixel // p % height, pixel % p
            row = col[group, pixel]
            for a in range(kh):
                line = frames[image, i * sh + a * dh]
                for b in range(runs):
                    offset = (j * sw + b * dw) * c + group * size
                    source = line[offset : offset + run]
                    target = row[(a * runs + b) * run : (a * runs + b + 1) * run]
                    for r in range(run):
                        target[r] = source[r]


@compiled
def columns_by_tap(frames, count, col, first, last, p, kh, kw, sh, sw, dh, dw, c):
    """The same into col (groups, kh * kw * c/groups, pixels): long runs where channels are few."""
    groups, taps, _ = col.shape
    size, height, step = c // groups, last - first, sw * c
    for group in range(groups):
        for tap in range(taps):
            a, b, channel = tap // (kw * size), tap // size % kw, tap % size
            offset = b * dw * c + group * size + channel
            for line in range(count * height):
                image, i = line // height, first + line % height
                source = frames[image, i * sh + a * dh][offset:]
                target = col[group, tap][line * p : (line + 1) * p]
                if step == 1:
                    for j in range(p):
                        target[j] = source[j]
                else:
                    for j in range(p):
                        target[j] = source[j * step]


@compiled
def add_windows(frames, count, col, first, last, p, kh, kw, sh, sw, dh, dw, c):
    """Add col (groups, pixels, kh * kw * c/groups) to its windows, the adjoint."""
    groups, size, height = col.shape[0], c // col.shape[0], last - first
    run, runs = (kw * c, 1) if dw == 1 and groups == 1 else (size, kw)
    for group in range(groups):
        for pixel in range(count * height * p):
            image, i, j = pixel // (height * p), first + pixel // p % height, pixel % p
            row = col[group, pixel]
            for a in range(kh):
                line = frames[image, i * sh + a * dh]
                for b in range(runs):
                    offset = (j * sw + b * dw) * c + group * size
                    target = line[offset : offset + run]
                    source = row[(a * runs + b) * run : (a * runs + b + 1) * run]
                    for r in range(run):
                        target[r] += source[r]


@compiled
def add_bias(pixels, bias):
    """Add `bias` (k) to every row of `pixels` (m, k), in place."""
    for i in range(pixels.shape[0]):
        row = pixels[i]
        for j in range(bias.shape[0]):
            row[j] += bias[j]
