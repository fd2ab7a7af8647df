"""Affine layers, and the one that does nothing."""

from __future__ import annotations

import math
from typing import Any

from minidp.create import empty
from minidp.nn import functional as F
from minidp.nn import init
from minidp.nn.module import Module
from minidp.parameter import Parameter
from minidp.tensor import Tensor


def reset_affine(weight: Parameter, bias: Parameter | None) -> None:
    """PyTorch's default initialisation: both uniform in +-1 / sqrt(fan_in)."""
    init.kaiming_uniform_(weight, a=math.sqrt(5))
    if bias is not None:
        fan_in, _ = init.fans(weight)
        bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
        init.uniform_(bias, -bound, bound)


class Linear(Module):
    """y = x W^T + b over the last axis: (..., in_features) -> (..., out_features).

    ``weight`` is (out_features, in_features), ``bias`` (out_features) or None.
    """

    bias: Parameter | None

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(empty(out_features, in_features, device=device, dtype=dtype))
        self.bias = Parameter(empty(out_features, device=device, dtype=dtype)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        reset_affine(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class Identity(Module):
    """Gives back its input; takes and ignores any arguments, to stand in for another layer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input
