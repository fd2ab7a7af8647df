"""Convolution layers."""

from __future__ import annotations

from typing import Any

from minidp.create import empty
from minidp.errors import ShapeError
from minidp.nn import functional as F
from minidp.nn.linear import reset_affine
from minidp.nn.module import Module
from minidp.parameter import Parameter
from minidp.shapes import pair
from minidp.tensor import Tensor

Size = int | tuple[int, int]


class Conv2d(Module):
    """Cross-correlation of images (n, c, h, w) with learned kernels.

    ``weight`` is (out_channels, in_channels / groups, height, width), ``bias`` (out_channels) or
    None. ``padding`` is a size, "valid" (none) or "same" (stride 1; an odd rest goes to the right
    and the bottom); the padding is zeros.
    """

    bias: Parameter | None

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Size, stride: Size = 1,
        padding: Size | str = 0, dilation: Size = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = pair(kernel_size, "Conv2d: kernel_size")
        self.stride = pair(stride, "Conv2d: stride")
        self.padding = padding if isinstance(padding, str) else pair(padding, "Conv2d: padding")
        self.dilation = pair(dilation, "Conv2d: dilation")
        self.padding_mode = padding_mode
        self._check()
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        self.weight = Parameter(empty(shape, device=device, dtype=dtype))
        self.bias = Parameter(empty(out_channels, device=device, dtype=dtype)) if bias else None
        self.reset_parameters()

    def _check(self) -> None:
        if self.groups <= 0:
            raise ValueError("groups must be a positive integer")
        for name in ("in_channels", "out_channels"):
            if getattr(self, name) % self.groups != 0:
                raise ShapeError(f"{name} must be divisible by groups: "
                                 f"{getattr(self, name)} by {self.groups}")  # fmt: skip
        if self.padding_mode != "zeros":
            raise ValueError(f"padding_mode={self.padding_mode!r}: expected 'zeros'")
        if isinstance(self.padding, str):
            F.same_padding(self.padding, self.kernel_size, self.stride, self.dilation)

    def reset_parameters(self) -> None:
        reset_affine(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.conv2d(
            input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
        )

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        )
        shown = {"padding": (0, 0), "dilation": (1, 1), "groups": 1}
        for name, usual in shown.items():
            if getattr(self, name) != usual:
                text += f", {name}={getattr(self, name)}"
        return text + (", bias=False" if self.bias is None else "")
