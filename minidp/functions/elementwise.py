"""Element-wise functions under PyTorch's names."""

from __future__ import annotations

from typing import Any

from minidp.ops.elementwise import (
    abs,
    add,
    cast,
    cos,
    div,
    eq,
    exp,
    ge,
    gt,
    isfinite,
    isnan,
    le,
    log,
    lt,
    maximum,
    minimum,
    mul,
    ne,
    neg,
    pow,
    relu,
    rsqrt,
    sigmoid,
    sign,
    sin,
    sqrt,
    sub,
    tanh,
    where,
)
from minidp.tensor import Tensor, method
from minidp.types import as_dtype

__all__ = ["abs", "add", "clamp", "cos", "div", "eq", "exp", "ge", "gt", "isfinite", "isnan",
           "le", "log", "lt", "maximum", "minimum", "mul", "ne", "neg", "pow", "relu", "rsqrt",
           "sigmoid", "sign", "sin", "sqrt", "square", "sub", "tanh", "where"]  # fmt: skip


@method("__rsub__")
def rsub(self: Tensor, other: Any) -> Tensor:
    """other - self."""
    return sub(other, self)


@method("__rtruediv__")
def rdiv(self: Tensor, other: Any) -> Tensor:
    """other / self."""
    return div(other, self)


@method("__rpow__")
def rpow(self: Tensor, other: Any) -> Tensor:
    """other ** self."""
    return pow(other, self)


@method()
def square(self: Tensor) -> Tensor:
    """y = x^2."""
    return self * self


@method()
def clamp(self: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """Values kept inside [min, max]; the cotangent passes where they were not changed."""
    low = self if min is None else where(self < min, min, self)
    return low if max is None else where(low > max, max, low)


@method()
def type(self: Tensor, dtype: Any) -> Tensor:
    """The same values in ``dtype``; the tensor itself when they already are."""
    wanted = as_dtype(dtype)
    return self if self.dtype == wanted else cast(self, dtype=wanted)
