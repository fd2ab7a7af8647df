"""Resizing: places between places, one axis after the other; and what moves channels to places."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minidp.errors import ArgumentError, ShapeError
from minidp.functional import pool
from minidp.functional.ranks import floating
from minidp.functions.padding import pad
from minidp.ops.windows import resample
from minidp.shapes import sizes, whole
from minidp.tensor import Tensor
from minidp.types import Array, float32, float64

__all__ = ["channel_shuffle", "interpolate", "pad", "pixel_shuffle", "pixel_unshuffle", "upsample"]

RANKS = {"nearest": 0, "nearest-exact": 0, "area": 0, "linear": 1, "bilinear": 2, "bicubic": 2,
         "trilinear": 3}  # fmt: skip
KEPT = ("linear", "bilinear", "trilinear")


def interpolate(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:  # fmt: skip
    """(n, c, ...) at another ``size``, or ``scale_factor`` times as large.

    ``mode`` is "nearest", "nearest-exact", "area", "linear", "bilinear", "trilinear" or "bicubic"
    (Keys 1981, a = -0.75). ``align_corners`` lets the centres of the outermost places meet, else
    their outer borders do. ``antialias``, for images in "bilinear" and "bicubic" (a = -0.5), lets
    each place have its part where the image shrinks.
    """
    n, rank = input.ndim - 2, RANKS.get(mode, -1)
    if rank < 0 or n not in (1, 2, 3) or rank not in (0, n):
        raise ShapeError(f"interpolate: mode={mode!r} is not for input of shape {input.shape}")
    if (size is None) == (scale_factor is None) or (recompute_scale_factor and size is not None):
        raise ArgumentError("interpolate: expected either size or scale_factor")
    if (antialias and rank != 2) or (align_corners is not None and not rank):
        raise ArgumentError(f"interpolate: align_corners={align_corners}, antialias={antialias} "
                            f"cannot be used with mode={mode!r}")  # fmt: skip
    shape, steps = input.shape[2:], None
    if size is None:
        several = isinstance(scale_factor, (tuple, list))
        factors = tuple(scale_factor) if several else (scale_factor,) * n
        if len(factors) != n:
            raise ShapeError(f"interpolate: scale_factor={scale_factor}: expected {n} numbers")
        size = tuple(math.floor(k * f) for k, f in zip(shape, factors, strict=True))
        steps = None if recompute_scale_factor else [1 / f for f in factors]
    if whole(size) is None and len(size) != n:
        raise ShapeError(f"interpolate: size={size}: expected one or {n} numbers")
    size = sizes(size, n, "interpolate: size")
    if mode == "area":
        return getattr(pool, f"adaptive_avg_pool{n}d")(input, size)
    if min(*size, *shape) < 1:
        raise ShapeError(f"interpolate: from {shape} to {size}: expected at least one place")
    input = floating(f"interpolate {mode}", input) if rank else input
    steps = steps or [old / new for old, new in zip(shape, size, strict=True)]
    for dim, (old, new, step) in enumerate(zip(shape, size, steps, strict=True), 2):
        if old == new and not antialias and (mode in KEPT or (mode == "nearest" and n == 2)):
            continue  # whatever the factor, as PyTorch has it
        if rank:
            taps, cubic = _smoothed if antialias else _taps, mode == "bicubic"
            index, weight = taps(cubic, old, new, step, bool(align_corners))
        else:
            index, weight = _nearest(mode, input.dtype, old, new, step), None
        if old != new or step != 1:
            input = resample(input, dim=dim, index=index, weight=weight)
    return input


upsample = interpolate


def _nearest(mode: str, dtype: Any, old: int, new: int, step: float) -> Array:
    """The place that each new place repeats, rounded as PyTorch rounds."""
    kind = (dtype if dtype == float64 else float32).type
    at, half = np.arange(new, dtype=kind), kind(0.5)
    source = at * kind(step)
    if mode == "nearest-exact":
        source = np.maximum((at + half) * kind(step) - half, 0) + 0.5
    index = np.floor(source.astype("float32")).astype(int)
    return np.minimum(index, old - 1)[:, None]


def _taps(cubic: bool, old: int, new: int, step: float, aligned: bool) -> tuple[Array, Array]:
    """The two (or four) places that each new place is made from, and their weights."""
    at = np.arange(new)
    source = at * ((old - 1) / max(new - 1, 1)) if aligned else (at + 0.5) * step - 0.5
    source = source if cubic else np.maximum(source, 0)
    first = np.floor(source).astype(int)
    places, part = np.arange(-1, 3) if cubic else np.arange(2), source - first
    index = np.clip(first[:, None] + places, 0, old - 1)
    away = np.abs(part[:, None] - places)
    return index, _cubic(away, -0.75) if cubic else 1 - away


def _cubic(away: Array, a: float) -> Array:
    near = ((a + 2) * away - (a + 3)) * away * away + 1
    far = ((a * away - 5 * a) * away + 8 * a) * away - 4 * a
    return np.where(away <= 1, near, np.where(away < 2, far, 0))


def _smoothed(cubic: bool, old: int, new: int, step: float, aligned: bool) -> tuple[Array, Array]:
    """``_taps`` with a filter that is as much wider as the image becomes smaller."""
    step = (old - 1) * (new > 1) / max(new - 1, 1) if aligned else step
    wide, center = max(step, 1.0), (np.arange(new) + 0.5) * step
    reach = (2 if cubic else 1) * wide
    first = np.maximum((center - reach + 0.5).astype(int), 0)
    stop = np.minimum((center + reach + 0.5).astype(int), old)
    places = first[:, None] + np.arange((stop - first).max())
    away = np.abs(places - center[:, None] + 0.5) / wide
    weight = np.where(places < stop[:, None], _cubic(away, -0.5) if cubic else 1 - away, 0)
    weight = np.maximum(weight, 0) if not cubic else weight
    return np.minimum(places, old - 1), weight / weight.sum(1, keepdims=True)


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(..., c r r, h, w) to (..., c, h r, w r): channels become places (arXiv 1609.05158)."""
    r, shape, k = upscale_factor, input.shape, input.ndim - 3
    if k < 0 or r < 1 or shape[k] % (r * r):
        raise ShapeError(f"pixel_shuffle({shape}, {r}): channels must divide by {r * r}")
    (*front, channels, h, w), order = shape, (k, k + 3, k + 1, k + 4, k + 2)
    x = input.reshape(*front, channels // (r * r), r, r, h, w).permute(*range(k), *order)
    return x.reshape(*front, channels // (r * r), h * r, w * r)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """(..., c, h r, w r) to (..., c r r, h, w): what ``pixel_shuffle`` undoes."""
    r, shape, k = downscale_factor, input.shape, input.ndim - 3
    if k < 0 or r < 1 or shape[-2] % r or shape[-1] % r:
        raise ShapeError(f"pixel_unshuffle({shape}, {r}): height and width must divide by {r}")
    (*front, channels, h, w), order = shape, (k, k + 2, k + 4, k + 1, k + 3)
    x = input.reshape(*front, channels, h // r, r, w // r, r).permute(*range(k), *order)
    return x.reshape(*front, channels * r * r, h // r, w // r)


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channels in ``groups``, taken from each in turn (arXiv 1707.01083)."""
    if input.ndim < 3 or groups < 1 or input.shape[1] % groups:
        raise ShapeError(f"channel_shuffle({input.shape}): channels must divide by {groups}")
    n, channels, *rest = input.shape
    x = input.reshape(n, groups, channels // groups, *rest)
    return x.transpose(1, 2).reshape(input.shape)
