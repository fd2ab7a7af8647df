"""Softmax and the cross-entropy of logits."""

from typing import Any

import numpy as np

from minidp.errors import ArgumentError, PlaceError, ShapeError
from minidp.mode import switched
from minidp.op import op
from minidp.ops.adjoint import composite
from minidp.ops.elementwise import cast, exp, log, maximum, where
from minidp.ops.exponential import wide
from minidp.ops.index import scatter_along
from minidp.ops.layout import expand, unsqueeze_all
from minidp.ops.reduce import sum
from minidp.shapes import axis_of
from minidp.types import Array, Shape

LEAST = 9.999999960041972e-13
"""10^-12 as float32 has it, which PyTorch takes here for every dtype."""


@op("f:... -> ...", check=lambda x, dim: axis_of("softmax", dim, len(x)),
    x=lambda g, y, dim: softmax_input(g, y, dim=dim))  # fmt: skip
def softmax(xp: Any, x: Array, dim: int) -> Array:
    """y = e^x / sum e^x along ``dim``, shifted by the maximum so that nothing overflows.

    >>> dp.softmax(dp.tensor([0.0, 0.0]), dim=0)
    tensor([0.5000, 0.5000])
    """
    if x.size == 0:
        return x.copy()
    e = xp.exp(wide(xp, x) - x.max(axis=dim, keepdims=True))
    return (e / e.sum(axis=dim, keepdims=True)).astype(x.dtype, copy=False)


@composite("f:..., f:... -> ...")
def softmax_input(xp: Any, dy: Array, y: Array, dim: int) -> Array:
    """The cotangent of softmax's x: y (dy - sum dy y)."""
    g, p = summable(dy), summable(y)
    return like(p * (g - sum(g * p, dim=dim, keepdim=True)), y)


@op("f:... -> ...", check=lambda x, dim: axis_of("log_softmax", dim, len(x)),
    x=lambda g, y, dim: log_softmax_input(g, y, dim=dim))  # fmt: skip
def log_softmax(xp: Any, x: Array, dim: int) -> Array:
    """y = x - log sum e^x along ``dim``."""
    if x.size == 0:
        return x.copy()
    shifted = wide(xp, x) - x.max(axis=dim, keepdims=True)
    y = shifted - xp.log(xp.exp(shifted).sum(axis=dim, keepdims=True))
    return y.astype(x.dtype, copy=False)


@composite("f:..., f:... -> ...")
def log_softmax_input(xp: Any, dy: Array, y: Array, dim: int) -> Array:
    """The cotangent of log_softmax's x: dy - e^y sum dy."""
    g = summable(dy)
    return like(g - exp(summable(y)) * sum(g, dim=dim, keepdim=True), y)


def summable(x: Any) -> Any:
    """float16 as float32, to add up in; all else as it is."""
    return cast(x, dtype=np.float32) if x.dtype.char == "e" else x


def like(x: Any, y: Any) -> Any:
    """x in the dtype of y."""
    return x if x.dtype == y.dtype else cast(x, dtype=y.dtype)


def _check_labels(x: Shape, target: Shape, **constants: Any) -> None:
    if target != (x[0], *x[2:]):
        raise ShapeError(f"cross_entropy(x {x}, target {target}): expected logits (n, c, ...) and "
                         f"one label for each of their columns, of shape {(x[0], *x[2:])}")


@op("n c ..., i:n ... -> n ...", check=_check_labels,
    x=lambda g, x, target, constants: cross_entropy_input(g, x, target, **constants))  # fmt: skip
def cross_entropy(xp: Any, x: Array, target: Array, ignore_index: int = -100) -> Array:
    """Losses log sum_c e^x_c - x_target for logits x over axis 1; 0 where target is ignored.

    A target outside 0 .. c-1 raises ValueError."""
    check_classes(xp, target, x.shape[1], ignore_index)
    kept = target != ignore_index
    if x.size == 0:
        return xp.zeros(target.shape, x.dtype)
    index = xp.expand_dims(xp.where(kept, target, 0), 1)
    chosen = xp.take_along_axis(log_softmax.body(xp, x, 1), index, axis=1)[:, 0]
    return xp.where(kept, 0 - chosen, xp.zeros((), x.dtype))


