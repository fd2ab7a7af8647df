"""Convolution layers."""

from __future__ import annotations

from typing import Any, ClassVar

from minidp import functional as F
from minidp.arguments import expect_counts
from minidp.errors import ArgumentError, ShapeError
from minidp.functional.conv import missing
from minidp.nn.layer import Stateless
from minidp.nn.linear import Affine
from minidp.shapes import sizes
from minidp.tensor import Tensor

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
           "Fold", "Unfold"]  # fmt: skip


class Convolution(Affine):
    """Cross-correlation of (n, c, ...), of one, two or three ``axes``, with learned kernels.

    ``weight`` is (out_channels, in_channels / groups, ...), of ``transposed`` layers (in_channels,
    out_channels / groups, ...); ``bias`` (out_channels) or None. ``padding`` is a size, "valid"
    (none) or "same" (stride 1; an odd rest goes behind); its values are those of ``padding_mode``.
    """

    axes: ClassVar[int]
    transposed: ClassVar[bool] = False
    modes: ClassVar[tuple[str, ...]] = ("zeros", "reflect", "replicate", "circular")
    shows = "{in_channels}, {out_channels}, kernel_size={kernel_size}, stride={stride}"
    hides: ClassVar = {"padding": 0, "dilation": 1, "output_padding": 0, "groups": 1, "bias": True,
                       "padding_mode": "zeros"}  # fmt: skip

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None, *,
        output_padding: Any = 0,
    ) -> None:  # fmt: skip
        super().__init__()
        expect_counts(type(self).__name__, in_channels=in_channels, out_channels=out_channels,
                      groups=groups)  # fmt: skip
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.padding_mode = padding_mode

        def each(name: str, value: Any) -> tuple[int, ...]:
            return sizes(value, self.axes, f"{type(self).__name__}: {name}")

        self.kernel_size, self.stride = each("kernel_size", kernel_size), each("stride", stride)
        self.padding: Any = padding if isinstance(padding, str) else each("padding", padding)
        self.dilation = each("dilation", dilation)
        self.output_padding = each("output_padding", output_padding)
        if groups <= 0:
            raise ArgumentError("groups must be a positive integer")
        for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups != 0:
                raise ShapeError(f"{name} must be divisible by groups: {channels} by {groups}")
        if padding_mode not in self.modes:
            raise ArgumentError(f"{type(self).__name__}: padding_mode={padding_mode!r}: "
                                f"expected one of {self.modes}")  # fmt: skip
        F.same_padding(self.padding, self.kernel_size, self.stride, self.dilation)
        front = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        self._make(device, dtype, weight=(front[0], front[1] // groups, *self.kernel_size),
                   bias=(out_channels,) if bias else None)  # fmt: skip
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        padding = self.padding
        if self.padding_mode != "zeros":
            edges = F.same_padding(padding, self.kernel_size, self.stride, self.dilation)
            ends = [(edge, edge + rest) for edge, rest in zip(*edges, strict=True)]
            input = F.pad(input, sum(reversed(ends), ()), mode=self.padding_mode)
            padding = 0
        convolve = getattr(F, f"conv{self.axes}d")
        return convolve(
            input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )


class Conv1d(Convolution, axes=1): ...


class Conv2d(Convolution, axes=2):
    """Cross-correlation of images (n, in_channels, h, w), or of one (in_channels, h, w), with
    learned kernels; the result has ``out_channels`` channels.

    ``kernel_size``, ``stride``, ``dilation`` (the distance between the kernel's points) and
    ``padding`` are an integer or two, for height and width. ``padding`` may be "valid" (none) or
    "same" (stride 1); ``padding_mode`` says with what: "zeros", "reflect", "replicate", "circular".
    Channels fall into ``groups`` that do not see each other. ``bias=False`` leaves the bias out.

    >>> nn.Conv2d(3, 8, 3, stride=2, padding=1)(dp.rand(1, 3, 32, 32)).shape
    (1, 8, 16, 16)
    """


class Conv3d(Convolution, axes=3): ...


class Transposed(Convolution, transposed=True, modes=("zeros",)):
    """The adjoint of a convolution, with weights of its own; also called deconvolution."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, output_padding: Any = 0, groups: int = 1, bias: bool = True,
        dilation: Any = 1, padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups,
                         bias, padding_mode, device, dtype,
                         output_padding=output_padding)  # fmt: skip

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        """``output_size``, where given, chooses among the sizes that a stride leaves open."""
        extra, size = self.output_padding, (self.kernel_size, self.stride, self.padding)
        if output_size is not None:
            extra = missing(type(self).__name__, input, output_size, *size, self.dilation)
        return getattr(F, f"conv_transpose{self.axes}d")(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
            self.dilation,
        )  # fmt: skip


class ConvTranspose1d(Transposed, axes=1): ...


class ConvTranspose2d(Transposed, axes=2): ...


class ConvTranspose3d(Transposed, axes=3): ...


class Unfold(Stateless, of=F.unfold): ...


class Fold(Stateless, of=F.fold): ...
