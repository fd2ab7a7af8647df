"""Normalisation by batch statistics, the same for any split of the batch over replicas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minidp.functions.layout import cat
from minidp.mode import mode
from minidp.ops import normalize as ops
from minidp.ops.collective import all_reduce
from minidp.ops.elementwise import full_like
from minidp.tensor import Tensor
from minidp.types import float16


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
        result: Tensor = ops.batch_norm(input, running_mean, running_var, weight, bias, eps=eps)
        return result
    y, mean, var = by_batch(input, weight, bias, eps)
    for running, batch in ((running_mean, mean), (running_var, var)):
        if running is not None:
            when_accepted(_following(running, batch, momentum))
    return y


def by_batch(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalised by the batch's own statistics; these too: the mean, the unbiased variance.

    In two passes, the mean first, so that the variance of large numbers loses no digits.
    """
    wide: Tensor = input.float() if input.dtype == float16 else input
    count = input.numel() // max(1, input.shape[1])
    mean, counted = _mean(ops.per_channel(wide), count, "batch norm mean")
    _check_count(counted, input)
    deviation = wide - ops.channels(mean, wide)
    var, _ = _mean(ops.per_channel(deviation * deviation), count, "batch norm variance")
    y: Tensor = ops.batch_norm(
        input, mean.type(input.dtype), var.type(input.dtype), weight, bias, eps=eps
    )
    return y, mean.detach(), var.detach() * (counted / (counted - 1))


def _mean(total: Tensor, count: int, name: str) -> tuple[Tensor, Any]:
    """(total / count, count), both over the rows of all replicas; the count stays on the device."""
    if mode.replica is None:
        return total / count, count
    here = full_like(total.detach()[:1], value=count)
    sums: Tensor = all_reduce(cat([total, here]), name=name)
    counted = sums[-1].detach()
    return sums[:-1] / counted, counted


def _check_count(counted: Any, input: Tensor) -> None:
    """One value has no variance. A replica with two of its own need not ask the device."""
    if input.numel() <= input.shape[1] and float(counted) <= 1:
        raise ValueError(
            "Expected more than 1 value per channel when training, got input size "
            f"{input.shape}: give more rows, or call eval()"
        )


def when_accepted(action: Callable[[], None]) -> None:
    """Run ``action`` when the step is accepted, once for all replicas; at once without them."""
    if mode.replica is None:
        action()
    else:
        mode.replica.at_commit(action)


def _following(running: Tensor, batch: Tensor, share: float) -> Callable[[], None]:
    return lambda: follow(running, batch, share)


def follow(running: Tensor, batch: Tensor, share: float) -> None:
    """running = (1 - share) running + share batch, in place, wherever ``running`` lives."""
    here = batch.to(running.device)
    running.copy_(running.detach() * (1 - share) + here * share)
