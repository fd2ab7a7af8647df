"""The ops that are methods of Tensor as they are, and what they are called."""

from minidp.ops import arithmetic, comparison, error_function, exponential, reduce, trigonometric
from minidp.tensor import method

METHODS = {
    "add": "__add__ __radd__", "sub": "__sub__", "mul": "mul __mul__ __rmul__ multiply",
    "div": "__truediv__ true_divide", "floor_divide": "floor_divide __floordiv__",
    "remainder": "remainder __mod__", "pow": "pow __pow__", "neg": "neg __neg__ negative",
    "abs": "abs __abs__ absolute", "sign": "sign sgn", "trunc": "trunc fix",
    "eq": "eq __eq__", "ne": "ne __ne__ not_equal", "lt": "lt __lt__ less",
    "le": "le __le__ less_equal", "gt": "gt __gt__ greater", "ge": "ge __ge__ greater_equal",
    "bitwise_and": "bitwise_and __and__ __rand__", "bitwise_or": "bitwise_or __or__ __ror__",
    "bitwise_xor": "bitwise_xor __xor__ __rxor__", "bitwise_not": "bitwise_not __invert__",
    "bitwise_left_shift": "bitwise_left_shift __lshift__",
    "bitwise_right_shift": "bitwise_right_shift __rshift__",
    **{name: f"{name} arc{name[1:]}" for name in (
        "asin", "acos", "atan", "atan2", "asinh", "acosh", "atanh")},
}  # fmt: skip
"""What ops are called as methods, where that is not their name alone."""


for _space in (arithmetic, comparison, error_function, exponential, trigonometric):
    for _name in (*_space.__all__, *[name for name in METHODS if name in vars(_space)]):
        method(*METHODS.get(_name, _name).split())(getattr(_space, _name))
for _op in (reduce.all, reduce.amax, reduce.amin, reduce.any, reduce.argmax, reduce.argmin):
    method()(_op)
