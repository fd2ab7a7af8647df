"""Attention in tiles, see attention.cu; it declines heads of more than 128 numbers (float64: 64),
and queries, keys and values that differ in the axes before the last two."""

from math import prod

from .runtime import blocks, int32, number, suffix


def attention(gpu, q, k, v, mask=None, *, scale, causal):
    """(softmax(scale q k^T + mask) v, log of the sum of e^score) of each head."""
    how = sizes(gpu, (q, k, v), mask, scale, causal)
    if how is None:
        return NotImplemented
    y, total = forward(gpu, q, k, v, how)
    return y, total.astype(q.dtype, copy=False)


def forward(gpu, q, k, v, how):
    """(y, total), the latter in float32 for float16."""
    ending, rows, mask, numbers = how
    y = gpu.empty((*q.shape[:-1], v.shape[-1]), q.dtype)
    total = gpu.empty(q.shape[:-1], number(q))
    arrays = (*map(gpu.contiguous, (q, k, v)), mask, y, total)
    launch(gpu, "", ending, q, rows, (*arrays, *numbers))
    return y, total


def attention_input(gpu, dy, dtotal, q, k, v, y, total, mask=None, *, scale, causal):
    """(dq, dk, dv) for the cotangents dy and dtotal of attention's outputs y and total.

    A `total` in float16 has too few digits to make the weights again: it is computed once more.
    """
    how = sizes(gpu, (q, k, v, y, dy, total, dtotal), mask, scale, causal)
    if how is None:
        return NotImplemented
    ending, rows, mask, numbers = how
    if total.dtype != number(q):
        total = forward(gpu, q, k, v, how)[1]
    wide = [x.astype(number(q), copy=False) for x in (dy, y, dtotal)]
    delta = gpu.contiguous((wide[0] * wide[1]).sum(axis=-1) - wide[2])
    given = (*map(gpu.contiguous, (dy, q, k, v)), mask, gpu.contiguous(total), delta)
    dq, dk, dv = (gpu.empty(x.shape, x.dtype) for x in (q, k, v))
    launch(gpu, "query_", ending, q, rows, (*given, dq, *numbers))
    launch(gpu, "key_value_", ending, k, rows, (*given, dk, dv, *numbers))
    return dq, dk, dv


def sizes(gpu, arrays, mask, scale, causal):
    """(kernel's ending, rows of a block, mask, other arguments); None: declined."""
    q, k, v = arrays[:3]
    kind, alike = suffix(*arrays), q.shape[:-2] == k.shape[:-2] == v.shape[:-2]
    if kind is None or not alike or 0 in q.shape + k.shape + v.shape:
        return None
    largest = max(q.shape[-1], v.shape[-1]) * (8 if kind == "f64" else 4)  # bytes, of sums
    if largest > 512:
        return None
    narrow = 16 if kind == "f64" else 32  # rows of a block
    ending, rows = (f"narrow_{kind}", narrow) if largest <= 256 else (f"wide_{kind}", 8)
    mask, step = masked(gpu, mask, q, k)
    shape = int32(q.shape[-2], k.shape[-2], q.shape[-1], v.shape[-1], causal)
    return ending, rows, mask, (*shape, number(q)(scale), step)


def masked(gpu, mask, q, k):
    """The mask as kernels read it, and the step from head to head: -1 without one."""
    if mask is None:
        return None, -1
    one = prod(mask.shape[:-2]) == 1
    shape = (q.shape[-2], k.shape[-2])
    mask = mask.reshape(mask.shape[-2:]) if one else mask
    mask = gpu.xp.broadcast_to(mask, shape if one else (*q.shape[:-2], *shape))
    return gpu.contiguous(mask.astype(q.dtype, copy=False)), 0 if one else prod(shape)


def launch(gpu, name, ending, x, rows, args):
    """Launch a block for `rows` rows of each head of x."""
    grid = prod(x.shape[:-2]) * blocks(x.shape[-2], rows)
    gpu.launch("attention", f"attention_{name}{ending}", grid, 256, args)
