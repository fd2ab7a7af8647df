"""Sums, products, quotients, rounding, absolute values and extremes, element by element."""

from typing import Any

import numpy as np

from minidp.errors import DivisionError
from minidp.op import Op, op
from minidp.ops.comparison import flat, where
from minidp.types import Array

__all__ = ["abs", "ceil", "copysign", "floor", "floor_divide", "fmod", "maximum", "minimum",
           "mul", "neg", "reciprocal", "relu", "remainder", "sign", "trunc"]  # fmt: skip


@op("..., ... -> ...", a=lambda g: g, b=lambda g: g)
def add(xp: Any, a: Array, b: Array) -> Array:
    """Sum: y = a + b."""
    return xp.add(a, b)


@op("..., ... -> ...", a=lambda g: g, b=lambda g: -g)
def sub(xp: Any, a: Array, b: Array) -> Array:
    """Difference: y = a - b."""
    return xp.subtract(a, b)


@op("..., ... -> ...", a=lambda g, b: g * b, b=lambda g, a: g * a)
def mul(xp: Any, a: Array, b: Array) -> Array:
    """Product: y = a b."""
    return xp.multiply(a, b)


@op("f:..., f:... -> ...", a=lambda g, b: g / b, b=lambda g, a, b: -g * (a / b / b))
def div(xp: Any, a: Array, b: Array) -> Array:
    """Quotient: y = a / b; integers are divided as floats."""
    return xp.true_divide(a, b)


@op("f:... -> ...", x=lambda g, y: -g * (y * y))
def reciprocal(xp: Any, x: Array) -> Array:
    """Reciprocal: y = 1 / x; dy/dx = -y^2."""
    return xp.true_divide(xp.ones((), x.dtype), x)


@op("..., ... -> ...", a=lambda g: flat(g), b=lambda g: flat(g))
def floor_divide(xp: Any, a: Array, b: Array) -> Array:
    """The quotient rounded down; its derivative is 0."""
    return _divided("floor_divide", xp.floor_divide(a, b), b)


@op("..., ... -> ...", a=lambda g: g, b=lambda g, a, b: -g * floor_divide(a, b))
def remainder(xp: Any, a: Array, b: Array) -> Array:
    """y = a - b floor(a / b), with the sign of b."""
    return _divided("remainder", xp.remainder(a, b), b)


@op("..., ... -> ...", a=lambda g: g, b=lambda g, a, b: -g * trunc(a / b))
def fmod(xp: Any, a: Array, b: Array) -> Array:
    """y = a - b trunc(a / b), with the sign of a."""
    return _divided("fmod", xp.fmod(a, b), b)


def _divided(name: str, y: Array, b: Any) -> Array:
    """The result of a division, which of integers must not be by zero."""
    if y.dtype.kind != "f" and y.size and ((b == 0).any() if hasattr(b, "any") else b == 0):
        raise DivisionError(f"{name}: an integer is divided by 0; convert to a float dtype")
    return y


@op("... -> ...", x=lambda g: -g)
def neg(xp: Any, x: Array) -> Array:
    """Negative: y = -x."""
    return xp.negative(x)


@op("... -> ...", x=lambda g, x: g * sign(x))
def abs(xp: Any, x: Array) -> Array:
    """Absolute value: dy/dx = sign x, 0 at 0."""
    return xp.abs(x)


@op("... -> ...", x=lambda g: flat(g))
def sign(xp: Any, x: Array) -> Array:
    """-1, 0 or 1, of NaN 0; its derivative is 0."""
    return x.copy() if x.dtype.kind == "b" else (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)


def rounding(name: str, function: str, text: str) -> Op:
    """The op of one of NumPy's ways to round floats, with a derivative of 0; integers stay."""
    own = getattr(np, function)

    def body(xp: Any, x: Array) -> Array:
        if x.dtype.kind != "f":
            return x.copy()
        return (own if xp is np else getattr(xp, function))(x)

    body.__name__, body.__doc__ = name, f"{text}; its derivative is 0."
    return op("... -> ...", x=lambda g: flat(g))(body)


floor = rounding("floor", "floor", "The largest integer that is not above x")
ceil = rounding("ceil", "ceil", "The smallest integer that is not below x")
trunc = rounding("trunc", "trunc", "x without what is behind the point")
round = rounding("round", "rint", "The nearest integer, of two the even one")


@op("... -> ...", x=lambda g, y: relu_input(g, y))
def relu(xp: Any, x: Array) -> Array:
    """Rectifier: y = max(x, 0); dy/dx = 1 where y > 0, else 0. NaN stays NaN."""
    return xp.maximum(x, 0)


@op("..., ... -> ...", g=lambda g, y: relu_input(g, y))
def relu_input(xp: Any, g: Array, y: Array) -> Array:
    """The cotangent of relu's argument: g where y > 0, else 0."""
    return xp.where(y <= 0, xp.zeros((), g.dtype), g)


@op("..., ... -> ...",
    a=lambda g, a, b: of_larger(g, a, b), b=lambda g, a, b: of_larger(g, b, a))  # fmt: skip
def maximum(xp: Any, a: Array, b: Array) -> Array:
    """The larger of a and b: dy/da = 1 where a > b, 1/2 where equal, else 0; NaN propagates."""
    return xp.maximum(a, b)


@op("..., ... -> ...",
    a=lambda g, a, b: of_larger(g, b, a), b=lambda g, a, b: of_larger(g, a, b))  # fmt: skip
def minimum(xp: Any, a: Array, b: Array) -> Array:
    """The smaller of a and b: dy/da = 1 where a < b, 1/2 where equal, else 0; NaN propagates."""
    return xp.minimum(a, b)


def of_larger(g: Any, a: Any, b: Any) -> Any:
    """0 where a is smaller, half of g where the two are equal, else g, beside a NaN too."""
    return where(a < b, 0.0, where(a == b, g * 0.5, g))


@op("f:..., f:... -> ...", a=lambda g, a, y: g * where(a == 0, 0.0, y / a), b=lambda g: flat(g))
def copysign(xp: Any, a: Array, b: Array) -> Array:
    """The size of a with the sign of b: dy/da = 1 or -1, 0 at 0; dy/db = 0."""
    return xp.copysign(a, b)


@op("..., ..., ... -> ...",
    x=lambda g, x, low, high: where(_inside(x, low, high), g, 0.0),
    low=lambda g, x, low, high: where(_below(x, low, high), g, 0.0),
    high=lambda g, x, low, high: where(_above(x, low, high), g, 0.0))  # fmt: skip
def clamp(xp: Any, x: Array, low: Array = None, high: Array = None) -> Array:
    """min(max(x, low), high); dy/dx = 1 from low to high, the bounds included."""
    y = x if low is None else xp.maximum(x, low)
    return y if high is None else xp.minimum(y, high)


def _inside(x: Any, low: Any, high: Any) -> Any:
    inside = x == x if low is None else x >= low
    return inside if high is None else inside & (x <= high)


def _below(x: Any, low: Any, high: Any) -> Any:
    return x < low if high is None else (x < low) & (low < high)


def _above(x: Any, low: Any, high: Any) -> Any:
    return x > high if low is None else (x > high) | (high < low)
