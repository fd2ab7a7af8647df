"""Reductions, running sums and orders."""

from __future__ import annotations

from typing import Any

import numpy as np

from differential.random_values import Draw
from differential.registry import calls, either, forms, maybe
from differential.twins import Call, DType, Leaf


@calls(
    "sum nansum mean nanmean amax amin all any logsumexp count_nonzero std var var_mean "
    "std_mean norm"
)
def several_axes(draw: Draw, name: str) -> Call:
    shape = draw.shape()
    x, dim = draw.leaf(shape, kinds="fib" if draw.chance(0.3) else "f"), draw.dims(len(shape))
    named: dict[str, Any] = maybe(draw, 0.7, dim=dim)
    if name == "norm":
        named = {"p": draw.pick(2, 1, "fro", 0, float("inf"), -float("inf"), 3, 0.5, -1.0), **named}
        if draw.chance(0.3):
            named.pop("p")
    if name in ("amax", "amin") and "dim" in named and named["dim"] is None:
        named.pop("dim")
    if name == "logsumexp":
        named["dim"] = dim if dim is not None else 0
    if name != "count_nonzero" and "dim" in named:
        named.update(maybe(draw, keepdim=draw.chance()))
    if name in ("std", "var", "var_mean", "std_mean"):
        if draw.chance(0.3):
            named["correction"] = draw.pick(0, 1, 2, 5)
        elif draw.chance(0.2):
            return either(draw, name, x, draw.chance())
    elif name in ("sum", "mean", "nansum") and draw.chance(0.3):
        return either(draw, name, x, **named, dtype=DType(draw.dtype("f" if "n" in name else "fi")))
    if "dim" in named and "p" not in named and draw.chance(0.5):
        dim = named.pop("dim")
        rest = (
            [named.pop("keepdim")]
            if "keepdim" in named
            and "correction" not in named
            and (name not in ("std", "var", "var_mean", "std_mean"))
            else []
        )
        return Call(name, (x, dim, *rest), named)
    return either(draw, name, x, **named)


@calls("argmax argmin prod max min median nanmedian mode")
def one_axis(draw: Draw, name: str) -> Call:
    shape = draw.shape()
    x = draw.leaf(shape, kinds="fib" if draw.chance(0.3) else "f",
                  kind="smooth" if name == "mode" else None)  # fmt: skip
    named: dict[str, Any] = maybe(draw, 0.7, dim=draw.dim(len(shape)))
    if "dim" in named:
        named.update(maybe(draw, keepdim=draw.chance()))
    if name == "prod" and draw.chance(0.2):
        return either(draw, name, x, **named, dtype=DType(draw.dtype("fi")))
    if name in ("max", "min") and draw.chance(0.2):
        return either(draw, name, x, draw.leaf(draw.like(shape)))
    if draw.chance(0.5):
        return either(draw, name, x, *named.values())
    return either(draw, name, x, **named)


@calls("aminmax")
def smallest_largest(draw: Draw, name: str) -> Call:
    shape = draw.shape()
    named = maybe(draw, dim=draw.dim(len(shape)))
    return either(draw, name, draw.leaf(shape), **named, **maybe(draw, keepdim=True))


@calls("cumsum cumprod logcumsumexp cummax cummin softmax log_softmax")
def running(draw: Draw, name: str) -> Call:
    shape = draw.shape()
    x = draw.leaf(shape, kinds="f" if "log" in name or "soft" in name else "fib")
    named: dict[str, Any] = {"dim": draw.dim(len(shape))}
    if name in ("cumsum", "cumprod", "softmax", "log_softmax") and draw.chance(0.2):
        named["dtype"] = DType(draw.dtype("f"))
    if draw.chance():
        return either(draw, name, x, named.pop("dim"), **named)
    return either(draw, name, x, **named)


