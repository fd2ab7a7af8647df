"""Element-wise ops: each result element depends on one element of every argument."""

from __future__ import annotations

from typing import Any

from minidp.op import op
from minidp.promotion import result_type
from minidp.tensor import method
from minidp.types import Array, DType


@method("add", "__add__", "__radd__")
@op("..., ... -> ...", a=lambda g: g, b=lambda g: g)
def add(xp: Any, a: Array, b: Array) -> Array:
    """Sum: y = a + b."""
    return xp.add(a, b)


@method("sub", "__sub__")
@op("..., ... -> ...", a=lambda g: g, b=lambda g: -g)
def sub(xp: Any, a: Array, b: Array) -> Array:
    """Difference: y = a - b."""
    return xp.subtract(a, b)


@method("mul", "__mul__", "__rmul__")
@op("..., ... -> ...", a=lambda g, b: g * b, b=lambda g, a: g * a)
def mul(xp: Any, a: Array, b: Array) -> Array:
    """Product: y = a b."""
    return xp.multiply(a, b)


@method("div", "__truediv__")
@op("f:..., f:... -> ...", a=lambda g, b: g / b, b=lambda g, a, b: -g * a / (b * b))
def div(xp: Any, a: Array, b: Array) -> Array:
    """Quotient: y = a / b; integers are divided as floats."""
    return xp.true_divide(a, b)


@method("neg", "__neg__")
@op("... -> ...", x=lambda g: -g)
def neg(xp: Any, x: Array) -> Array:
    """Negative: y = -x."""
    return xp.negative(x)


@method("pow", "__pow__")
@op("..., ... -> ...",
    a=lambda g, a, b: g * power_slope(a, b),
    b=lambda g, a, y: g * where(y == 0, 0.0, y * log(where(a > 0, a, 1.0))))  # fmt: skip
def pow(xp: Any, a: Array, b: Array) -> Array:
    """Power: y = a^b; dy/da = b a^(b-1), dy/db = y log a (0 where a <= 0 or y = 0)."""
    return xp.power(a, b)


def power_slope(a: Any, b: Any) -> Any:
    """b a^(b-1), which is 0 and not NaN where b = 0."""
    if hasattr(b, "shape"):
        return where(b == 0, 0.0, b * a ** (b - 1))
    return b * a ** (b - 1) if b != 0 else where(a == a, 0.0, a)


@method("exp")
@op("f:... -> ...", x=lambda g, y: g * y)
def exp(xp: Any, x: Array) -> Array:
    """Exponential: y = e^x; dy/dx = y."""
    return xp.exp(x)


@method("log")
@op("f:... -> ...", x=lambda g, x: g / x)
def log(xp: Any, x: Array) -> Array:
    """Natural logarithm: dy/dx = 1/x."""
    return xp.log(x)


@method("sqrt")
@op("f:... -> ...", x=lambda g, y: g / (2 * y))
def sqrt(xp: Any, x: Array) -> Array:
    """Square root: dy/dx = 1 / (2 y)."""
    return xp.sqrt(x)


@method("rsqrt")
@op("f:... -> ...", x=lambda g, y: -0.5 * g * y * y * y)
def rsqrt(xp: Any, x: Array) -> Array:
    """Inverse square root: y = x^(-1/2); dy/dx = -y^3 / 2."""
    return 1 / xp.sqrt(x)


@method("sin")
@op("f:... -> ...", x=lambda g, x: g * cos(x))
def sin(xp: Any, x: Array) -> Array:
    """Sine of radians: dy/dx = cos x."""
    return xp.sin(x)


@method("cos")
@op("f:... -> ...", x=lambda g, x: -g * sin(x))
def cos(xp: Any, x: Array) -> Array:
    """Cosine of radians: dy/dx = -sin x."""
    return xp.cos(x)


@method("tanh")
@op("f:... -> ...", x=lambda g, y: g * (1 - y * y))
def tanh(xp: Any, x: Array) -> Array:
    """Hyperbolic tangent: dy/dx = 1 - y^2."""
    return xp.tanh(x)


@method("sigmoid")
@op("f:... -> ...", x=lambda g, y: g * y * (1 - y))
def sigmoid(xp: Any, x: Array) -> Array:
    """Logistic function: y = 1 / (1 + e^-x); dy/dx = y (1 - y)."""
    return 1 / (1 + xp.exp(-x))


@op("f:... -> ...", x=lambda g, x: g * sigmoid(x))
def log1pexp(xp: Any, x: Array) -> Array:
    """y = log(1 + e^x), without overflow and exact for very negative x; dy/dx = sigmoid x."""
    return xp.logaddexp(x, xp.zeros((), x.dtype))


