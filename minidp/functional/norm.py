"""Normalisation: of channels over the batch, the same for any split over replicas; of rows alone.

float16 is normalised in float32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from minidp.errors import ArgumentError, ShapeError
from minidp.functional.ranks import alike
from minidp.functional.statistics import follow_layer, gather, track, when_accepted
from minidp.functions.distance import cosine_similarity, pairwise_distance, pdist
from minidp.functions.reduce import norm
from minidp.mode import aside, mode, told_as
from minidp.ops import normalize as ops
from minidp.ops import shared_norm as shared
from minidp.ops.collective import all_reduce
from minidp.ops.elementwise import full_like
from minidp.ops.layout import concat, embed, reshape
from minidp.ops.windows import windows
from minidp.tensor import Tensor
from minidp.types import Shape, float16, float32

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
    running ones (if given) follow by ``momentum``."""
    if not training:
        if running_mean is None or running_var is None:
            raise ArgumentError("batch_norm: expected running_mean and running_var to be given "
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

    Without ``sync`` they are those of the rows of this replica."""
    x = _wide(input, input)
    count = input.numel() // max(1, input.shape[1])
    if mode.replica is None or mode.replica.alone or not sync:
        return _alone(x, weight, bias, eps, count, input)
    mean, var, counted = shared.merged_moments(_moments(x.detach(), count))
    if 0 < input.numel() <= input.shape[1]:  # one value has no variance
        aside(check_count, counted.reshape(()), input)
    weight, bias = (_wide(each, input) for each in (weight, bias))
    y, _ = shared.batch_norm_shared(x, mean, var, counted, weight, bias, eps=eps, rectify=False)
    return y.type(input.dtype), mean, var * (counted / (counted - 1))


def _moments(x: Tensor, count: int) -> Tensor:
    """Rows of (number of values, means, variances), one of each replica that has rows: all know
    all after one exchange."""
    mean, var = ops.batch_moments(x)
    here = concat(full_like(mean[:1], value=count), mean, var, dim=0).unsqueeze(0)
    assert mode.replica is not None
    place, places = mode.replica.place
    rows = embed(here, shape=(places, here.shape[1]), dim=0, start=place)
    return all_reduce(rows, name=shared.STATISTICS)


def _alone(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, count: int, input: Tensor
) -> tuple[Tensor, Tensor | None, Tensor | None]:  # fmt: skip
    """``by_batch`` where no other replica has rows: in one op."""
    if count == 1:
        aside(check_count, count, input)
    if x is not input:
        weight, bias = (_wide(each, input) for each in (weight, bias))
    y, mean, var = ops.batch_norm_own(x, weight, bias, eps=eps)
    y = y if x is input else y.type(input.dtype)
    if not count:  # the batch has no rows, and no statistics
        return y, None, None
    unbiased = var.detach() * (count / (count - 1) if count > 1 else math.nan)
    return y, mean.detach(), unbiased


def check_channels(input: Tensor, *running: Tensor | None) -> None:
    """A ShapeError where running statistics are not those of the input's channels (axis 1)."""
    for each in running:
        if each is not None and each.shape != input.shape[1:2]:
            raise ShapeError(f"running_mean and running_var of shape {each.shape} do not fit input "
                             f"{input.shape}: expected one number for each of axis 1")  # fmt: skip


def _wide(x: Any, input: Tensor) -> Any:
    """x in float32 where ``input`` is float16."""
    return x.type(float32) if x is not None and input.dtype == float16 else x


def _mean(total: Tensor, count: int, name: str) -> Tensor:
    """total / count, both over the rows of all replicas."""
    if mode.replica is None:
        return total / max(count, 1)
    here = full_like(total.detach()[:1], value=count)
    sums = all_reduce(concat(total, here, dim=0), name=name)
    return sums[:-1] / sums[-1].detach()


@told_as("more than one row?")
def check_count(counted: Any, input: Tensor) -> None:
    """A replica with two rows of its own need not ask the device."""
    if float(counted) <= 1:
        raise ArgumentError("Expected more than 1 value per channel when training, got input size "
                            f"{input.shape}: give more rows, or call eval()")  # fmt: skip


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
        aside(gather, layer, rows, mean, var, follow_layer)
    return y


def instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None,
    weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: bool = True,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Each channel of each row normalised over its places; or, without ``use_input_stats``, by
    running statistics, which else (if given) follow the means over the rows of all replicas.

    Source: Ulyanov, Vedaldi and Lempitsky 2016, arXiv 1607.08022."""
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, eps=eps)
    check_channels(input, running_mean, running_var)
    places = math.prod(input.shape[2:])
    if places == 1:
        raise ArgumentError("Expected more than 1 spatial element when training, got input size "
                            f"{input.shape}")  # fmt: skip
    x = _wide(input, input)
    if len(x) and not (running_mean is None and running_var is None):
        rows = x.detach().flatten(2)
        center = rows.mean(dim=2, keepdim=True)
        var = (rows - center).square().sum(dim=2) / (places - 1)
        mean = _mean(center.squeeze(2).sum(dim=0), len(rows), "instance norm mean")
        var = _mean(var.sum(dim=0), len(rows), "instance norm variance")
        track(running_mean, running_var, mean, var, momentum)
    _check_vectors("instance_norm", input, input.shape[1:2], weight, bias)
    return _grouped("instance_norm", input, max(1, input.shape[1]), weight, bias, eps)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """The channels (axis 1) of each row in ``num_groups`` groups, each normalised as a whole.

    Source: Wu and He 2018, arXiv 1803.08494."""
    shape = input.shape
    if input.ndim < 2 or num_groups < 1 or shape[1] % num_groups:
        raise ShapeError(f"group_norm: expected (n, c, ...) with c divisible by num_groups="
                         f"{num_groups}, got {shape}")  # fmt: skip
    if input.numel() // num_groups == 1:
        raise ArgumentError("Expected more than 1 value per channel when training, got input size "
                            f"{shape}")  # fmt: skip
    _check_vectors("group_norm", input, shape[1:2], weight, bias)
    return _grouped("group_norm", input, num_groups, weight, bias, eps)


def _grouped(
    name: str, input: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float,
    center: bool = True,
) -> Tensor:  # fmt: skip
    """Groups of channels (axis 1) normalised, times weight, plus bias, in ``input``'s dtype."""
    if name != "rms_norm":
        alike(name, input, weight, bias)
    if weight is not None and input.dtype != float16 and weight.dtype != input.dtype:
        return _grouped(name, input, groups, None, None, eps, center) * weight
    if input.dtype == float16:
        x, weight, bias = (_wide(each, input) for each in (input, weight, bias))
        return _grouped(name, x, groups, weight, bias, eps, center).type(float16)
    return ops.group_norm(input, weight, bias, groups=groups, eps=eps, center=center)[0]


def _rows(name: str, input: Tensor, shape: Any, weight: Tensor | None, bias: Tensor | None,
          eps: float, center: bool) -> Tensor:  # fmt: skip
    """The last axes, of ``shape``, normalised together."""
    wanted = (int(shape),) if hasattr(shape, "__index__") else tuple(shape)
    given = input.shape
    if not wanted or given[-len(wanted) :] != wanted:
        raise ShapeError(f"{name}: normalized_shape={wanted}: expected input of shape (..., "
                         f"{', '.join(map(str, wanted))}), got {given}")  # fmt: skip
    _check_vectors(name, input, wanted, weight, bias)
    if len(given) == 2 and len(wanted) == 1:
        return _grouped(name, input, 1, weight, bias, eps, center)
    if input.numel() and input.dtype != float16 and (weight is None or weight.dtype == input.dtype):
        y: Tensor = ops.layer_norm(input, weight, bias, axes=len(wanted), eps=eps, center=center)[0]
        return y
    rows, size = math.prod(given[: -len(wanted)]), math.prod(wanted)
    weight, bias = (v if v is None or v.ndim == 1 else v.reshape(size) for v in (weight, bias))
    y = _grouped(name, reshape(input, shape=(rows, size)), 1, weight, bias, eps, center)
    result: Tensor = reshape(y, shape=given)
    return result


def _check_vectors(name: str, input: Tensor, wanted: Shape, *vectors: Tensor | None) -> None:
    """A ShapeError where weight or bias are not of the shape ``wanted``."""
    for each in vectors:
        if each is not None and each.shape != wanted:
            raise ShapeError(f"{name}(input {input.shape}): expected weight and bias of shape "
                             f"{wanted}, got {each.shape}")  # fmt: skip


def layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
    bias: Tensor | None = None, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """(x - mean) / sqrt(var + eps) weight + bias over the last axes, of ``normalized_shape``.

    Source: Ba, Kiros and Hinton 2016, arXiv 1607.06450."""
    return _rows("layer_norm", input, normalized_shape, weight, bias, eps, True)


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:  # fmt: skip
    """x / sqrt(mean(x^2) + eps) weight over the last axes; ``eps`` is the dtype's if not given.

    Source: Zhang and Sennrich 2019, arXiv 1910.07467."""
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
