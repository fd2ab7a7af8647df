"""Batch normalisation with given statistics, on channels-last memory."""

import numpy as np

from ._jit import compiled
from ._layout import channels_first, ready, served


def batch_norm(x, mean, var, weight=None, bias=None, eps=1e-5):
    """y = (x - mean) / sqrt(var + eps) * weight + bias per channel (axis 1) of x (n, c, ...).

    mean, var, weight and bias are (c); weight and bias may be None. Declines memory that is not
    channels-last: there NumPy's broadcasting has long rows already.
    """
    vectors = [v for v in (mean, var, weight, bias) if v is not None]
    if not served(x, *vectors) or x.ndim < 2 or any(v.shape != x.shape[1:2] for v in vectors):
        return NotImplemented
    last = x.transpose(0, *range(2, x.ndim), 1)
    if not last.flags.c_contiguous:
        return NotImplemented
    scale = 1 / np.sqrt(var + x.dtype.type(eps))
    scale = scale if weight is None else scale * weight
    shift = np.zeros_like(scale) if bias is None else bias
    y = np.empty(last.shape, x.dtype)
    shape = x.size // max(1, x.shape[1]), x.shape[1]
    _normalize(
        ready(last).reshape(shape), ready(mean), ready(scale), ready(shift), y.reshape(shape)
    )
    return channels_first(y)


@compiled
def _normalize(x, mean, scale, shift, y):
    for i in range(x.shape[0]):
        source, target = x[i], y[i]
        for k in range(x.shape[1]):
            target[k] = (source[k] - mean[k]) * scale[k] + shift[k]