@composite("n ..., n c ..., i:n ... -> n c ...")
def cross_entropy_input(xp: Any, dy: Array, x: Array, target: Array, ignore_index: int) -> Array:
    """The cotangent of cross_entropy's x: dy (softmax(x) - one_hot(target)), 0 where ignored."""
    kept, ndim = target != ignore_index, len(x.shape)
    index, weight = (unsqueeze_all(where(kept, each, zero), (1,), ndim)
                     for each, zero in ((target, 0), (dy, 0.0)))  # fmt: skip
    chosen = scatter_along(summable(weight), index, shape=x.shape, dim=1)
    return like(summable(weight) * softmax(summable(x), dim=1) - chosen, x)


@op("n c ..., i:n ... ->", check=_check_labels,
    x=lambda g, x, target, constants: cross_entropy_mean_input(
        g, x, target, **constants))  # fmt: skip
def cross_entropy_mean(xp: Any, x: Array, target: Array, ignore_index: int = -100) -> Array:
    """The mean of ``cross_entropy`` over the targets that are not ignored, NaN of none."""
    with switched(watch=None):
        losses = cross_entropy(x, target, ignore_index)
        return sum(losses) / _counted(x, target, ignore_index)


def _counted(x: Any, target: Any, ignore_index: int) -> Any:
    """How many targets are not ignored, in the dtype of x."""
    return like(sum(cast(target != ignore_index, dtype=np.int64)), x)


@composite(", n c ..., i:n ... -> n c ...")
def cross_entropy_mean_input(xp: Any, dy: Array, x: Array, target: Array, ignore_index: int
                             ) -> Array:  # fmt: skip
    """The cotangent of cross_entropy_mean's x: each counted row has an equal share of dy."""
    share = expand(dy / _counted(x, target, ignore_index), shape=target.shape)
    return cross_entropy_input(share, x, target, ignore_index)


def check_classes(xp: Any, target: Array, count: int, ignore_index: int | None,
                  name: str = "cross_entropy") -> None:  # fmt: skip
    """Raise PlaceError when a class label is neither in 0 .. count-1 nor ignored."""
    wrong = (target < 0) | (target >= count)
    if ignore_index is not None:
        wrong = wrong & (target != ignore_index)
    if bool(xp.any(wrong)):
        skipped = f"; labels to be skipped are marked ignore_index={ignore_index}"
        raise PlaceError(
            f"{name}: target {int(target[wrong].ravel()[0])} is not a class: the {count} columns "
            f"of the logits are classes 0 to {count - 1}{'' if ignore_index is None else skipped}"
        )


@op("f:..., f:... -> ...",
    x=lambda g, x, t: g * (x - t) / maximum(x * (1 - x), LEAST),
    t=lambda g, x, t: g * (log(1 - x) - log(x)))  # fmt: skip
def binary_cross_entropy(xp: Any, x: Array, t: Array) -> Array:
    """y = -t log x - (1 - t) log(1 - x) with logarithms of at least -100; x and t in 0 .. 1.

    dy/dx = (x - t) / max(x (1 - x), 10^-12). ValueError where x or t is not in 0 .. 1."""
    for name, each in (("input", x), ("target", t)):
        wrong = ~((each >= 0) & (each <= 1))
        if bool(xp.any(wrong)):
            raise ArgumentError(f"binary_cross_entropy: {name} {float(each[wrong].ravel()[0])} is "
                                "no probability: all elements must be between 0 and 1")  # fmt: skip
    least = xp.asarray(-100, x.dtype)
    return (t - 1) * xp.maximum(xp.log1p(-x), least) - t * xp.maximum(xp.log(x), least)
