"""Running statistics, which follow those of the batch when a step is accepted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from minidp.mode import aside, mode, quietly, told_as
from minidp.placement import beside
from minidp.tensor import Tensor
from minidp.types import Array


@told_as("when accepted")
def when_accepted(function: Callable[..., None], *arguments: Any) -> None:
    """Call it when the step is accepted, once for all replicas; at once without them."""
    act = partial(quietly, function, *arguments)
    act() if mode.replica is None else mode.replica.at_commit(act)


def track(mean: Any, var: Any, batch_mean: Any, batch_var: Any, share: float) -> None:
    """Let running statistics follow those of the batch when the step is accepted."""
    if mean is not None or var is not None:
        aside(when_accepted, follow, share, mean, batch_mean, var, batch_var)


@told_as("statistics follow")
def follow(share: float, *pairs: Tensor | None) -> None:
    """running = (1 - share) running + share batch of each pair, in place, where ``running`` is."""
    for running, batch in zip(pairs[::2], pairs[1::2], strict=True):
        if running is not None and batch is not None:
            toward(running.array, beside(batch.array, running.array), share)
            running.changed()


def toward(running: Array, batch: Array, share: float) -> None:
    """running = (1 - share) running + share batch, in place."""
    running *= 1 - share
    running += batch * share


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
def gather(owner: Any, rows: int, mean: Tensor, var: Tensor, follow: Callable[..., None]) -> None:
    """Have ``follow`` called with ``owner``, the mean and the unbiased variance over all replicas
    when the step is accepted, from those of each replica's ``rows``, by their numbers.

    Source: Chan, Golub and LeVeque 1979, Updating formulae and a pairwise algorithm.
    """
    wide = (each.detach().cpu().double().numpy() for each in (mean, var))
    sums = np.concatenate([[rows], *sums_of(rows, *wide)])
    if mode.replica is not None:
        merged = partial(quietly, _merged, partial(follow, owner), mean.dtype)
        mode.replica.at_commit_sum(owner, sums, merged)


def sums_of(rows: int, mean: Array, var: Array) -> tuple[Array, Array, Array]:
    """What replicas add up: sums of values, squares of means, squares of distances from these."""
    return rows * mean, rows * (mean * mean), (rows - 1) * var


def moments_of(rows: float, total: Array, squares: Array, within: Array) -> tuple[Array, Array]:
    """The mean and the unbiased variance, from the sums of all."""
    mean = total / rows
    return mean, (within + squares - rows * (mean * mean)) / (rows - 1)


def _merged(follow: Callable[[Any, Any], None], dtype: Any, sums: Any) -> None:
    mean, var = moments_of(sums[0], *sums[1:].reshape(3, -1))
    follow(Tensor(mean.astype(dtype)), Tensor(var.astype(dtype)))
