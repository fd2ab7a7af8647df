"""Layers in which each channel has several filters of its own, as depthwise ones.

Every channel is read as often as it has filters, from a copy in which it lies so often, side by
side; the gradients of these are added up. A copy costs 4 bytes a value written, much less than
register tiles of as few columns as a group has filters: see `_depthwise` for the rest.
"""

from ._jit import compiled
from ._layout import channels_first, channels_last
from ._memory import empty


def are(weights, groups):
    """Whether a layer is one of these."""
    return weights[1] == 1 and weights[0] > groups > 1 and weights[2] * weights[3] > 1


def repeated(x, filters):
    """x (n, c, h, w) as (n, filters, h, w), each channel once for each of its filters."""
    x = channels_last(x)
    y = empty((*x.shape[:3], filters), x.dtype)
    _repeat(x.reshape(-1, x.shape[3]), y.reshape(-1, filters))
    return channels_first(y)


def summed(y, channels):
    """The sums over the filters of each channel: the adjoint of `repeated`."""
    y = channels_last(y)
    x = empty((*y.shape[:3], channels), y.dtype)
    _sum(y.reshape(-1, y.shape[3]), x.reshape(-1, channels))
    return channels_first(x)


@compiled
def _repeat(x, y):
    many = y.shape[1] // max(1, x.shape[1])
    for i in range(x.shape[0]):
        for c in range(x.shape[1]):
            for k in range(many):
                y[i, c * many + k] = x[i, c]


@compiled
def _sum(y, x):
    many = y.shape[1] // max(1, x.shape[1])
    for i in range(x.shape[0]):
        for c in range(x.shape[1]):
            total = y[i, c * many]
            for k in range(1, many):
                total += y[i, c * many + k]
            x[i, c] = total
