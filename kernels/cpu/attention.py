"""Attention, head by head and block by block of queries: scores never leave the cache.

Forwards 4 l s e flops a head by register tiles, and an exponential for each score; backwards
10 l s e, since scores are computed again from queries and keys (Dao et al. 2022, arXiv 2205.14135;
no online softmax is needed, as a block has all keys of its queries). With ``causal`` half of that.
Some 60 % of a core's peak, exponentials included, for hundreds of keys. A few queries are a matter
of reading keys and values once, by BLAS.
"""

import math
from functools import cache

import numpy as np

from . import _small
from ._blas import add_product, blas
from ._jit import compiled, part, summing
from ._layout import ready, served
from ._math import exp, larger
from ._memory import empty
from ._packed import lay_out_turned, multiply

BLOCK, LEAST = 2**16, 32  # scores of a block; its queries, at least
FEW = 8  # queries for which keys and values are not worth laying out


def attention(q, k, v, mask=None, *, scale, causal):
    """softmax(scale q k^T + mask) v, and the logarithms of the sums of exponentials."""
    if not _fits(q, k, v, mask):
        return NotImplemented
    batch = q.shape[:-2]
    q, k, v = (_heads(x) for x in (q, k, v))
    y = empty((*batch, q.shape[1], v.shape[2]), q.dtype)
    rest = empty((*batch, q.shape[1]), q.dtype)
    scaled, scores = _blocks(q, k)
    mask, which = _masks(mask, batch, q)
    tools = _tools(len(scaled), q, k, v, causal, False)
    _forward(tools, q, k, v, mask, which, q.dtype.type(scale), causal, _heads(y),
             rest.reshape(q.shape[:2]), scaled, scores)  # fmt: skip
    return y, rest


def attention_back(dy, q, k, v, y, rest, mask=None, *, scale, causal):
    """The cotangents of q, k and v."""
    if not _fits(q, k, v, mask) or not served(q, dy, y, rest):
        return NotImplemented
    batch, shapes = q.shape[:-2], (q.shape, k.shape, v.shape)
    dy, q, k, v, y = (_heads(x) for x in (dy, q, k, v, y))
    rest = ready(rest).reshape(q.shape[:2])
    found = tuple(empty(shape, q.dtype) for shape in shapes)
    scaled, scores = _blocks(q, k)
    slopes = empty(scores.shape, q.dtype)
    mask, which = _masks(mask, batch, q)
    tools = _tools(len(scaled), q, k, v, causal, True)
    _backward(tools, dy, q, k, v, y, rest, mask, which, q.dtype.type(scale), causal,
              *map(_heads, found), scaled, scores, slopes)  # fmt: skip
    return found


def _fits(q, k, v, mask):
    """Whether these are of one batch, which the mask is for."""
    same = served(q, k, v, mask) and q.shape[:-2] == k.shape[:-2] == v.shape[:-2]
    if not same or mask is None:
        return same
    return mask.shape[-1] == k.shape[-2]


def _heads(x):
    """x (..., rows, columns) as (heads, rows, columns)."""
    return ready(x) if x.ndim == 3 else ready(x).reshape(math.prod(x.shape[:-2]), *x.shape[-2:])


