"""Operators that move values: shapes, slices, indices; and those that make tensors."""

import numpy as np

import minidp as dp
from conformance.cases import DTYPES
from minidp.nn import functional as F


def numbers(x):
    """The whole numbers of a small tensor."""
    return [int(n) for n in x.reshape(-1).tolist()]


def axes_of(x, axes):
    """The axes that an input of axes names, none negative; all of them without one."""
    named = numbers(axes) if axes is not None and axes.numel() else range(x.ndim)
    return tuple(axis % x.ndim for axis in named)


def reshape(x, shape, allowzero=0):
    sizes = numbers(shape)
    return x.reshape([x.shape[i] if n == 0 and not allowzero else n for i, n in enumerate(sizes)])


def flatten(x, axis=1):
    axis = axis % x.ndim if axis < 0 else axis
    return x.reshape(1, -1) if axis == 0 else x.flatten(axis).flatten(0, axis - 1)


def transpose(x, perm=None):
    return dp.permute(x, perm if perm is not None else tuple(range(x.ndim))[::-1])


def squeeze(x, axes=None):
    return dp.squeeze(x) if axes is None else dp.squeeze(x, axes_of(x, axes))


def unsqueeze(x, axes):
    rank = x.ndim + axes.numel()
    for axis in sorted(n % rank for n in numbers(axes)):
        x = dp.unsqueeze(x, axis)
    return x


def expand(x, shape):
    return dp.broadcast_to(x, dp.broadcast_shapes(tuple(x.shape), tuple(numbers(shape))))


