"""Initialisation of parameters, in place; PyTorch's names and distributions.

Sources: Glorot and Bengio 2010 (xavier); He, Zhang, Ren and Sun 2015, arXiv 1502.01852 (kaiming);
Saxe, McClelland and Ganguli 2013, arXiv 1312.6120 (orthogonal); Martens 2010 (sparse).
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from minidp.autograd import no_grad
from minidp.create import eye
from minidp.draw import rand, randn
from minidp.ops import linalg
from minidp.ops.elementwise import where
from minidp.random import Generator
from minidp.tensor import Tensor
from minidp.types import float64


def _fill(tensor: Tensor, values: Any) -> Tensor:
    """Also takes an array, as in ``zeros_(layer.bias.numpy())``."""
    with no_grad():
        return (tensor if isinstance(tensor, Tensor) else Tensor(tensor)).copy_(values)


def uniform_(
    tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Uniform in [a, b)."""
    return _fill(tensor, tensor.detach().clone().uniform_(a, b, generator=generator))


def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Normal with the given mean and standard deviation."""
    return _fill(tensor, tensor.detach().clone().normal_(mean, std, generator=generator))


def constant_(tensor: Tensor, val: float) -> Tensor:
    """One value everywhere."""
    return _fill(tensor, val)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros."""
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones."""
    return constant_(tensor, 1.0)


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Normal, but within [a, b]: the inverse distribution of uniform numbers."""
    low, high = (math.erf((edge - mean) / std / math.sqrt(2)) for edge in (a, b))
    draw = rand(tensor.shape, generator=generator, dtype=float64) * (high - low) + low
    return _fill(tensor, (draw.erfinv() * (std * math.sqrt(2)) + mean).clamp(a, b))


def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix: ones on the diagonal."""
    _check_axes("eye_", tensor, 2)
    return _fill(tensor, eye(*tensor.shape))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """A convolution weight (out, in, ...) that hands on its channels, in each group anew."""
    _check_axes("dirac_", tensor, 3, 4, 5)
    out, channels, *window = tensor.shape
    if out % groups:
        raise ValueError(f"dirac_: {out} channels cannot be divided by groups={groups}")
    values = np.zeros(tensor.shape, tensor.dtype)
    for i in range(out):
        if i % (out // groups) < channels:
            values[(i, i % (out // groups), *(size // 2 for size in window))] = 1
    return _fill(tensor, values)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Orthonormal rows (or columns, if they are fewer) of the tensor as a matrix, times gain."""
    if tensor.ndim < 2:
        raise ValueError(f"orthogonal_: expected 2 or more axes, got shape {tensor.shape}")
    if math.prod(tensor.shape) == 0:
        return tensor
    rows, columns = tensor.shape[0], math.prod(tensor.shape[1:])
    draw = randn(max(rows, columns), min(rows, columns), generator=generator, dtype=float64)
    q, r = linalg.qr(draw)
    q = q * r.diagonal().sign() * gain  # the signs make the distribution even
    return _fill(tensor, (q.T if rows < columns else q).reshape(tensor.shape))


def sparse_(
    tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None
) -> Tensor:
    """Normal, and in each column the share ``sparsity`` of the elements, rounded up, is 0."""
    _check_axes("sparse_", tensor, 2)
    normal_(tensor, 0.0, std, generator)
    order = rand(tensor.shape, generator=generator).argsort(0).to(Tensor(tensor).device)
    zeros = math.ceil(sparsity * tensor.shape[0])
    return _fill(tensor, where(order < zeros, 0.0, Tensor(tensor)))


def _check_axes(name: str, tensor: Tensor, *allowed: int) -> None:
    if tensor.ndim not in allowed:
        expected = ", ".join(map(str, allowed))
        raise ValueError(f"{name}: expected {expected} axes, got shape {tensor.shape}")


def fans(tensor: Tensor) -> tuple[int, int]:
    """(fan_in, fan_out) of a weight (out, in, ...): how many inputs and outputs meet there."""
    if tensor.ndim < 2:
        raise ValueError("fan in and fan out can not be computed for a tensor with fewer than 2 "
                         f"axes, got shape {tensor.shape}")  # fmt: skip
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


_calculate_fan_in_and_fan_out = fans  # PyTorch's name, which custom layers use


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which an activation shrinks the standard deviation, inverted."""
    plain = """linear sigmoid conv1d conv2d conv3d conv_transpose1d conv_transpose2d
        conv_transpose3d"""
    slope = 0.01 if param is None else param
    gains = {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4,
             "leaky_relu": math.sqrt(2.0 / (1 + slope**2)), **dict.fromkeys(plain.split(), 1.0)}
    if nonlinearity not in gains:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}; known are {', '.join(gains)}")
    return gains[nonlinearity]


def xavier_uniform_(
    tensor: Tensor, gain: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Uniform in +-gain sqrt(6 / (fan_in + fan_out))."""
    bound = gain * math.sqrt(6.0 / sum(fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal with standard deviation gain sqrt(2 / (fan_in + fan_out))."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(fans(tensor))), generator)


def _deviation(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    """gain / sqrt(fan): the standard deviation that keeps that of the activations."""
    if math.prod(tensor.shape) == 0:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return 0.0
    if mode.lower() not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of fan_in, fan_out")
    return calculate_gain(nonlinearity, a) / math.sqrt(fans(tensor)[mode.lower() == "fan_out"])


def kaiming_uniform_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Uniform in +-gain sqrt(3 / fan); ``a`` is the slope of the leaky_relu behind the layer."""
    bound = math.sqrt(3.0) * _deviation(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Normal with standard deviation gain / sqrt(fan)."""
    return normal_(tensor, 0.0, _deviation(tensor, a, mode, nonlinearity), generator)
