"""Images at places of their own: the grid of an affine map, and what an image is there."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from minidp.create import as_tensor
from minidp.errors import ArgumentError, ShapeError
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
    ``mode`` is "bilinear", "nearest" or, of images, "bicubic" (Keys 1981, a = -0.75); around the
    image is what ``padding_mode`` says, "zeros", "border" or "reflection". Jaderberg et al. 2015,
    arXiv 1506.02025.
    """
    k = input.ndim - 2
    if k not in (2, 3) or grid.shape != (len(input), *grid.shape[1:-1], k) or grid.ndim != k + 2:
        raise ShapeError(f"grid_sample: the grid {grid.shape} is not for {input.shape}")
    if mode not in MODES or padding_mode not in ("zeros", "border", "reflection") or (
            mode == "bicubic" and k != 2):  # fmt: skip
        raise ArgumentError(f"grid_sample: mode={mode!r}, padding_mode={padding_mode!r}, {k} axes")
    how = mode, bool(align_corners), padding_mode
    taps = [_taps(grid[..., k - 1 - axis].flatten(1), n, *how)
            for axis, n in enumerate(input.shape[2:])]  # fmt: skip
    y: Any = 0
    for numbers in product(range(len(MODES[mode])), repeat=k):
        value = _at(input, [places[i] for (places, _), i in zip(taps, numbers, strict=True)])
        weight: Any = 1
        for (_, weights), i in zip(taps, numbers, strict=True):
            weight = weights[i] * weight
        y = y + (value if mode == "nearest" else value * weight.unsqueeze(1))
    return y.reshape(*input.shape[:2], *grid.shape[1:-1])


def _taps(at: Tensor, length: int, mode: str, aligned: bool, padding_mode: str) -> Any:
    """Along one axis, the places that a value comes from, and their weights."""
    x = (at + 1) * ((length - 1) / 2) if aligned else ((at + 1) * length - 1) * 0.5
    cubic = mode == "bicubic"
    x = x if cubic else _inside(x, length, aligned, padding_mode)
    first = x.detach().round() if mode == "nearest" else x.detach().floor()
    places = [first + tap for tap in MODES[mode]]
    if cubic:
        places = [_inside(place, length, aligned, padding_mode) for place in places]
    return places, WEIGHTS[mode](x - first)


def _cubic(part: Tensor) -> list[Tensor]:
    """The weights of the places -1, 0, 1, 2 for one at ``part`` (Keys 1981)."""

    def near(t: Tensor) -> Any:
        return ((A + 2) * t - (A + 3)) * t * t + 1

    def far(t: Tensor) -> Any:
        return ((A * t - 5 * A) * t + 8 * A) * t - 4 * A

    return [far(part + 1), near(part), near(1 - part), far(2 - part)]


A = -0.75
MODES = {"nearest": (0,), "bilinear": (0, 1), "bicubic": (-1, 0, 1, 2)}
WEIGHTS: dict[str, Callable[[Tensor], list[Any]]] = {
    "nearest": lambda part: [1], "bilinear": lambda part: [1 - part, part], "bicubic": _cubic,
}  # fmt: skip


def _at(input: Tensor, places: list[Tensor]) -> Tensor:
    """The values at whole places, one list for each axis; 0 outside of the image."""
    place: Any = 0
    inside: Any = True
    for here, length in zip(places, input.shape[2:], strict=True):
        inside = (here >= 0) & (here <= length - 1) & inside
        place = place * length + here.clamp(0, length - 1).type(int64)
    value = take_along_dim(input.flatten(2), place.unsqueeze(1), dim=2)
    return where(inside.unsqueeze(1), value, 0.0)


def _inside(x: Tensor, length: int, aligned: bool, padding_mode: str) -> Tensor:
    """Places in the image, if ``padding_mode`` wants that."""
    if padding_mode == "zeros":
        return x
    if padding_mode == "reflection":
        low, span = (0.0, length - 1) if aligned else (-0.5, length)
        away = (x - low).abs()
        turns = (away.detach() / max(span, 1)).floor()
        rest = away - turns * span
        x = where(turns % 2 == 0, rest + low, span - rest + low) if span else x * 0
    return x.clamp(0, length - 1)
