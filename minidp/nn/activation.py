"""Activation layers: each is its function. Nothing is done ``inplace``."""

from __future__ import annotations

from typing import Any

from minidp import functional as F
from minidp.errors import ArgumentError, ShapeError
from minidp.nn.layer import Layer, Stateless
from minidp.nn.module import Module
from minidp.parameter import Parameter
from minidp.tensor import Tensor

__all__ = ["CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh",
           "LeakyReLU", "LogSigmoid", "LogSoftmax", "Mish", "PReLU", "ReLU", "ReLU6", "SELU",
           "SiLU", "Sigmoid", "Softmax", "Softmax2d", "Softmin", "Softplus", "Softshrink",
           "Softsign", "Tanh", "Tanhshrink", "Threshold"]  # fmt: skip

# fmt: off
class CELU(Stateless, of=F.celu): ...
class ELU(Stateless, of=F.elu): ...
class GELU(Stateless, of=F.gelu): ...
class GLU(Stateless, of=F.glu): ...
class Hardshrink(Stateless, of=F.hardshrink, shows="{lambd}"): ...
class Hardsigmoid(Stateless, of=F.hardsigmoid, shows=""): ...
class Hardswish(Stateless, of=F.hardswish, shows=""): ...
class LeakyReLU(Stateless, of=F.leaky_relu): ...
class LogSigmoid(Stateless, of=F.logsigmoid): ...
class LogSoftmax(Stateless, of=F.log_softmax, takes="dim"): ...
class Mish(Stateless, of=F.mish): ...
class ReLU(Stateless, of=F.relu): ...
class ReLU6(Stateless, of=F.relu6): ...
class SELU(Stateless, of=F.selu): ...
class SiLU(Stateless, of=F.silu): ...
class Sigmoid(Stateless, of=F.sigmoid): ...
class Softmax(Stateless, of=F.softmax, takes="dim"): ...
class Softmin(Stateless, of=F.softmin, takes="dim"): ...
class Softplus(Stateless, of=F.softplus): ...
class Softshrink(Stateless, of=F.softshrink, shows="{lambd}"): ...
class Softsign(Stateless, of=F.softsign): ...
class Tanh(Stateless, of=F.tanh): ...
class Tanhshrink(Stateless, of=F.tanhshrink): ...
class Threshold(Stateless, of=F.threshold): ...
# fmt: on


class Hardtanh(Stateless, of=F.hardtanh):
    min_val: float
    max_val: float

    def _check(self) -> None:
        if self.max_val <= self.min_val:
            raise ArgumentError(f"Hardtanh: max_val {self.max_val} must be greater than min_val "
                                f"{self.min_val}")  # fmt: skip


class PReLU(Layer, shows="num_parameters={num_parameters}"):
    """y = x where x > 0, else w x, w being learned: one for all or one for each channel."""

    weight: Parameter

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self._make(device, dtype, weight=(num_parameters,))
        self.weight.detach().fill_(init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)


class Softmax2d(Module):
    """Softmax over the channels of images (n, c, h, w) or (c, h, w)."""

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise ShapeError(f"Softmax2d: expected 3D or 4D input, got shape {input.shape}")
        return F.softmax(input, -3)
