"""Normalisation: of channels over the batch, the same for any split over replicas; of rows alone.

float16 is normalised in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from minidp.errors import ShapeError
from minidp.functional.ranks import alike
from minidp.functions.distance import cosine_similarity, pairwise_distance, pdist
from minidp.functions.reduce import norm
from minidp.mode import aside, mode, told_as
from minidp.ops import normalize as ops
from minidp.ops.collective import all_reduce
from minidp.ops.elementwise import add, full_like, mul
from minidp.ops.layout import concat, embed
from minidp.ops.windows import windows
from minidp.tensor import Tensor
from minidp.types import float16, float32

__all__ = ["batch_norm", "cosine_similarity", "group_norm", "instance_norm", "layer_norm",
           "local_response_norm", "normalize", "pairwise_distance", "pdist",
           "rms_norm"]  # fmt: skip


def batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None,
    weight: Tensor | None = None, bias: Tensor | None = None, training: bool = False,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """(x - mean) / sqrt(var + eps) weight + bias, channel by channel (axis 1).

    Without ``training`` by the running statistics; with it by those of the batch, which the
    running ones (if given) follow by ``momentum``.
    """
    if not training:
        if running_mean is None or running_var is None:
            raise ValueError("batch_norm: expected running_mean and running_var to be given "
                             "when training=False")  # fmt: skip
        return given(input, running_mean, running_var, weight, bias, eps)
    check_channels(input, running_mean, running_var)
    y, mean, var = by_batch(input, weight, bias, eps)
    track(running_mean, running_var, mean, var, momentum)
    return y


def given(
    input: Tensor, mean: Any, var: Any, weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor:
    """Normalised by these statistics."""
    x, *vectors = (_wide(each, input) for each in (input, mean, var, weight, bias))
    return ops.batch_norm(x, *vectors, eps=eps).type(input.dtype)


def by_batch(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, sync: bool = True
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Normalised by the batch's own statistics; these too: the mean, the unbiased variance.

    In two passes, the mean first, so that the variance of large numbers loses no digits. Without
    ``sync`` they are those of the rows of this replica.
    """
    x = _wide(input, input)
    count = input.numel() // max(1, input.shape[1])
    mean, counted = _mean(ops.per_channel(x), count, "batch norm mean", sync)
    if 0 < input.numel() <= input.shape[1]:  # one value has no variance
        aside(_check_count, counted, input)
    deviation = x - ops.channels(mean, x)
    var, _ = _mean(ops.per_channel(deviation * deviation), count, "batch norm variance", sync)
    y = given(input, mean, var, weight, bias, eps)
    if isinstance(counted, int) and counted == 0:  # the batch has no rows, and no statistics
        return y, None, None
    return y, mean.detach(), var.detach() * (counted / (counted - 1))


def check_channels(input: Tensor, *running: Tensor | None) -> None:
    """A ShapeError where running statistics are not those of the input's channels (axis 1)."""
    for each in running:
        if each is not None and each.shape != input.shape[1:2]:
            raise ShapeError(f"running_mean and running_var of shape {each.shape} do not fit input "
                             f"{input.shape}: expected one number for each of axis 1")  # fmt: skip


def _wide(x: Any, input: Tensor) -> Any:
    """x in float32 where ``input`` is float16."""
    return x.type(float32) if x is not None and input.dtype == float16 else x


def _mean(total: Tensor, count: int, name: str, sync: bool = True) -> tuple[Tensor, Any]:
    """(total / count, count), both over the rows of all replicas; the count stays on the device."""
    if mode.replica is None or not sync:
        return total / max(count, 1), count
    here = full_like(total.detach()[:1], value=count)
    sums = all_reduce(concat(total, here, dim=0), name=name)
    counted = sums[-1].detach()
    return sums[:-1] / counted, counted


@told_as("more than one row?")
def _check_count(counted: Any, input: Tensor) -> None:
    """A replica with two rows of its own need not ask the device."""
    if float(counted) <= 1:
        raise ValueError(
            "Expected more than 1 value per channel when training, got input size "
            f"{input.shape}: give more rows, or call eval()"
        )


