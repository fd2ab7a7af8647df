"""Affine and bilinear layers, distances, and the layer that does nothing."""

from __future__ import annotations

import math
from typing import Any

from minidp import functional as F
from minidp.arguments import expect_counts
from minidp.nn import init
from minidp.nn.layer import Layer, Stateless
from minidp.nn.module import Module
from minidp.parameter import Parameter
from minidp.tensor import Tensor

__all__ = ["Bilinear", "CosineSimilarity", "Identity", "Linear", "PairwiseDistance"]


class Affine(Layer):
    """What has a ``weight`` and a ``bias`` or None, at first uniform in +-1 / sqrt(fan_in)."""

    weight: Parameter
    bias: Parameter | None

    def reset_parameters(self) -> None:
        """Draw anew what training starts from."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init.fans(self.weight)
            bound = 1 / math.sqrt(fan_in) if fan_in else 0
            init.uniform_(self.bias, -bound, bound)


class Linear(Affine):
    """y = x W^T + b over the last axis: (..., in_features) -> (..., out_features).

    ``weight`` is (out_features, in_features), ``bias`` (out_features) or None.

    >>> nn.Linear(3, 4)(dp.rand(2, 3)).shape
    (2, 4)
    """

    shows = "in_features={in_features}, out_features={out_features}, bias={bias}"

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        expect_counts("Linear", in_features=in_features, out_features=out_features)
        self.in_features, self.out_features = in_features, out_features
        self._make(device, dtype, weight=(out_features, in_features),
                   bias=(out_features,) if bias else None)  # fmt: skip
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)


class NonDynamicallyQuantizableLinear(Linear):
    """Linear, by the name under which attention's ``out_proj`` prints in PyTorch."""


class Bilinear(Affine):
    """y_k = sum_ij x1_i W_kij x2_j + b_k over the last axes of two inputs.

    ``weight`` is (out_features, in1_features, in2_features), ``bias`` (out_features) or None.
    """

    shows = ("in1_features={in1_features}, in2_features={in2_features}, "
             "out_features={out_features}, bias={bias}")  # fmt: skip

    def __init__(
        self, in1_features: int, in2_features: int, out_features: int, bias: bool = True,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        if in1_features <= 0:
            raise ValueError(f"Bilinear: in1_features must be > 0, but got {in1_features}")
        super().__init__()
        self.in1_features, self.in2_features = in1_features, in2_features
        self.out_features = out_features
        self._make(device, dtype, weight=(out_features, in1_features, in2_features),
                   bias=(out_features,) if bias else None)  # fmt: skip
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw anew, uniform within 1 / sqrt(in1_features)."""
        bound = 1 / math.sqrt(self.weight.shape[1])
        for parameter in self.parameters(recurse=False):
            init.uniform_(parameter, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)


class Identity(Module):
    """Gives back its input; takes and ignores any arguments, to stand in for another layer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input


# fmt: off
class CosineSimilarity(Stateless, of=F.cosine_similarity, shows=""): ...
class PairwiseDistance(Stateless, of=F.pairwise_distance, shows=""): ...
