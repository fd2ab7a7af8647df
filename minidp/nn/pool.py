"""Pooling layers; sizes are integers or one number for each spatial axis."""

from __future__ import annotations

from typing import Any, ClassVar

from minidp import functional as F
from minidp.nn.layer import Stateless
from minidp.shapes import sizes

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "LPPool1d",
    "LPPool2d", "LPPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d",
    "MaxUnpool3d",
]  # fmt: skip


MAX = "kernel_size stride padding dilation return_indices ceil_mode"
MAX_SHOWS, AVG_SHOWS = "kernel_size stride padding dilation ceil_mode", "kernel_size stride padding"
AVG = f"{AVG_SHOWS} ceil_mode count_include_pad divisor_override"


class Pool(Stateless):
    """A layer whose ``stride`` defaults to its window."""

    kernel_size: Any
    stride: Any

    def _check(self) -> None:
        self.stride = self.kernel_size if self.stride is None else self.stride


class Tuples(Pool):
    """One whose sizes are kept as tuples, of one number for each of ``axes``."""

    axes: ClassVar[int] = 1

    def _check(self) -> None:
        super()._check()
        for name in AVG_SHOWS.split():
            value = sizes(getattr(self, name), self.axes, f"{type(self).__name__}: {name}")
            setattr(self, name, value)


class MaxPool1d(Pool, of=F.max_pool1d, takes=MAX, shows=MAX_SHOWS): ...


class MaxPool2d(Pool, of=F.max_pool2d, takes=MAX, shows=MAX_SHOWS): ...


class MaxPool3d(Pool, of=F.max_pool3d, takes=MAX, shows=MAX_SHOWS): ...


class AvgPool1d(Tuples, of=F.avg_pool1d, takes=AVG.rpartition(" ")[0], shows=AVG_SHOWS): ...


class AvgPool2d(Pool, of=F.avg_pool2d, takes=AVG, shows=AVG_SHOWS): ...


class AvgPool3d(Pool, of=F.avg_pool3d, takes=AVG, shows=AVG_SHOWS): ...


class MaxUnpool1d(Tuples, of=F.max_unpool1d, takes=AVG_SHOWS): ...


class MaxUnpool2d(Tuples, of=F.max_unpool2d, takes=AVG_SHOWS, axes=2): ...


class MaxUnpool3d(Tuples, of=F.max_unpool3d, takes=AVG_SHOWS, axes=3): ...


class LPPool1d(Stateless, of=F.lp_pool1d): ...


class LPPool2d(Stateless, of=F.lp_pool2d): ...


class LPPool3d(Stateless, of=F.lp_pool3d): ...


class AdaptiveAvgPool1d(Stateless, of=F.adaptive_avg_pool1d): ...


class AdaptiveAvgPool2d(Stateless, of=F.adaptive_avg_pool2d): ...


class AdaptiveAvgPool3d(Stateless, of=F.adaptive_avg_pool3d): ...


class AdaptiveMaxPool1d(Stateless, of=F.adaptive_max_pool1d, shows="output_size"): ...


class AdaptiveMaxPool2d(Stateless, of=F.adaptive_max_pool2d, shows="output_size"): ...


class AdaptiveMaxPool3d(Stateless, of=F.adaptive_max_pool3d, shows="output_size"): ...
