"""Activations. ``inplace`` is accepted for PyTorch's sake; nothing is done in place.

Where a formula would overflow on the side that is not taken, it is given a harmless argument
there: the derivative of what was not chosen is 0 times its slope, and 0 times infinity is NaN.
"""

from __future__ import annotations

import warnings
from typing import Any

from minidp.errors import ArgumentError, ShapeError
from minidp.functional.ranks import alike
from minidp.functions.along import in_place
from minidp.functions.layout import real_axis
from minidp.ops import elementwise as ops
from minidp.ops.activation import activation as curve
from minidp.ops.elementwise import log1pexp, where
from minidp.ops.softmax import log_softmax as log_softmax_along
from minidp.ops.softmax import softmax as softmax_along
from minidp.shapes import axis_of
from minidp.tensor import Tensor
from minidp.types import float16

__all__ = ["celu", "elu", "gelu", "glu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh",
           "leaky_relu", "log_softmax", "logsigmoid", "mish", "prelu", "relu", "relu6", "selu",
           "sigmoid", "silu", "softmax", "softmin", "softplus", "softshrink", "softsign", "tanh",
           "tanhshrink", "threshold", "celu_", "elu_", "hardtanh_", "leaky_relu_", "relu_", "selu_",
           "threshold_"]  # fmt: skip

SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
"""For these, mean 0 and variance 1 are a fixed point (Klambauer et al. 2017, arXiv 1706.02515)."""


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """y = max(x, 0)."""
    return ops.relu(input)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """y = x between min_val and max_val, else the nearer of them; dy/dx = 0 from there on."""
    if min_val > max_val:
        raise ArgumentError(f"hardtanh: min_val {min_val} cannot be greater than max_val {max_val}")
    return where(input <= min_val, min_val, where(input >= max_val, max_val, input))


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """y = min(max(x, 0), 6)."""
    return hardtanh(input, 0, 6)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """y = min(max(x + 3, 0), 6) / 6."""
    return relu6(input + 3) / 6


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """y = x min(max(x + 3, 0), 6) / 6 (Howard et al. 2019, arXiv 1905.02244)."""
    return _curve(input, "hardswish")


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """y = x where x > 0, else negative_slope x."""
    return _curve(input, "leaky_relu", negative_slope)


def _curve(x: Tensor, kind: str, a: float = 0.0, b: float = 0.0) -> Tensor:
    """One of ``ops.activation.KINDS``; float16 is computed in float32, integers become floats."""
    wide = x.float() if x.dtype == float16 else x
    y = curve(wide, kind=kind, a=float(a), b=float(b))
    return y if wide is x else y.half()


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """y = x where x > 0, else w x; one w for all, or one for each channel (axis 1).

    Source: He, Zhang, Ren and Sun 2015, arXiv 1502.01852.
    """
    channels = input.shape[1] if input.ndim > 1 else 1
    if weight.ndim > 1 or weight.numel() not in (1, channels):
        raise ShapeError(f"prelu: {weight.numel()} weights of shape {weight.shape} for {channels} "
                         f"channels of input {input.shape}; expected 1 or {channels}")  # fmt: skip
    alike("prelu", input, weight)
    w = weight.reshape(-1, *(1,) * (input.ndim - 2)) if input.ndim > 1 else weight.squeeze()
    return where(input > 0, input, w * _negative(input))


def _negative(x: Tensor) -> Tensor:
    """x where it is negative, else 0; its slope at 0 is 1."""
    return where(x > 0, 0.0, x)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """y = x where x > 0, else alpha (e^x - 1) (Clevert et al. 2015, arXiv 1511.07289)."""
    return _curve(input, "elu", alpha)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """y = x where x > 0, else alpha (e^(x / alpha) - 1) (Barron 2017, arXiv 1704.07483)."""
    if alpha == 0:
        raise ArgumentError("celu: alpha cannot be 0")
    return where(input > 0, input, (_negative(input) / alpha).expm1() * alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """y = scale elu(x, alpha), with constants that keep mean 0 and variance 1."""
    return elu(input, SELU_ALPHA) * SELU_SCALE


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """y = x (1 + erf(x / sqrt 2)) / 2; "tanh": x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.

    Source: Hendrycks and Gimpel 2016, arXiv 1606.08415.
    """
    if approximate not in ("none", "tanh"):
        raise ArgumentError(f"gelu: approximate={approximate!r}: expected 'none' or 'tanh'")
    return _curve(input, "gelu" if approximate == "none" else "gelu_tanh")


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """y = x sigmoid(x)."""
    return _curve(input, "silu")


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """y = x tanh(log(1 + e^x)) (Misra 2019, arXiv 1908.08681)."""
    return _curve(input, "mish")


def tanh(input: Tensor) -> Tensor:
    """y = tanh x."""
    return ops.tanh(input)


def sigmoid(input: Tensor) -> Tensor:
    """y = 1 / (1 + e^-x)."""
    return ops.sigmoid(input)


def logsigmoid(input: Tensor) -> Tensor:
    """y = -log(1 + e^-x)."""
    return -log1pexp(-input)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """y = log(1 + e^(beta x)) / beta; x itself where beta x > threshold."""
    return _curve(input, "softplus", beta, threshold)


def softsign(input: Tensor) -> Tensor:
    """y = x / (1 + |x|)."""
    return input / (input.abs() + 1)


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """y = x where |x| > lambd, else 0."""
    return where(input.abs() <= lambd, 0.0, input)


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """y = x moved towards 0 by lambd, 0 where |x| <= lambd."""
    if lambd < 0:
        raise ArgumentError(f"softshrink: lambd {lambd} must be at least 0")
    return input - input.clamp(-lambd, lambd)


def tanhshrink(input: Tensor) -> Tensor:
    """y = x - tanh x."""
    return input - ops.tanh(input)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """y = x where x > threshold, else value."""
    return where(input <= threshold, value, input)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """y = a sigmoid(b), a and b being the halves of x along ``dim`` (Dauphin et al. 2016)."""
    axis = real_axis(input, "glu", dim)
    if input.shape[axis] % 2:
        raise ShapeError(f"glu: axis {dim} of {input.shape} has no halves; expected an even size")
    a, b = input.chunk(2, axis)
    return a * ops.sigmoid(b)


def softmax(input: Tensor, dim: int | None = None, *, dtype: Any = None) -> Tensor:
    """y = e^x / sum e^x along ``dim``, computed in ``dtype`` if given."""
    x = input if dtype is None else input.to(dtype)
    return softmax_along(x, dim=_axis("softmax", x, dim))


def softmin(input: Tensor, dim: int | None = None, *, dtype: Any = None) -> Tensor:
    """y = e^-x / sum e^-x along ``dim``."""
    return softmax(-input, _axis("softmin", input, dim), dtype=dtype)


def log_softmax(input: Tensor, dim: int | None = None, *, dtype: Any = None) -> Tensor:
    """y = x - log sum e^x along ``dim``, computed in ``dtype`` if given."""
    x = input if dtype is None else input.to(dtype)
    return log_softmax_along(x, dim=_axis("log_softmax", x, dim))


def _axis(name: str, input: Tensor, dim: int | None) -> int:
    if dim is None:
        warnings.warn(f"{name} without dim chooses one by the number of axes; give dim=",
                      stacklevel=3)  # fmt: skip
        dim = 0 if input.ndim in (0, 1, 3) else 1
    return axis_of(name, dim, input.ndim)


celu_, elu_, hardtanh_, leaky_relu_, relu_, selu_, threshold_ = map(
    in_place, (celu, elu, hardtanh, leaky_relu, relu, selu, threshold))  # fmt: skip
