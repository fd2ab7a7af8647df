"""Sizes of a convolution, how a batch is cut into tiles, and the reused buffer of columns.

A tile is a block of whole images, or a strip of output rows of one large image. Its size follows
from the layer's geometry alone: an image's bytes depend neither on its batch nor on its
neighbours.
"""

from typing import NamedTuple

import numpy as np

from ._columns import columns_by_pixel, columns_by_tap, inset

COLUMN_VALUES = (
    1 << 19
)  # in a buffer of columns, 2 MB in float32: larger costs cache, smaller calls
SHORT_RUN = 16  # below so many contiguous values per kernel row, columns are laid out tap by tap


class Geometry(NamedTuple):
    """A convolution of (h, w) images of `channels` with `filters`; pairs are (height, width)."""

    image: tuple
    channels: int
    filters: int
    groups: int
    kernel: tuple
    stride: tuple
    padding: tuple
    dilation: tuple

    @classmethod
    def of(cls, image, weights, stride, padding, dilation, groups):
        """From the images' (h, w) and the weights' (k, c/groups, i, j)."""
        k, size, *kernel = weights
        pairs = (tuple(int(v) for v in pair) for pair in (kernel, stride, padding, dilation))
        return cls(tuple(image), size * groups, k, groups, *pairs)

    @property
    def output(self):
        """(o, p); zero where the padded image is smaller than the dilated kernel."""
        sizes = zip(self.image, self.padding, self.dilation, self.kernel, self.stride, strict=True)
        return tuple(max(0, (h + 2 * p - d * (k - 1) - 1) // s + 1) for h, p, d, k, s in sizes)

    @property
    def taps(self):
        """Values in one group's window."""
        return self.kernel[0] * self.kernel[1] * (self.channels // self.groups)

    @property
    def frame(self):
        """Shape (h + 2 ph, (w + 2 pw) * c) of a padded image."""
        (h, w), (ph, pw) = self.image, self.padding
        return h + 2 * ph, (w + 2 * pw) * self.channels

    @property
    def corner(self):
        """Row and value at which an image lies in its frame."""
        return self.padding[0], self.padding[1] * self.channels

    @property
    def loops(self):
        """The last arguments of the column kernels."""
        return (self.output[1], *self.kernel, *self.stride, *self.dilation, self.channels)

    @property
    def is_pointwise(self):
        """Whether the columns are the image itself."""
        return self.kernel == self.stride == (1, 1) and self.padding == (0, 0)

    @property
    def tile(self):
        """(images, rows) of the largest tile: as many columns as fit the buffer."""
        o, p = self.output
        rows = max(1, COLUMN_VALUES // max(1, p * self.taps * self.groups))
        return (max(1, rows // max(1, o)), max(1, min(o, rows)))

    def tiles(self, n):
        """Pairs of slices (images, output rows) that cover a batch of n; none without output."""
        (o, p), (images, rows) = self.output, self.tile
        for image in range(0, n if p else 0, images):
            for first in range(0, o, rows):
                yield slice(image, min(n, image + images)), slice(first, min(o, first + rows))


class Columns:
    """The windows of one tile at a time, seen as rows of pixels or as rows of taps."""

    def __init__(self, geometry, dtype):
        self.images, rows = geometry.tile
        self.width, self.groups, self.taps = geometry.output[1], geometry.groups, geometry.taps
        few = geometry.kernel[1] * geometry.channels // self.groups < SHORT_RUN
        inner = (self.images * rows * self.width, self.taps)
        self.buffer = np.empty((self.groups, *(inner[::-1] if few else inner)), dtype)
        self._by_pixel = self.buffer.transpose(0, 2, 1) if few else self.buffer
        self._gather = columns_by_tap if few else columns_by_pixel
        frames = (self.images, *geometry.frame)
        self._frames = np.zeros(frames, dtype) if any(geometry.padding) else None
        self._corner, self._loops = geometry.corner, geometry.loops

    def fill(self, lines, rows):
        """Gather the windows of the output `rows` of `lines` (images, h, w * c)."""
        count = len(lines)
        if self._frames is not None:
            if rows.start == 0:  # the frames keep what later strips of the same image need
                inset(lines, self._frames, *self._corner)
            lines = self._frames
        self._gather(lines, count, self.buffer, rows.start, rows.stop, *self._loops)

    def by_image(self, count, rows):
        """A view (images, groups, pixels, taps) of what was gathered."""
        pixels = (rows.stop - rows.start) * self.width
        part = self._by_pixel[:, : count * pixels]
        return part.reshape(self.groups, count, pixels, self.taps).transpose(1, 0, 2, 3)

    def by_tap(self, count, rows):
        """A view (groups, taps, images * pixels) of what was gathered."""
        pixels = (rows.stop - rows.start) * self.width
        return self._by_pixel[:, : count * pixels].transpose(0, 2, 1)