@told_as("when accepted")
def when_accepted(function: Callable[..., None], *arguments: Any) -> None:
    """Call it when the step is accepted, once for all replicas; at once without them."""
    if mode.replica is None:
        function(*arguments)
    else:
        mode.replica.at_commit(partial(function, *arguments))


@told_as("statistics are gathered")
def gather(
    owner: Any, rows: int, mean: Tensor, var: Tensor, follow: Callable[[Any, Any], None]
) -> None:
    """Have ``follow`` called with the mean and the unbiased variance over all replicas when the
    step is accepted, from those of each replica's ``rows``, by their numbers.

    Source: Chan, Golub and LeVeque 1979, Updating formulae and a pairwise algorithm.
    """
    wide = mean.detach().cpu().double().numpy(), var.detach().cpu().double().numpy()
    sums = np.concatenate([[rows], rows * wide[0], rows * wide[0] ** 2, (rows - 1) * wide[1]])
    if mode.replica is not None:
        mode.replica.at_commit_sum(owner, sums, partial(_merged, follow, mean.dtype))


def _merged(follow: Callable[[Any, Any], None], dtype: Any, sums: Any) -> None:
    rows, size = sums[0], len(sums) // 3
    mean, squares, within = (sums[1 + i * size : 1 + (i + 1) * size] for i in range(3))
    mean = mean / rows
    var = (within + squares - rows * mean**2) / (rows - 1)
    follow(Tensor(mean.astype(dtype)), Tensor(var.astype(dtype)))


def by_layer(layer: Any, input: Tensor) -> Tensor:
    """What a layer of batch normalisation does, which keeps running statistics: they follow those
    of the batch when the step is accepted; without ``sync`` these are gathered from the replicas.
    """
    running, scale = (layer.running_mean, layer.running_var), (layer.weight, layer.bias, layer.eps)
    if not layer.training and running[0] is not None and running[1] is not None:
        return given(input, *running, *scale)
    check_channels(input, *running)
    y, mean, var = by_batch(input, *scale, layer.sync)
    if not layer.training or running[0] is None:
        return y
    if layer.sync or mode.replica is None:
        aside(when_accepted, follow_layer, layer, mean, var)
    elif mean is not None and var is not None:
        rows = input.numel() // max(1, input.shape[1])
        aside(gather, layer, rows, mean, var, partial(follow_layer, layer))
    return y


@told_as("statistics follow")
def follow_layer(layer: Any, mean: Tensor | None, var: Tensor | None) -> None:
    """Count a batch, and let the running statistics follow it."""
    share, count = layer.momentum, layer.num_batches_tracked
    if count is not None:
        count.copy_(count.detach() + 1)
        share = 1 / count.item() if share is None else share
    follow(layer.running_mean, mean, share or 0.0)
    follow(layer.running_var, var, share or 0.0)


def track(mean: Any, var: Any, batch_mean: Any, batch_var: Any, share: float) -> None:
    """Let running statistics follow those of the batch when the step is accepted."""
    for running, batch in ((mean, batch_mean), (var, batch_var)):
        if running is not None and batch is not None:
            aside(when_accepted, follow, running, batch, share)


@told_as("statistics follow")
def follow(running: Tensor | None, batch: Tensor | None, share: float) -> None:
    """running = (1 - share) running + share batch, in place, wherever ``running`` lives."""
    if running is not None and batch is not None:
        here = batch.to(running.device)
        running.copy_(running.detach() * (1 - share) + here * share)


def instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None,
    weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: bool = True,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Each channel of each row normalised over its places; or, without ``use_input_stats``, by
    running statistics, which else (if given) follow the means over the rows of all replicas.

    Source: Ulyanov, Vedaldi and Lempitsky 2016, arXiv 1607.08022.
    """
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, eps=eps)
    check_channels(input, running_mean, running_var)
    places, axes = math.prod(input.shape[2:]), tuple(range(2, input.ndim))
    if places == 1:
        raise ValueError("Expected more than 1 spatial element when training, got input size "
                         f"{input.shape}")  # fmt: skip
    x = _wide(input, input)
    if len(x) and not (running_mean is None and running_var is None):
        rows = x.detach().flatten(2)
        center = rows.mean(dim=2, keepdim=True)
        var = (rows - center).square().sum(dim=2) / (places - 1)
        mean, _ = _mean(center.squeeze(2).sum(dim=0), len(rows), "instance norm mean")
        var, _ = _mean(var.sum(dim=0), len(rows), "instance norm variance")
        track(running_mean, running_var, mean, var, momentum)
    y = ops.standardize(x, dim=axes, eps=eps)
    return _affine("instance_norm", y, weight, bias, input.shape[1:2], input, len(axes))


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """The channels (axis 1) of each row in ``num_groups`` groups, each normalised as a whole.

    Source: Wu and He 2018, arXiv 1803.08494.
    """
    shape = input.shape
    if input.ndim < 2 or num_groups < 1 or shape[1] % num_groups:
        raise ShapeError(f"group_norm: expected (n, c, ...) with c divisible by num_groups="
                         f"{num_groups}, got {shape}")  # fmt: skip
    if input.numel() // num_groups == 1:
        raise ValueError("Expected more than 1 value per channel when training, got input size "
                         f"{shape}")  # fmt: skip
    groups = (shape[0], num_groups, input.numel() // max(1, shape[0] * num_groups))
    y = ops.standardize(_wide(input, input).reshape(groups), dim=(2,), eps=eps)
    y = y.reshape(shape)
    return _affine("group_norm", y, weight, bias, shape[1:2], input, input.ndim - 2)


def _affine(
    name: str, y: Tensor, weight: Any, bias: Any, shape: Any, input: Tensor, behind: int = 0
) -> Tensor:
    """y weight + bias, both of ``shape`` with so many axes ``behind``, in ``input``'s dtype."""
    if name != "rms_norm":
        alike(name, input, weight, bias)
    for each, joined in ((weight, mul), (bias, add)):
        if each is not None and each.shape != shape:
            raise ShapeError(f"{name}(input {input.shape}): expected weight and bias of shape "
                             f"{shape}, got {each.shape}")  # fmt: skip
        y = y if each is None else joined(y, each.reshape(*shape, *(1,) * behind))
    return y.type(input.dtype)


def _rows(
    name: str, input: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None,
    eps: float, center: bool,
) -> Tensor:  # fmt: skip
    """The last axes, of ``shape``, normalised together."""
    wanted = (shape,) if isinstance(shape, int) else tuple(shape)
    if not wanted or input.shape[-len(wanted) :] != wanted:
        raise ShapeError(f"{name}: normalized_shape={wanted}: expected input of shape (..., "
                         f"{', '.join(map(str, wanted))}), got {input.shape}")  # fmt: skip
    axes = tuple(range(input.ndim - len(wanted), input.ndim))
    y = ops.standardize(_wide(input, input), dim=axes, eps=eps, center=center)
    return _affine(name, y, weight, bias, wanted, input)


def layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
    bias: Tensor | None = None, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """(x - mean) / sqrt(var + eps) weight + bias over the last axes, of ``normalized_shape``.

    Source: Ba, Kiros and Hinton 2016, arXiv 1607.06450.
    """
    return _rows("layer_norm", input, normalized_shape, weight, bias, eps, True)


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:  # fmt: skip
    """x / sqrt(mean(x^2) + eps) weight over the last axes; ``eps`` is the dtype's if not given.

    Source: Zhang and Sennrich 2019, arXiv 1910.07467.
    """
    least = float(np.finfo(float32 if input.dtype == float16 else input.dtype).eps)
    eps = least if eps is None else eps
    return _rows("rms_norm", input, normalized_shape, weight, None, eps, False)


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """x / (k + alpha mean(x^2 of ``size`` channels around))^beta; there are zeros around all.

    Source: Krizhevsky, Sutskever and Hinton 2012.
    """
    if input.ndim < 3:
        raise ShapeError(f"local_response_norm: expected at least 3 axes, got {input.shape}")
    shape = (input.shape[0], input.shape[1] + size - 1, *input.shape[2:])
    square = embed(input * input, shape=shape, dim=1, start=size // 2)
    total = windows(square, dim=1, size=size).sum(dim=1)
    return input / (total * (alpha / size) + k) ** beta


def normalize(input: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12) -> Tensor:
    """x / max(norm, eps), the p-norm along ``dim``."""
    return input / norm(input, p, dim, keepdim=True).clamp(min=eps)
