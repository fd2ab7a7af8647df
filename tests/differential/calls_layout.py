"""Shapes, orders of axes, joining and cutting."""

from __future__ import annotations

import numpy as np

from differential.random_values import Draw
from differential.registry import calls, either, forms, maybe
from differential.twins import Call, Leaf


@calls("reshape Tensor.reshape Tensor.view_as Tensor.reshape_as")
def other_shape(draw: Draw, name: str) -> Call:
    shape = draw.shape()
    size = int(np.prod(shape, dtype=int))
    to = draw.pick((size,), (-1,), (1, size), (size, 1), (size, -1), (2, -1), (-1, 3), (1, -1, 1),
                   (0, -1), (5,), shape, tuple(reversed(shape)))  # fmt: skip
    x = draw.leaf(shape)
    if "_as" in name:
        return Call(name, (x, draw.leaf(draw.pick((size,), (1, size), shape))))
    if "Tensor" in name and draw.chance():
        return Call(name, (x, *to))
    return Call(name, (x, list(to) if draw.chance(0.3) else to))


@calls(
    "permute transpose swapaxes swapdims movedim moveaxis flatten unflatten squeeze "
    "unsqueeze Tensor.T Tensor.mT Tensor.H"
)
def axes(draw: Draw, name: str) -> Call:
    shape = draw.shape()
    rank = len(shape)
    x, a, b = draw.leaf(shape), draw.dim(rank), draw.dim(rank)
    if "." in name:
        return Call("getattr_" + name.split(".")[1], (x,))
    if name == "permute":
        dims = [int(i) - (rank if draw.chance() else 0) for i in draw.rng.permutation(rank)]
        if draw.chance(0.05) and dims:
            dims[0] = dims[-1]
        return draw.pick(Call(name, (x, dims)), Call("Tensor.permute", (x, *dims)),
                         Call(name, (x,), {"dims": tuple(dims)}))  # fmt: skip
    if name in ("transpose", "swapdims"):
        return forms(draw, name, x, dim0=a, dim1=b)
    if name == "swapaxes":
        return forms(draw, name, x, axis0=a, axis1=b)
    if name in ("movedim", "moveaxis"):
        if draw.chance():
            return forms(draw, name, x, source=a, destination=b)
        count = draw.number(0, rank)
        source, destination = ([int(i) for i in draw.rng.permutation(rank)[:count]] for _ in "12")
        return forms(draw, name, x, source=tuple(source), destination=tuple(destination))
    if name == "flatten":
        return forms(draw, name, x, **maybe(draw, 0.7, start_dim=a, end_dim=b))
    if name == "unflatten":
        n = shape[a] if -rank <= a < rank else 1
        return forms(
            draw, name, x, dim=a, sizes=draw.pick((1, n), (n, 1), (-1, 1), (2, -1), (3, 1))
        )
    if name == "squeeze":
        way = draw.number(0, 3)
        if way == 0:
            return either(draw, name, x)
        count = draw.number(0, rank)
        several = tuple(int(i) for i in draw.rng.permutation(rank)[:count])
        return forms(draw, name, x, dim=a if way < 3 else several)
    return forms(draw, name, x, dim=draw.pick(a, rank, -rank - 1))


@calls("broadcast_to Tensor.expand Tensor.repeat tile Tensor.expand_as")
def wider(draw: Draw, name: str) -> Call:
    shape = draw.shape(0, 3)
    x = draw.leaf(shape)
    if name in ("Tensor.repeat", "tile"):
        count = len(shape) + draw.number(-1 if name == "tile" or draw.chance(0.1) else 0, 2)
        to = tuple(draw.number(0, 3) for _ in range(max(count, 0)))
    else:
        to = tuple(draw.number(1, 3) if n == 1 else draw.pick(n, -1) for n in shape)
        to = (*(draw.number(0, 3) for _ in range(draw.number(0, 2))), *to)
    if name == "Tensor.expand_as":
        return Call(name, (x, draw.leaf(tuple(max(n, 0) for n in to))))
    if draw.chance() and "Tensor" in name:
        return Call(name, (x, *to))
    return Call(name, (x, to))


@calls("flip fliplr flipud roll rot90")
def turned(draw: Draw, name: str) -> Call:
    shape = draw.shape()
    rank = len(shape)
    x = draw.leaf(shape)
    if name in ("fliplr", "flipud"):
        return either(draw, name, x)
    if name == "flip":
        count = draw.number(0, rank)
        dims = tuple(int(i) for i in draw.rng.permutation(rank)[:count])
        if draw.chance(0.3):
            return Call("Tensor.flip", (x, *dims))
        return either(draw, name, x, dims=draw.pick(dims, list(dims)))
    if name == "roll":
        if draw.chance(0.3):
            return either(draw, name, x, draw.number(-5, 5))
        if draw.chance():
            return forms(draw, name, x, shifts=draw.number(-5, 5), dims=draw.dim(rank))
        return either(draw, name, x, (1, -2), (draw.dim(rank), draw.dim(rank)))
    return forms(
        draw,
        name,
        x,
        **maybe(draw, 0.7, k=draw.number(-3, 5), dims=(draw.dim(rank), draw.dim(rank))),
    )


