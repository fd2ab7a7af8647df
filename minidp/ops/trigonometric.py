"""Functions of angles and their hyperbolic relatives, element by element."""

from typing import Any

from minidp.op import op
from minidp.ops.comparison import where
from minidp.ops.exponential import rsqrt
from minidp.types import Array

__all__ = ["acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "hypot",
           "sin", "sinh", "tan", "tanh"]  # fmt: skip


@op("f:... -> ...", x=lambda g, x: g * cos(x))
def sin(xp: Any, x: Array) -> Array:
    """Sine of radians: dy/dx = cos x."""
    return xp.sin(x)


@op("f:... -> ...", x=lambda g, x: -g * sin(x))
def cos(xp: Any, x: Array) -> Array:
    """Cosine of radians: dy/dx = -sin x."""
    return xp.cos(x)


@op("f:... -> ...", x=lambda g, y: g * (1 + y * y))
def tan(xp: Any, x: Array) -> Array:
    """Tangent of radians: dy/dx = 1 + y^2."""
    return xp.tan(x)


@op("f:... -> ...", x=lambda g, x: g * rsqrt(1 - x * x))
def asin(xp: Any, x: Array) -> Array:
    """Arc sine: dy/dx = 1 / sqrt(1 - x^2)."""
    return xp.arcsin(x)


@op("f:... -> ...", x=lambda g, x: -g * rsqrt(1 - x * x))
def acos(xp: Any, x: Array) -> Array:
    """Arc cosine: dy/dx = -1 / sqrt(1 - x^2)."""
    return xp.arccos(x)


@op("f:... -> ...", x=lambda g, x: g / (1 + x * x))
def atan(xp: Any, x: Array) -> Array:
    """Arc tangent: dy/dx = 1 / (1 + x^2)."""
    return xp.arctan(x)


@op("f:..., f:... -> ...",
    a=lambda g, a, b: g * (b / _square(a, b)),
    b=lambda g, a, b: g * (-a / _square(a, b)))  # fmt: skip
def atan2(xp: Any, a: Array, b: Array) -> Array:
    """The angle of the point (b, a): dy/da = b / (a^2 + b^2), dy/db = -a / (a^2 + b^2), 0 at 0."""
    return xp.arctan2(a, b)


def _square(a: Any, b: Any) -> Any:
    size = a * a + b * b
    return where(size == 0, 1.0, size)


@op("..., ... -> ...", a=lambda g, a, y: g * (a / y), b=lambda g, b, y: g * (b / y))
def hypot(xp: Any, a: Array, b: Array) -> Array:
    """The hypotenuse sqrt(a^2 + b^2), without overflow; dy/da = a / y."""
    return xp.hypot(a, b)


@op("f:... -> ...", x=lambda g, x: g * cosh(x))
def sinh(xp: Any, x: Array) -> Array:
    """Hyperbolic sine: dy/dx = cosh x."""
    return xp.sinh(x)


@op("f:... -> ...", x=lambda g, x: g * sinh(x))
def cosh(xp: Any, x: Array) -> Array:
    """Hyperbolic cosine: dy/dx = sinh x."""
    return xp.cosh(x)


@op("f:... -> ...", x=lambda g, y: g * (1 - y * y))
def tanh(xp: Any, x: Array) -> Array:
    """Hyperbolic tangent: dy/dx = 1 - y^2."""
    return xp.tanh(x)


@op("f:... -> ...", x=lambda g, x: g * rsqrt(x * x + 1))
def asinh(xp: Any, x: Array) -> Array:
    """Inverse hyperbolic sine: dy/dx = 1 / sqrt(x^2 + 1)."""
    return xp.arcsinh(x)


@op("f:... -> ...", x=lambda g, x: g * rsqrt(x * x - 1))
def acosh(xp: Any, x: Array) -> Array:
    """Inverse hyperbolic cosine: dy/dx = 1 / sqrt(x^2 - 1)."""
    return xp.arccosh(x)


@op("f:... -> ...", x=lambda g, x: g / (1 - x * x))
def atanh(xp: Any, x: Array) -> Array:
    """Inverse hyperbolic tangent: dy/dx = 1 / (1 - x^2)."""
    return xp.arctanh(x)
