"""Running statistics, which follow those of the batch when a step is accepted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from minidp.mode import aside, mode, quietly, told_as
from minidp.placement import beside
from minidp.tensor import Tensor


@told_as("when accepted")
def when_accepted(function: Callable[..., None], *arguments: Any) -> None:
    """Call it when the step is accepted, once for all replicas; at once without them."""
    if mode.replica is None:
        quietly(function, *arguments)
    else:
        mode.replica.at_commit(partial(quietly, function, *arguments))


def track(mean: Any, var: Any, batch_mean: Any, batch_var: Any, share: float) -> None:
    """Let running statistics follow those of the batch when the step is accepted."""
    if mean is not None or var is not None:
        aside(when_accepted, follow, share, mean, batch_mean, var, batch_var)


@told_as("statistics follow")
def follow(share: float, *each: Tensor | None) -> None:
    """running = (1 - share) running + share batch of each pair, in place, where ``running`` is."""
    for running, batch in zip(each[::2], each[1::2], strict=True):
        if running is not None and batch is not None:
            values = running.array
            values *= 1 - share
            values += beside(batch.array, values) * share
            running.changed()


@told_as("statistics follow")
def follow_layer(layer: Any, mean: Tensor | None, var: Tensor | None) -> None:
    """Count a batch, and let the running statistics follow it."""
    share, count = layer.momentum, layer.num_batches_tracked
    if count is not None:
        count.array += 1
        count.changed()
        share = 1 / count.item() if share is None else share
    follow(share or 0.0, layer.running_mean, mean, layer.running_var, var)


@told_as("statistics are gathered")
def gather(
    owner: Any, rows: int, mean: Tensor, var: Tensor, follow: Callable[[Any, Any, Any], None]
) -> None:
    """Have ``follow`` called with ``owner``, the mean and the unbiased variance over all replicas
    when the step is accepted, from those of each replica's ``rows``, by their numbers.

    Source: Chan, Golub and LeVeque 1979, Updating formulae and a pairwise algorithm.
    """
    wide = mean.detach().cpu().double().numpy(), var.detach().cpu().double().numpy()
    sums = np.concatenate([[rows], rows * wide[0], rows * wide[0] ** 2, (rows - 1) * wide[1]])
    if mode.replica is not None:
        merged = partial(quietly, _merged, partial(follow, owner), mean.dtype)
        mode.replica.at_commit_sum(owner, sums, merged)


def _merged(follow: Callable[[Any, Any], None], dtype: Any, sums: Any) -> None:
    rows, size = sums[0], len(sums) // 3
    mean, squares, within = (sums[1 + i * size : 1 + (i + 1) * size] for i in range(3))
    mean = mean / rows
    var = (within + squares - rows * mean**2) / (rows - 1)
    follow(Tensor(mean.astype(dtype)), Tensor(var.astype(dtype)))
