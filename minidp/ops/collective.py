"""Collectives as ops: the reduction of gradients is the derivative of handing parameters out.

``broadcast`` hands a bucket of parameters to a replica; its adjoint gives the bucket's cotangent
to be summed over replicas. ``unpack`` cuts the bucket into parameters; its adjoint ``packs`` their
cotangents. ``all_reduce`` is its own adjoint.
"""

from __future__ import annotations

from typing import Any

from minidp.mode import mode
from minidp.op import op
from minidp.ops.elementwise import full_like
from minidp.ops.layout import cat
from minidp.tensor import Tensor
from minidp.types import Array


@op("... -> ...", x=lambda g, name: all_reduce(g, name=name + " backward"))
def all_reduce(xp: Any, x: Array, name: str) -> Array:
    """The sum of x over the replicas that have rows in this step; x itself without replicas."""
    return x if mode.replica is None else mode.replica.all_reduce(x, name)


@op("n -> n", flat=lambda g, bucket: bucket.reduce(g))
def broadcast(xp: Any, flat: Array, bucket: Any) -> Array:
    """This replica's copy of a bucket; the cotangent starts its sum over replicas."""
    return bucket.hand_out(flat)


@op("n -> *...", outputs="views", flat=lambda g, bucket: bucket.pack(g))
def unpack(xp: Any, flat: Array, bucket: Any) -> tuple[Array, ...]:
    """The parameters that lie in a bucket, as views; the cotangents are packed again."""
    views: tuple[Array, ...] = bucket.views(flat)
    return views


def weighted_mean(values: Tensor, weight: Any) -> Tensor:
    """sum(values) / sum(weight), over the rows of all replicas: the exact mean for any split.

    The denominator is known before backward starts, so gradients are final when they appear.
    """
    total: Tensor = values.sum()
    below = weight.sum() if isinstance(weight, Tensor) else full_like(total.detach(), value=weight)
    if mode.replica is None:
        return total / below
    both = [total.reshape(1), below.type(total.dtype).reshape(1)]
    sums: Tensor = all_reduce(cat(both), name="weighted mean")
    return sums[0] / sums[1]


def global_sum(values: Tensor) -> Tensor:
    """The sum of ``values`` over the rows of all replicas."""
    total: Tensor = values.sum()
    if mode.replica is None:
        return total
    result: Tensor = all_reduce(total, name="sum")
    return result


def mean(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, weight: Any = None, dtype: Any = None
) -> Tensor:
    """``mean(x, dim)`` is the plain mean; ``mean(values, weight)`` is exact over all replicas."""
    if isinstance(dim, Tensor):
        dim, weight = None, dim
    if weight is not None:
        return weighted_mean(input, weight)
    result: Tensor = input.mean(dim, keepdim, dtype=dtype)
    return result
