"""Sums over any dimensions; the order of additions depends on the length of the sum alone."""

from math import prod

from .runtime import blocks, suffix, threads_for

CHUNK = 4096  # values a block adds: 16 a thread
SHORT = 32  # rows up to this length are added by one thread


def sum(gpu, x, *, dim, keepdim):
    """The sum of x over the dimensions in `dim` (None: all); keepdim: they stay, of size 1."""
    kind = suffix(x)
    if kind is None:
        return NotImplemented
    dim = range(x.ndim) if dim is None else dim if isinstance(dim, tuple) else (dim,)
    dim = [d % x.ndim for d in dim]
    kept = [d for d in range(x.ndim) if d not in dim]
    rows, length = prod(x.shape[d] for d in kept), prod(x.shape[d] for d in dim)
    shape = [1 if d in dim else x.shape[d] for d in range(x.ndim) if keepdim or d not in dim]
    lines = gpu.contiguous(x.transpose(*kept, *dim)).reshape(rows, length)
    return sum_rows(gpu, kind, lines).reshape(shape)


def sum_rows(gpu, kind, x):
    """(rows, length) -> (rows,): long rows chunk by chunk until one value is left."""
    rows, length = x.shape
    if length <= SHORT:
        y = gpu.empty((rows,), x.dtype)
        gpu.launch_each("reduce", f"sum_short_rows_{kind}", rows, (x, y, rows, length))
        return y
    chunks = blocks(length, CHUNK)
    y = gpu.empty((rows, chunks), x.dtype)
    threads = threads_for(min(length, CHUNK))
    gpu.launch(
        "reduce", f"sum_chunks_{kind}", rows * chunks, threads, (x, y, length, CHUNK, chunks)
    )
    return y.reshape(rows) if chunks == 1 else sum_rows(gpu, kind, y)