def _blocks(q, k):
    """Memory for the scaled queries of a block and for its scores."""
    height = min(q.shape[1], max(LEAST, BLOCK // max(1, k.shape[1])))
    return empty((height, q.shape[2]), q.dtype), empty((height * k.shape[1],), q.dtype)


def _tools(height, q, k, v, causal, back):
    """What products need: BLAS, the plan of tiles, numbers, and panels of keys and of values."""
    sizes = height, q.shape[1], *k.shape[1:], v.shape[2], causal, back
    plan, keys, values = _planned(q.dtype, *sizes)
    return blas(), plan, _small.numbers(), empty(keys, q.dtype), empty(values, q.dtype)


@cache
def _planned(dtype, height, queries, keys, width, depth, causal, back):
    """The plan of tiles for rows of queries of blocks and of the keys of these, empty for BLAS,
    and how many values there are in panels of keys and of values."""
    if queries < FEW:
        return np.empty(0, np.int64), 0, 0
    starts = range(0, queries, height)
    rows = {min(height, queries - start) for start in starts}
    if back:
        rows |= {min(keys, start + height, queries) for start in starts} if causal else {keys}
    return (_small.plan_of(dtype, frozenset(rows)), _small.panels(width, keys, dtype),
            _small.panels(depth, keys if back else 0, dtype))  # fmt: skip


def _masks(mask, batch, q):
    """The matrices of the mask, and which of them each head has; none when there is no mask."""
    if mask is None:
        return empty((0, 0, 0), q.dtype), empty((0,), np.dtype(np.int64))
    return _heads(mask), _which(mask.shape[:-2], batch)


@cache
def _which(masks, batch):
    count = math.prod(masks)
    return np.array(np.broadcast_to(np.arange(count).reshape(masks), batch)).reshape(-1)


@compiled
def _forward(tools, q, k, v, mask, which, scale, causal, y, rest, scaled, scores):
    zero = q.dtype.type(0)  # of one type with scores: else exponentials would be float64's
    for b in range(q.shape[0]):
        lay_out_turned(tools[1], k[b], tools[3])
        for start in range(0, q.shape[1], scaled.shape[0]):
            n, width = _extent(start, scaled.shape[0], q, k, causal)
            block = scores[: n * width].reshape(n, width)
            _score(tools, q[b], k[b], mask, which, scale, causal, b, start, scaled, block)
            out = y[b, start : start + n]
            tops = rest[b, start : start + n]
            for i in range(n):
                tops[i] = _largest(block, i)
            for i in range(n):
                _lower(block, i, tops[i] if tops[i] > -np.inf else zero)
            out[:] = 0
            _add(tools, block, v[b, :width], out)
            for i in range(n):
                total = _sum(block, i)
                factor = q.dtype.type(0 if total == 0 else 1 / total)
                tops[i] = np.inf if total == 0 else tops[i] + np.log(total)
                for j in range(out.shape[1]):
                    out[i, j] *= factor


@compiled
def _backward(
    tools, dy, q, k, v, y, rest, mask, which, scale, causal, dq, dk, dv, scaled, scores, slopes
):
    dq[:], dk[:], dv[:] = 0, 0, 0
    for b in range(q.shape[0]):
        lay_out_turned(tools[1], k[b], tools[3])
        lay_out_turned(tools[1], v[b], tools[4])
        for start in range(0, q.shape[1], scaled.shape[0]):
            n, width = _extent(start, scaled.shape[0], q, k, causal)
            block = scores[: n * width].reshape(n, width)
            _score(tools, q[b], k[b], mask, which, scale, causal, b, start, scaled, block)
            for i in range(n):
                _lower(block, i, rest[b, start + i])
            slope, g = slopes[: n * width].reshape(n, width), dy[b, start : start + n]
            slope[:] = 0
            _add_by_panels(tools, g, v[b, :width], tools[4], slope)
            _add_turned(tools, block, g, dv[b, :width])
            for i in range(n):
                level = q.dtype.type(_dot(dy[b], y[b], start + i))
                for j in range(width):
                    slope[i, j] = block[i, j] * (slope[i, j] - level)
            _add_turned(tools, slope, scaled[:n], dk[b, :width])
            out = dq[b, start : start + n]
            _add(tools, slope, k[b, :width], out)
            for i in range(n):
                for j in range(out.shape[1]):
                    out[i, j] *= scale


@part
def _extent(start, height, q, k, causal):
    """How many queries are in a block, and how many keys the last of them may look at."""
    n = min(height, q.shape[1] - start)
    return n, min(k.shape[1], start + n) if causal else k.shape[1]


@part
def _score(tools, q, k, mask, which, scale, causal, b, start, scaled, block):
    """block = scale q k^T + mask, for queries from ``start`` on; -inf for later keys if causal."""
    n, width = block.shape
    for i in range(n):
        for j in range(q.shape[1]):
            scaled[i, j] = q[start + i, j] * scale
        if which.shape[0]:
            m, row = which[b], start + i if mask.shape[1] > 1 else 0
            for j in range(width):
                block[i, j] = mask[m, row, j]
        else:
            block[i] = 0
        if causal:
            for j in range(start + i + 1, width):
                block[i, j] = -np.inf
    _add_by_panels(tools, scaled[:n], k[:width], tools[3], block)


@part
def _add(tools, a, b, c):
    """c += a b."""
    blas, plan, numbers = tools[0], tools[1], tools[2]
    (rows, sums), columns = a.shape, b.shape[1]
    if plan.shape[0]:
        _small.product(plan, numbers, c.itemsize, (rows, sums, columns), a.ctypes.data, (sums, 1),
                       b.ctypes.data, (plan[0], columns), c.ctypes.data, columns)  # fmt: skip
    else:
        add_product(blas, a, b, c)


@part
def _add_turned(tools, a, b, c):
    """c += a^T b."""
    blas, plan, numbers = tools[0], tools[1], tools[2]
    (sums, rows), columns = a.shape, b.shape[1]
    if plan.shape[0]:
        _small.product(plan, numbers, c.itemsize, (rows, sums, columns), a.ctypes.data, (1, rows),
                       b.ctypes.data, (plan[0], columns), c.ctypes.data, columns)  # fmt: skip
    else:
        add_product(blas, a.T, b, c)


@part
def _add_by_panels(tools, a, b, panels, c):
    """c += a b^T, where b^T is laid out in panels."""
    multiply(tools[0], tools[1], tools[2], a, b.T, panels, c)


@part
def _largest(x, i):
    top = x.dtype.type(-np.inf)
    for j in range(x.shape[1]):
        top = larger(x[i, j], top)
    return top


@part
def _lower(x, i, top):
    """A row of scores as exponentials."""
    for j in range(x.shape[1]):
        x[i, j] = exp(x[i, j] - top)


@summing
def _sum(x, i):
    total = 0.0
    for j in range(x.shape[1]):
        total += x[i, j]
    return total


@summing
def _dot(x, y, i):
    total = 0.0
    for j in range(x.shape[1]):
        total += x[i, j] * y[i, j]
    return total
