"""Convolution: three ops that are each other's derivatives, since y is linear in x and in w.

Shapes: x (n, c, h, w), weights (k, c / groups, i, j), y (n, k, o, p) with
o = (h + 2 padding - dilation (i - 1) - 1) // stride + 1, and so for p. ``stride``, ``padding``
and ``dilation`` are (height, width) pairs. The bodies add one kernel offset at a time, float16 in
float32. Sequences are images of height one; how volumes become images, see ``functional.conv``.
"""

from functools import lru_cache
from typing import Any

from minidp.errors import ShapeError
from minidp.op import op
from minidp.ops.reduce import sum
from minidp.ops.windows import Pair, offsets
from minidp.types import Array, Shape


@op("n c h w, k d i j, k -> n k o p",
    check=lambda x, w, b, **geometry: output_size("conv2d", x, w, **geometry),
    x=lambda g, w, x_shape, constants: conv2d_input(g, w, shape=x_shape, **constants),
    w=lambda g, x, w_shape, constants: conv2d_weight(g, x, shape=w_shape, **constants),
    b=lambda g: sum(g, dim=(0, 2, 3), keepdim=False))  # fmt: skip
def conv2d(xp: Any, x: Array, w: Array, b: Array = None, stride: Pair = (1, 1),
           padding: Pair = (0, 0), dilation: Pair = (1, 1), groups: int = 1) -> Array:  # fmt: skip
    """Cross-correlation: y[n,k,o,p] = b[k] + sum_cij x[n, c, o s + i d - pad, ...] w[k,c,i,j]."""
    size = output_size("conv2d", x.shape, w.shape, stride, padding, dilation, groups)
    xg = _grouped(_padded(xp, x, padding), groups)
    wg = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    y = xp.zeros((len(x), groups, wg.shape[1], *size), _wide(x))
    for (i, j), window in offsets(w.shape[2:], size, stride, dilation):
        y += xp.einsum("ngcop,gkc->ngkop", xg[window], wg[..., i, j], dtype=y.dtype)
    y = y.reshape(len(x), w.shape[0], *size)
    return (y if b is None else y + b[:, None, None]).astype(x.dtype, copy=False)


@op("n k o p, k d i j -> n c h w",
    dy=lambda g, w, stride, padding, dilation, groups: conv2d(
        g, w, None, stride, padding, dilation, groups),
    w=lambda g, dy, w_shape, constants: conv2d_weight(
        dy, g, **constants | {"shape": w_shape}))  # fmt: skip
def conv2d_input(xp: Any, dy: Array, w: Array, shape: Shape, stride: Pair, padding: Pair,
                 dilation: Pair, groups: int) -> Array:  # fmt: skip
    """The cotangent of conv2d's x (of ``shape``): every y spread over its window by w."""
    n, c, h, width = shape
    (top, left), size = padding, dy.shape[2:]
    wg = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    dx = xp.zeros((n, groups, c // groups, h + 2 * top, width + 2 * left), _wide(dy))
    for (i, j), window in offsets(w.shape[2:], size, stride, dilation):
        dx[window] += xp.einsum("ngkop,gkc->ngcop", _grouped(dy, groups), wg[..., i, j],
                                dtype=dx.dtype)  # fmt: skip
    dx = dx.reshape(n, c, *dx.shape[3:])[:, :, top : top + h, left : left + width]
    return dx.astype(dy.dtype, copy=False)


@op("n k o p, n c h w -> k d i j",
    dy=lambda g, x, stride, padding, dilation, groups: conv2d(
        x, g, None, stride, padding, dilation, groups),
    x=lambda g, dy, x_shape, constants: conv2d_input(
        dy, g, **constants | {"shape": x_shape}))  # fmt: skip
def conv2d_weight(xp: Any, dy: Array, x: Array, shape: Shape, stride: Pair, padding: Pair,
                  dilation: Pair, groups: int) -> Array:  # fmt: skip
    """The cotangent of conv2d's w (of ``shape``): each window of x weighted by its y."""
    xg, dyg = _grouped(_padded(xp, x, padding), groups), _grouped(dy, groups)
    dw = xp.zeros((groups, shape[0] // groups, *shape[1:]), _wide(x))
    for (i, j), window in offsets(shape[2:], dy.shape[2:], stride, dilation):
        dw[..., i, j] = xp.einsum("ngkop,ngcop->gkc", dyg, xg[window], dtype=dw.dtype)
    return dw.reshape(shape).astype(x.dtype, copy=False)


@lru_cache(maxsize=1024)
def output_size(name: str, x: Shape, w: Shape, stride: Shape, padding: Shape,
                dilation: Shape, groups: int) -> Shape:  # fmt: skip
    """Of the output, along any number of axes; a ShapeError when the shapes do not fit."""
    given = f"{name}(x {x}, w {w}, stride={stride}, padding={padding}, dilation={dilation}, "
    if groups < 1 or x[1] != w[1] * groups or w[0] % groups:
        raise ShapeError(
            f"{given}groups={groups}): x has {x[1]} channels, w wants {w[1]} in each group, "
            f"and {w[0]} output channels must divide into the groups"
        )
    sizes = []
    for axis in range(len(x) - 2):
        span = dilation[axis] * (w[2 + axis] - 1) + 1
        room = x[2 + axis] + 2 * padding[axis] - span
        if room < 0:
            raise ShapeError(f"{given}groups={groups}): the kernel is larger than the padded image")
        sizes.append(room // stride[axis] + 1)
    return tuple(sizes)


def _wide(x: Array) -> Any:
    """What sums of x are added in."""
    return "float32" if x.dtype.char == "e" else x.dtype


def _padded(xp: Any, x: Array, padding: Pair) -> Array:
    return xp.pad(x, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))


def _grouped(x: Array, groups: int) -> Array:
    return x.reshape(len(x), groups, x.shape[1] // groups, *x.shape[2:])
