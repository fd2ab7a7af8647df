"""Sizes of a convolution, worked out once for each kind of layer, and memory to work in.

Columns are made for a tile at a time: a few whole images, or a strip of output rows of one large
image. Its size follows from the layer's geometry alone: an image's bytes depend neither on its
batch nor on its neighbours.
"""

import threading
from functools import lru_cache

import numpy as np

COLUMN_VALUES = 1 << 17  # in a tile of whole images, half a megabyte in float32
STRIP_VALUES = 1 << 19  # in a strip: larger costs cache, smaller costs calls
PIXELS = 256  # in a tile of whole images at least, so that products are worth their calls
SHORT_RUN = 16  # below so many contiguous values per kernel row, columns are laid out tap by tap
KEPT_VALUES = 1 << 23  # larger scratch memory is not kept from call to call


class Geometry:
    """A convolution of (h, w) images with weights (k, c/groups, i, j); pairs are (height, width).

    `output` is (o, p), zero where the padded image is smaller than the dilated kernel; `sizes`
    and `turned` are what the compiled functions want to know, columns by pixel in `turned`.
    """

    def __init__(self, image, weights, stride, padding, dilation, groups):
        k, size, *kernel = (int(length) for length in weights)
        pairs = [image, kernel, stride, padding, dilation]
        image, kernel, stride, padding, dilation = (tuple(map(int, pair)) for pair in pairs)
        along = zip(image, padding, dilation, kernel, stride, strict=True)
        output = tuple(max(0, (h + 2 * p - d * (i - 1) - 1) // s + 1) for h, p, d, i, s in along)
        self.output, self.is_empty = output, 0 in output
        self.total = groups, kernel[0] * kernel[1] * size, k // max(1, groups)
        by_tap = kernel[1] * size < SHORT_RUN
        self.tile = self._tile(groups)
        start = (image, self.output, kernel, stride, padding, dilation)
        self.sizes = (*start, self.tile, (groups, int(by_tap)))
        self.by_pixel = (*start, self.tile, (groups, 0))
        frame = [h + 2 * p for h, p in zip(image, padding, strict=True)]
        columns = self.tile[0] * self.tile[1] * output[1] * groups * self.total[1]
        self.scratch = frame[0] * frame[1] * size * groups + k * self.total[1] + columns

    def _tile(self, groups):
        """(images, rows) of the largest tile."""
        (o, p), row = self.output, max(1, self.output[1] * groups * self.total[1])
        if o * row > STRIP_VALUES:
            return 1, max(1, STRIP_VALUES // row)
        return max(1, COLUMN_VALUES // max(1, o * row), PIXELS // max(1, o * p)), max(1, o)


geometry = lru_cache(maxsize=512)(Geometry)


class Scratch(threading.local):
    """Memory of this thread that kernels overwrite: fresh memory costs a page fault per 4 KB."""

    def __init__(self):
        self.arrays = {}

    def __call__(self, size, dtype):
        """An array of at least `size` values, whose values are anything."""
        found = self.arrays.get(dtype)
        if found is None or found.size < size:
            found = np.empty(size, dtype)
            if size <= KEPT_VALUES:
                self.arrays[dtype] = found
        return found


scratch = Scratch()
