"""Powers, exponentials and logarithms, element by element."""

import math
from typing import Any

import numpy as np

from minidp.op import Op, Rule, op
from minidp.ops.comparison import cast, full_like, where
from minidp.types import Array

__all__ = ["exp", "expm1", "log", "log10", "log1p", "log2", "logaddexp", "pow", "rsqrt",
           "sigmoid", "sqrt", "xlogy"]  # fmt: skip


def elementary(name: str, rule: Rule, text: str, function: str = "") -> Op:
    """The op of NumPy's ``function`` of a float, found once; by default that of the same name."""
    own = getattr(np, function or name)

    def body(xp: Any, x: Array) -> Array:
        return (own if xp is np else getattr(xp, own.__name__))(x)

    body.__name__, body.__doc__, body.__module__ = name, text, rule.__module__
    return op("f:... -> ...", x=rule)(body)


exp = elementary("exp", lambda g, y: g * y, "Exponential: y = e^x; dy/dx = y.")
expm1 = elementary("expm1", lambda g, y: g * (y + 1), "y = e^x - 1, exact near 0; dy/dx = y + 1.")
log = elementary("log", lambda g, x: g / x, "Natural logarithm: dy/dx = 1/x.")
log1p = elementary("log1p", lambda g, x: g / (x + 1),
                   "y = log(1 + x), exact near 0; dy/dx = 1 / (1 + x).")  # fmt: skip
log2 = elementary("log2", lambda g, x: g / (x * math.log(2)),
                  "Logarithm to base 2: dy/dx = 1 / (x log 2).")  # fmt: skip
log10 = elementary("log10", lambda g, x: g / (x * math.log(10)),
                   "Logarithm to base 10: dy/dx = 1 / (x log 10).")  # fmt: skip
sqrt = elementary("sqrt", lambda g, y: g / (2 * y), "Square root: dy/dx = 1 / (2 y).")


@op("..., ... -> ...",
    a=lambda g, a, exponent: g * power_slope(a, exponent),
    exponent=lambda g, a, exponent, y: g * power_log(a, exponent, y))  # fmt: skip
def pow(xp: Any, a: Array, exponent: Array) -> Array:
    """Power: y = a^b; dy/da = b a^(b-1), dy/db = y log a, both 0 where a = b = 0."""
    b = exponent
    if (a if hasattr(a, "dtype") else b).dtype.kind == "b":
        return xp.logical_or(a, xp.logical_not(b))
    if not hasattr(b, "dtype") or b.dtype.kind != "i":
        return a * a * a if isinstance(b, (int, float)) and b == 3 else a**b
    odd, size = 1 - 2 * (b % 2), xp.abs(a) == 1  # a^-n is an integer for a = 1 and -1 only
    return xp.where(b < 0, size * xp.where(a < 0, odd, 1), a ** xp.maximum(b, 0)).astype(b.dtype)


def power_slope(a: Any, b: Any) -> Any:
    """b a^(b-1), which is 0 where b = 0, for any a."""
    if not hasattr(b, "shape"):
        return b * a ** (b - 1) if b != 0 else full_like(a, value=0.0)
    b = b if b.dtype.kind == "f" else cast(b, dtype=np.float64)  # else b - 1 may wrap
    apart = (a > 0) | (a < 0) | (b != 0)
    return b * a ** where(apart, b - 1, 0.0)


def power_log(a: Any, b: Any, y: Any) -> Any:
    """y log a, which is 0 where a = 0 and b >= 0, and NaN for a negative a."""
    base = cast(a, dtype=y.dtype) if hasattr(a, "shape") else full_like(y, value=a)
    null = (base == 0) & (b >= 0)
    return where(null, 0.0, y * log(where(null, 1.0, base)))


@op("f:..., f:... -> ...",
    a=lambda g, a, b: where((a == 0) & (b <= 0), 0.0, xlogy(g, b)),
    b=lambda g, a, b: g * (a / b))  # fmt: skip
def xlogy(xp: Any, a: Array, b: Array) -> Array:
    """y = a log b, 0 where a = 0 and b is a number; dy/da = log b, 0 where y is, dy/db = a / b."""
    dtype = a.dtype if hasattr(a, "dtype") else b.dtype
    a, b = xp.asarray(a, dtype), xp.asarray(b, dtype)
    return xp.where((a == 0) & (b == b), xp.zeros((), dtype), a * xp.log(b))


@op("f:..., f:... -> ...",
    a=lambda g, a, b: g * sigmoid(a - b), b=lambda g, a, b: g * sigmoid(b - a))  # fmt: skip
def logaddexp(xp: Any, a: Array, b: Array) -> Array:
    """y = log(e^a + e^b), without overflow; dy/da = sigmoid(a - b)."""
    return xp.logaddexp(a, b)


@op("f:... -> ...", x=lambda g, x: g * sigmoid(x))
def log1pexp(xp: Any, x: Array) -> Array:
    """y = log(1 + e^x), without overflow and exact for very negative x; dy/dx = sigmoid x."""
    return xp.logaddexp(x, xp.zeros((), x.dtype))


@op("f:... -> ...", x=lambda g, y: g * y * (1 - y))
def sigmoid(xp: Any, x: Array) -> Array:
    """Logistic function: y = 1 / (1 + e^-x); dy/dx = y (1 - y)."""
    return (1 / (1 + xp.exp(-wide(xp, x)))).astype(x.dtype, copy=False)


@op("f:... -> ...", x=lambda g, y: -0.5 * g * y * y * y)
def rsqrt(xp: Any, x: Array) -> Array:
    """Inverse square root: y = x^(-1/2); dy/dx = -y^3 / 2."""
    return (1 / xp.sqrt(wide(xp, x))).astype(x.dtype, copy=False)


def wide(xp: Any, x: Array) -> Array:
    """float16 as float32, for bodies of several steps."""
    return x.astype(xp.float32) if x.dtype.char == "e" else x
