"""Collectives as ops: the reduction of gradients is the derivative of handing parameters out.

``broadcast`` hands a bucket of parameters to a replica; its adjoint gives the bucket's cotangent
to be summed over replicas. ``unpack`` cuts the bucket into parameters; its adjoint ``packs`` their
cotangents. ``all_reduce`` is its own adjoint.
"""

from typing import Any

from minidp.mode import mode
from minidp.op import op
from minidp.types import Array


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
    return tuple(bucket.views(flat))


@op("..., ... -> ...", x=lambda g, factor: g * factor)
def completed(xp: Any, x: Array, rest: Array, factor: float) -> Array:
    """x + rest, where ``rest`` is what others contribute; the cotangent is multiplied by
    ``factor``."""
    return x + rest
