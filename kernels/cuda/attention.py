"""Attention in tiles, see attention.cu; it declines heads of more than 128 numbers (float64: 64),
and queries, keys and values that differ in the axes before the last two."""

from math import prod

from .runtime import blocks, int32, number, suffix


def attention(gpu, q, k, v, mask=None, *, scale, causal):
    """softmax(scale q k^T + mask) v, and the log of the sum of e^score, for each head."""
    how = sizes((q, k, v, mask), scale, causal)
    if how is None:
        return NotImplemented
    y, rest = forward(gpu, q, k, v, mask, how)
    return y, rest.astype(q.dtype, copy=False)


def forward(gpu, q, k, v, mask, how):
    """(y, rest), the latter in float32 for float16."""
    ending, rows, numbers = how
    y = gpu.empty((*q.shape[:-1], v.shape[-1]), q.dtype)
    rest = gpu.empty(q.shape[:-1], number(q))
    mask, step = masked(gpu, mask, q, k)
    arrays = (*map(gpu.contiguous, (q, k, v)), mask, y, rest)
    launch(gpu, "", ending, q, rows, (*arrays, *numbers, step))
    return y, rest


def attention_back(gpu, dy, q, k, v, y, rest, mask=None, *, scale, causal):
    """(dq, dk, dv) for the cotangent of y, from what attention gave: y and rest.

    A `rest` in float16 has too few digits to make the weights again: it is computed once more.
    """
    how = sizes((q, k, v, mask, dy, y, rest), scale, causal)
    if how is None:
        return NotImplemented
    ending, rows, numbers = how
    if rest.dtype != number(q):
        rest = forward(gpu, q, k, v, mask, how)[1]
    level = gpu.contiguous((wide(dy) * wide(y)).sum(axis=-1))
    mask, step = masked(gpu, mask, q, k)
    given = (*map(gpu.contiguous, (dy, q, k, v)), mask, gpu.contiguous(rest), level)
    dq, dk, dv = (gpu.empty(x.shape, x.dtype) for x in (q, k, v))
    launch(gpu, "query_", ending, q, rows, (*given, dq, *numbers, step))
    launch(gpu, "key_value_", ending, k, rows, (*given, dk, dv, *numbers, step))
    return dq, dk, dv


def wide(x):
    """x in what kernels compute in: float16 as float32."""
    return x.astype(number(x), copy=False)


def sizes(arrays, scale, causal):
    """(kernel's ending, rows of a block, its numbers but the step of the mask); None: declined."""
    q, k, v = arrays[:3]
    kind, alike = suffix(*arrays), q.shape[:-2] == k.shape[:-2] == v.shape[:-2]
    if kind is None or not alike or 0 in q.shape + k.shape + v.shape:
        return None
    largest = max(q.shape[-1], v.shape[-1]) * (8 if kind == "f64" else 4)  # bytes, of sums
    if largest > 512:
        return None
    narrow = 16 if kind == "f64" else 32  # rows of a block
    ending, rows = (f"narrow_{kind}", narrow) if largest <= 256 else (f"wide_{kind}", 8)
    shape = int32(q.shape[-2], k.shape[-2], q.shape[-1], v.shape[-1], causal)
    return ending, rows, (*shape, number(q)(scale))


def masked(gpu, mask, q, k):
    """The mask as kernels read it, and the step from head to head: -1 without one."""
    if mask is None:
        return None, -1
    one = prod(mask.shape[:-2]) == 1
    shape = (q.shape[-2], k.shape[-2])
    mask = mask.reshape(mask.shape[-2:]) if one else mask
    mask = gpu.xp.broadcast_to(mask, shape if one else (*q.shape[:-2], *shape))
    return gpu.contiguous(mask), 0 if one else prod(shape)


def launch(gpu, name, ending, x, rows, args):
    """Launch a block for `rows` rows of each head of x."""
    grid = prod(x.shape[:-2]) * blocks(x.shape[-2], rows)
    gpu.launch("attention", f"attention_{name}{ending}", grid, 256, args)
