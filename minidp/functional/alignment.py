"""The loss of sequences whose labels are known, but not at which steps they come."""

from __future__ import annotations

from typing import Any

import numpy as np

from minidp.create import as_tensor, full
from minidp.errors import ArgumentError, ShapeError
from minidp.functional.loss import reduced
from minidp.functions import cat, logsumexp, stack
from minidp.ops.comparison import where
from minidp.ops.index import take_along_dim
from minidp.tensor import Tensor

__all__ = ["ctc_loss"]

NEVER = -1e30
"""The logarithm of 0, finite so that derivatives are."""


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor,
    blank: int = 0, reduction: str = "mean", zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """-log of the probability that log_probs (steps, n, c), or (steps, c), spell the targets.

    ``targets`` (n, s), or one behind another: what is left of a path when equal neighbours are one
    and ``blank`` is dropped. Impossible ones give infinity, or 0 with ``zero_infinity``. The mean
    is of loss / target length. As in PyTorch the gradient is that of the logits: e^x - y, y being
    the share of paths through a class at a step. Graves et al. 2006.
    """
    x = log_probs if log_probs.ndim == 3 else log_probs.unsqueeze(1)
    steps, n, classes = x.shape
    given, lengths = (_host(each).reshape(-1) for each in (input_lengths, target_lengths))
    if len(given) != n or len(lengths) != n or not 0 <= blank < classes:
        raise ShapeError(f"ctc_loss: {len(given)} input lengths, {len(lengths)} target lengths and "
                         f"blank={blank}: expected {n} of each, and one of {classes} classes")
    if given.max(initial=0) > steps or given.min(initial=0) < 0:
        raise ShapeError(f"ctc_loss: input_lengths {given.tolist()}: expected 0 to {steps}")
    path = _paths(_host(targets), lengths, blank, classes)
    width = path.shape[1]
    jump = np.zeros((n, width), bool)  # over a blank between two labels that differ
    jump[:, 2:] = (path[:, 2:] != path[:, :-2]) & (path[:, 2:] != blank)
    places = as_tensor(np.broadcast_to(path, (steps, n, width)).copy(), device=x.device)
    emit = take_along_dim(x, places, dim=2)
    wall = full((n, 2), NEVER, dtype=x.dtype, device=x.device)
    first = as_tensor(np.arange(width) == 0, device=x.device)
    skip, alpha = as_tensor(jump, device=x.device), where(first, 0.0, wall[:, :1])
    for t in range(steps):
        behind = cat([wall, alpha], 1)
        before = [alpha, behind[:, 1:-1], where(skip, behind[:, :-2], NEVER)]
        alive = as_tensor((given > t)[:, None], device=x.device)
        alpha = where(alive, logsumexp(stack(before[: 3 if t else 2]), 0) + emit[t], alpha)
    ends = 2 * lengths[:, None] - [0, 1]
    last = take_along_dim(alpha, as_tensor(np.maximum(ends, 0), device=x.device), dim=1)
    last = where(as_tensor(ends >= 0, device=x.device), last, NEVER)
    losses = -logsumexp(last, 1)
    alive = as_tensor((np.arange(steps)[:, None] < given)[:, :, None], device=x.device)
    total = where(alive, x.exp(), 0.0).sum((0, 2))
    losses = losses + (total - total.detach())
    losses = where(losses < -0.5 * NEVER, losses, 0.0 if zero_infinity else np.inf)
    if reduction == "mean":
        losses = losses / as_tensor(np.maximum(lengths, 1), losses.dtype, x.device)
    losses = losses if log_probs.ndim == 3 or reduction != "none" else losses.squeeze(0)
    return reduced(losses, reduction)


def _host(values: Any) -> Any:
    return np.asarray(values.cpu() if isinstance(values, Tensor) else values)


def _paths(targets: Any, lengths: Any, blank: int, classes: int) -> Any:
    """(n, 2 s + 1): the targets with blanks around each."""
    n, longest = len(lengths), int(lengths.max(initial=0))
    there = np.arange(longest) < lengths[:, None]
    labels = np.full((n, longest), blank)
    if targets.ndim == 1 and targets.size == lengths.sum():
        labels[there] = targets
    elif targets.ndim == 2 and targets.shape[0] == n and targets.shape[1] >= longest:
        labels[there] = targets[:, :longest][there]
    else:
        raise ShapeError(f"ctc_loss: targets {targets.shape}: expected (n, s), or as many as the "
                         f"lengths {lengths.tolist()} together")  # fmt: skip
    if ((labels < 0) | (labels >= classes)).any():
        raise ArgumentError(f"ctc_loss: targets {labels.min()} to {labels.max()}: expected 0 to "
                            f"{classes - 1}")  # fmt: skip
    path = np.full((n, 2 * longest + 1), blank)
    path[:, 1::2] = labels
    return path
