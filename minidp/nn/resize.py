"""Layers that reshape, resize, shuffle or pad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from minidp import functional as F
from minidp.nn.layer import Layer, Stateless
from minidp.shapes import axis_of, sizes
from minidp.tensor import Tensor

__all__ = [
    "ChannelShuffle", "Flatten", "PixelShuffle", "PixelUnshuffle", "Unflatten", "Upsample",
    "UpsamplingBilinear2d", "UpsamplingNearest2d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d",
    "ConstantPad3d", "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d",
    "ReplicationPad2d", "ReplicationPad3d",
]  # fmt: skip


class Upsample(
    Stateless, of=F.interpolate, takes="size scale_factor mode align_corners recompute_scale_factor"
):
    scale_factor: Any
    mode: str

    def _check(self) -> None:
        several, factor = isinstance(self.scale_factor, (tuple, list)), self.scale_factor
        if factor is not None:
            self.scale_factor = tuple(map(float, factor)) if several else float(factor)

    def extra_repr(self) -> str:
        name = "size" if self.scale_factor is None else "scale_factor"
        return f"{name}={getattr(self, name)}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Images enlarged by repeating the nearest value."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """Images enlarged linearly along both axes, corners on corners."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "bilinear", True)


class PixelShuffle(Stateless, of=F.pixel_shuffle): ...


class PixelUnshuffle(Stateless, of=F.pixel_unshuffle): ...


class ChannelShuffle(Stateless, of=F.channel_shuffle): ...


class Flatten(Layer, shows="start_dim={start_dim}, end_dim={end_dim}"):
    """The axes from ``start_dim`` to ``end_dim`` as one; by default all but the batch."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)


class Unflatten(Layer, shows="dim={dim}, unflattened_size={unflattened_size}"):
    """Axis ``dim`` as several axes of sizes ``unflattened_size``, of which one may be -1."""

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        axis = axis_of("Unflatten", self.dim, input.ndim)
        before, after = input.shape[:axis], input.shape[axis + 1 :]
        return input.reshape(*before, *self.unflattened_size, *after)


class Padding(Layer, shows="{padding}"):
    """Places around the last ``axes``, as ``functional.pad`` makes them.

    ``padding`` is a number for all sides, or one for each: the last axis first, its front first.
    """

    axes: ClassVar[int]
    mode: ClassVar[str] = "constant"
    value: float | None = None

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = sizes(padding, 2 * self.axes, f"{type(self).__name__}: padding")

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self.mode, self.value)


class ConstantPad(Padding, shows="padding={padding}, value={value}"):
    """Places of one ``value`` around the last axes."""

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value


class ZeroPad1d(Padding, axes=1, value=0.0): ...


class ZeroPad2d(Padding, axes=2, value=0.0): ...


class ZeroPad3d(Padding, axes=3, value=0.0): ...


class ConstantPad1d(ConstantPad, axes=1): ...


class ConstantPad2d(ConstantPad, axes=2): ...


class ConstantPad3d(ConstantPad, axes=3): ...


class ReflectionPad1d(Padding, axes=1, mode="reflect"): ...


class ReflectionPad2d(Padding, axes=2, mode="reflect"): ...


class ReflectionPad3d(Padding, axes=3, mode="reflect"): ...


class ReplicationPad1d(Padding, axes=1, mode="replicate"): ...


class ReplicationPad2d(Padding, axes=2, mode="replicate"): ...


class ReplicationPad3d(Padding, axes=3, mode="replicate"): ...


class CircularPad1d(Padding, axes=1, mode="circular"): ...


class CircularPad2d(Padding, axes=2, mode="circular"): ...


class CircularPad3d(Padding, axes=3, mode="circular"): ...
