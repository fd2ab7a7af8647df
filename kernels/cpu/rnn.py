"""Elman's recurrent layer over all steps of packed rows, in one compiled call.

Per step 2 n h h flops for n sequences, by register tiles, and one pass over what a step makes.
"""

from ._blas import blas
from ._jit import compiled, copy, part
from ._layout import ready, served
from ._math import tanh
from ._memory import empty
from ._packed import laid_out, lay_out_turned, multiply, spans


def rnn(x, h, w, *, sizes, reverse, relu):
    """The states, and the last ones."""
    if not served(x, h, w):
        return NotImplemented
    y, last = empty(x.shape, x.dtype), empty(h.shape, h.dtype)
    given = [ready(each) for each in (x, h, w)]
    _rnn(blas(), spans(sizes, reverse), *given, *laid_out(given[2].T, sizes), y, last, relu)
    return y, last


@compiled
def _rnn(blas, spans, x, h, w, plan, numbers, panels, y, last, relu):
    copy(h, last)
    lay_out_turned(plan, w, panels)
    for k in range(spans.shape[0]):
        start, n = spans[k]
        a = y[start : start + n]
        copy(x[start : start + n], a)
        multiply(blas, plan, numbers, last[:n], w.T, panels, a)
        if relu:
            _cut(a.reshape(-1))
        else:
            _bend(a.reshape(-1))
        copy(a, last[:n])


@part
def _bend(y):
    for j in range(y.shape[0]):
        y[j] = tanh(y[j])


@part
def _cut(y):
    zero = y.dtype.type(0)
    for j in range(y.shape[0]):
        y[j] = zero if y[j] <= zero else y[j]
