"""Rows by number and their adjoints, which add in the order of the rows: see index.cu.

Integer arrays, and keys that CuPy serves without additions, are declined.
"""

from math import prod

from .runtime import suffix


def embedding(gpu, input, weight, *, padding_idx):
    """y_...c = weight_input,c; IndexError for a number that is no row (the host waits to know)."""
    kind = suffix(weight)
    if kind is None or input.dtype.kind not in "iu":
        return NotImplemented
    count, width = weight.shape
    wrong = (input < 0) | (input >= count)
    if gpu.xp.any(wrong):
        value = int(input[wrong].reshape(-1)[0])
        raise IndexError(f"embedding: index {value} is out of range for an axis of size {count}; "
                         f"expected 0 to {count - 1}")  # fmt: skip
    numbers, weight = gpu.contiguous(input.astype("int64", copy=False)), gpu.contiguous(weight)
    y = gpu.empty((*input.shape, width), weight.dtype)
    gpu.launch_each("index", f"embedding_{kind}", y.size, (weight, numbers, y, y.size, width))
    return y


def embedding_weight(gpu, g, input, *, shape, padding_idx):
    """Zeros of `shape` with each row of g added at its number; none at `padding_idx`."""
    if suffix(g) is None or input.dtype.kind not in "iu":
        return NotImplemented
    places = input.reshape(-1).astype("int64")
    if padding_idx is not None:
        places[places == padding_idx % shape[0]] = -1
    return added(gpu, g, places, shape, shape[1])


def put(gpu, x, *, shape, key):
    """Zeros of `shape` with x added at `key`, where places may repeat: index arrays only."""
    if suffix(x) is None or not may_repeat(key):
        return NotImplemented
    rows = hasattr(key, "dtype")  # of the first axis, by one array
    width = prod(shape[1:]) if rows else 1
    numbers = gpu.xp.arange(shape[0] if rows else prod(shape))
    places = (numbers if rows else numbers.reshape(shape))[key]
    if x.shape != (*places.shape, *(shape[1:] if rows else ())):
        return NotImplemented
    return added(gpu, x, places.reshape(-1), shape, width)


def may_repeat(key):
    """Whether a key holds lists or arrays of integers, which may name a place twice."""
    parts = key if isinstance(key, tuple) else (key,)
    return any(isinstance(p, list) or getattr(getattr(p, "dtype", None), "kind", "") in tuple("iu")
               for p in parts)  # fmt: skip


def take_along_dim(gpu, x, index, *, dim):
    """Along `dim`, the places that `index` names; other axes must be alike."""
    kind, dim = suffix(x), dim % max(1, x.ndim)
    if kind is None or not alike(x.shape, index.shape, dim):
        return NotImplemented
    _, length, inner = sides(x.shape, dim)
    places = gpu.contiguous(gpu.xp.arange(length)[index])
    x, y = gpu.contiguous(x), gpu.empty(index.shape, x.dtype)
    args = (x, places, y, y.size, length, index.shape[dim], inner)
    gpu.launch_each("index", f"take_along_{kind}", y.size, args)
    return y


def scatter_along(gpu, x, index, *, shape, dim):
    """Zeros of `shape` with x added at the places `index` along `dim`; other axes alike."""
    dim = dim % max(1, x.ndim)
    if suffix(x) is None or x.shape != index.shape or not alike(x.shape, shape, dim):
        return NotImplemented
    outer, length, inner = sides(shape, dim)
    count = gpu.xp.arange
    places = count(length)[index].reshape(outer, x.shape[dim], inner)
    places = (count(outer)[:, None, None] * length + places) * inner + count(inner)
    return added(gpu, x, places.reshape(-1), shape, 1)


def alike(shape, other, dim):
    """Whether two shapes differ at most along `dim`."""
    same = [n == m for axis, (n, m) in enumerate(zip(shape, other, strict=False)) if axis != dim]
    return len(shape) == len(other) > 0 and all(same)


def sides(shape, dim):
    """(places before axis `dim`, along it, behind it)."""
    return prod(shape[:dim]), shape[dim], prod(shape[dim + 1 :])


def added(gpu, x, places, shape, width):
    """Zeros of `shape` with the rows of x, `width` values each, added at `places`."""
    y, x = gpu.zeros(shape, x.dtype), gpu.contiguous(x)
    order = gpu.xp.argsort(places, kind="stable")
    args = (x, order, places[order], y, len(places), width)
    gpu.launch_each("index", f"add_runs_{suffix(x)}", x.size, args)
    return y
