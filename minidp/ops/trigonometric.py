"""Functions of angles and their hyperbolic relatives, element by element."""

from typing import Any

from minidp.op import op
from minidp.ops.comparison import where
from minidp.ops.exponential import elementary, rsqrt
from minidp.short import number
from minidp.types import Array

__all__ = ["acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "hypot",
           "sin", "sinh", "tan", "tanh"]  # fmt: skip


sin = elementary("sin", lambda g, x: g * cos(x), "Sine of radians: dy/dx = cos x.")
cos = elementary("cos", lambda g, x: -g * sin(x), "Cosine of radians: dy/dx = -sin x.")
tan = elementary("tan", lambda g, y: g * (1 + y * y), "Tangent of radians: dy/dx = 1 + y^2.")
asin = elementary("asin", lambda g, x: g * rsqrt(1 - x * x),
                  "Arc sine: dy/dx = 1 / sqrt(1 - x^2).", "arcsin")  # fmt: skip
acos = elementary("acos", lambda g, x: -g * rsqrt(1 - x * x),
                  "Arc cosine: dy/dx = -1 / sqrt(1 - x^2).", "arccos")  # fmt: skip
atan = elementary("atan", lambda g, x: g / (1 + x * x),
                  "Arc tangent: dy/dx = 1 / (1 + x^2).", "arctan")  # fmt: skip
sinh = elementary("sinh", lambda g, x: g * cosh(x), "Hyperbolic sine: dy/dx = cosh x.")
cosh = elementary("cosh", lambda g, x: g * sinh(x), "Hyperbolic cosine: dy/dx = sinh x.")
tanh = elementary("tanh", lambda g, y: g * (number(1, y) - y * y),
                  "Hyperbolic tangent: dy/dx = 1 - y^2.")  # fmt: skip
asinh = elementary("asinh", lambda g, x: g * rsqrt(x * x + 1),
                   "Inverse hyperbolic sine: dy/dx = 1 / sqrt(x^2 + 1).", "arcsinh")  # fmt: skip
acosh = elementary("acosh", lambda g, x: g * rsqrt(x * x - 1),
                   "Inverse hyperbolic cosine: dy/dx = 1 / sqrt(x^2 - 1).", "arccosh")  # fmt: skip
atanh = elementary("atanh", lambda g, x: g / (1 - x * x),
                   "Inverse hyperbolic tangent: dy/dx = 1 / (1 - x^2).", "arctanh")  # fmt: skip


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
