"""Creation, conversion and dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from differential.random_values import EVERY, Draw
from differential.registry import calls, maybe
from differential.twins import Call, DType


@calls("zeros ones empty full arange linspace logspace eye tril_indices triu_indices")
def created(draw: Draw, name: str) -> Call:
    dtype = maybe(draw, 0.4, dtype=DType(draw.dtype()))
    wants = maybe(draw, 0.2, requires_grad=True)
    shape = draw.shape()
    if name in ("zeros", "ones", "empty"):
        call = draw.pick(
            Call(name, shape),
            Call(name, (shape,)),
            Call(name, (list(shape),)),
            Call(name, (), {"size": shape}),
        )
        return Call(name, call.args, {**call.named, **dtype, **wants}, name == "empty")
    if name == "full":
        return Call(name, (shape, draw.scalar()), {**(dtype if draw.chance(0.3) else {}), **wants})
    if name == "arange":
        start, step = draw.pick(0, -2, 0.5, 3), draw.pick(1, 2, -1, 0.25, 0.1, 0.3, 0)
        end = start + step * draw.number(0, 9)
        args = draw.pick(
            (draw.number(0, 6),),
            (draw.number(-3, 2), draw.number(2, 6)),
            (start, end, step),
            (start, end, step),
            (draw.pick(2.5, 0.0, 3.0),),
        )
        return Call(name, args, dtype)
    if name == "linspace":
        return Call(
            name, (draw.number(-3, 3), draw.pick(2, 5, -1.5, 0.3), draw.number(0, 9)), dtype
        )
    if name == "logspace":
        return Call(
            name, (draw.number(-1, 1), draw.number(1, 2), draw.number(0, 5)), maybe(draw, base=2.0)
        )
    if name == "eye":
        return Call(name, draw.pick((draw.number(0, 4),), (2, 3), (3, draw.number(0, 4))), dtype)
    return Call(name, (draw.number(0, 4), draw.number(0, 4), draw.number(-3, 3)))


@calls(
    "zeros_like ones_like empty_like full_like Tensor.new_zeros Tensor.new_ones "
    "Tensor.new_full Tensor.new_tensor Tensor.new_empty"
)
def created_like(draw: Draw, name: str) -> Call:
    x, dtype = draw.leaf(), maybe(draw, 0.4, dtype=DType(draw.dtype()))
    wants = maybe(draw, 0.2, requires_grad=True)
    extra: Any = ()
    if "new" in name:
        extra = (draw.shape(),)
    if "full" in name:
        extra = (*extra, draw.pick(2, True, 0, 3.0))
    if "new_tensor" in name:
        extra = ([[1, 0], [0, 1]],)
    return Call(name, (x, *extra), {**dtype, **wants}, "empty" in name)


@calls("tensor as_tensor")
def from_values(draw: Draw, name: str) -> Call:
    values = draw.pick(
        1,
        2.5,
        True,
        [],
        [1, 2],
        [1, 2.5],
        [True, False],
        [True, 2],
        [[]],
        [[1.0], [2.0]],
        np.arange(3),
        np.float32(2),
        np.ones((2, 2)),
        np.array(True),
        [[1, 2], [3]],
        (1, 2),
        [np.int32(1), 2],
        [np.float64(1.5)],
        [2**40],
        "a",
        None,
        [np.ones(2), np.zeros(2)],
    )
    return Call(name, (values,), maybe(draw, 0.4, dtype=DType(draw.dtype())))


@calls("Tensor.to Tensor.type_as Tensor.type")
def converted(draw: Draw, name: str) -> Call:
    x = draw.leaf(kind="ties")
    if x.values.dtype.kind in "if":
        x.values = np.abs(x.values)
    if "type_as" in name or (draw.chance(0.2) and name == "Tensor.to"):
        return Call(name, (x, draw.leaf()))
    return Call(
        name, (x, DType(draw.pick(*EVERY))), maybe(draw, 0.2, copy=True) if "to" in name else {}
    )


@calls("result_type can_cast promote_types")
def promotions(draw: Draw, name: str) -> Call:
    if name == "result_type":
        parts = [
            draw.leaf(draw.pick((), (2,)), draw.pick(*EVERY), grad=False)
            if draw.chance(0.8)
            else draw.scalar()
            for _ in "12"
        ]
        return Call(name, tuple(parts))
    if name == "finfo":
        return Call(name, (DType("float32"),))
    return Call(name, (DType(draw.pick(*EVERY)), DType(draw.pick(*EVERY))))
