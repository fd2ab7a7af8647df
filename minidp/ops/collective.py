"""Collectives as ops: the reduction of gradients is the derivative of handing parameters out.

``broadcast`` hands a bucket of parameters to a replica; its adjoint gives the bucket's cotangent
to be summed over replicas. ``unpack`` cuts the bucket into parameters; its adjoint ``packs`` their
cotangents. ``all_reduce`` is its own adjoint.
"""

from typing import Any

from minidp.mode import mode
from minidp.op import op
from minidp.ops.layout import expand, narrow, reshape
from minidp.tensor import Tensor
from minidp.types import Array, Shape


@op("... -> ...", exchanges=True,
    x=lambda g, name: all_reduce(g, name=name + " backward"))  # fmt: skip
def all_reduce(xp: Any, x: Array, name: str) -> Array:
    """The sum of x over the replicas that have rows in this step; x itself without replicas."""
    return x if mode.replica is None else mode.replica.all_reduce(x, name)


@op("n -> n", exchanges=True, flat=lambda g, bucket: bucket.reduce(g))
def broadcast(xp: Any, flat: Array, bucket: Any) -> Array:
    """This replica's copy of a bucket; the cotangent starts its sum over replicas."""
    return bucket.hand_out(flat)


@op("n -> *...", outputs="views", exchanges=True, flat=lambda g, bucket: bucket.pack(g))
def unpack(xp: Any, flat: Array, bucket: Any) -> tuple[Array, ...]:
    """The parameters that lie in a bucket, as views; the cotangents are packed again."""
    views: tuple[Array, ...] = bucket.views(flat)
    return views


@op("*... -> each", xs=lambda g, i, xs_shape: entry(g, i, xs_shape[i]))
def sum_each(xp: Any, *xs: Array) -> Array:
    """The sum of each argument, in one vector, so that one exchange adds them all."""
    return xp.stack([xp.sum(x) if hasattr(x, "sum") else xp.asarray(x, xs[0].dtype) for x in xs])


def entry(g: Any, i: int, shape: Shape) -> Any:
    """One element of ``g``, everywhere in ``shape``."""
    one = reshape(narrow(g, dim=0, start=i, length=1), shape=(1,) * len(shape))
    return expand(one, shape=shape)


@op("..., ... -> ...", x=lambda g, factor: g * factor)
def completed(xp: Any, x: Array, rest: Array, factor: float) -> Array:
    """x + rest, where ``rest`` is what others contribute; the cotangent is multiplied by
    ``factor``."""
    return x + rest


def weighted_mean(values: Tensor, weight: Any) -> Tensor:
    """sum(values) / sum(weight), over the rows of all replicas: the exact mean for any split.

    The denominator is known before backward starts, so gradients are final when they appear. Who
    knows it beforehand, as the scheduler does for the losses of ``minidp.nn``, says so by
    ``mode.denominator``: then nothing is exchanged, and each replica gives its share of the mean.
    """
    if mode.denominator is not None:
        total: Tensor = values.sum()
        divisor = mode.denominator(weight)
        return total / (divisor.type(total.dtype) if isinstance(divisor, Tensor) else divisor)
    if mode.replica is None:
        mean: Tensor = values.sum() / (weight.sum() if isinstance(weight, Tensor) else weight)
        return mean
    both = everywhere(sum_each(values, weight), "weighted mean")
    return both[0] / both[1]


def global_sum(values: Tensor) -> Tensor:
    """The sum of ``values`` over the rows of all replicas."""
    total: Tensor = values.sum()
    return everywhere(total, "sum")


def everywhere(here: Tensor, name: str) -> Tensor:
    """``here`` added over all replicas, and over the parts of a step that is run in parts."""
    return here if mode.replica is None else mode.replica.everywhere(here, name)
