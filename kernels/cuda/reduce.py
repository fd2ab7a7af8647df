"""Sums and extremes over any axes; the order of additions depends on which axes, and how many
values they hold, alone. Integers and bools are declined."""

from math import prod

from .runtime import blocks, suffix, threads_for

CHUNK = 4096  # values of a row that a block takes: 16 a thread
DEEP = 256  # values of a column that a block takes: 32 a thread
SHORT = 32  # rows up to this length are one thread's


def reduction(name):
    """The launcher of sum, amax or amin over the axes `dim` (None: all)."""

    def launch(gpu, x, *, dim, keepdim):
        kind = suffix(x)
        dims = axes(dim, x.ndim) if kind else None
        if dims is None or (name != "sum" and 0 in [x.shape[d] for d in dims]):
            return NotImplemented  # of no values there is no extreme: the body says so
        shape = [1 if d in dims else n for d, n in enumerate(x.shape) if keepdim or d not in dims]
        y = reduced(gpu, name, x, dims).reshape(shape)
        return y.astype(x.dtype, copy=False)

    launch.__name__ = name
    return launch


sum, amax, amin = reduction("sum"), reduction("amax"), reduction("amin")


def axes(dim, ndim):
    """The axes that `dim` (None, (): all) means, in order; None: the body says what is wrong."""
    dim = () if dim is None or ndim == 0 else dim if isinstance(dim, tuple | list) else (dim,)
    found = sorted({d % ndim for d in dim if -ndim <= d < ndim})
    return None if len(found) != len(dim) else found or list(range(ndim))


def reduced(gpu, name, x, dims):
    """x over the axes `dims`, flat; float16 in float32."""
    kept = [d for d in range(x.ndim) if d not in dims]
    rows, length = prod(x.shape[d] for d in kept), prod(x.shape[d] for d in dims)
    if kept and dims == list(range(len(dims))) and length > SHORT:
        return columns(gpu, name, gpu.contiguous(x), rows, length)
    if kept and kept[-1] - kept[0] == len(kept) - 1:  # they lie together
        inner = prod(x.shape[kept[-1] + 1 :])
    else:
        x, inner = x.transpose(*kept, *dims), length
    return row_by_row(gpu, name, gpu.contiguous(x), rows, inner, length)


def row_by_row(gpu, name, x, rows, inner, length):
    """(outer, rows, inner) -> (rows,): long rows chunk by chunk until one value is left."""
    kind, wide = suffix(x), "float64" if x.dtype == "float64" else "float32"
    if length <= SHORT:
        y = gpu.empty((rows,), wide)
        gpu.launch_each("reduce", f"{name}_short_{kind}", rows, (x, y, rows, inner, length))
        return y
    chunks = blocks(length, CHUNK)
    y = gpu.empty((rows * chunks,), wide)
    threads = threads_for(min(length, CHUNK))
    args = (x, y, rows, inner, length, CHUNK, chunks)
    gpu.launch("reduce", f"{name}_chunks_{kind}", rows * chunks, threads, args)
    return y if chunks == 1 else row_by_row(gpu, name, y, rows, chunks, chunks)


def columns(gpu, name, x, count, length):
    """(length, columns) -> (columns,), DEEP rows at a time until one is left."""
    parts = blocks(length, DEEP)
    y = gpu.empty((parts * count,), "float64" if x.dtype == "float64" else "float32")
    args = (x, y, count, length, DEEP)
    gpu.launch("reduce", f"{name}_columns_{suffix(x)}", blocks(count, 32) * parts, (32, 8), args)
    return y if parts == 1 else columns(gpu, name, y, count, parts)


def place_of(name):
    """The launcher of argmax or argmin: int64 places along `dim`, or in the flat array."""

    def launch(gpu, x, *, dim, keepdim):
        kind = suffix(x)
        dims = axes(dim, x.ndim) if kind and x.size else None
        if dims is None:
            return NotImplemented
        shape = [1 if d in dims else n for d, n in enumerate(x.shape) if keepdim or d not in dims]
        kept = [d for d in range(x.ndim) if d not in dims]
        length = prod(x.shape[d] for d in dims)
        rows = gpu.contiguous(x.transpose(*kept, *dims))
        return places(gpu, f"{name}_{kind}", rows, None, x.size // length, length).reshape(shape)

    launch.__name__ = name
    return launch


argmax, argmin = place_of("argmax"), place_of("argmin")


def places(gpu, kernel, x, numbers, rows, length):
    """The place of the extreme of each row, chunk by chunk until one is left."""
    chunks = blocks(length, CHUNK)
    y, found = gpu.empty((rows * chunks,), x.dtype), gpu.empty((rows * chunks,), "int64")
    args = (x, numbers, y, found, length, CHUNK, chunks)
    gpu.launch("reduce", kernel, rows * chunks, threads_for(min(length, CHUNK)), args)
    return found if chunks == 1 else places(gpu, kernel, y, found, rows, chunks)
