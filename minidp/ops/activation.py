"""Activations that are formulas of several steps, as one op: one pass where there is a kernel.

Where a formula would overflow on the side that is not taken, it is given a harmless argument
there: the derivative of what was not chosen is 0 times its slope, and 0 times infinity is NaN.
"""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from minidp.op import op
from minidp.ops.adjoint import composite
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


def _gelu_tanh_slope(f: Any, x: Any, a: float, b: float) -> Any:
    t = f.tanh((x + x * x * x * CUBE) * BEND)
    return (t + 1 + x * (1 - t * t) * (x * x * (3 * BEND * CUBE) + BEND)) * 0.5


def _silu_slope(f: Any, x: Any, a: float, b: float) -> Any:
    s = f.sigmoid(x)
    return s * (x * (1 - s) + 1)


def _mish_slope(f: Any, x: Any, a: float, b: float) -> Any:
    t = f.tanh(f.log1pexp(x))
    return t + x * (1 - t * t) * f.sigmoid(x)


KINDS: dict[str, tuple[Formula, Formula]] = {
    "gelu": (
        lambda f, x, a, b: x * (f.erf(x * ROOT) + 1) * 0.5,
        lambda f, x, a, b: (f.erf(x * ROOT) + 1) * 0.5 + x * BELL * f.exp(x * x * -0.5)),
    "gelu_tanh": (
        lambda f, x, a, b: x * (f.tanh((x + x * x * x * CUBE) * BEND) + 1) * 0.5,
        _gelu_tanh_slope),
    "silu": (lambda f, x, a, b: x * f.sigmoid(x), _silu_slope),
    "mish": (lambda f, x, a, b: x * f.tanh(f.log1pexp(x)), _mish_slope),
    "hardswish": (
        lambda f, x, a, b: x * (f.where(x <= -3, 0.0, f.where(x >= 3, 6.0, x + 3)) / 6),
        lambda f, x, a, b: f.where(x <= -3, 0.0, f.where(x >= 3, 1.0, x / 3 + 0.5))),
    "elu": (
        lambda f, x, alpha, b: f.where(x > 0, x, f.expm1(f.where(x > 0, 0.0, x)) * alpha),
        lambda f, x, alpha, b: f.where(x > 0, 1.0, f.exp(f.where(x > 0, 0.0, x)) * alpha)),
    "softplus": (
        lambda f, x, beta, most: f.where(x * beta > most, x, f.log1pexp(x * beta) / beta),
        lambda f, x, beta, most: f.where(x * beta > most, 1.0, f.sigmoid(x * beta))),
    "leaky_relu": (
        lambda f, x, slope, b: f.where(x > 0, x, x * slope),
        lambda f, x, slope, b: f.where(x > 0, 1.0, f.where(x > 0, x, slope))),
}  # fmt: skip
"""The formula of each kind, and of its derivative; a and b are options."""


@op("f:... -> ...", x=lambda g, x, constants: activation_input(g, x, **constants))
def activation(xp: Any, x: Array, kind: str, a: float = 0.0, b: float = 0.0) -> Array:
    """y = f(x), and dy/dx = f'(x), for f and f' of one of ``KINDS``."""
    return KINDS[kind][0](bodies(xp, x), x, a, b).astype(x.dtype, copy=False)


@composite("f:..., f:... -> ...")
def activation_input(xp: Any, dy: Array, x: Array, kind: str, a: float = 0.0, b: float = 0.0
                     ) -> Array:  # fmt: skip
    """The cotangent of activation's x: dy f'(x)."""
    dx = dy * KINDS[kind][1](OPS if xp is None else bodies(xp, x), x, a, b)
    return dx if xp is None else dx.astype(x.dtype, copy=False)
