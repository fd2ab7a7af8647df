"""Comparisons, bits, choice and conversion: element-wise ops whose values are not computed with."""

from typing import Any

from minidp.errors import DTypeError
from minidp.op import op
from minidp.promotion import result_type
from minidp.types import Array, DType

__all__ = ["bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift",
           "bitwise_xor", "eq", "ge", "gt", "le", "lt", "ne"]  # fmt: skip


@op("..., ... -> b:...")
def eq(xp: Any, a: Array, b: Array) -> Array:
    """a == b, element by element."""
    return xp.equal(a, b)


@op("..., ... -> b:...")
def ne(xp: Any, a: Array, b: Array) -> Array:
    """a != b, element by element."""
    return xp.not_equal(a, b)


@op("..., ... -> b:...")
def lt(xp: Any, a: Array, b: Array) -> Array:
    """a < b, element by element."""
    return xp.less(a, b)


@op("..., ... -> b:...")
def le(xp: Any, a: Array, b: Array) -> Array:
    """a <= b, element by element."""
    return xp.less_equal(a, b)


@op("..., ... -> b:...")
def gt(xp: Any, a: Array, b: Array) -> Array:
    """a > b, element by element."""
    return xp.greater(a, b)


@op("..., ... -> b:...")
def ge(xp: Any, a: Array, b: Array) -> Array:
    """a >= b, element by element."""
    return xp.greater_equal(a, b)


@op("..., ... -> i:...")
def bitwise_and(xp: Any, a: Array, b: Array) -> Array:
    """The bits that a and b both have; of bool: both."""
    return xp.bitwise_and(*_whole("bitwise_and", a, b))


@op("..., ... -> i:...")
def bitwise_or(xp: Any, a: Array, b: Array) -> Array:
    """The bits that a or b has; of bool: one or both."""
    return xp.bitwise_or(*_whole("bitwise_or", a, b))


@op("..., ... -> i:...")
def bitwise_xor(xp: Any, a: Array, b: Array) -> Array:
    """The bits that differ; of bool: one but not both."""
    return xp.bitwise_xor(*_whole("bitwise_xor", a, b))


@op("... -> i:...")
def bitwise_not(xp: Any, x: Array) -> Array:
    """All bits turned: -1 - x; of bool: not x."""
    return xp.invert(*_whole("bitwise_not", x))


@op("..., ... -> i:...")
def bitwise_left_shift(xp: Any, a: Array, b: Array) -> Array:
    """a 2^b: the bits moved b places up."""
    return xp.left_shift(*_whole("bitwise_left_shift", a, b))


@op("..., ... -> i:...")
def bitwise_right_shift(xp: Any, a: Array, b: Array) -> Array:
    """a / 2^b, rounded down: the bits moved b places down."""
    return xp.right_shift(*_whole("bitwise_right_shift", a, b))


def _whole(name: str, *numbers: Any) -> tuple[Any, ...]:
    """The arguments, once none of them is real."""
    for each in numbers:
        if isinstance(each, float) or getattr(getattr(each, "dtype", None), "kind", "") == "f":
            given = getattr(each, "dtype", "a float")
            raise DTypeError(f"{name}: expected integers or bools, got {given}")
    return numbers


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


@op("... -> ...")
def full_like(xp: Any, x: Array, value: float) -> Array:
    """An array like x, filled with one value."""
    return xp.full_like(x, value)


def flat(g: Any) -> Any:
    """The rule of a step function, whose derivative is 0 wherever it has one."""
    return full_like(g, value=0.0)
