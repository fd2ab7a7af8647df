"""Element by element: all forms of two or three arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from differential.random_values import Draw
from differential.registry import calls, either, maybe
from differential.twins import Call, Leaf


@calls(
    "abs absolute neg negative sign sgn floor ceil trunc fix frac square relu sigmoid exp "
    "exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan sinh cosh tanh "
    "asin acos atan asinh acosh atanh arcsin arccos arctan arcsinh arccosh arctanh erf "
    "erfc erfinv isnan isinf isfinite isposinf isneginf signbit logical_not bitwise_not "
    "positive nan_to_num logit clone round numel is_floating_point t ravel argwhere "
    "nonzero count_nonzero isreal sinc lgamma digamma special.expit deg2rad rad2deg i0"
)
def one(draw: Draw, name: str) -> Call:
    x = draw.leaf(kind=draw.pick(None, None, "unit", "positive"))
    return either(draw, name, x)


@calls(
    "Tensor.__abs__ Tensor.__neg__ Tensor.__invert__ Tensor.__pos__ Tensor.float "
    "Tensor.double Tensor.half Tensor.int Tensor.long Tensor.bool Tensor.contiguous "
    "Tensor.clone Tensor.detach Tensor.is_contiguous Tensor.stride Tensor.numel "
    "Tensor.dim Tensor.size Tensor.nelement Tensor.tolist Tensor.ndimension "
    "Tensor.element_size Tensor.item Tensor.__len__ Tensor.__bool__ Tensor.short "
    "Tensor.char Tensor.byte"
)
def one_method(draw: Draw, name: str) -> Call:
    kind = "finite" if name.split(".")[1] in ("int", "long", "short", "char", "byte") else None
    x = draw.leaf(kind="ties" if kind else None)
    if name in ("Tensor.byte",) and np.dtype(x.values.dtype).kind in "fi":
        x.values = np.abs(x.values)
    return Call(name, (x,))


@calls(
    "add sub mul div true_divide divide multiply subtract pow floor_divide remainder fmod "
    "maximum minimum fmax fmin atan2 arctan2 hypot logaddexp eq ne lt le gt ge greater "
    "less greater_equal less_equal not_equal logical_and logical_or logical_xor copysign "
    "xlogy bitwise_and bitwise_or bitwise_xor Tensor.__add__ Tensor.__radd__ "
    "Tensor.__sub__ Tensor.__rsub__ Tensor.__mul__ Tensor.__rmul__ Tensor.__truediv__ "
    "Tensor.__rtruediv__ Tensor.__floordiv__ Tensor.__mod__ Tensor.__pow__ "
    "Tensor.__rpow__ Tensor.__eq__ Tensor.__lt__ Tensor.__and__ Tensor.__or__ "
    "Tensor.__xor__ Tensor.__rfloordiv__ Tensor.__rmod__ heaviside logaddexp2 rsub "
    "float_power"
)
def two(draw: Draw, name: str) -> Call:
    shape = draw.shape()
    kind = draw.pick(None, None, "ties", "positive")
    x = draw.leaf(shape, kind=kind)
    y: Any = draw.leaf(draw.like(shape), kind=kind)
    if draw.chance(0.3):
        y = draw.leaf(draw.like(shape), dtype=str(x.values.dtype), kind=kind)
    if draw.chance(0.3):
        y = draw.scalar()
    if draw.chance(0.03):
        y = draw.leaf((7,))
    if name in ("add", "sub", "subtract") and draw.chance(0.3):
        return either(draw, name, x, y, alpha=draw.pick(2, 0.5, -1, 0))
    if name in ("div", "divide") and draw.chance(0.6):
        return either(draw, name, x, y, rounding_mode=draw.pick("floor", "trunc"))
    if name in ("pow", "mul", "div") and draw.chance(0.1) and isinstance(y, Leaf):
        return Call(name, (draw.scalar(), y))
    if name == "mul" and draw.chance(0.2):
        return Call(name, (), {"input": x, "other": y})
    return Call(name, (x, y)) if "Tensor" in name else either(draw, name, x, y)


@calls("bitwise_left_shift bitwise_right_shift")
def shifts(draw: Draw, name: str) -> Call:
    shape = draw.shape()
    x = draw.leaf(shape, dtype=draw.pick("int64", "int32", "int64", "uint8", "int16"))
    y = Leaf(draw.rng.integers(0, 5, draw.like(shape)).astype(draw.pick("int64", "int32", "uint8")))
    return either(draw, name, x, draw.pick(y, draw.number(0, 4)))


@calls("clamp clip")
def bounds(draw: Draw, name: str) -> Call:
    shape = draw.shape()
    x = draw.leaf(shape)
    given = [draw.pick(draw.scalar("if"), draw.scalar("i"), None) for _ in range(2)]
    if draw.chance(0.4):
        given = [draw.leaf(draw.like(shape)) if draw.chance(0.8) else None for _ in range(2)]
    if draw.chance(0.5):
        return either(draw, name, x, *given)
    return either(draw, name, x, min=given[0], max=given[1])


@calls("clamp_min clamp_max")
def bound(draw: Draw, name: str) -> Call:
    shape = draw.shape()
    return either(draw, name, draw.leaf(shape),
                  draw.pick(draw.scalar("if"), draw.leaf(draw.like(shape))))  # fmt: skip


@calls("where")
def choice(draw: Draw, name: str) -> Call:
    shape = draw.shape()
    condition = draw.leaf(draw.like(shape), dtype="bool" if draw.chance(0.95) else "int64")
    if draw.chance(0.1):
        return Call(name, (condition,))
    values = [draw.leaf(draw.like(shape)) if draw.chance(0.7) else draw.scalar() for _ in range(2)]
    if draw.chance(0.3) and isinstance(values[0], Leaf):
        return Call("Tensor.where", (values[0], condition, values[1]))
    return Call(name, (condition, *values))


@calls("lerp")
def between(draw: Draw, name: str) -> Call:
    shape, dtype = draw.shape(), draw.dtype("f")
    x, y = draw.leaf(shape, dtype), draw.leaf(draw.like(shape), dtype)
    weight = draw.pick(0.25, 0.75, 1.0, 2, draw.leaf(draw.like(shape), dtype))
    return either(draw, name, x, y, weight)


@calls("addcmul addcdiv")
def three(draw: Draw, name: str) -> Call:
    shape, dtype = draw.shape(), draw.dtype("fi" if name == "addcmul" else "f")
    x, y, z = (draw.leaf(s, dtype) for s in (shape, draw.like(shape), draw.like(shape)))
    named = maybe(draw, value=draw.pick(2, -1) if "i" in dtype else draw.pick(0.5, -2, 0))
    return either(draw, name, x, y, z, **named)


@calls("isclose allclose equal")
def alike(draw: Draw, name: str) -> Call:
    shape, dtype = draw.shape(), draw.dtype()
    x = draw.leaf(shape, dtype)
    y = (
        Leaf(x.values.copy(), list(x.views))
        if draw.chance()
        else draw.leaf(draw.like(shape), dtype)
    )
    named = {} if name == "equal" else maybe(draw, rtol=0.1, atol=0.5, equal_nan=True)
    return either(draw, name, x, y, **named)


@calls("round nan_to_num logit")
def options(draw: Draw, name: str) -> Call:
    x = draw.leaf(kinds="f")
    named = {"round": maybe(draw, decimals=draw.number(-1, 3)),
             "nan_to_num": maybe(draw, nan=1.5, posinf=2.0, neginf=-3.0),
             "logit": maybe(draw, eps=draw.pick(0.1, 1e-3))}[name]  # fmt: skip
    return either(draw, name, x, **named)
