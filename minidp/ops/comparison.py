"""Comparisons, bits, choice and conversion: element-wise ops whose values are not computed with."""

from typing import Any

import numpy as np

from minidp.errors import DTypeError
from minidp.op import Op, op
from minidp.promotion import result_type
from minidp.types import Array, DType

__all__ = ["bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift",
           "bitwise_xor", "eq", "ge", "gt", "le", "lt", "ne"]  # fmt: skip


def comparison(name: str, function: str, sign: str) -> Op:
    """The op of one of NumPy's comparisons."""
    own = getattr(np, function)

    def body(xp: Any, a: Array, b: Array) -> Array:
        return (own if xp is np else getattr(xp, function))(a, b)

    body.__name__, body.__doc__ = name, f"a {sign} b, element by element."
    return op("..., ... -> b:...")(body)


eq = comparison("eq", "equal", "==")
ne = comparison("ne", "not_equal", "!=")
lt = comparison("lt", "less", "<")
le = comparison("le", "less_equal", "<=")
gt = comparison("gt", "greater", ">")
ge = comparison("ge", "greater_equal", ">=")


def bitwise(function: str, text: str) -> Op:
    """The op of one of NumPy's functions of the bits of two integers, or bools."""
    name, own = f"bitwise_{function.removeprefix('bitwise_')}", getattr(np, function)

    def body(xp: Any, a: Array, b: Array) -> Array:
        return (own if xp is np else getattr(xp, function))(*_whole(name, a, b))

    body.__name__, body.__doc__ = name, text
    return op("..., ... -> i:...")(body)


bitwise_and = bitwise("bitwise_and", "The bits that a and b both have; of bool: both.")
bitwise_or = bitwise("bitwise_or", "The bits that a or b has; of bool: one or both.")
bitwise_xor = bitwise("bitwise_xor", "The bits that differ; of bool: one but not both.")
bitwise_left_shift = bitwise("left_shift", "a 2^b: the bits moved b places up.")
bitwise_right_shift = bitwise("right_shift", "a / 2^b, rounded down: b places down.")


@op("... -> i:...")
def bitwise_not(xp: Any, x: Array) -> Array:
    """All bits turned: -1 - x; of bool: not x."""
    return xp.invert(*_whole("bitwise_not", x))


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