def split(x, sizes=None, axis=0, num_outputs=None, outputs=1):
    if sizes is not None:
        return dp.split(x, numbers(sizes), axis)
    return dp.split(x, -(-x.shape[axis] // (num_outputs or outputs)), axis)


def slice_(x, starts, ends, axes=None, steps=None):
    axes = axes_of(x, axes) if axes is not None else range(starts.numel())
    steps = numbers(steps) if steps is not None else [1] * starts.numel()
    for axis, start, end, step in zip(axes, numbers(starts), numbers(ends), steps):
        places = range(x.shape[axis])[start:end:step]
        x = dp.index_select(x, axis, dp.tensor(list(places), dtype=dp.int64))
    return x


def shape(x, start=0, end=None):
    return dp.tensor(list(x.shape)[start:end], dtype=dp.int64)


def pad(x, pads, value=None, axes=None, mode="constant"):
    """torch.nn.functional.pad names axes from the last one, begin and end of each together."""
    axes, pads = axes_of(x, axes), numbers(pads)
    amounts = dict(zip(axes, zip(pads[: len(axes)], pads[len(axes) :])))
    last = [amounts.get(axis, (0, 0)) for axis in range(x.ndim)][::-1]
    if mode == "constant":
        flat = [n for pair in last for n in pair]
        return F.pad(x, flat, value=0 if value is None else value.item())
    mode = {"edge": "replicate", "reflect": "reflect", "wrap": "circular"}[mode]
    return F.pad(x, [n for pair in last[: x.ndim - 2] for n in pair], mode=mode)


def center_crop_pad(x, sizes, axes=None):
    axes = [axis % x.ndim for axis in axes] if axes is not None else range(x.ndim)
    for axis, size in zip(axes, numbers(sizes)):
        missing = size - x.shape[axis]
        if missing < 0:
            x = dp.narrow(x, axis, -missing // 2, size)
        else:
            pads = [0, 0] * (x.ndim - 1 - axis) + [missing // 2, missing - missing // 2]
            x = F.pad(x, pads)
    return x


def gather(x, index, axis=0):
    flat = dp.index_select(x, axis, dp.remainder(index.reshape(-1), x.shape[axis]))
    return flat.reshape(*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])


def gather_elements(x, index, axis=0):
    return dp.gather(x, axis, dp.remainder(index, x.shape[axis]))


def gather_nd(x, index, batch_dims=0):
    if batch_dims:
        return dp.stack([gather_nd(a, i, batch_dims - 1) for a, i in zip(x, index)])
    return x[tuple(dp.unbind(index, -1))]


def scatter_elements(x, index, values, axis=0, reduction="none"):
    index = dp.remainder(index, x.shape[axis])
    if reduction == "none":
        return dp.scatter(x, axis, index, values)
    names = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}
    return dp.scatter_reduce(x, axis, index, values, names[reduction])


def scatter_nd(x, index, values, reduction="none"):
    """The named slices as rows of a matrix, whose rows are then scattered."""
    names = {"none": None, "add": "sum", "mul": "prod", "max": "amax", "min": "amin"}
    depth = index.shape[-1]
    rows = dp.reshape(x, (int(np.prod(x.shape[:depth])), -1))
    sizes = [int(np.prod(x.shape[i + 1 : depth])) for i in range(depth)]
    row = dp.sum(dp.remainder(index, dp.tensor(list(x.shape[:depth])))
                 * dp.tensor(sizes, dtype=dp.int64), -1).reshape(-1, 1)
    values = dp.reshape(values, (row.shape[0], -1))
    row = row.expand(-1, rows.shape[1])
    if names[reduction] is None:
        return dp.scatter(rows, 0, row, values).reshape(x.shape)
    return dp.scatter_reduce(rows, 0, row, values, names[reduction]).reshape(x.shape)


def tensor_scatter(x, update, start=None, axis=-2, mode="linear"):
    """Each batch's ``update`` written into its cache from ``start`` on, and round the end."""
    axis, length = axis % x.ndim, update.shape[axis]
    first = dp.zeros(x.shape[0], dtype=dp.int64) if start is None else start
    places = dp.remainder(first.reshape(-1, 1) + dp.arange(length), x.shape[axis])
    sizes = [x.shape[0] if i == 0 else length if i == axis else 1 for i in range(x.ndim)]
    return dp.scatter(x, axis, places.reshape(sizes).expand(*update.shape), update)


def compress(x, condition, axis=None):
    places = dp.nonzero(condition).reshape(-1)
    return dp.index_select(x.reshape(-1) if axis is None else x, axis or 0, places)


def one_hot(index, depth, values, axis=-1):
    """Negative indices count from the end; those out of range are cold everywhere."""
    depth = int(depth.item())
    index = dp.unsqueeze(index.to(dp.int64), -1)
    inside = dp.logical_and(index >= -depth, index < depth)
    hot = dp.logical_and(dp.eq(dp.remainder(index, depth), dp.arange(depth)), inside)
    off, on = values[0], values[1]
    return dp.movedim(dp.where(hot, on, off), -1, axis)


def reverse_sequence(x, lengths, batch_axis=1, time_axis=0):
    """The first ``length`` steps of each sequence turned round, by an index."""
    steps = dp.arange(x.shape[time_axis]).reshape(-1, 1)
    index = dp.where(steps < lengths, lengths - 1 - steps, steps)
    return dp.gather(x, time_axis, index if time_axis == 0 else index.t())


def eye_like(x, dtype=None, k=0):
    ones = dp.ones(*x.shape, dtype=getattr(dp, DTYPES[dtype]) if dtype else x.dtype)
    return dp.triu(dp.tril(ones, k), k)


def trilu(x, k=None, upper=1):
    return (dp.triu if upper else dp.tril)(x, 0 if k is None else int(k.item()))


def range_(start, limit, delta, stash_type=1):
    return dp.arange(start.item(), limit.item(), delta.item(), dtype=start.dtype)


def constant_of_shape(sizes, value=None):
    value = np.zeros(1, np.float32) if value is None else value
    return dp.full(numbers(sizes), value.item(), dtype=getattr(dp, str(value.dtype)))


OPERATORS = {
    "Identity": lambda x: dp.clone(x),
    "Reshape": reshape,
    "Flatten": flatten,
    "Transpose": transpose,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Expand": expand,
    "Tile": lambda x, repeats: dp.tile(x, numbers(repeats)),
    "Concat": lambda *inputs, axis: dp.cat(inputs, axis),
    "Split": split,
    "Slice": slice_,
    "Shape": shape,
    "Size": lambda x: dp.tensor(x.numel()),
    "Pad": pad,
    "CenterCropPad": center_crop_pad,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "ArrayFeatureExtractor": lambda x, index: dp.index_select(x, x.ndim - 1, index),
    "Scatter": scatter_elements,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "TensorScatter": tensor_scatter,
    "Compress": compress,
    "NonZero": lambda x: dp.nonzero(x).t(),
    "OneHot": one_hot,
    "ReverseSequence": reverse_sequence,
    "EyeLike": eye_like,
    "Trilu": trilu,
    "Range": range_,
    "Constant": lambda value: dp.tensor(value),
    "ConstantOfShape": constant_of_shape,
}
