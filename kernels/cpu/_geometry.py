"""Sizes of a convolution, worked out once for each kind of layer.

Columns are made for a tile at a time: a few whole images, or a strip of output rows of one large
image. Its size follows from the layer's geometry alone: an image's bytes depend neither on its
batch nor on its neighbours.
"""

from functools import lru_cache

COLUMN_VALUES = 1 << 17  # in a tile of whole images, half a megabyte in float32
STRIP_VALUES = 1 << 19  # in a strip: larger costs cache, smaller costs calls
PLANE_VALUES = 1 << 16  # in a strip of few channels, which is written and read at once
PIXELS = 256  # in a tile of whole images at least, so that products are worth their calls
SHORT_RUN = 16  # below so many contiguous values per kernel row, columns are laid out tap by tap


class Geometry:
    """A convolution of (h, w) images with weights (k, c/groups, i, j); pairs are (height, width).

    `output` is (o, p), zero where the padded image is smaller than the dilated kernel; `sizes` is
    what compiled functions want to know, `by_pixel` the same where columns are rows of pixels,
    `by_plane` where they are taps of a few channels, and `planes` shapes of what they work in then.
    """

    def __init__(self, image, weights, stride, padding, dilation, groups):
        k, size, *kernel = (int(length) for length in weights)
        pairs = (image, kernel, stride, padding, dilation)
        image, kernel, stride, padding, dilation = (tuple(map(int, pair)) for pair in pairs)
        along = zip(image, padding, dilation, kernel, stride, strict=True)
        output = tuple(max(0, (h + 2 * p - d * (i - 1) - 1) // s + 1) for h, p, d, i, s in along)
        self.output, self.places, self.is_empty = output, output[0] * output[1], 0 in output
        self.matrix = groups, k // groups, kernel[0] * kernel[1] * size
        self.lines = image[0], image[1] * size * groups
        self.frame = self.lines[0] + 2 * padding[0], self.lines[1] + 2 * padding[1] * size * groups
        self.tile = self._tile(groups)
        sizes = output, kernel, stride, padding, dilation, self.tile
        self.by_tap = int(kernel[1] * size < SHORT_RUN)
        self.sizes = (*sizes, (groups, self.by_tap))
        self.by_pixel = (*sizes, (groups, 0))
        taps, rows = self.matrix[2], max(1, PLANE_VALUES // max(1, self.matrix[2] * output[1]))
        self.by_plane = (*sizes[:5], (1, min(rows, max(1, output[0]))), (groups, 1))
        framed = self.frame[0], image[1] + 2 * padding[1]
        self.planes = (size, *framed), self.matrix, (taps, self.by_plane[5][1] * output[1])

    def shapes(self, by_tap):
        """Of what compiled functions work in: frame, matrix (groups, k/groups, taps), columns."""
        groups, _, taps = self.matrix
        pixels = self.tile[0] * self.tile[1] * self.output[1]
        return self.frame, self.matrix, (groups, *((taps, pixels) if by_tap else (pixels, taps)))

    def _tile(self, groups):
        """(images, rows) of the largest tile."""
        (o, p), row = self.output, max(1, self.output[1] * groups * self.matrix[2])
        if o * row > STRIP_VALUES:
            return 1, max(1, STRIP_VALUES // row)
        return max(1, COLUMN_VALUES // max(1, o * row), PIXELS // max(1, o * p)), max(1, o)


geometry = lru_cache(maxsize=512)(Geometry)