@calls(
    "cat concat concatenate stack hstack vstack dstack column_stack block_diag "
    "broadcast_tensors atleast_1d atleast_2d atleast_3d meshgrid cartesian_prod row_stack"
)
def joined(draw: Draw, name: str) -> Call:
    shape = draw.shape(0, 3)
    if name in ("block_diag",):
        shape = draw.shape(0, 2)
    if name in ("meshgrid", "cartesian_prod"):
        parts = [draw.leaf((draw.number(0, 3),), dtype="float32") for _ in range(draw.number(1, 3))]
        if name == "meshgrid":
            return Call(name, tuple(parts), {"indexing": draw.pick("ij", "xy")})
        return Call(name, tuple(parts))
    count = draw.number(1, 3)
    rank = len(shape)
    axis = draw.dim(rank + (name == "stack"))
    parts = []
    for _ in range(count):
        own = list(shape)
        if name in ("cat", "concat", "concatenate") and own and -rank <= axis < rank:
            own[axis] = draw.number(0, 3)
        if name == "broadcast_tensors":
            own = draw.like(shape)
        parts.append(draw.leaf(tuple(own)))
    if name in ("cat", "concat", "concatenate") and draw.chance(0.1):
        parts.insert(0, Leaf(np.zeros(0, "float32")))
    if name in ("broadcast_tensors", "block_diag"):
        return Call(name, tuple(parts))
    if "atleast" in name:
        return Call(name, (parts[0],) if draw.chance() else (tuple(parts),))
    if name in ("cat", "concat", "concatenate", "stack"):
        return draw.pick(Call(name, (parts, axis)), Call(name, (tuple(parts),), {"dim": axis}))
    return Call(name, (tuple(parts),))


@calls("split chunk tensor_split unbind select narrow hsplit vsplit dsplit unsafe_chunk")
def pieces(draw: Draw, name: str) -> Call:
    shape = draw.shape()
    x, a = draw.leaf(shape), draw.dim(len(shape))
    n = shape[a] if shape and -len(shape) <= a < len(shape) else 1
    if name == "split":
        cut = draw.number(0, n)
        size = draw.pick(draw.number(0, 4), [cut, n - cut], (n,), [1, n])
        key = "split_size" if draw.chance(0.3) else None
        if key:
            return Call("Tensor.split", (x, size, a))
        return (
            either(draw, name, x, size, a) if draw.chance() else either(draw, name, x, size, dim=a)
        )
    if name == "tensor_split":
        return either(draw, name, x, draw.pick(draw.number(0, 4), (1, 2), [0, 5], (-1,)), a)
    if name in ("hsplit", "vsplit", "dsplit"):
        return either(draw, name, x, draw.pick(1, 2, 3, (1,), (1, 2)))
    if name in ("chunk", "unsafe_chunk"):
        return either(draw, name, x, draw.number(0, 5), a)
    if name == "unbind":
        return either(draw, name, x, a)
    if name == "select":
        return forms(draw, name, x, dim=a, index=draw.number(-n - 1, n))
    return forms(draw, name, x, dim=a, start=draw.number(-n, n), length=draw.number(0, n))


@calls("tril triu diag diagonal diag_embed trace diagflat")
def diagonals(draw: Draw, name: str) -> Call:
    shape = draw.shape()
    x, k = draw.leaf(shape), draw.number(-3, 3)
    rank = len(shape) + (name == "diag_embed")
    if name == "trace":
        return either(draw, name, x)
    if name in ("tril", "triu", "diag"):
        return forms(draw, name, x, **maybe(draw, diagonal=k))
    if name == "diagflat":
        return either(draw, name, x, **maybe(draw, offset=k))
    return forms(
        draw,
        name,
        x,
        **maybe(draw, 0.8 * draw.chance(0.9), offset=k, dim1=draw.dim(rank), dim2=draw.dim(rank)),
    )


@calls("repeat_interleave Tensor.unfold")
def windows(draw: Draw, name: str) -> Call:
    shape = draw.shape()
    x, a = draw.leaf(shape), draw.dim(len(shape))
    n = shape[a] if shape and -len(shape) <= a < len(shape) else 1
    if "unfold" in name:
        return Call(name, (x, a, draw.number(0, 4), draw.number(1, 3)))
    repeats = draw.pick(draw.number(0, 3), Leaf(draw.rng.integers(0, 4, n)), Leaf(np.array([2])))
    return either(draw, name, x, repeats, **maybe(draw, 0.7, dim=a))
