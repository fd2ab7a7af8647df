"""Images at places of their own: the grid of an affine map, and what an image is there."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from minidp.create import as_tensor
from minidp.errors import ShapeError
from minidp.ops.elementwise import where
from minidp.ops.index import take_along_dim
from minidp.tensor import Tensor
from minidp.types import int64

__all__ = ["affine_grid", "grid_sample"]


def affine_grid(theta: Tensor, size: Any, align_corners: bool | None = None) -> Tensor:
    """Where theta (n, 2, 3) sends each place of images of ``size``: (n, h, w, 2); or volumes."""
    lengths = tuple(size)[2:]
    k = len(lengths)
    if theta.shape != (size[0], k, k + 1) or k not in (2, 3):
        raise ShapeError(f"affine_grid: theta {theta.shape} is not for images of {tuple(size)}")
    axes = [np.ones(lengths)]
    for axis, n in enumerate(lengths):
        edge = 0 if n == 1 else 1 if align_corners else (n - 1) / n
        line = np.linspace(-edge, edge, n).reshape(-1, *(1,) * (k - 1 - axis))
        axes.insert(0, np.broadcast_to(line, lengths))
    places = as_tensor(np.stack(axes, -1).reshape(-1, k + 1), theta.dtype, theta.device)
    return (places @ theta.transpose(1, 2)).reshape(size[0], *lengths, k)


def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:  # fmt: skip
    """Images (n, c, h, w) at the places of ``grid`` (n, o, p, 2), x before y; or volumes.

    -1 and 1 are the centres of the outermost places with ``align_corners``, else their borders.
    ``mode`` is "bilinear" or "nearest"; around the image is what ``padding_mode`` says, "zeros",
    "border" or "reflection". Jaderberg et al. 2015, arXiv 1506.02025.
    """
    k = input.ndim - 2
    if k not in (2, 3) or grid.shape != (len(input), *grid.shape[1:-1], k) or grid.ndim != k + 2:
        raise ShapeError(f"grid_sample: the grid {grid.shape} is not for {input.shape}")
    if mode not in ("bilinear", "nearest") or padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(f"grid_sample: mode={mode!r}, padding_mode={padding_mode!r}")
    lengths, flat, linear = input.shape[2:], input.flatten(2), mode == "bilinear"
    y: Any = 0
    at = [_coordinate(grid[..., k - 1 - axis].flatten(1), n, bool(align_corners), padding_mode)
          for axis, n in enumerate(lengths)]  # fmt: skip
    first = [c.detach().floor() if linear else c.detach().round() for c in at]
    for corner in product((0, 1) if linear else (0,), repeat=k):
        place: Any = 0
        weight: Any = 1
        inside: Any = True
        for c, low, length, bit in zip(at, first, lengths, corner, strict=True):
            here, part = low + bit, c - low
            inside = (here >= 0) & (here <= length - 1) & inside
            place = place * length + here.clamp(0, length - 1).type(int64)
            weight = (part if bit else 1 - part) * weight
        value = take_along_dim(flat, place.unsqueeze(1), dim=2)
        value = where(inside.unsqueeze(1), value, 0.0)
        y = y + (value * weight.unsqueeze(1) if linear else value)
    return y.reshape(*input.shape[:2], *grid.shape[1:-1])


def _coordinate(at: Tensor, length: int, aligned: bool, padding_mode: str) -> Tensor:
    """From -1 .. 1 to places 0 .. length - 1, inside the image if ``padding_mode`` wants that."""
    x = (at + 1) * ((length - 1) / 2) if aligned else ((at + 1) * length - 1) * 0.5
    if padding_mode == "zeros":
        return x
    if padding_mode == "reflection":
        low, span = (0.0, length - 1) if aligned else (-0.5, length)
        away = (x - low).abs()
        turns = (away.detach() / max(span, 1)).floor()
        rest = away - turns * span
        x = where(turns % 2 == 0, rest + low, span - rest + low) if span else x * 0
    return x.clamp(0, length - 1)
