"""Windows along one axis, and weighted places along one axis; each with its adjoint.

Several axes are done one after the other: so images and volumes need no ops of their own.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from minidp.op import op
from minidp.types import Array, Shape

Pair = tuple[int, int]


def met(offset: int, count: int, stride: int = 1, dilation: int = 1) -> slice:
    """The places that ``count`` windows have at an offset."""
    start = offset * dilation
    return slice(start, start + stride * (count - 1) + 1, stride)


def offsets(kernel: Sequence[int], size: Shape, stride: Pair,
            dilation: Pair = (1, 1)) -> Iterator[tuple[Pair, Any]]:  # fmt: skip
    """Each offset (i, j) of a kernel, row by row, with its places along the last two axes."""
    for i, j in np.ndindex(*kernel):
        yield (i, j), (..., *map(met, (i, j), size, stride, dilation))


@op("... -> ...", x=lambda g, x_shape, dim, stride, dilation: overlap(
    g, shape=x_shape, dim=dim, stride=stride, dilation=dilation))  # fmt: skip
def windows(xp: Any, x: Array, dim: int, size: int, stride: int = 1, dilation: int = 1) -> Array:
    """y[..., a, o, ...] = x[..., o stride + a dilation, ...]: axis ``dim`` becomes two."""
    count = (x.shape[dim] - dilation * (size - 1) - 1) // stride + 1
    front = (slice(None),) * dim
    parts = [x[(*front, met(a, count, stride, dilation))] for a in range(size)]
    return xp.stack(parts, axis=dim)


@op("... -> ...", dy=lambda g, dy_shape, dim, stride, dilation: windows(
    g, dim=dim, size=dy_shape[dim], stride=stride, dilation=dilation))  # fmt: skip
def overlap(xp: Any, dy: Array, shape: Shape, dim: int, stride: int = 1,
            dilation: int = 1) -> Array:  # fmt: skip
    """Windows (..., a, o, ...) added up where they lie in zeros of ``shape``."""
    x, front, (size, count) = xp.zeros(shape, dy.dtype), (slice(None),) * dim, dy.shape[dim:][:2]
    for a in range(size):
        x[(*front, met(a, count, stride, dilation))] += dy[(*front, a)]
    return x


@op("... -> ...", x=lambda g, x_shape, dim, constants: resample_input(
    g, length=x_shape[dim], **constants))  # fmt: skip
def resample(xp: Any, x: Array, dim: int, index: Array, weight: Any = None) -> Array:
    """y[..., o, ...] = sum_k weight[o, k] x[..., index[o, k], ...] along ``dim``.

    ``index`` and ``weight`` (None: one) are NumPy arrays (o, k)."""
    y: Array = None
    for places, w in zip(index.T, _weights(xp, x, dim, index, weight), strict=True):
        part = xp.take(x, xp.asarray(places), axis=dim)
        part = part if w is None else part * w
        y = part if y is None else y + part
    return y.astype(x.dtype, copy=False)


@op("... -> ...", dy=lambda g, dim, index, weight: resample(
    g, dim=dim, index=index, weight=weight))  # fmt: skip
def resample_input(xp: Any, dy: Array, length: int, dim: int, index: Array,
                   weight: Any = None) -> Array:  # fmt: skip
    """The cotangent of resample's x, which has ``length`` places: each y given back by weight.

    Places that several y share are added in rounds, in each of which a place occurs once."""
    before = (slice(None),) * dim
    wide = "float32" if dy.dtype.char == "e" else dy.dtype
    dx = xp.zeros((*dy.shape[:dim], length, *dy.shape[dim + 1 :]), wide)
    for places, w in zip(index.T, _weights(xp, dy, dim, index, weight), strict=True):
        part = dy if w is None else dy * w
        order = np.argsort(places, kind="stable")
        nth = np.arange(len(places)) - np.searchsorted(places[order], places[order])
        for turn in range(nth.max(initial=-1) + 1):
            chosen = order[nth == turn]
            target = (*before, xp.asarray(places[chosen]))
            dx[target] += part[(*before, xp.asarray(chosen))]
    return dx.astype(dy.dtype, copy=False)


def _weights(xp: Any, x: Array, dim: int, index: Array, weight: Any) -> Iterator[Any]:
    """The weights of each column of ``index``, shaped along ``dim``; float16 as float32."""
    shape = (-1, *(1,) * (x.ndim - dim - 1))
    wide = "float32" if x.dtype.char == "e" else x.dtype
    for k in range(index.shape[1]):
        yield None if weight is None else xp.asarray(weight[:, k].astype(wide)).reshape(shape)