@method("relu")
@op("... -> ...", x=lambda g, y: relu_input(g, y))
def relu(xp: Any, x: Array) -> Array:
    """Rectifier: y = max(x, 0); dy/dx = 1 where y > 0, else 0. NaN stays NaN."""
    return xp.maximum(x, xp.zeros((), x.dtype))


@op("..., ... -> ...", g=lambda g, y: relu_input(g, y))
def relu_input(xp: Any, g: Array, y: Array) -> Array:
    """The cotangent of relu's argument: g where y > 0, else 0."""
    return xp.where(y <= 0, xp.zeros((), g.dtype), g)


@method("abs", "__abs__")
@op("... -> ...", x=lambda g, x: g * sign(x))
def abs(xp: Any, x: Array) -> Array:
    """Absolute value: dy/dx = sign x, 0 at 0."""
    return xp.abs(x)


@method("sign")
@op("... -> ...")
def sign(xp: Any, x: Array) -> Array:
    """-1, 0 or 1; its derivative is 0."""
    return xp.sign(x)


@method("maximum")
@op("..., ... -> ...",
    a=lambda g, a, b: g * larger_share(a, b), b=lambda g, a, b: g * larger_share(b, a))  # fmt: skip
def maximum(xp: Any, a: Array, b: Array) -> Array:
    """The larger of a and b; ties share the cotangent, NaN propagates."""
    return xp.maximum(a, b)


@method("minimum")
@op("..., ... -> ...",
    a=lambda g, a, b: g * larger_share(b, a), b=lambda g, a, b: g * larger_share(a, b))  # fmt: skip
def minimum(xp: Any, a: Array, b: Array) -> Array:
    """The smaller of a and b; ties share the cotangent, NaN propagates."""
    return xp.minimum(a, b)


def larger_share(a: Any, b: Any) -> Any:
    """1 where a is larger, 1/2 where the two are equal, else 0."""
    one = cast(a > b, dtype=a.dtype) if hasattr(a, "dtype") else cast(a > b, dtype=b.dtype)
    return one + 0.5 * cast(a == b, dtype=one.dtype)


@op("b:..., ..., ... -> ...",
    a=lambda g, condition: where(condition, g, 0.0),
    b=lambda g, condition: where(condition, 0.0, g))  # fmt: skip
def where(xp: Any, condition: Array, a: Array, b: Array) -> Array:
    """a where the condition holds, else b."""
    y = xp.where(condition, a, b)
    numbers = not hasattr(a, "dtype") and not hasattr(b, "dtype")
    return y.astype(result_type([a, b])) if numbers and hasattr(condition, "dtype") else y


@op("... -> ...", view=True, x=lambda g: g)
def cast(xp: Any, x: Array, dtype: DType) -> Array:
    """The same values in another dtype; the cotangent goes back in the argument's."""
    return xp.asarray(x).astype(dtype, copy=False)


@method("__eq__", "eq")
@op("..., ... -> b:...")
def eq(xp: Any, a: Array, b: Array) -> Array:
    """a == b, element by element."""
    return xp.equal(a, b)


@method("__ne__", "ne")
@op("..., ... -> b:...")
def ne(xp: Any, a: Array, b: Array) -> Array:
    """a != b, element by element."""
    return xp.not_equal(a, b)


@method("__lt__", "lt")
@op("..., ... -> b:...")
def lt(xp: Any, a: Array, b: Array) -> Array:
    """a < b, element by element."""
    return xp.less(a, b)


@method("__le__", "le")
@op("..., ... -> b:...")
def le(xp: Any, a: Array, b: Array) -> Array:
    """a <= b, element by element."""
    return xp.less_equal(a, b)


@method("__gt__", "gt")
@op("..., ... -> b:...")
def gt(xp: Any, a: Array, b: Array) -> Array:
    """a > b, element by element."""
    return xp.greater(a, b)


@method("__ge__", "ge")
@op("..., ... -> b:...")
def ge(xp: Any, a: Array, b: Array) -> Array:
    """a >= b, element by element."""
    return xp.greater_equal(a, b)


@method("isnan")
@op("... -> b:...")
def isnan(xp: Any, x: Array) -> Array:
    """Whether an element is NaN."""
    return xp.isnan(x)


@method("isfinite")
@op("... -> b:...")
def isfinite(xp: Any, x: Array) -> Array:
    """Whether an element is neither NaN nor infinite."""
    return xp.isfinite(x)


@op("... -> ...")
def full_like(xp: Any, x: Array, value: float) -> Array:
    """An array like x, filled with one value."""
    return xp.full_like(x, value)
