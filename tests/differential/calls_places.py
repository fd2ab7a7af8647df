"""Places named by index tensors and masks."""

from __future__ import annotations

from typing import Any

import numpy as np

from differential.random_values import Draw
from differential.registry import calls, either, forms, maybe
from differential.twins import Call, Leaf


def index_for(draw: Draw, n: int, shape: Any, dtype: str = "int64") -> Leaf:
    high = max(n, 1)
    values = draw.rng.integers(0, high, shape)
    if draw.chance(0.04) and values.size:
        values.flat[0] = draw.pick(n, -n - 1, -1)
    if n == 0 and values.size:
        pass
    return Leaf(np.asarray(values).astype(dtype))


@calls(
    "gather scatter scatter_add scatter_reduce take_along_dim Tensor.scatter_ "
    "Tensor.scatter_add_"
)
def along(draw: Draw, name: str) -> Call:
    shape = draw.shape()
    dtype = draw.dtype("fi") if draw.chance(0.3) else draw.dtype("f")
    x, a = draw.leaf(shape, dtype), draw.dim(len(shape))
    axis = a % max(len(shape), 1)
    n = shape[axis] if shape else 1
    if "." in name:
        x = Leaf(draw.values(shape, dtype))
    sizes = [draw.number(0, 3) if i == axis else draw.number(0, m) if draw.chance(0.3) else m
             for i, m in enumerate(shape)]  # fmt: skip
    if n == 0 and sizes:
        sizes[axis] = 0
    index = index_for(draw, n, sizes, "int64" if draw.chance(0.95) else "int32")
    if name == "gather":
        return forms(draw, name, x, dim=a, index=index)
    if name == "take_along_dim":
        sizes = [m if i == axis or draw.chance(0.7) else 1 for i, m in enumerate(shape)]
        index = index_for(
            draw, n, [draw.number(0, 3) if i == axis and n else m for i, m in enumerate(sizes)]
        )
        return either(draw, name, x, index, a) if draw.chance(0.8) else either(draw, name, x, index)
    if name in ("scatter", "Tensor.scatter_") and draw.chance(0.3):
        return Call(name, (x, a, index, 1.5 if "f" in dtype else 2))
    src_shape = [m + (1 if draw.chance(0.2) else 0) for m in sizes]
    src = draw.leaf(tuple(src_shape), dtype)
    if name == "scatter_reduce":
        reduce = draw.pick("sum", "prod", "mean", "amax", "amin")
        return Call(name, (x, a, index, src, reduce), maybe(draw, include_self=draw.chance()))
    if name in ("scatter", "Tensor.scatter_"):
        count = max(n, 1)
        if sizes and sizes[axis] > count:  # of places named twice, which one stays is not said
            return Call(name, (x, a, index, 1.5 if "f" in dtype else 2))
        order_ = np.argsort(
            draw.rng.random((*sizes[:axis], count, *sizes[axis + 1 :])) if sizes else np.zeros(1),
            axis=axis,
        )
        if sizes:
            order_ = np.take(order_, range(sizes[axis]), axis)
        index = Leaf(np.asarray(order_ if sizes else 0).astype("int64"))
    return Call(name, (x, a, index, src))


@calls(
    "index_select index_add index_copy index_fill take Tensor.index_add_ "
    "Tensor.index_fill_ Tensor.index_copy_ index_put Tensor.put_ index_reduce"
)
def slices(draw: Draw, name: str) -> Call:
    shape = draw.shape()
    dtype = draw.dtype("fi") if draw.chance(0.3) else draw.dtype("f")
    x, a = draw.leaf(shape, dtype), draw.dim(len(shape))
    if "." in name:
        x = Leaf(draw.values(shape, dtype))
    axis = a % max(len(shape), 1)
    n = shape[axis] if shape else 1
    count = draw.number(0, 3) if n else 0
    index = index_for(draw, n, draw.pick((count,), (count,), ()) if count == 1 else (count,))
    if name == "take":
        size = x.values.size if not x.views else int(np.prod(shape, dtype=int))
        return either(draw, name, x, index_for(draw, size, draw.shape(0, 2) if size else (0,)))
    if name == "Tensor.put_":
        size = int(np.prod(shape, dtype=int))
        return Call(
            name,
            (x, Leaf(draw.rng.permutation(size)[:2]), Leaf(draw.values((min(size, 2),), dtype))),
        )
    if name == "index_select":
        return forms(draw, name, x, dim=a, index=index)
    if name in ("index_fill", "Tensor.index_fill_"):
        return Call(name, (x, a, index, draw.pick(2, -1)))
    src_shape = tuple(index.values.size if i == axis else m for i, m in enumerate(shape))
    if name in ("index_copy", "Tensor.index_copy_"):
        index = Leaf(draw.rng.permutation(n)[:count].astype("int64"))
        src_shape = tuple(index.values.size if i == axis else m for i, m in enumerate(shape))
    src = draw.leaf(src_shape, dtype)
    if name == "index_put":
        return Call(name, (x, (index,), draw.leaf((), dtype)), {"accumulate": draw.chance()})
    if name == "index_reduce":
        return Call(name, (x, a, index, src, draw.pick("amax", "amin", "prod", "mean")))
    named = maybe(draw, 0.3, alpha=2) if "add" in name else {}
    return Call(name, (x, a, index, src), named)


@calls("masked_fill masked_select masked_scatter Tensor.masked_fill_")
def masks(draw: Draw, name: str) -> Call:
    shape = draw.shape()
    x = draw.leaf(shape, kinds="fi" if draw.chance(0.3) else "f")
    if "." in name:
        x = Leaf(draw.values(shape, str(x.values.dtype)))
    mask = draw.leaf(draw.like(shape), dtype="bool" if draw.chance(0.95) else "uint8")
    if name == "masked_select":
        return forms(draw, name, x, mask=mask)
    if name == "masked_scatter":
        return either(draw, name, x, mask, draw.leaf((3, 10), str(x.values.dtype)))
    value = draw.pick(0, -1, 2.5, float("-inf"), draw.leaf((), "float32"))
    return Call(name, (x, mask, value))
