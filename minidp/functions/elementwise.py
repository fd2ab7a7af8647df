"""Element-wise functions under PyTorch's names."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from minidp.errors import ArgumentError, DTypeError
from minidp.mode import quietly
from minidp.ops import arithmetic, comparison, error_function, exponential, trigonometric
from minidp.ops import elementwise as ops
from minidp.ops.arithmetic import *  # noqa: F403
from minidp.ops.comparison import *  # noqa: F403
from minidp.ops.error_function import *  # noqa: F403
from minidp.ops.exponential import *  # noqa: F403
from minidp.ops.trigonometric import *  # noqa: F403
from minidp.promotion import result_type
from minidp.tensor import Tensor, method
from minidp.types import as_dtype

__all__ = [*arithmetic.__all__, *comparison.__all__, *error_function.__all__, *exponential.__all__,
           *trigonometric.__all__, "absolute", "add", "addcdiv", "addcmul", "arccos", "arccosh",
           "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "deg2rad", "div", "divide", "exp2",
           "fix", "float_power", "frac", "is_floating_point", "ldexp", "lerp", "logaddexp2",
           "logit", "multiply", "negative", "positive", "rad2deg", "round", "rsub", "sgn", "sinc",
           "square", "sub", "subtract", "true_divide"]  # fmt: skip


@method()
def add(input: Tensor, other: Any, *, alpha: float = 1) -> Tensor:
    """input + alpha other."""
    return ops.add(input, other if alpha == 1 else _scaled(input, other, alpha))


@method("sub", "subtract")
def sub(input: Tensor, other: Any, *, alpha: float = 1) -> Tensor:
    """input - alpha other."""
    return ops.sub(input, other if alpha == 1 else _scaled(input, other, alpha))


def _scaled(input: Any, other: Any, alpha: Any) -> Any:
    """alpha other, in the dtype of input + other; of integers only an integer multiple."""
    kind = result_type([x.array if isinstance(x, Tensor) else x for x in (input, other)])
    if isinstance(alpha, float) and kind.kind != "f":
        raise DTypeError(f"add, sub: alpha = {alpha} of integers; expected an integer")
    return (alpha * other.type(kind)).type(kind) if isinstance(other, Tensor) else alpha * other


@method("div", "divide")
def div(input: Tensor, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """input / other; with ``rounding_mode`` "floor" or "trunc" rounded down, or towards 0.

    >>> dp.div(dp.tensor([-7, 7]), 2, rounding_mode="floor")
    tensor([-4,  3])
    """
    if rounding_mode is None:
        return ops.div(input, other)
    if rounding_mode not in ("floor", "trunc"):
        raise ArgumentError(f"div: rounding_mode={rounding_mode!r}, not None, 'floor' or 'trunc'")
    if rounding_mode == "floor":
        return ops.floor_divide(input, other)
    floor = ops.floor_divide(input, other)
    if floor.dtype.kind != "f":
        return ops.floor_divide(input - ops.fmod(input, other), other)
    exact = ops.trunc(ops.div(input, other)).detach()
    return ops.where(floor == exact, floor, exact)  # its derivative is 0, and NaN nowhere


@method("__rsub__")
def rsub(input: Tensor, other: Any, *, alpha: float = 1) -> Tensor:
    """other - alpha input."""
    return ops.sub(other, input if alpha == 1 else _scaled(other, input, alpha))


def _reflected(name: str, function: Any) -> None:
    def call(self: Tensor, other: Any) -> Tensor:
        return function(other, self)

    call.__doc__ = f"{name} of ``other`` and this tensor, in that order."
    method(f"__r{name}__")(call)


for _name, _op in {"truediv": ops.div, "floordiv": ops.floor_divide, "mod": ops.remainder,
                   "lshift": ops.bitwise_left_shift, "rshift": ops.bitwise_right_shift,
                   "pow": ops.pow}.items():  # fmt: skip
    _reflected(_name, _op)


@method("positive", "__pos__")
def positive(input: Tensor) -> Tensor:
    """The tensor itself."""
    return input


@method()
def square(input: Tensor) -> Tensor:
    """y = x^2; of bool in int64."""
    return input * input if input.dtype.kind != "b" else input.long()


@method()
def exp2(input: Tensor) -> Tensor:
    """y = 2^x."""
    return ops.pow(2.0, input)


@method()
def deg2rad(input: Tensor) -> Tensor:
    """Degrees as radians: y = x pi / 180."""
    return input * (math.pi / 180)


@method()
def rad2deg(input: Tensor) -> Tensor:
    """Radians as degrees: y = 180 x / pi."""
    return input * (180 / math.pi)


@method()
def float_power(input: Any, exponent: Any) -> Tensor:
    """x to a power, in float64."""
    base, power = (x.type(np.float64) if isinstance(x, Tensor) else builtins.float(x)
                   for x in (input, exponent))  # fmt: skip
    return ops.pow(base, power)


@method()
def ldexp(input: Tensor, other: Any) -> Tensor:
    """y = a 2^b; in the dtype of a where b are integers."""
    other = other if isinstance(other, Tensor) else Tensor(other)
    if input.dtype.kind == "f" != other.dtype.kind:
        return (input * ops.pow(2.0, other.type(np.float64))).type(input.dtype)
    return input * ops.pow(2.0, other)


@method()
def logaddexp2(input: Tensor, other: Any) -> Tensor:
    """log2(2^a + 2^b), without overflow."""
    both, scale = [x if isinstance(x, Tensor) else Tensor(x) for x in (input, other)], math.log(2)
    kind = ops.logaddexp(*(x.detach() for x in both)).dtype
    return ops.logaddexp(*(x.type(kind) * scale for x in both)) / scale


@method()
def sinc(input: Tensor) -> Tensor:
    """y = sin(pi x) / (pi x), 1 at 0."""
    x = (input.type("float32") if input.dtype.char == "e" else input) * math.pi
    small = ops.abs(x) < 0.5  # there sin(x) / x has no exact derivatives: Taylor's series
    near, far, series = ops.where(small, x, 0.0), ops.where(small, 1.0, x), 1.0
    for n in (156, 110, 72, 42, 20, 6):
        series = 1 - near * near / n * series
    y = ops.where(small, series, ops.sin(far) / far)
    return y.type("float16") if input.dtype.char == "e" else y


@method()
def frac(input: Tensor) -> Tensor:
    """What is behind the point, with the sign of x."""
    return input - ops.trunc(input)


@method()
def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """The nearest number with ``decimals`` places behind the point; of two, the even one."""
    if decimals == 0:
        return ops.round(input)
    if input.dtype.char == "e":
        return round(input.type("float32"), decimals=decimals).type("float16")
    scale = 10.0 ** (decimals if decimals > 0 else -decimals)
    return ops.round(input * scale) / scale if decimals > 0 else ops.round(input / scale) * scale


@method()
def lerp(input: Tensor, end: Any, weight: Any) -> Tensor:
    """input + weight (end - input), computed from the nearer end."""
    difference = end - input
    if not isinstance(weight, Tensor):
        near = -0.5 < weight < 0.5
        return input + weight * difference if near else end - (1 - weight) * difference
    near = ops.abs(weight) < 0.5
    return ops.where(near, input, end) + ops.where(near, weight, weight - 1) * difference


def _alike(*given: Any) -> list[Any]:
    """All but the first, the tensors among them in the dtype that all together have."""
    kind = result_type([x.array if isinstance(x, Tensor) else x for x in given])
    return [x.type(kind) if isinstance(x, Tensor) else x for x in given[1:]]


@method()
def addcmul(input: Tensor, tensor1: Any, tensor2: Any, *, value: float = 1) -> Tensor:
    """input + value tensor1 tensor2."""
    tensor1, tensor2 = _alike(input, tensor1, tensor2)
    return input + tensor1 * (tensor2 if value == 1 else value * tensor2)


@method()
def addcdiv(input: Tensor, tensor1: Any, tensor2: Any, *, value: float = 1) -> Tensor:
    """input + value tensor1 / tensor2."""
    tensor1, tensor2 = _alike(input, tensor1, tensor2)
    return input + (tensor1 / tensor2 if value == 1 else tensor1 * (value / tensor2))


@method()
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)), the inverse of sigmoid; with ``eps``, of x kept in [eps, 1 - eps]."""
    x = input * 1.0
    outside = ops.where((x < 0) | (x > 1), np.nan, ops.full_like(x, value=0.0))
    x = x + outside if eps is None else ops.clamp(x, eps, 1 - eps)
    return ops.log(x) - ops.log1p(-x)

NAMES = {"float16": "Half", "float32": "Float", "float64": "Double", "int64": "Long",
         "int32": "Int", "int16": "Short", "int8": "Char", "uint8": "Byte"}  # fmt: skip


@method()
def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is float16, float32 or float64."""
    return bool(input.dtype.kind == "f")


@method()
def type(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The same values in ``dtype``; the tensor itself when they already are. Without ``dtype`` the
    name of its kind: "minidp.FloatTensor"."""
    if dtype is None:
        return f"minidp.{NAMES.get(self.dtype.name, self.dtype.name.capitalize())}Tensor"
    wanted = as_dtype(dtype)
    if self.dtype.kind == "f" != wanted.kind:  # of NaN NumPy warns
        return quietly(lambda: ops.cast(self, dtype=wanted))
    return self if self.dtype == wanted else ops.cast(self, dtype=wanted)


absolute, negative, multiply, sgn, fix = ops.abs, ops.neg, ops.mul, ops.sign, ops.trunc
subtract, divide, true_divide = sub, div, ops.div
arcsin, arccos, arctan, arctan2 = ops.asin, ops.acos, ops.atan, ops.atan2
arcsinh, arccosh, arctanh = ops.asinh, ops.acosh, ops.atanh
