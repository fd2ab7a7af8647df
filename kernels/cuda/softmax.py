"""Softmax and cross-entropy: the class axis is moved last, then one block of threads a row."""

from .reduce import axes
from .runtime import suffix, threads_for


def rows_of(gpu, x, dim):
    """x with axis `dim` last, C-contiguous."""
    return gpu.contiguous(gpu.xp.moveaxis(x, dim, -1))


def row_count(rows):
    """How many rows there are; none if the rows hold nothing."""
    return rows.size // rows.shape[-1] if rows.size else 0


def softmax_kernel(name):
    """The launcher of softmax or log_softmax: x, y of any shape, along `dim`."""

    def launch(gpu, x, *, dim):
        kind = suffix(x)
        if kind is None or x.ndim == 0:
            return NotImplemented
        rows = rows_of(gpu, x, dim)
        y = gpu.empty(rows.shape, x.dtype)
        classes = rows.shape[-1]
        args = (rows, y, classes)
        gpu.launch("softmax", f"{name}_{kind}", row_count(rows), threads_for(classes), args)
        return gpu.xp.moveaxis(y, -1, dim)

    launch.__name__ = name
    return launch


def softmax_input_kernel(name):
    """The launcher of softmax_input or log_softmax_input: g and the function's y, along `dim`."""

    def launch(gpu, g, y, *, dim):
        kind = suffix(g, y)
        if kind is None or y.ndim == 0 or g.shape != y.shape:
            return NotImplemented
        g, y = (rows_of(gpu, x, dim) for x in (g, y))
        dx, classes = gpu.empty(y.shape, y.dtype), y.shape[-1]
        args = (g, y, dx, classes)
        gpu.launch("softmax", f"{name}_{kind}", row_count(y), threads_for(classes), args)
        return gpu.xp.moveaxis(dx, -1, dim)

    launch.__name__ = name
    return launch


softmax, log_softmax = softmax_kernel("softmax"), softmax_kernel("log_softmax")
softmax_input = softmax_input_kernel("softmax_input")
log_softmax_input = softmax_input_kernel("log_softmax_input")


def logsumexp(gpu, x, *, dim, keepdim):
    """log sum e^x over the axes `dim` (None: all); of no values the body says it."""
    kind = suffix(x)
    dims = axes(dim, x.ndim) if kind and x.size else None
    if dims is None:
        return NotImplemented
    kept = [d for d in range(x.ndim) if d not in dims]
    shape = [1 if d in dims else n for d, n in enumerate(x.shape) if keepdim or d not in dims]
    rows, y = gpu.contiguous(x.transpose(*kept, *dims)), gpu.empty(shape, x.dtype)
    classes = x.size // y.size
    gpu.launch("softmax", f"logsumexp_{kind}", y.size, threads_for(classes), (rows, y, classes))
    return y


class NoClassError(ValueError, IndexError):
    """A target that is not the number of a class."""


def check_targets(gpu, target, classes, ignore_index):
    """NoClassError if a target is no class and not ignored; to know, the host waits for the GPU.

    A CUDA graph cannot wait: what it replays is not looked at.
    """
    if gpu.capturing:
        return
    bad = ((target < 0) | (target >= classes)) & (target != ignore_index)
    if gpu.xp.any(bad):
        value = int(target[bad].reshape(-1)[0])
        raise NoClassError(
            f"cross_entropy: target {value} is not a class: targets go from 0 to {classes - 1} "
            f"(or ignore_index = {ignore_index}): correct the labels or add outputs to the model"
        )


def integers(gpu, target):
    """Targets as the kernels read them: C-contiguous int64."""
    return gpu.contiguous(target.astype("int64", copy=False))


def cross_entropy(gpu, x, target, *, ignore_index):
    """logsumexp(x) - x[target], 0 where ignored: logits x (n, c, ...), targets (n, ...)."""
    kind = suffix(x)
    if kind is None or x.ndim < 2 or target.dtype.kind not in "iu":
        return NotImplemented
    rows, target = rows_of(gpu, x, 1), integers(gpu, target)
    classes = rows.shape[-1]
    check_targets(gpu, target, classes, ignore_index)
    losses = gpu.zeros(target.shape, x.dtype)
    args = (rows, target, losses, classes, ignore_index)
    gpu.launch("softmax", f"cross_entropy_{kind}", row_count(rows), threads_for(classes), args)
    return losses


def cross_entropy_input(gpu, g, x, target, *, ignore_index):
    """g (softmax(x) - onehot(target)): the cotangent of the logits, of x's shape."""
    kind = suffix(g, x)
    if kind is None or x.ndim < 2 or target.dtype.kind not in "iu":
        return NotImplemented
    rows, target, g = rows_of(gpu, x, 1), integers(gpu, target), gpu.contiguous(g)
    dx, classes = gpu.empty(rows.shape, x.dtype), rows.shape[-1]
    args = (g, rows, target, dx, classes, ignore_index)
    gpu.launch(
        "softmax", f"cross_entropy_input_{kind}", row_count(rows), threads_for(classes), args
    )
    return gpu.xp.moveaxis(dx, -1, 1)