@calls("sort argsort topk kthvalue msort")
def order(draw: Draw, name: str) -> Call:
    shape = draw.shape()
    size = int(np.prod(shape, dtype=int))
    dtype = draw.dtype("fi")
    values = draw.rng.permutation(size).reshape(shape).astype(dtype) - (dtype != "uint8") * 2
    x = Leaf(values.astype(dtype), [], np.dtype(dtype).kind == "f" and draw.chance(0.8))
    if name == "msort":
        return either(draw, name, x)
    dim = draw.dim(len(shape))
    named = maybe(draw, dim=dim)
    axis = (dim if "dim" in named else -1) % max(len(shape), 1)
    length = shape[axis] if shape else 1
    if name == "topk":
        named = {"k": draw.number(0, length + draw.chance(0.1)), **named,
                 **maybe(draw, largest=draw.chance())}  # fmt: skip
    elif name == "kthvalue":
        named = {"k": draw.number(1, max(length, 1)), **named, **maybe(draw, keepdim=draw.chance())}
    else:
        named.update(maybe(draw, descending=draw.chance()))
        if draw.chance(0.3):
            named["stable"] = True
            x.values = draw.values(shape, dtype)
            return Call(name, (x,), named) if draw.chance() else Call(f"Tensor.{name}", (x,), named)
    return forms(draw, name, x, **named)


@calls("unique")
def different(draw: Draw, name: str) -> Call:
    shape = draw.shape(0, 3)
    x = draw.leaf(shape, kind="ties", grad=False)
    named = maybe(draw, sorted=True, return_inverse=True, return_counts=True)
    if len(shape) and draw.chance(0.3):
        named["dim"] = draw.dim(len(shape))
    return either(draw, name, x, **named)


@calls("unique_consecutive")
def runs(draw: Draw, name: str) -> Call:
    shape = draw.shape(0, 3)
    x = draw.leaf(shape, kind="ties", grad=False)
    named = maybe(draw, return_inverse=True, return_counts=True)
    if len(shape) and draw.chance(0.3):
        named["dim"] = draw.dim(len(shape))
    return either(draw, name, x, **named)


@calls("bincount")
def counting(draw: Draw, name: str) -> Call:
    n = draw.number(0, 6)
    x = Leaf(
        draw.rng.integers(-1 if draw.chance(0.05) else 0, 5, n).astype(
            draw.pick("int64", "uint8", "int32")
        )
    )
    named: dict[str, Any] = maybe(draw, minlength=draw.number(0, 8))
    if draw.chance():
        named["weights"] = Leaf(
            draw.values((n,), draw.pick("float32", "float64", "int64"), "smooth")
        )
    return either(draw, name, x, **named)


@calls("histc")
def histogram(draw: Draw, name: str) -> Call:
    x = draw.leaf(kinds="f", kind=draw.pick("smooth", "ties"), grad=False)
    low = draw.number(-3, 0)
    named = {
        "bins": draw.number(1, 7),
        **maybe(draw, 1.0 * draw.chance(), min=low, max=low + draw.number(0, 5)),
    }
    return either(draw, name, x, **named)


@calls("quantile nanquantile")
def quantiles(draw: Draw, name: str) -> Call:
    shape = draw.shape(empty=False)
    x = draw.leaf(shape, dtype=draw.pick("float32", "float64"), kind="smooth")
    q = draw.pick(0.5, 0.25, 0.0, 1.0, Leaf(np.array([0.1, 0.6], x.values.dtype)))
    return either(draw, name, x, q, **maybe(draw, dim=draw.dim(len(shape))))


@calls("searchsorted bucketize isin")
def searching(draw: Draw, name: str) -> Call:
    dtype = draw.dtype("fi")
    edges = Leaf(np.sort(draw.values((draw.number(0, 5),), dtype, "ties")))
    x: Any = draw.leaf(dtype=dtype, kind="ties", grad=False)
    if draw.chance(0.2):
        x = 2
    if name == "isin":
        return Call(name, (x, edges), maybe(draw, invert=draw.chance(), assume_unique=False))
    named = maybe(draw, right=draw.chance(), out_int32=draw.chance())
    if name == "bucketize":
        return Call(name, (x, edges), named)
    if draw.chance(0.3):
        shape = draw.shape(1, 3)
        edges = Leaf(np.sort(draw.values(shape, dtype, "ties")))
        x = Leaf(draw.values((*shape[:-1], 2), dtype, "ties"))
    return Call(name, (edges, x), named)
