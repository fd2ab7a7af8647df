"""Activations that are formulas of several steps, as one op: one pass where there is a kernel.

Where a formula would overflow on the side that is not taken, it is given a harmless argument
there: the derivative of what was not chosen is 0 times its slope, and 0 times infinity is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from minidp.op import op
from minidp.ops.adjoint import recorded
from minidp.ops.comparison import where
from minidp.ops.error_function import erf
from minidp.ops.exponential import exp, expm1, log1pexp, sigmoid
from minidp.ops.trigonometric import tanh
from minidp.types import Array

ROOT, BELL = math.sqrt(0.5), 1 / math.sqrt(2 * math.pi)
BEND, CUBE = math.sqrt(2 / math.pi), 0.044715
Formula = Callable[[Any, Any, float, float], Any]
OPS = SimpleNamespace(where=where, exp=exp, expm1=expm1, tanh=tanh, erf=erf, sigmoid=sigmoid,
                      log1pexp=log1pexp)  # fmt: skip
"""What formulas are made of where they are recorded."""


def bodies(xp: Any, x: Array) -> Any:
    """What formulas are made of in bodies: the same functions of arrays like x."""

    def plain(value: Any) -> Any:
        return value if hasattr(value, "dtype") else xp.asarray(value, x.dtype)

    return SimpleNamespace(
        where=lambda condition, a, b: xp.where(condition, plain(a), plain(b)),
        exp=xp.exp, expm1=xp.expm1, tanh=xp.tanh, erf=lambda v: erf.body(xp, v),
        sigmoid=lambda v: sigmoid.body(xp, v), log1pexp=lambda v: log1pexp.body(xp, v),
    )  # fmt: skip


def _gelu(f: Any, x: Any, a: float, b: float) -> Any:
    return x * (f.erf(x * ROOT) + 1) * 0.5


def _gelu_slope(f: Any, x: Any, a: float, b: float) -> Any:
    return (f.erf(x * ROOT) + 1) * 0.5 + x * BELL * f.exp(x * x * -0.5)


def _gelu_tanh(f: Any, x: Any, a: float, b: float) -> Any:
    return x * (f.tanh((x + x * x * x * CUBE) * BEND) + 1) * 0.5


def _gelu_tanh_slope(f: Any, x: Any, a: float, b: float) -> Any:
    t = f.tanh((x + x * x * x * CUBE) * BEND)
    return (t + 1 + x * (1 - t * t) * (x * x * (3 * BEND * CUBE) + BEND)) * 0.5


def _silu(f: Any, x: Any, a: float, b: float) -> Any:
    return x * f.sigmoid(x)


def _silu_slope(f: Any, x: Any, a: float, b: float) -> Any:
    s = f.sigmoid(x)
    return s * (x * (1 - s) + 1)


def _mish(f: Any, x: Any, a: float, b: float) -> Any:
    return x * f.tanh(f.log1pexp(x))


def _mish_slope(f: Any, x: Any, a: float, b: float) -> Any:
    t = f.tanh(f.log1pexp(x))
    return t + x * (1 - t * t) * f.sigmoid(x)


def _hardswish(f: Any, x: Any, a: float, b: float) -> Any:
    return x * (f.where(x <= -3, 0.0, f.where(x >= 3, 6.0, x + 3)) / 6)


def _hardswish_slope(f: Any, x: Any, a: float, b: float) -> Any:
    return f.where(x <= -3, 0.0, f.where(x >= 3, 1.0, x / 3 + 0.5))


def _elu(f: Any, x: Any, alpha: float, b: float) -> Any:
    return f.where(x > 0, x, f.expm1(f.where(x > 0, 0.0, x)) * alpha)


def _elu_slope(f: Any, x: Any, alpha: float, b: float) -> Any:
    return f.where(x > 0, 1.0, f.exp(f.where(x > 0, 0.0, x)) * alpha)


def _softplus(f: Any, x: Any, beta: float, threshold: float) -> Any:
    return f.where(x * beta > threshold, x, f.log1pexp(x * beta) / beta)


def _softplus_slope(f: Any, x: Any, beta: float, threshold: float) -> Any:
    return f.where(x * beta > threshold, 1.0, f.sigmoid(x * beta))


def _leaky_relu(f: Any, x: Any, slope: float, b: float) -> Any:
    return f.where(x > 0, x, x * slope)


def _leaky_relu_slope(f: Any, x: Any, slope: float, b: float) -> Any:
    return f.where(x > 0, 1.0, f.where(x > 0, x, slope))  # slope, in the dtype of x


KINDS: dict[str, tuple[Formula, Formula]] = {
    "gelu": (_gelu, _gelu_slope), "gelu_tanh": (_gelu_tanh, _gelu_tanh_slope),
    "silu": (_silu, _silu_slope), "mish": (_mish, _mish_slope),
    "hardswish": (_hardswish, _hardswish_slope), "elu": (_elu, _elu_slope),
    "softplus": (_softplus, _softplus_slope), "leaky_relu": (_leaky_relu, _leaky_relu_slope),
}  # fmt: skip
"""The formula of each kind, and of its derivative; a and b are options."""


def _rule(g: Any, x: Any, kind: str, a: float, b: float) -> Any:
    """``activation_input``; composed of ops where it is to be differentiated."""
    if recorded({0: g}, x):
        return g * KINDS[kind][1](OPS, x, a, b)
    return activation_input(g, x, kind=kind, a=a, b=b)


@op("f:... -> ...", x=_rule)
def activation(xp: Any, x: Array, kind: str, a: float = 0.0, b: float = 0.0) -> Array:
    """y = f(x), and dy/dx = f'(x), for f and f' of one of ``KINDS``."""
    return KINDS[kind][0](bodies(xp, x), x, a, b).astype(x.dtype, copy=False)


@op("f:..., f:... -> ...")
def activation_input(
    xp: Any, dy: Array, x: Array, kind: str, a: float = 0.0, b: float = 0.0
) -> Array:
    """The cotangent of activation's x: dy f'(x)."""
    return (dy * KINDS[kind][1](bodies(xp, x), x, a, b)).astype(x.dtype, copy=False)
