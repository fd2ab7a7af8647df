"""Keys of every kind, reading and writing; changes in place."""

from __future__ import annotations

from typing import Any

import numpy as np

from differential.random_values import Draw
from differential.registry import calls, either, maybe
from differential.twins import Call, Leaf


@calls("Tensor.__getitem__")
def indexed(draw: Draw, name: str) -> Call:
    x = draw.leaf(draw.shape(0, 4), kinds="fib" if draw.chance(0.3) else "f")
    shape = shape_of(x)
    return Call(name, (x, key(draw, shape)))


@calls("Tensor.__setitem__")
def assigned(draw: Draw, name: str) -> Call:
    dtype = draw.dtype("fi")
    x = Leaf(draw.values(draw.shape(0, 4), dtype))
    where = key(draw, x.values.shape, distinct=True)
    value = draw.pick(
        draw.pick(2, True, 1.5),
        draw.leaf((), draw.dtype()),
        draw.leaf((1,)),
        draw.leaf((3,)),
        draw.leaf((2, 1)),
        draw.leaf((1, 1, 3), grad=False),
    )
    return Call("assigned", (x, where, value))


def shape_of(x: Leaf) -> tuple[int, ...]:
    view = x.values
    for name, *args in x.views:
        if name == "transpose":
            view = view.swapaxes(*args)
        elif name == "getitem":
            view = view[args[0]]
        elif name == "expand":
            view = np.broadcast_to(view, args[0])
    return view.shape


def key(draw: Draw, shape: tuple[int, ...], distinct: bool = False) -> Any:
    """Any kind of key; ``distinct``: no place twice."""
    parts: list[Any] = []
    axis, arrays, dots = 0, None, False
    while axis < len(shape) and draw.chance(0.8):
        n, way = shape[axis], draw.number(0, 9)
        if way <= 1:
            if n == 0:
                parts.append(slice(None))
            else:
                bad = 0.02
                parts.append(draw.pick(n, -n - 1) if draw.chance(bad) else draw.number(-n, n - 1))
            axis += 1
        elif way <= 4:
            ends = [draw.pick(None, draw.number(-n - 1, n + 1)) for _ in "12"]
            parts.append(slice(*ends, draw.pick(None, 1, 2, 3)))
            axis += 1
        elif way == 5:
            parts.append(None)
        elif way == 6 and not dots:
            dots = True
            parts.append(...)
            axis += draw.number(0, len(shape) - axis)
            if draw.chance(0.5):
                break
        elif way == 7:
            if arrays is None:
                arrays = draw.pick((2,), (1,), (), (2, 1), (0,), (3,))
            values = draw.rng.integers(-n, n, arrays) if n else np.zeros((0,), int)
            if distinct and values.size > 1:
                values = draw.rng.permutation(n)[: values.size]
                arrays = values.shape
            array_ = np.asarray(values).astype("int64")
            parts.append(
                draw.pick(
                    Leaf(array_),
                    Leaf(array_),
                    array_.tolist() if array_.ndim == 1 else Leaf(array_),
                    array_,
                )
            )
            axis += 1
        elif way == 8:
            width = draw.number(1, min(2, len(shape) - axis))
            mask = draw.rng.random(shape[axis : axis + width]) < 0.5
            parts.append(draw.pick(Leaf(mask), mask if width == 1 else Leaf(mask)))
            axis += width
        else:
            parts.append(draw.pick(slice(None), True, False) if draw.chance(0.2) else slice(None))
            axis += 1 if isinstance(parts[-1], slice) else 0
    if len(parts) == 1 and draw.chance(0.6):
        return parts[0]
    return tuple(parts)


TWO = """
    add sub mul div pow floor_divide remainder fmod eq lt atan2 copysign hypot logical_and xlogy
    bitwise_and
"""
OPERATORS = "iadd isub imul itruediv ifloordiv imod ipow iand ior ixor"
ONE = """
    abs neg exp log sqrt rsqrt reciprocal sin cos tan sinh cosh tanh asin acos atan asinh acosh
    atanh erf erfc erfinv sigmoid relu floor ceil trunc round frac square sign sgn exp2 expm1
    log1p log2 log10 nan_to_num logical_not bitwise_not zero logit
"""


@calls(" ".join([f"inplace.{n}_" for n in TWO.split()]
                + [f"inplace.__{n}__" for n in OPERATORS.split()]))  # fmt: skip
def two_in_place(draw: Draw, name: str) -> Call:
    shape = draw.shape()
    x = draw.leaf(shape)
    y = draw.leaf(draw.like(shape)) if draw.chance(0.7) else draw.scalar()
    return Call(name, (x, y))


@calls(" ".join(f"inplace.{n}_" for n in ONE.split()))
def one_in_place(draw: Draw, name: str) -> Call:
    return Call(name, (draw.leaf(),))


@calls(
    "inplace.clamp_ inplace.fill_ inplace.copy_ inplace.masked_fill_ inplace.lerp_ "
    "inplace.addcmul_ inplace.addcdiv_ inplace.tril_ inplace.triu_ inplace.clamp_min_ "
    "inplace.clamp_max_ inplace.t_ inplace.transpose_ inplace.unsqueeze_ inplace.squeeze_ "
    "inplace.fill_diagonal_ inplace.cumsum_ inplace.index_fill_"
)
def others_in_place(draw: Draw, name: str) -> Call:
    shape = draw.shape()
    x, method = draw.leaf(shape), name.split(".")[1]
    y, z = draw.leaf(draw.like(shape)), draw.leaf(draw.like(shape))
    args = {
        "clamp_": (draw.pick(-1, 0.5, None), draw.pick(1, 2.5)),
        "fill_": (draw.pick(2, 1.5, True, draw.leaf((), grad=True)),),
        "copy_": (y,),
        "masked_fill_": (draw.leaf(draw.like(shape), "bool"), draw.pick(2, 0.5, draw.leaf(()))),
        "lerp_": (y, 0.25), "addcmul_": (y, z), "addcdiv_": (y, z), "tril_": (1,), "triu_": (-1,),
        "clamp_min_": (0.5,), "clamp_max_": (1,), "transpose_": (0, -1), "unsqueeze_": (0,),
        "fill_diagonal_": (3.0,), "cumsum_": (0,),
        "index_fill_": (0, Leaf(np.array([0])), 2),
    }.get(method, ())  # fmt: skip
    if method in ("lerp_", "addcmul_", "addcdiv_"):
        dtype = draw.pick("float32", "float64")
        args = tuple(draw.leaf(draw.like(shape), dtype) if isinstance(a, Leaf) else a for a in args)
        x = draw.leaf(shape, dtype)
    return Call(name, (x, *args))


@calls(
    "Tensor.sum_to_size Tensor.cov corrcoef cov trapezoid diff Tensor.softmax "
    "Tensor.log_softmax std var nn.functional.softmax cumulative_trapezoid gradient "
    "renorm vander combinations"
)
def rest(draw: Draw, name: str) -> Call:
    x = draw.leaf(draw.shape(1, 3), dtype=draw.pick("float32", "float64"), kind="smooth")
    if "softmax" in name:
        return Call(name, (x, draw.dim(len(shape_of(x)))))
    if name == "diff":
        return either(
            draw, name, x, **maybe(draw, n=draw.number(0, 2), dim=draw.dim(len(shape_of(x))))
        )
    return either(draw, name, x)
